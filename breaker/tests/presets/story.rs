//! A row of a preset's table: a sentence of the gateway it reproduces, and the attempts that show
//! whether the cell keeps it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{
    Admission, Cause, CauseKind, Cell, Outcome, Policy, RefusalReason, Selectable, State,
    StreamDeath, Ticket,
};

/// What a row does, in seconds since the row began.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// An attempt that fails with this status at that second.
    Fail(f64, u16),
    /// As `Fail`, with a Retry-After.
    FailAsking(f64, u16, u64),
    /// An attempt that gets no answer at all.
    FailBare(f64, CauseKind),
    /// An attempt whose credential or account is refused.
    HardDown(f64, u16),
    /// An attempt that proves nothing: the caller's fault, a caller gone, an answer without text.
    Neutral(f64),
    /// An attempt that succeeds.
    Succeed(f64),
    /// Streams its first content and then breaks.
    DieLate(f64),
    /// A probe that never answers and is never heard of again.
    Hang(f64),
    /// The state that must be seen.
    See(f64, State),
    /// How selection must see the lane.
    Pick(f64, Pick),
    /// The failures that must be counted.
    Count(f64, u64),
    /// The times the cell has tripped.
    Trips(f64, u64),
    /// The refusal that must come, with the seconds left, if any are known.
    Refused(f64, RefusalReason, Option<u64>),
    /// How many of this many attempts at once are let through; they are abandoned.
    Through(f64, usize, usize),
    /// As `Through`, of attempts that are made for want of any better lane.
    Degraded(f64, usize, usize),
    /// That many probes at once, all of which succeed.
    Probes(f64, usize),
    /// A health probe that begins and succeeds at that second.
    Recover(f64),
}

/// How selection sees a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pick {
    Yes,
    Last,
    Probe,
    No,
}

const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn failures(count: usize, when: f64, status: u16) -> Vec<Step> {
    vec![Step::Fail(when, status); count]
}

pub(crate) fn after(mut first: Vec<Step>, then: &[Step]) -> Vec<Step> {
    first.extend_from_slice(then);
    first
}

/// Walks one row.
pub(crate) fn run(sentence: &str, policy: &Policy, steps: &[Step]) {
    #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
    let start = Instant::now();
    let mut story = Story {
        start,
        cell: Cell::new(Arc::new(policy.clone()), start),
        policy,
    };
    for step in steps {
        story.walk(*step, &format!("{sentence}: {step:?}"));
    }
}

struct Story<'a> {
    start: Instant,
    cell: Cell,
    policy: &'a Policy,
}

impl Story<'_> {
    fn at(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }

    /// What a status proves under a policy that may name its failures.
    fn failed(&self, status: u16, retry_after: Option<u64>) -> Outcome {
        // Without a list these rows use statuses that classification calls failures.
        if self.policy.status_is_failure(Some(status)) == Some(false) {
            return Outcome::Neutral;
        }
        Outcome::Transient {
            cause: Cause::with_status(CauseKind::Status, status),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn admit(&mut self, when: f64) -> Option<Ticket> {
        let now = self.at(when);
        match self.cell.admit(now, LEASE) {
            Admission::Pass(ticket) | Admission::Probe(ticket, _) => Some(ticket),
            Admission::Refuse(_) => None,
        }
    }

    fn attempt(&mut self, when: f64, outcome: Outcome, commit: bool, place: &str) {
        let now = self.at(when);
        let mut ticket = self.admit(when).expect(place);
        if commit {
            self.cell.commit(&mut ticket, now);
        }
        self.cell.settle(ticket, outcome, now, 0.5);
    }

    fn walk(&mut self, step: Step, place: &str) {
        match step {
            Step::Fail(when, status) => self.attempt(when, self.failed(status, None), false, place),
            Step::FailAsking(when, status, secs) => {
                self.attempt(when, self.failed(status, Some(secs)), false, place);
            }
            Step::FailBare(when, kind) => {
                assert_ne!(self.policy.status_is_failure(None), Some(false), "{place}");
                let outcome = Outcome::Transient {
                    cause: Cause::new(kind),
                    retry_after: None,
                };
                self.attempt(when, outcome, false, place);
            }
            Step::HardDown(when, status) => {
                let cause = Cause::with_status(CauseKind::Auth, status);
                self.attempt(when, Outcome::HardDown { cause }, false, place);
            }
            Step::Neutral(when) => self.attempt(when, Outcome::Neutral, false, place),
            Step::Succeed(when) => self.attempt(when, Outcome::Success, true, place),
            Step::DieLate(when) => {
                let died = match self.policy.stream_death {
                    StreamDeath::Failure => Outcome::Transient {
                        cause: Cause::new(CauseKind::Truncated),
                        retry_after: None,
                    },
                    StreamDeath::Neutral => Outcome::Neutral,
                };
                self.attempt(when, died, true, place);
            }
            Step::Hang(when) => drop(self.admit(when).expect(place)),
            Step::See(..)
            | Step::Pick(..)
            | Step::Count(..)
            | Step::Trips(..)
            | Step::Refused(..) => {
                self.look(step, place);
            }
            Step::Through(when, asked, through) => {
                let tickets: Vec<_> = (0..asked).filter_map(|_| self.admit(when)).collect();
                assert_eq!(tickets.len(), through, "{place}");
                let now = self.at(when);
                for ticket in tickets {
                    self.cell.abandon(ticket, now);
                }
            }
            Step::Degraded(when, asked, through) => {
                let now = self.at(when);
                let mut passed = 0;
                for _ in 0..asked {
                    match self.cell.admit_degraded(now, LEASE) {
                        Admission::Pass(ticket) | Admission::Probe(ticket, _) => {
                            passed += 1;
                            self.cell.abandon(ticket, now);
                        }
                        Admission::Refuse(_) => {}
                    }
                }
                assert_eq!(passed, through, "{place}");
            }
            Step::Probes(when, count) => {
                let tickets: Vec<_> = (0..count).filter_map(|_| self.admit(when)).collect();
                assert_eq!(tickets.len(), count, "{place}");
                let now = self.at(when);
                for ticket in tickets {
                    self.cell.settle(ticket, Outcome::Success, now, 0.5);
                }
            }
            Step::Recover(when) => {
                let now = self.at(when);
                self.cell.recover(now, now);
            }
        }
    }

    fn look(&mut self, step: Step, place: &str) {
        match step {
            Step::See(when, state) => {
                assert_eq!(self.cell.view(self.at(when)).state, state, "{place}");
            }
            Step::Pick(when, pick) => {
                let seen = match self.cell.selectable(self.at(when)) {
                    Selectable::Yes => Pick::Yes,
                    Selectable::SoftParked | Selectable::Advised => Pick::Last,
                    Selectable::Probe => Pick::Probe,
                    Selectable::No { .. } => Pick::No,
                };
                assert_eq!(seen, pick, "{place}");
            }
            Step::Count(when, failed) => {
                let seen = self.cell.view(self.at(when)).window_failed;
                assert_eq!(seen, failed, "{place}");
            }
            Step::Trips(when, trips) => {
                assert_eq!(self.cell.view(self.at(when)).trips, trips, "{place}");
            }
            Step::Refused(when, reason, secs) => {
                let Admission::Refuse(refusal) = self.cell.admit(self.at(when), LEASE) else {
                    panic!("{place}: was let through");
                };
                assert_eq!(refusal.reason, reason, "{place}");
                assert_eq!(refusal.retry_in.map(|left| left.as_secs()), secs, "{place}");
            }
            _ => panic!("{place}: nothing to look at"),
        }
    }
}
