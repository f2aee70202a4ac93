//! What cells hand on when they change: a signal that lets the report go out early, and the change
//! itself, kept until the control plane has stored it or there is no more room.

use super::Label;
use lanekeeper_breaker::Transition;
use lanekeeper_model::transition::{
    ShedTransitions, TRANSITIONS_PER_REPORT_MAX, TransitionCause, TransitionReport,
};
use lanekeeper_model::{LaneName, PoolName, ProviderName};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Changes of state that an agent keeps for a control plane that does not store them; about
/// 200 KiB. An agent whose cells flap at one change a second bridges a quarter of an hour.
const TRANSITIONS_KEPT_MAX: usize = 1024;

/// All that changed in the cells of one agent.
#[derive(Default)]
pub(crate) struct Changes {
    notify: Arc<Notify>,
    log: Mutex<TransitionLog>,
}

impl Changes {
    /// Notified at every change.
    pub(crate) fn notify(&self) -> &Arc<Notify> {
        &self.notify
    }

    /// Notifies of a change that is none of state.
    pub(crate) fn notify_one(&self) {
        self.notify.notify_one();
    }

    /// Keeps a change of state and notifies of it.
    pub(super) fn record(
        &self,
        label: &Label,
        endpoint: Option<&'static str>,
        transition: &Transition,
        now: Instant,
    ) {
        self.log.lock().add(Kept {
            label: label.clone(),
            endpoint,
            transition: *transition,
            at: now,
        });
        self.notify.notify_one();
    }

    /// The changes that are not known to be stored, the earliest first, as many as one report
    /// carries; and those that could not be kept until then.
    pub(crate) fn pending(
        &self,
        now: Instant,
        provider_of: impl Fn(&str) -> ProviderName,
    ) -> (Vec<TransitionReport>, Option<ShedTransitions>) {
        self.log.lock().pending(now, provider_of)
    }

    /// Changes up to this number are stored. True when more wait than one report carried.
    pub(crate) fn transitions_stored(&self, through: u64) -> bool {
        self.log.lock().stored(through)
    }

    /// How many changes there were.
    #[cfg(feature = "simulation")]
    pub(crate) fn count(&self) -> u64 {
        self.log.lock().last
    }
}

/// A change with all that its report needs.
struct Kept {
    label: Label,
    endpoint: Option<&'static str>,
    transition: Transition,
    at: Instant,
}

/// Numbered changes, the latest [`TRANSITIONS_KEPT_MAX`] of those that are not stored.
#[derive(Default)]
struct TransitionLog {
    /// Number of the latest; 0 before the first.
    last: u64,
    /// The latest, in order and without gaps.
    kept: VecDeque<Kept>,
    shed: Option<Shed>,
}

/// Numbers that were dropped.
struct Shed {
    first: u64,
    last: u64,
    at: Instant,
}

impl TransitionLog {
    fn add(&mut self, change: Kept) {
        self.last += 1;
        self.kept.push_back(change);
        if self.kept.len() > TRANSITIONS_KEPT_MAX {
            let dropped = self.first_kept();
            if let Some(Kept { at, .. }) = self.kept.pop_front() {
                let first = self.shed.as_ref().map_or(dropped, |shed| shed.first);
                self.shed = Some(Shed {
                    first,
                    last: dropped,
                    at,
                });
            }
        }
    }

    /// Number of the earliest that is kept.
    fn first_kept(&self) -> u64 {
        self.last + 1 - self.kept.len() as u64
    }

    fn stored(&mut self, through: u64) -> bool {
        // The number of a range that was dropped in part by then is its first, by which it is known:
        // it is kept whole until its end is stored.
        if self.shed.as_ref().is_some_and(|shed| shed.last <= through) {
            self.shed = None;
        }
        let before = self.kept.len();
        while !self.kept.is_empty() && self.first_kept() <= through {
            self.kept.pop_front();
        }
        self.kept.len() < before && before > TRANSITIONS_PER_REPORT_MAX
    }

    fn pending(
        &self,
        now: Instant,
        provider_of: impl Fn(&str) -> ProviderName,
    ) -> (Vec<TransitionReport>, Option<ShedTransitions>) {
        let numbered = (self.first_kept()..).zip(&self.kept);
        let reports = numbered
            .take(TRANSITIONS_PER_REPORT_MAX)
            .map(|(sequence, kept)| report(sequence, kept, now, &provider_of));
        let shed = self.shed.as_ref().map(|shed| ShedTransitions {
            first: shed.first,
            last: shed.last,
            age_ms: age(shed.at, now),
        });
        (reports.collect(), shed)
    }
}

