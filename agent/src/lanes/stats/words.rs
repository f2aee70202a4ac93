//! Why a cell is as it is, in a sentence for people.

use lanekeeper_breaker::{
    Cause, CauseKind, OverrideAction, OverrideView, Reason, State, Transition, View,
};
use std::time::Duration;

/// The sentence about a cell; `None` when nothing is to be said. `window` is its policy's,
/// `opened` what opened it.
pub(super) fn why(view: &View, window: Duration, opened: Option<&Transition>) -> Option<String> {
    if let Some(order) = &view.override_ {
        return Some(ordered(order));
    }
    // What tripped the cell leaves the window sooner than the cell closes.
    let (fact, cause) = match opened.filter(|_| view.state != State::Closed) {
        Some(opened) => (opening(opened, window), opened.cause.or(view.cause)),
        None => (
            counted(view.window_failed, view.window_ok, window),
            view.cause,
        ),
    };
    if view.hard_down
        && let Some(cause) = cause
    {
        return Some(hard_down(cause));
    }
    let sentence = match (fact, cause.map(named)) {
        (Some(fact), Some(cause)) => format!("{fact}, last: {cause}"),
        (Some(fact), None) => fact,
        (None, Some(cause)) => cause,
        (None, None) => return None,
    };
    Some(match view.state {
        State::HalfOpen => format!("being probed after {sentence}"),
        State::Open | State::Closed => sentence,
    })
}

/// Why a lane is down until its credential or account is mended.
pub(super) fn hard_down(cause: Cause) -> String {
    let fact = match cause.kind {
        CauseKind::Billing => "billing: insufficient balance at the provider",
        CauseKind::ModelMissing => "model_missing: the provider does not have the model",
        _ => "auth rejected: the provider refuses the key",
    };
    match cause.status {
        Some(status) => format!("{fact} (status {status})"),
        None => fact.to_owned(),
    }
}

/// An operator's override in force.
pub(super) fn ordered(order: &OverrideView) -> String {
    let fact = match order.action {
        OverrideAction::ForceOpen => "forced open",
        OverrideAction::ForceClose => "forced closed",
        OverrideAction::Drain => "drained",
        OverrideAction::Reset => "reset",
    };
    let left = order.remaining.as_secs_f64().ceil();
    format!("{fact} by an operator for {left} s more")
}

fn opening(opened: &Transition, window: Duration) -> Option<String> {
    match opened.reason {
        Reason::ErrorRate | Reason::Count => {
            let ok = opened.samples.saturating_sub(opened.failures);
            counted(opened.failures.into(), ok.into(), window)
        }
        Reason::Consecutive => Some(match opened.failures {
            1 => "1 answer failed".to_owned(),
            several => format!("{several} answers in a row failed"),
        }),
        Reason::ProbeFailed => Some("the probe failed".to_owned()),
        _ => None,
    }
}

fn counted(failed: u64, ok: u64, window: Duration) -> Option<String> {
    let all = failed.saturating_add(ok);
    let answers = if all == 1 { "answer" } else { "answers" };
    let span = window.as_secs_f64();
    (failed > 0).then(|| format!("{failed} of {all} {answers} in {span} s failed"))
}

