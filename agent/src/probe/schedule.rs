//! When each lane is probed next, as a plain value that follows the configuration.
//!
//! A lane keeps its turn through revisions that do not concern its probes, so that frequent
//! revisions neither starve nor multiply them.

use crate::observe::metrics::ProbeOutcome;
use lanekeeper_model::LaneName;
use lanekeeper_model::gateway::{BaseUrl, Health, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Share of the interval by which a turn may come sooner or later, so that agents do not probe in
/// step.
const JITTER: f64 = 0.1;

/// What a lane's probes depend on. Another plan means another schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) health: Health,
    pub(super) protocol: Protocol,
    pub(super) base_url: BaseUrl,
    pub(super) upstream_model: String,
}

/// The turns of all lanes that are probed.
#[derive(Default)]
pub(super) struct Schedule {
    entries: BTreeMap<LaneName, Entry>,
    /// Lanes that are not being probed now, by their next turn.
    queue: BTreeSet<(Instant, LaneName)>,
    serial: u64,
}

struct Entry {
    plan: Plan,
    due: Instant,
    running: Option<(u64, CancellationToken)>,
    last: Option<ProbeOutcome>,
}

/// A turn that has begun.
pub(super) struct Turn {
    pub(super) lane: LaneName,
    pub(super) health: Health,
    pub(super) began: Instant,
    /// Cancelled when the lane leaves or its plan changes.
    pub(super) cancelled: CancellationToken,
    serial: u64,
}

impl Schedule {
    /// Follows a revision: lanes with the same plan keep their turn, new ones get their first one
    /// within an interval, and running probes of the others end.
    pub(super) fn reconcile(
        &mut self,
        wanted: BTreeMap<LaneName, Plan>,
        now: Instant,
        mut chance: impl FnMut() -> f64,
    ) {
        let queue = &mut self.queue;
        self.entries.retain(|lane, entry| {
            let keep = wanted.contains_key(lane);
            if !keep {
                entry.stop();
                queue.remove(&(entry.due, lane.clone()));
            }
            keep
        });
        for (lane, plan) in wanted {
            let first = after(now, plan.health.interval.mul_f64(chance()));
            let (due, last) = match self.entries.get(&lane) {
                Some(entry) if entry.plan == plan => continue,
                Some(entry) => {
                    entry.stop();
                    self.queue.remove(&(entry.due, lane.clone()));
                    (entry.due.clamp(now, first), entry.last)
                }
                None => (first, None),
            };
            self.queue.insert((due, lane.clone()));
            let entry = Entry {
                plan,
                due,
                running: None,
                last,
            };
            self.entries.insert(lane, entry);
        }
    }

    /// The next turn of a lane that is not being probed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Begins the turn that is due the longest.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Turn> {
        let (due, lane) = self.queue.pop_first()?;
        if due > now {
            self.queue.insert((due, lane));
            return None;
        }
        let entry = self.entries.get_mut(&lane)?;
        self.serial = self.serial.wrapping_add(1);
        let cancelled = CancellationToken::new();
        entry.running = Some((self.serial, cancelled.clone()));
        Some(Turn {
            health: entry.plan.health.clone(),
            lane,
            began: now,
            cancelled,
            serial: self.serial,
        })
    }

    /// Ends a turn and sets the next one an interval after its beginning. True when `outcome` is
    /// another one than the time before; `None` when there was nothing to find out.
    pub(super) fn end(
        &mut self,
        turn: &Turn,
        outcome: Option<ProbeOutcome>,
        now: Instant,
        chance: f64,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(&turn.lane) else {
            return false;
        };
        // The plan changed meanwhile, and with it the turn.
        if entry
            .running
            .as_ref()
            .is_none_or(|(serial, _)| *serial != turn.serial)
        {
            return false;
        }
        entry.running = None;
        let spread = 1.0 - JITTER + 2.0 * JITTER * chance;
        entry.due = after(turn.began, entry.plan.health.interval.mul_f64(spread)).max(now);
        self.queue.insert((entry.due, turn.lane.clone()));
        let changed = outcome.is_some() && entry.last != outcome;
        entry.last = outcome.or(entry.last);
        changed
    }
}

