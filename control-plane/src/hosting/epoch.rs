//! Numbers that order the sessions of one agent instance, whichever replica serves them.
//!
//! They follow the wall clock, so replicas need not ask each other, and never repeat within a
//! replica. An agent names its last one, so a replica whose clock is behind still goes forward.

/// How far beyond this server's clock a named previous epoch is believed, in milliseconds. More is
/// a broken agent, and believing it would bring the number to its end.
const LEAD_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Hands out session epochs.
#[derive(Debug, Default)]
pub(crate) struct SessionEpochs {
    last: u64,
}

impl SessionEpochs {
    /// The next epoch, above all before and above the instance's previous one.
    pub(crate) fn next(&mut self, now_ms: u64, previous: Option<u64>) -> u64 {
        self.last = now_ms.max(self.last.saturating_add(1));
        match previous {
            Some(previous) if previous <= now_ms.saturating_add(LEAD_MS_MAX) => {
                self.last.max(previous.saturating_add(1))
            }
            Some(_) | None => self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_grow_within_one_millisecond_and_when_the_clock_goes_back() {
        let mut epochs = SessionEpochs::default();
        assert_eq!(epochs.next(100, None), 100);
        assert_eq!(epochs.next(100, None), 101);
        assert_eq!(epochs.next(50, None), 102);
        assert_eq!(epochs.next(500, None), 500);
    }

    #[test]
    fn instance_goes_forward_on_a_replica_whose_clock_is_behind() {
        let mut epochs = SessionEpochs::default();
        assert_eq!(epochs.next(100, Some(7_000)), 7_001);
        assert_eq!(epochs.next(100, None), 101, "others are not carried along");
    }

    #[test]
    fn absurd_previous_epoch_is_not_believed() {
        let mut epochs = SessionEpochs::default();
        assert_eq!(epochs.next(100, Some(u64::MAX)), 100);
    }
}
