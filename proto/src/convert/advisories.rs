//! The fleet's advisories.

use lanekeeper_model::Advisory;

use super::bounds::{at_most, name, required};
use crate::error::WireError;
use crate::limits::ADVISORIES_MAX;
use crate::wire;

/// Reads a whole set. One that cannot be read refuses the set: leaving it out would end it.
pub(super) fn entries(set: wire::Advisories) -> Result<Vec<Advisory>, WireError> {
    at_most(set.entries.len(), "entries", ADVISORIES_MAX)?;
    set.entries
        .into_iter()
        .enumerate()
        .map(|(index, entry)| {
            Advisory::try_from(entry).map_err(|error| error.within(&format!("entries[{index}]")))
        })
        .collect()
}

/// Writes a whole set.
pub(super) fn wire_entries(entries: Vec<Advisory>) -> wire::Advisories {
    wire::Advisories {
        entries: entries.into_iter().map(Into::into).collect(),
    }
}

impl TryFrom<wire::Advisory> for Advisory {
    type Error = WireError;

    fn try_from(advisory: wire::Advisory) -> Result<Self, WireError> {
        Ok(Self {
            pool: Some(name(advisory.pool, "pool")?.into()),
            lane: required(advisory.lane, "lane")?.into(),
            endpoint: advisory
                .endpoint
                .map(|endpoint| name(endpoint, "endpoint"))
                .transpose()?,
            remaining_ms: advisory.remaining_ms,
            evidence_age_ms: advisory.evidence_age_ms,
            agents: advisory.agents,
        })
    }
}

impl From<Advisory> for wire::Advisory {
    fn from(advisory: Advisory) -> Self {
        Self {
            pool: advisory
                .pool
                .unwrap_or_else(lanekeeper_model::PoolName::direct)
                .to_string(),
            lane: advisory.lane.to_string(),
            endpoint: advisory.endpoint,
            remaining_ms: advisory.remaining_ms,
            evidence_age_ms: advisory.evidence_age_ms,
            agents: advisory.agents,
        }
    }
}