impl Entry {
    fn stop(&self) {
        if let Some((_, cancelled)) = &self.running {
            cancelled.cancel();
        }
    }
}

fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use lanekeeper_model::gateway::{HealthMode, Scheme};

    const MINUTE: Duration = Duration::from_secs(60);

    fn plan(interval: Duration) -> Plan {
        Plan {
            health: Health {
                mode: HealthMode::Active,
                interval,
                timeout: Duration::from_secs(5),
            },
            protocol: Protocol::Openai,
            base_url: BaseUrl {
                scheme: Scheme::Https,
                host: "api.example".to_owned(),
                port: 443,
                path_prefix: String::new(),
            },
            upstream_model: "m".to_owned(),
        }
    }

    fn wanted(lanes: &[(&str, Duration)]) -> BTreeMap<LaneName, Plan> {
        lanes
            .iter()
            .map(|(lane, interval)| (LaneName::from(*lane), plan(*interval)))
            .collect()
    }

    #[test]
    fn revision_that_does_not_concern_a_lane_leaves_its_turn() {
        let now = clock::now();
        let mut schedule = Schedule::default();
        schedule.reconcile(wanted(&[("a", MINUTE)]), now, || 0.5);
        let due = schedule.next_due();
        assert_eq!(due, Some(now + MINUTE / 2));
        for second in 1..20 {
            let later = now + Duration::from_secs(second);
            let more = wanted(&[("a", MINUTE), ("b", MINUTE * 10)]);
            schedule.reconcile(more, later, || 0.9);
            assert_eq!(schedule.next_due(), due);
        }
    }

    #[test]
    fn running_probe_is_not_doubled_by_a_revision_and_ends_with_its_lane() {
        let now = clock::now();
        let mut schedule = Schedule::default();
        schedule.reconcile(wanted(&[("a", MINUTE)]), now, || 0.0);
        let turn = schedule.begin(now).expect("a turn");
        schedule.reconcile(wanted(&[("a", MINUTE)]), now, || 0.0);
        assert!(schedule.begin(now + MINUTE * 9).is_none());
        assert!(!turn.cancelled.is_cancelled());
        schedule.reconcile(BTreeMap::new(), now, || 0.0);
        assert!(turn.cancelled.is_cancelled());
        schedule.end(&turn, Some(ProbeOutcome::Ok), now, 0.5);
        assert_eq!(schedule.next_due(), None);
    }

    #[test]
    fn changed_plan_takes_over_at_once_and_ignores_the_old_probe() {
        let now = clock::now();
        let mut schedule = Schedule::default();
        schedule.reconcile(wanted(&[("a", MINUTE)]), now, || 0.0);
        let old = schedule.begin(now).expect("a turn");
        schedule.reconcile(wanted(&[("a", MINUTE / 60)]), now, || 1.0);
        assert!(old.cancelled.is_cancelled());
        let new = schedule.begin(now + MINUTE / 60).expect("a turn");
        schedule.end(&old, Some(ProbeOutcome::Failed), now + MINUTE / 60, 0.5);
        assert_eq!(schedule.next_due(), None, "the new probe still runs");
        schedule.end(&new, Some(ProbeOutcome::Ok), now + MINUTE / 60, 0.5);
        assert_eq!(schedule.next_due(), Some(now + MINUTE / 30));
    }

    #[test]
    fn slow_probe_is_followed_by_the_next_one_without_a_burst() {
        let now = clock::now();
        let mut schedule = Schedule::default();
        schedule.reconcile(wanted(&[("a", MINUTE)]), now, || 0.0);
        let turn = schedule.begin(now).expect("a turn");
        let later = now + MINUTE * 5;
        assert!(schedule.end(&turn, Some(ProbeOutcome::Ok), later, 0.5));
        let turn = schedule.begin(later).expect("the next turn");
        assert!(schedule.begin(later).is_none());
        assert!(!schedule.end(&turn, Some(ProbeOutcome::Ok), later, 0.5));
        assert_eq!(schedule.next_due(), Some(later + MINUTE));
    }
}
