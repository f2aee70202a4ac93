//! A report's pools. Counts that nobody can have are refused: they would spoil the sums of a fleet.

use lanekeeper_model::{
    AttemptCounts, LaneName, LaneUsability, PoolReport, PoolTotals, PoolTraffic, PoolUsability,
    Reasons, RequestCounts, Times, UnusableReason,
};

use super::bounds::{at_most, name, required};
use crate::error::WireError;
use crate::limits::{REPORT_COUNT_PER_SEC_MAX, REPORT_MEMBERS_MAX, REPORT_POOLS_MAX};
use crate::wire;

/// Reads the pools of a report whose counts are of the last `over_ms`.
pub(super) fn read(pools: Vec<wire::Pool>, over_ms: u64) -> Result<Vec<PoolReport>, WireError> {
    at_most(pools.len(), "pools", REPORT_POOLS_MAX)?;
    let members = pools.iter().map(|pool| pool.lanes.len()).sum();
    at_most(members, "pools.lanes", REPORT_MEMBERS_MAX)?;
    let most = (over_ms / 1000)
        .saturating_add(1)
        .saturating_mul(REPORT_COUNT_PER_SEC_MAX);
    pools
        .into_iter()
        .enumerate()
        .map(|(index, pool)| pool_of(pool, most).map_err(|e| e.within(&format!("pools[{index}]"))))
        .collect()
}

fn pool_of(pool: wire::Pool, most: u64) -> Result<PoolReport, WireError> {
    if pool.usable > pool.members {
        return Err(WireError::OutOfRange {
            field: "usable".to_owned(),
            value: pool.usable.into(),
            limit: pool.members.into(),
        });
    }
    let mut report = PoolReport {
        usability: PoolUsability {
            pool: name(pool.name, "name")?.into(),
            members: pool.members,
            usable: pool.usable,
            exhausted: pool.exhausted,
            in_flight: within(pool.in_flight, "in_flight", most)?,
            queued: within(pool.queued, "queued", most)?,
            unusable: Vec::new(),
        },
        traffic: PoolTraffic {
            totals: PoolTotals {
                requests: RequestCounts::from_array(counts(&pool.requests, "requests", most)?),
                failovers: within(pool.failovers, "failovers", most)?,
                first_content: Times::new(counts(&pool.first_content, "first_content", most)?),
                whole: Times::new(counts(&pool.whole, "whole", most)?),
            },
            attempts: Vec::new(),
        },
    };
    for (index, member) in pool.lanes.into_iter().enumerate() {
        let at = |error: WireError| error.within(&format!("lanes[{index}]"));
        let lane = LaneName::from(required(member.lane, "lane").map_err(at)?);
        let attempts = counts(&member.attempts, "attempts", most).map_err(at)?;
        let attempts = AttemptCounts::from_array(attempts);
        let reasons: Reasons = member.reasons.into_iter().map(reason).collect();
        if attempts.sum() > 0 {
            report.traffic.attempts.push((lane.clone(), attempts));
        }
        if !reasons.is_empty() {
            let unusable = LaneUsability { lane, reasons };
            report.usability.unusable.push(unusable);
        }
    }
    Ok(report)
}

fn within(value: u64, field: &str, limit: u64) -> Result<u64, WireError> {
    if value > limit {
        return Err(WireError::OutOfRange {
            field: field.to_owned(),
            value,
            limit,
        });
    }
    Ok(value)
}

/// Counts by place. A later release may have more places, which count in the last one.
fn counts<const N: usize>(values: &[u64], field: &str, most: u64) -> Result<[u64; N], WireError> {
    /// Far more places than any release will have.
    const PLACES_MAX: usize = 64;
    at_most(values.len(), field, PLACES_MAX)?;
    let mut counts = [0_u64; N];
    for (place, value) in values.iter().enumerate() {
        if let Some(count) = counts.get_mut(place.min(N - 1)) {
            *count = within(count.saturating_add(*value), field, most)?;
        }
    }
    Ok(counts)
}

fn reason(value: i32) -> UnusableReason {
    match wire::UnusableReason::try_from(value) {
        Ok(wire::UnusableReason::MissingKey) => UnusableReason::MissingKey,
        Ok(wire::UnusableReason::BadAddress) => UnusableReason::BadAddress,
        Ok(wire::UnusableReason::BudgetSpent) => UnusableReason::BudgetSpent,
        Ok(wire::UnusableReason::WeightZero) => UnusableReason::WeightZero,
        Ok(wire::UnusableReason::Excluded) => UnusableReason::Excluded,
        Ok(wire::UnusableReason::PermitsGone) => UnusableReason::PermitsGone,
        Ok(wire::UnusableReason::ProviderOpen) => UnusableReason::ProviderOpen,
        Ok(wire::UnusableReason::CellOpen) => UnusableReason::CellOpen,
        Ok(wire::UnusableReason::Unspecified) | Err(_) => UnusableReason::Other,
    }
}

fn wire_reason(reason: UnusableReason) -> wire::UnusableReason {
    match reason {
        UnusableReason::MissingKey => wire::UnusableReason::MissingKey,
        UnusableReason::BadAddress => wire::UnusableReason::BadAddress,
        UnusableReason::BudgetSpent => wire::UnusableReason::BudgetSpent,
        UnusableReason::WeightZero => wire::UnusableReason::WeightZero,
        UnusableReason::Excluded => wire::UnusableReason::Excluded,
        UnusableReason::PermitsGone => wire::UnusableReason::PermitsGone,
        UnusableReason::ProviderOpen => wire::UnusableReason::ProviderOpen,
        UnusableReason::CellOpen => wire::UnusableReason::CellOpen,
        // A pool without members has none to say it of.
        UnusableReason::Empty | UnusableReason::Other => wire::UnusableReason::Unspecified,
    }
}

impl From<PoolReport> for wire::Pool {
    fn from(report: PoolReport) -> Self {
        let PoolReport {
            usability,
            traffic: PoolTraffic { totals, attempts },
        } = report;
        let mut lanes: Vec<wire::PoolMember> = usability
            .unusable
            .into_iter()
            .map(|member| wire::PoolMember {
                lane: member.lane.to_string(),
                reasons: { member.reasons.iter() }
                    .map(|it| wire_reason(it).into())
                    .collect(),
                attempts: Vec::new(),
            })
            .collect();
        for (lane, counts) in attempts {
            let counts = trimmed(&counts.to_array());
            match lanes.iter_mut().find(|known| *known.lane == *lane) {
                Some(known) => known.attempts = counts,
                None => lanes.push(wire::PoolMember {
                    lane: lane.to_string(),
                    reasons: Vec::new(),
                    attempts: counts,
                }),
            }
        }
        Self {
            name: usability.pool.to_string(),
            members: usability.members,
            usable: usability.usable,
            exhausted: usability.exhausted,
            in_flight: usability.in_flight,
            queued: usability.queued,
            lanes,
            requests: trimmed(&totals.requests.to_array()),
            failovers: totals.failovers,
            first_content: totals.first_content.trimmed().to_vec(),
            whole: totals.whole.trimmed().to_vec(),
        }
    }
}

fn trimmed(counts: &[u64]) -> Vec<u64> {
    let used = counts.iter().rposition(|count| *count > 0);
    let used = used.map_or(0, |last| last + 1);
    counts.iter().take(used).copied().collect()
}
