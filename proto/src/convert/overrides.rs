//! Operators' overrides and the answer to them. An override that this build cannot read is set
//! apart with the field at fault instead of failing the set: the others are wanted all the same.

use lanekeeper_model::{LaneName, Override, OverrideAction, PoolName, ProviderName};

use super::bounds::{at_most, name, required, text, unknown};
use crate::error::WireError;
use crate::limits::OVERRIDES_MAX;
use crate::message::{Overrides, OverridesResult, RefusedOverride};
use crate::wire;

impl TryFrom<wire::Overrides> for Overrides {
    type Error = WireError;

    fn try_from(overrides: wire::Overrides) -> Result<Self, WireError> {
        at_most(overrides.orders.len(), "orders", OVERRIDES_MAX)?;
        let mut entries = Vec::with_capacity(overrides.orders.len());
        let mut unreadable = Vec::new();
        for (index, given) in overrides.orders.into_iter().enumerate() {
            let within = |error: WireError| error.within(&format!("orders[{index}]"));
            let id = required(given.id.clone(), "id").map_err(within)?;
            match read(id.clone(), given) {
                Ok(read) => entries.push(read),
                Err(error) => unreadable.push(RefusedOverride {
                    id,
                    reason: error.to_string(),
                }),
            }
        }
        Ok(Self {
            generation: overrides.generation,
            entries,
            unreadable,
        })
    }
}

fn read(id: String, given: wire::Override) -> Result<Override, WireError> {
    let action = match wire::OverrideAction::try_from(given.action) {
        Ok(wire::OverrideAction::ForceOpen) => OverrideAction::ForceOpen,
        Ok(wire::OverrideAction::ForceClose) => OverrideAction::ForceClose,
        Ok(wire::OverrideAction::Drain) => OverrideAction::Drain,
        Ok(wire::OverrideAction::Reset) => OverrideAction::Reset,
        Ok(wire::OverrideAction::Unspecified) | Err(_) => {
            return Err(unknown("action", given.action));
        }
    };
    let pool = given.pool.map(|pool| name(pool, "pool")).transpose()?;
    let provider = given
        .provider
        .map(|provider| required(provider, "provider"))
        .transpose()?;
    // Which of the two is meant must not be guessed.
    let lane = match provider {
        None => required(given.lane, "lane")?,
        Some(_) if given.lane.is_empty() && pool.is_none() => given.lane,
        Some(_) => {
            return Err(WireError::Excluded {
                field: "provider".to_owned(),
            });
        }
    };
    Ok(Override {
        id,
        pool: pool.map(PoolName::from),
        lane: LaneName::from(lane),
        provider: provider.map(ProviderName::from),
        action,
        remaining_ms: given.remaining_ms,
    })
}

impl From<Overrides> for wire::Overrides {
    fn from(overrides: Overrides) -> Self {
        Self {
            generation: overrides.generation,
            orders: overrides.entries.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Override> for wire::Override {
    fn from(given: Override) -> Self {
        let action = match given.action {
            OverrideAction::ForceOpen => wire::OverrideAction::ForceOpen,
            OverrideAction::ForceClose => wire::OverrideAction::ForceClose,
            OverrideAction::Drain => wire::OverrideAction::Drain,
            OverrideAction::Reset => wire::OverrideAction::Reset,
        };
        Self {
            id: given.id,
            pool: given.pool.map(|pool| pool.to_string()),
            lane: given.lane.to_string(),
            provider: given.provider.map(|provider| provider.to_string()),
            action: action.into(),
            remaining_ms: given.remaining_ms,
        }
    }
}

impl TryFrom<wire::OverridesResult> for OverridesResult {
    type Error = WireError;

    fn try_from(result: wire::OverridesResult) -> Result<Self, WireError> {
        at_most(result.applied.len(), "applied", OVERRIDES_MAX)?;
        at_most(result.refused.len(), "refused", OVERRIDES_MAX)?;
        let applied = result
            .applied
            .into_iter()
            .enumerate()
            .map(|(index, id)| required(id, &format!("applied[{index}]")))
            .collect::<Result<_, _>>()?;
        let refused = result
            .refused
            .into_iter()
            .enumerate()
            .map(|(index, refused)| {
                refusal(refused).map_err(|error| error.within(&format!("refused[{index}]")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            generation: result.generation,
            applied,
            refused,
        })
    }
}

fn refusal(refused: wire::RefusedOverride) -> Result<RefusedOverride, WireError> {
    Ok(RefusedOverride {
        id: required(refused.id, "id")?,
        reason: text(refused.reason, "reason")?,
    })
}

impl From<OverridesResult> for wire::OverridesResult {
    fn from(result: OverridesResult) -> Self {
        Self {
            generation: result.generation,
            applied: result.applied,
            refused: result
                .refused
                .into_iter()
                .map(|refused| wire::RefusedOverride {
                    id: refused.id,
                    reason: refused.reason,
                })
                .collect(),
        }
    }
}
