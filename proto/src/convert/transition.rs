//! Changes of state in reports.

use lanekeeper_model::transition::{ShedTransitions, TransitionCause, TransitionReport};

use super::bounds::{name, required};
use super::report::{state, status, wire_state};
use crate::error::WireError;
use crate::wire;

impl TryFrom<wire::Transition> for TransitionReport {
    type Error = WireError;

    fn try_from(transition: wire::Transition) -> Result<Self, WireError> {
        let cause = match transition.cause_kind {
            Some(kind) => Some(TransitionCause {
                kind: required(kind, "cause_kind")?,
                status: status(transition.cause_status, "cause_status")?,
            }),
            None => None,
        };
        Ok(Self {
            sequence: transition.sequence,
            age_ms: transition.age_ms,
            pool: name(transition.pool, "pool")?.into(),
            lane: name(transition.lane, "lane")?.into(),
            provider: name(transition.provider, "provider")?.into(),
            endpoint: transition
                .endpoint
                .map(|endpoint| name(endpoint, "endpoint"))
                .transpose()?,
            from: state(transition.from, "from")?,
            to: state(transition.to, "to")?,
            reason: required(transition.reason, "reason")?,
            failures: transition.failures,
            samples: transition.samples,
            cause,
            cooldown_ms: transition.cooldown_ms,
            observed: transition.observed,
        })
    }
}

impl From<TransitionReport> for wire::Transition {
    fn from(transition: TransitionReport) -> Self {
        let (cause_kind, cause_status) = match transition.cause {
            Some(cause) => (Some(cause.kind), cause.status.map(u32::from)),
            None => (None, None),
        };
        Self {
            sequence: transition.sequence,
            age_ms: transition.age_ms,
            pool: transition.pool.to_string(),
            lane: transition.lane.to_string(),
            provider: transition.provider.to_string(),
            endpoint: transition.endpoint,
            from: wire_state(transition.from).into(),
            to: wire_state(transition.to).into(),
            reason: transition.reason,
            failures: transition.failures,
            samples: transition.samples,
            cause_kind,
            cause_status,
            cooldown_ms: transition.cooldown_ms,
            observed: transition.observed,
        }
    }
}

impl From<wire::ShedTransitions> for ShedTransitions {
    fn from(shed: wire::ShedTransitions) -> Self {
        Self {
            first: shed.first,
            last: shed.last,
            age_ms: shed.age_ms,
        }
    }
}

impl From<ShedTransitions> for wire::ShedTransitions {
    fn from(shed: ShedTransitions) -> Self {
        Self {
            first: shed.first,
            last: shed.last,
            age_ms: shed.age_ms,
        }
    }
}
