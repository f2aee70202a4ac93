//! Leases of probes.

use lanekeeper_model::CauseReport;
use lanekeeper_model::lease::{ProbeAnswer, ProbeAsk, ProbeVerdict, ProbedLane};

use super::bounds::{at_most, name, required};
use crate::error::WireError;
use crate::limits::PROBE_LEASES_MAX;
use crate::message::{ProbeLease, ProbeLeaseRequest};
use crate::wire;

/// Reads each entry of a list.
fn each<W, M>(list: Vec<W>, field: &str) -> Result<Vec<M>, WireError>
where
    M: TryFrom<W, Error = WireError>,
{
    at_most(list.len(), field, PROBE_LEASES_MAX)?;
    list.into_iter()
        .enumerate()
        .map(|(index, entry)| {
            M::try_from(entry).map_err(|error| error.within(&format!("{field}[{index}]")))
        })
        .collect()
}

fn of(lane: Option<wire::ProbedLane>) -> Result<ProbedLane, WireError> {
    let lane = lane.ok_or_else(|| WireError::Missing {
        field: "lane".to_owned(),
    })?;
    ProbedLane::try_from(lane).map_err(|error| error.within("lane"))
}

impl TryFrom<wire::ProbedLane> for ProbedLane {
    type Error = WireError;

    fn try_from(lane: wire::ProbedLane) -> Result<Self, WireError> {
        let endpoint = lane.endpoint.map(|endpoint| name(endpoint, "endpoint"));
        Ok(Self {
            lane: required(lane.lane, "lane")?.into(),
            endpoint: endpoint.transpose()?,
        })
    }
}

impl From<ProbedLane> for wire::ProbedLane {
    fn from(lane: ProbedLane) -> Self {
        Self {
            lane: lane.lane.to_string(),
            endpoint: lane.endpoint,
        }
    }
}

impl TryFrom<wire::ProbeAsk> for ProbeAsk {
    type Error = WireError;

    fn try_from(ask: wire::ProbeAsk) -> Result<Self, WireError> {
        Ok(Self {
            lane: of(ask.lane)?,
            ttl_ms: ask.ttl_ms,
        })
    }
}

impl From<ProbeAsk> for wire::ProbeAsk {
    fn from(ask: ProbeAsk) -> Self {
        Self {
            lane: Some(ask.lane.into()),
            ttl_ms: ask.ttl_ms,
        }
    }
}

impl TryFrom<wire::ProbeAnswer> for ProbeAnswer {
    type Error = WireError;

    fn try_from(answer: wire::ProbeAnswer) -> Result<Self, WireError> {
        Ok(Self {
            lane: of(answer.lane)?,
            granted: answer.granted,
            remaining_ms: answer.remaining_ms,
        })
    }
}

impl From<ProbeAnswer> for wire::ProbeAnswer {
    fn from(answer: ProbeAnswer) -> Self {
        Self {
            lane: Some(answer.lane.into()),
            granted: answer.granted,
            remaining_ms: answer.remaining_ms,
        }
    }
}

impl TryFrom<wire::ProbeVerdict> for ProbeVerdict {
    type Error = WireError;

    fn try_from(verdict: wire::ProbeVerdict) -> Result<Self, WireError> {
        let failure = verdict.failure.map(CauseReport::try_from).transpose();
        Ok(Self {
            lane: of(verdict.lane)?,
            subject: verdict.subject,
            failure: failure.map_err(|error| error.within("failure"))?,
            age_ms: verdict.age_ms,
            next_ms: verdict.next_ms,
        })
    }
}

impl From<ProbeVerdict> for wire::ProbeVerdict {
    fn from(verdict: ProbeVerdict) -> Self {
        Self {
            lane: Some(verdict.lane.into()),
            subject: verdict.subject,
            failure: verdict.failure.map(|failure| wire::Cause {
                kind: failure.kind,
                status: failure.status.map(u32::from),
                count: failure.count,
            }),
            age_ms: verdict.age_ms,
            next_ms: verdict.next_ms,
        }
    }
}

impl TryFrom<wire::ProbeLeaseRequest> for ProbeLeaseRequest {
    type Error = WireError;

    fn try_from(request: wire::ProbeLeaseRequest) -> Result<Self, WireError> {
        Ok(Self {
            asks: each(request.asks, "asks")?,
            verdicts: each(request.verdicts, "verdicts")?,
            returned: each(request.returned, "returned")?,
        })
    }
}

impl From<ProbeLeaseRequest> for wire::ProbeLeaseRequest {
    fn from(request: ProbeLeaseRequest) -> Self {
        Self {
            asks: request.asks.into_iter().map(Into::into).collect(),
            verdicts: request.verdicts.into_iter().map(Into::into).collect(),
            returned: request.returned.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<wire::ProbeLease> for ProbeLease {
    type Error = WireError;

    fn try_from(lease: wire::ProbeLease) -> Result<Self, WireError> {
        Ok(Self {
            answers: each(lease.answers, "answers")?,
            verdicts: each(lease.verdicts, "verdicts")?,
        })
    }
}

impl From<ProbeLease> for wire::ProbeLease {
    fn from(lease: ProbeLease) -> Self {
        Self {
            answers: lease.answers.into_iter().map(Into::into).collect(),
            verdicts: lease.verdicts.into_iter().map(Into::into).collect(),
        }
    }
}