fn named(cause: Cause) -> String {
    let words = match cause.kind {
        CauseKind::Status => {
            return cause.status.map_or_else(
                || "an error status".to_owned(),
                |status| format!("status {status}"),
            );
        }
        CauseKind::ErrorFrame => "an error inside the answer",
        CauseKind::RateLimit => "too many requests",
        CauseKind::Overloaded => "the provider is overloaded",
        CauseKind::Auth => "the provider refuses the key",
        CauseKind::Billing => "insufficient balance at the provider",
        CauseKind::ModelMissing => "the provider does not have the model",
        CauseKind::Dns => "its name does not resolve",
        CauseKind::Connect => "no connection",
        CauseKind::Blocked => "its address is not allowed",
        CauseKind::Tls => "no TLS connection",
        CauseKind::Timeout => "no answer in time",
        CauseKind::Reset => "the connection broke",
        CauseKind::Protocol => "the answer is no HTTP",
        CauseKind::Stalled => "the stream fell silent",
        CauseKind::Truncated => "the answer was cut off",
        CauseKind::Redirect => "a redirect",
        CauseKind::BadBody => "the body is no answer",
        CauseKind::EmptyAnswer => "an empty answer",
        CauseKind::Slow => "a slow answer",
    };
    match cause.status {
        Some(status) => format!("{words} (status {status})"),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use lanekeeper_breaker::{Admission, Cell, Outcome, Override, Policy};
    use std::sync::Arc;
    use std::time::Instant;

    const WINDOW: Duration = Duration::from_secs(30);

    /// Lets the cell hear `outcomes`; returns the sentence at the end.
    fn told(cell: &mut Cell, outcomes: &[Outcome], now: Instant) -> Option<String> {
        let mut last = None;
        for outcome in outcomes {
            match cell.admit_degraded(now, Duration::ZERO) {
                Admission::Pass(ticket) => last = cell.settle(ticket, *outcome, now, 0.5).or(last),
                Admission::Probe(ticket, began) => {
                    last = cell.settle(ticket, *outcome, now, 0.5).or(began).or(last);
                }
                Admission::Refuse(_) => {}
            }
        }
        why(&cell.view(now), WINDOW, last.as_ref())
    }

    fn failed(kind: CauseKind, status: Option<u16>) -> Outcome {
        Outcome::Transient {
            cause: Cause { kind, status },
            retry_after: None,
        }
    }

    #[test]
    fn cell_without_failures_says_nothing() {
        let now = clock::now();
        let mut cell = Cell::new(Arc::new(Policy::default()), now);
        assert_eq!(
            told(&mut cell, &[Outcome::Success, Outcome::Neutral], now),
            None
        );
    }

    #[test]
    fn tripped_cell_tells_its_counts_and_the_last_cause_after_they_left_the_window() {
        let now = clock::now();
        let mut cell = Cell::new(Arc::new(Policy::default()), now);
        let status = failed(CauseKind::Status, Some(503));
        let outcomes = [Outcome::Success, status, Outcome::Success, status, status];
        let mut last = None;
        for outcome in outcomes {
            let Admission::Pass(ticket) = cell.admit(now, Duration::ZERO) else {
                panic!("closed");
            };
            last = cell.settle(ticket, outcome, now, 0.5).or(last);
        }
        for later in [now, now + WINDOW * 2] {
            assert_eq!(
                why(&cell.view(later), WINDOW, last.as_ref()).as_deref(),
                Some("3 of 5 answers in 30 s failed, last: status 503")
            );
        }
    }

    #[test]
    fn every_kind_of_trouble_has_words_of_its_own() {
        let now = clock::now();
        let cases = [
            (
                vec![failed(CauseKind::Timeout, None)],
                "1 of 1 answer in 30 s failed, last: no answer in time",
            ),
            (
                vec![failed(CauseKind::RateLimit, Some(429)); 2],
                "2 of 2 answers in 30 s failed, last: too many requests (status 429)",
            ),
            (
                vec![Outcome::HardDown {
                    cause: Cause::with_status(CauseKind::Auth, 401),
                }],
                "auth rejected: the provider refuses the key (status 401)",
            ),
            (
                vec![Outcome::HardDown {
                    cause: Cause::with_status(CauseKind::Billing, 402),
                }],
                "billing: insufficient balance at the provider (status 402)",
            ),
        ];
        for (outcomes, wanted) in cases {
            let mut cell = Cell::new(Arc::new(Policy::default()), now);
            assert_eq!(told(&mut cell, &outcomes, now).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn order_of_an_operator_is_what_matters_while_it_holds() {
        let now = clock::now();
        let mut cell = Cell::new(Arc::new(Policy::default()), now);
        cell.apply_override(
            Some(Override {
                action: OverrideAction::Drain,
                until: now + WINDOW,
            }),
            now,
        );
        let sentence = told(&mut cell, &[failed(CauseKind::Reset, None)], now);
        assert_eq!(
            sentence.as_deref(),
            Some("drained by an operator for 30 s more")
        );
    }
}
