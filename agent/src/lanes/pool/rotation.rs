//! Exact smooth weighted round robin.
//!
//! Every pick raises each eligible member by its weight and lowers the winner by the sum, so any
//! run of `sum` picks over the same members gives each exactly its weight, spread evenly. The
//! arithmetic is exact while weights are whole numbers; a ramping member has a fractional one.

/// The running state: one number per member of the pool, by position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rotation {
    current: Vec<f64>,
}

impl Rotation {
    /// A rotation for `members` members.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            current: vec![0.0; members],
        }
    }

    /// A rotation that goes on from given numbers, so that a new revision keeps the balance.
    pub(crate) fn resume(current: Vec<f64>) -> Self {
        Self { current }
    }

    /// The number of one member, for [`Rotation::resume`].
    pub(crate) fn current(&self, member: usize) -> f64 {
        self.current.get(member).copied().unwrap_or_default()
    }

    /// The next member among `eligible` (position, effective weight). Members of weight 0 never
    /// win.
    pub(crate) fn pick(&mut self, eligible: &[(usize, f64)]) -> Option<usize> {
        let mut total = 0.0;
        let mut best: Option<(usize, f64)> = None;
        for &(member, weight) in eligible {
            if weight <= 0.0 {
                continue;
            }
            let Some(current) = self.current.get_mut(member) else {
                continue;
            };
            *current += weight;
            total += weight;
            if best.is_none_or(|(_, highest)| *current > highest) {
                best = Some((member, *current));
            }
        }
        let (winner, _) = best?;
        if let Some(current) = self.current.get_mut(winner) {
            *current -= total;
        }
        Some(winner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(weights: &[f64], picks: usize) -> Vec<usize> {
        let eligible: Vec<_> = weights.iter().copied().enumerate().collect();
        let mut rotation = Rotation::new(weights.len());
        let mut counts = vec![0; weights.len()];
        for _ in 0..picks {
            if let Some(member) = rotation.pick(&eligible) {
                counts[member] += 1;
            }
        }
        counts
    }

    #[test]
    fn shares_are_exact_over_one_cycle() {
        for (weights, picks, expected) in [
            (vec![3.0, 1.0], 4, vec![3, 1]),
            (vec![1.0, 3.0], 400, vec![100, 300]),
            (vec![5.0, 1.0, 1.0], 7, vec![5, 1, 1]),
            (vec![10.0, 0.0], 200, vec![200, 0]),
            (vec![1.0], 9, vec![9]),
            (vec![0.0, 0.0], 5, vec![0, 0]),
        ] {
            assert_eq!(counts(&weights, picks), expected, "weights {weights:?}");
        }
    }

    #[test]
    fn heavy_member_is_spread_not_bunched() {
        let eligible = [(0, 5.0), (1, 1.0), (2, 1.0)];
        let mut rotation = Rotation::new(3);
        let order: Vec<_> = (0..7).filter_map(|_| rotation.pick(&eligible)).collect();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn absent_member_does_not_run_up_a_debt() {
        let mut rotation = Rotation::new(2);
        for _ in 0..100 {
            assert_eq!(rotation.pick(&[(1, 1.0)]), Some(1));
        }
        let both = [(0, 1.0), (1, 1.0)];
        let first = (0..10).filter(|_| rotation.pick(&both) == Some(0)).count();
        assert_eq!(first, 5);
    }

    proptest! {
        #[test]
        fn every_cycle_gives_each_member_its_weight(weights in prop::collection::vec(0u32..20, 1..6)) {
            let total: u32 = weights.iter().sum();
            let as_floats: Vec<f64> = weights.iter().map(|&weight| f64::from(weight)).collect();
            let counts = counts(&as_floats, total as usize);
            let expected: Vec<usize> = weights.iter().map(|&weight| weight as usize).collect();
            prop_assert_eq!(counts, expected);
        }
    }
}
