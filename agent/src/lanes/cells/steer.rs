//! What reaches a cell from elsewhere than its own attempts: siblings, active probes, revisions,
//! operators and the fleet.

use super::advice::{Advice, Change};
use super::{CellSlot, Guarded};
use crate::clock;
use crate::proof::{Circumstances, Proof};
use lanekeeper_breaker::{
    Admission, Cause, HardDownScope, Outcome, Override, OverrideAction, Policy, Reason, State,
    Transition,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl CellSlot {
    /// A sibling cell of the lane saw a hard-down that concerns the lane as a whole.
    pub(crate) fn share_hard_down(&self, cause: Cause, now: Instant) {
        let transitions = {
            let mut guarded = self.guarded.lock();
            match guarded.cell.admit(now, Duration::ZERO) {
                Admission::Pass(ticket) => [
                    None,
                    guarded
                        .cell
                        .settle(ticket, Outcome::HardDown { cause }, now, clock::jitter()),
                ],
                Admission::Probe(ticket, began) => [
                    began,
                    guarded
                        .cell
                        .settle(ticket, Outcome::HardDown { cause }, now, clock::jitter()),
                ],
                Admission::Refuse(_) => [None, None],
            }
        };
        for transition in transitions {
            self.publish_if(transition, now);
        }
    }

    /// True while the cell keeps attempts away for what it has seen, whatever an operator says.
    pub(crate) fn is_ailing(&self, now: Instant) -> bool {
        let view = self.view(now);
        view.machine_state != State::Closed || !view.parked_remaining.is_zero()
    }

    /// An active probe that began at `began` found the lane well.
    pub(crate) fn recover(&self, began: Instant, now: Instant) {
        let (transition, outranked) = {
            let mut guarded = self.guarded.lock();
            (guarded.cell.recover(began, now), guarded.succeeds(now))
        };
        self.publish_if(transition, now);
        self.publish_advice(outranked);
    }

    /// An active probe failed. A closed cell counts it like any attempt. After a cooldown it is
    /// the probe that fails; a cooldown that still runs is neither begun again nor made longer,
    /// but for a longer Retry-After. Returns true when every cell of the lane must hear of it.
    pub(crate) fn fail_probe(&self, proof: Proof, now: Instant) -> bool {
        let (transitions, whole_lane) = {
            let mut guarded = self.guarded.lock();
            let outcome = proof.outcome(&guarded.policy, Circumstances::default());
            let whole_lane = matches!(outcome, Outcome::HardDown { .. })
                && guarded.policy.hard_down_scope == HardDownScope::Lane;
            // Asked for and given back in one step: no slot is held while a probe runs.
            let transitions = match guarded.cell.admit_degraded(now, Duration::ZERO) {
                Admission::Pass(ticket) => [
                    None,
                    guarded.cell.settle(ticket, outcome, now, clock::jitter()),
                ],
                Admission::Probe(ticket, began) => [
                    began,
                    guarded.cell.settle(ticket, outcome, now, clock::jitter()),
                ],
                Admission::Refuse(_) => [None, None],
            };
            (transitions, whole_lane)
        };
        for transition in transitions {
            self.publish_if(transition, now);
        }
        whole_lane
    }

    /// Takes the policy of a new revision; state, cooldown and running probe stay.
    pub(crate) fn apply_policy(&self, policy: Arc<Policy>, now: Instant) {
        let transition = {
            let mut guarded = self.guarded.lock();
            if *guarded.policy == *policy {
                return;
            }
            guarded.policy = Arc::clone(&policy);
            guarded.cell.apply_policy(policy, now)
        };
        self.publish_if(transition, now);
    }

    /// The lane's credential is a new one.
    pub(crate) fn credential_changed(&self, now: Instant) {
        let transition = self.guarded.lock().cell.credential_changed(now);
        self.publish_if(transition, now);
    }

    /// Puts the cell under an operator's override, or releases it. The override it is under already
    /// changes nothing but its end.
    pub(crate) fn apply_override(&self, wanted: Option<Override>, now: Instant) {
        self.end_override(now);
        let transition = {
            let mut guarded = self.guarded.lock();
            if guarded.active_override == wanted {
                return;
            }
            guarded.active_override = wanted;
            guarded.cell.apply_override(wanted, now)
        };
        self.publish_if(transition, now);
        // The report shows the override even where it does not change the state.
        self.changed.notify().notify_one();
    }

    /// Closes the cell and forgets its history, by an operator's override.
    pub(crate) fn reset(&self, now: Instant) {
        let reset = Override {
            action: OverrideAction::Reset,
            until: now,
        };
        let transition = self.guarded.lock().cell.apply_override(Some(reset), now);
        self.publish_if(transition, now);
    }

    /// Reports an override that has ended by itself, once.
    pub(crate) fn end_override(&self, now: Instant) {
        let transition = {
            let mut guarded = self.guarded.lock();
            let Some(ended) = guarded.active_override.filter(|active| active.until <= now) else {
                return;
            };
            guarded.active_override = None;
            let view = guarded.cell.view(now);
            let from = match ended.action {
                OverrideAction::ForceOpen | OverrideAction::Drain => State::Open,
                OverrideAction::ForceClose | OverrideAction::Reset => State::Closed,
            };
            (from != view.state).then(|| Transition {
                from,
                to: view.state,
                reason: Reason::OverrideEnded,
                failures: u32::try_from(view.window_failed).unwrap_or(u32::MAX),
                samples: u32::try_from(view.window_ok.saturating_add(view.window_failed))
                    .unwrap_or(u32::MAX),
                cooldown: None,
                cause: view.cause,
                observed: false,
            })
        };
        self.publish_if(transition, now);
        self.changed.notify_one();
    }

    /// Takes the fleet's advice, or its end.
    pub(crate) fn apply_advisory(&self, wanted: Option<Advice>, now: Instant) {
        let change = {
            let mut guarded = self.guarded.lock();
            let change = guarded.following.take(wanted, now, clock::jitter());
            let until = guarded.following.until();
            guarded.cell.apply_advisory(until);
            change
        };
        self.publish_advice(change);
    }

    /// Reports advice that has ended by itself, once.
    pub(crate) fn end_advisory(&self, now: Instant) {
        let change = {
            let mut guarded = self.guarded.lock();
            let change = guarded.following.end_expired(now);
            if change.is_some() {
                guarded.cell.apply_advisory(None);
            }
            change
        };
        self.publish_advice(change);
    }

    pub(super) fn publish_advice(&self, change: Option<Change>) {
        if let Some(change) = change {
            let (advisory, spared) = (change.as_str(), self.spared());
            tracing::info!(
                "breaker {} advisory={advisory} spared_attempts={spared}",
                self.title()
            );
            self.changed.notify_one();
        }
    }
}

impl Guarded {
    /// The cell saw a success, which outranks advice that is older.
    pub(super) fn succeeds(&mut self, now: Instant) -> Option<Change> {
        let change = self.following.succeeds(now);
        if change.is_some() {
            self.cell.apply_advisory(None);
        }
        change
    }
}