fn report(
    sequence: u64,
    kept: &Kept,
    now: Instant,
    provider_of: &impl Fn(&str) -> ProviderName,
) -> TransitionReport {
    let (pool, lane, provider) = match &kept.label {
        Label::Member { pool, lane } => (pool.clone(), lane.clone(), provider_of(lane)),
        Label::Provider(provider) => (PoolName::direct(), LaneName::none(), provider.clone()),
    };
    let Transition {
        from,
        to,
        reason,
        failures,
        samples,
        cooldown,
        cause,
        observed,
    } = kept.transition;
    TransitionReport {
        sequence,
        age_ms: age(kept.at, now),
        pool,
        lane,
        provider,
        endpoint: kept.endpoint.map(str::to_owned),
        from: from.into(),
        to: to.into(),
        reason: reason.as_str().to_owned(),
        failures,
        samples,
        cause: cause.map(|cause| TransitionCause {
            kind: cause.kind.as_str().to_owned(),
            status: cause.status,
        }),
        cooldown_ms: millis(cooldown.unwrap_or_default()),
        observed,
    }
}

fn age(at: Instant, now: Instant) -> u64 {
    millis(now.saturating_duration_since(at))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use lanekeeper_breaker::{Reason, State};

    fn log(count: usize, now: Instant) -> TransitionLog {
        let mut log = TransitionLog::default();
        for _ in 0..count {
            add(&mut log, now);
        }
        log
    }

    fn add(log: &mut TransitionLog, now: Instant) {
        log.add(Kept {
            label: Label::Member {
                pool: "chat".into(),
                lane: "sonnet".into(),
            },
            endpoint: None,
            transition: Transition {
                from: State::Closed,
                to: State::Open,
                reason: Reason::Consecutive,
                failures: 5,
                samples: 5,
                cooldown: Some(Duration::from_secs(10)),
                cause: None,
                observed: false,
            },
            at: now,
        });
    }

    fn numbers(log: &TransitionLog, now: Instant) -> (Vec<u64>, Option<(u64, u64)>) {
        let (reports, shed) = log.pending(now, |_| "p".into());
        let numbers = reports.iter().map(|it| it.sequence).collect();
        (numbers, shed.map(|shed| (shed.first, shed.last)))
    }

    #[test]
    fn a_change_is_reported_until_it_is_stored() {
        let now = clock::now();
        let mut log = log(3, now);
        let later = now + Duration::from_secs(2);
        let (reports, _) = log.pending(later, |lane| format!("of-{lane}").into());
        let first = reports.first().unwrap();
        assert_eq!((first.age_ms, &*first.provider), (2000, "of-sonnet"));
        assert_eq!(first.cooldown_ms, 10_000);
        assert_eq!(numbers(&log, now), (vec![1, 2, 3], None));
        assert!(!log.stored(2));
        assert_eq!(numbers(&log, now), (vec![3], None));
        log.stored(9);
        add(&mut log, now);
        assert_eq!(numbers(&log, now), (vec![4], None), "numbers go on");
    }

    #[test]
    fn a_report_carries_so_many_and_asks_for_the_next() {
        let now = clock::now();
        let mut log = log(TRANSITIONS_PER_REPORT_MAX + 5, now);
        assert_eq!(numbers(&log, now).0.len(), TRANSITIONS_PER_REPORT_MAX);
        assert!(
            log.stored(TRANSITIONS_PER_REPORT_MAX as u64),
            "five more wait"
        );
        assert_eq!(numbers(&log, now).0.len(), 5);
        assert!(!log.stored(TRANSITIONS_PER_REPORT_MAX as u64 + 5));
    }

    #[test]
    fn what_does_not_fit_is_counted_under_its_first_number_until_that_is_stored() {
        let now = clock::now();
        let mut log = log(TRANSITIONS_KEPT_MAX + 2, now);
        assert_eq!(numbers(&log, now).1, Some((1, 2)));
        assert_eq!(numbers(&log, now).0.first(), Some(&3));
        add(&mut log, now);
        log.stored(2);
        assert_eq!(numbers(&log, now).1, Some((1, 3)), "kept whole");
        log.stored(3);
        assert_eq!(numbers(&log, now).1, None);
        add(&mut log, now);
        assert_eq!(numbers(&log, now).1, Some((4, 4)));
    }
}
