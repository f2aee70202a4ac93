//! The fleet's advice within one session: what the agent was sent, and when it is to be sent again.
//! Nothing is answered; what the agent makes of it is in its reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::Advisory;
use lanekeeper_model::fleet::Advice;

/// Report intervals that an advisory outlives its last confirmation by.
pub(crate) const LIFE_INTERVALS: u32 = 3;

/// What the fleet advises the agents of one gateway, as of one moment; shared by all its sessions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AdviceSet {
    /// What is to be sent.
    pub(crate) sent: Vec<Advice>,
    /// When this was found to be so, by the monotonic clock.
    pub(crate) as_of: Instant,
    /// The same by the wall clock that the advice's times are by, unix milliseconds.
    pub(crate) as_of_ms: u64,
}

/// Newer evidence is worth a message of its own from so much on; an agent that is told less has its
/// own success count for longer. In milliseconds.
const EVIDENCE_STEP_MS: u64 = 5_000;

impl AdviceSet {
    /// True when whoever knows `self` learns nothing from `later`.
    pub(crate) fn covers(&self, later: &Self) -> bool {
        self.sent.len() == later.sent.len()
            && self.sent.iter().zip(&later.sent).all(|(known, it)| {
                known.cell == it.cell
                    && it.evidence_ms < known.evidence_ms.saturating_add(EVIDENCE_STEP_MS)
            })
    }
}

/// One session's part.
#[derive(Debug)]
pub(super) struct SessionAdvice {
    /// The agent understands advisories.
    understood: bool,
    latest: Option<Arc<AdviceSet>>,
    sent: Sent,
}

#[derive(Debug)]
enum Sent {
    /// Nothing, nor was there a session before.
    Nothing,
    /// The agent may follow what an earlier session told it.
    Unknown,
    /// This set.
    Set(Arc<AdviceSet>),
}

impl SessionAdvice {
    pub(super) fn new(understood: bool, is_first_session: bool) -> Self {
        Self {
            understood,
            latest: None,
            sent: match is_first_session {
                true => Sent::Nothing,
                false => Sent::Unknown,
            },
        }
    }

    pub(super) fn replace(&mut self, latest: Option<Arc<AdviceSet>>) {
        self.latest = latest;
    }

    /// The set to send now: when it is another one, and once an interval while it goes on.
    pub(super) fn next(&mut self, interval: Duration, now: Instant) -> Option<Vec<Advisory>> {
        let latest = self.latest.as_ref().filter(|_| self.understood)?;
        let is_known = match &self.sent {
            Sent::Nothing => latest.sent.is_empty(),
            Sent::Unknown => false,
            Sent::Set(known) => {
                let age = latest.as_of.saturating_duration_since(known.as_of);
                known.covers(latest) && (latest.sent.is_empty() || age < interval)
            }
        };
        if is_known {
            return None;
        }
        let until = latest.as_of + interval.saturating_mul(LIFE_INTERVALS);
        let remaining_ms = millis(until.saturating_duration_since(now));
        let passed_ms = millis(now.saturating_duration_since(latest.as_of));
        let advisories = latest.sent.iter().map(|advice| Advisory {
            pool: Some(advice.cell.pool.clone()),
            lane: advice.cell.lane.clone(),
            endpoint: advice.cell.endpoint.clone(),
            remaining_ms,
            evidence_age_ms: latest
                .as_of_ms
                .saturating_sub(advice.evidence_ms)
                .saturating_add(passed_ms),
            agents: u32::try_from(advice.fresh).unwrap_or(u32::MAX),
        });
        let advisories = advisories.collect();
        self.sent = Sent::Set(Arc::clone(latest));
        Some(advisories)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use lanekeeper_model::fleet::AdvisedCell;
    use lanekeeper_model::spec::FleetMode;

    const TEN: Duration = Duration::from_secs(10);
    const NOW_MS: u64 = 1_700_000_000_000;

    fn set(as_of: Instant, evidence_ms: &[u64]) -> Option<Arc<AdviceSet>> {
        let sent = evidence_ms
            .iter()
            .enumerate()
            .map(|(number, evidence_ms)| Advice {
                cell: AdvisedCell {
                    pool: "chat".into(),
                    lane: format!("lane-{number}").into(),
                    endpoint: None,
                },
                mode: FleetMode::Act,
                withheld: None,
                since_ms: NOW_MS,
                evidence_ms: *evidence_ms,
                open: 3,
                fresh: 6,
                cause: None,
                advised: 0,
                spared: 0,
                late_agents: 0,
                late_attempts: 0,
            });
        Some(Arc::new(AdviceSet {
            sent: sent.collect(),
            as_of,
            as_of_ms: NOW_MS,
        }))
    }

    #[test]
    fn advice_is_sent_when_it_changes_and_renewed_once_an_interval() {
        let start = clock::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut session = SessionAdvice::new(true, true);
        session.replace(set(at(0), &[]));
        assert_eq!(session.next(TEN, at(0)), None, "nothing was said before");
        session.replace(set(at(1), &[NOW_MS - 500]));
        let sent = session.next(TEN, at(2)).unwrap();
        assert_eq!(
            sent[0].remaining_ms, 29_000,
            "counted from when it was found"
        );
        assert_eq!(sent[0].evidence_age_ms, 1_500);
        assert_eq!(sent[0].agents, 6);
        session.replace(set(at(5), &[NOW_MS - 500]));
        assert_eq!(session.next(TEN, at(5)), None);
        session.replace(set(at(6), &[NOW_MS + 4_499]));
        assert_eq!(session.next(TEN, at(6)), None, "hardly newer evidence");
        session.replace(set(at(7), &[NOW_MS + 4_500]));
        assert!(session.next(TEN, at(7)).is_some(), "newer evidence");
        session.replace(set(at(17), &[NOW_MS + 4_500]));
        assert!(session.next(TEN, at(17)).is_some(), "renewed");
        session.replace(set(at(17), &[]));
        assert_eq!(session.next(TEN, at(17)), Some(Vec::new()));
        session.replace(set(at(40), &[]));
        assert_eq!(session.next(TEN, at(40)), None);
    }

    #[test]
    fn what_is_not_found_anew_is_not_renewed() {
        let start = clock::now();
        let mut session = SessionAdvice::new(true, true);
        session.replace(set(start, &[NOW_MS]));
        assert!(session.next(TEN, start).is_some());
        assert_eq!(session.next(TEN, start + 3 * TEN), None);
    }

    #[test]
    fn an_agent_that_had_a_session_before_is_told_that_there_is_nothing() {
        let start = clock::now();
        let mut session = SessionAdvice::new(true, false);
        assert_eq!(session.next(TEN, start), None, "not known yet");
        session.replace(set(start, &[]));
        assert_eq!(session.next(TEN, start), Some(Vec::new()));
        let mut older = SessionAdvice::new(false, false);
        older.replace(set(start, &[NOW_MS]));
        assert_eq!(older.next(TEN, start), None, "of an older release");
    }
}
