//! The body of an order: its fields and their bounds. Whether its lane, pool and provider exist is
//! looked at elsewhere.

use crate::input::body::{Fields, Form};
use lanekeeper_model::OverrideAction;
use lanekeeper_model::wording::is_unseen;
use std::collections::BTreeMap;

/// Shortest life of an order, seconds.
const MIN_TTL_SECS: u64 = 1;
/// Longest life of an order, seconds: a week. What shall last longer belongs into the document.
pub(crate) const MAX_TTL_SECS: u64 = 7 * 24 * 60 * 60;
/// Longest reason, bytes.
pub(crate) const MAX_REASON_BYTES: usize = 500;
/// Longest lane, pool, provider, label or label's value, bytes.
const MAX_NAME_BYTES: usize = 256;
/// Most labels of a selection.
const MAX_LABELS: usize = 16;

/// An override to create.
#[derive(utoipa::ToSchema)]
pub(crate) struct OverrideForm {
    /// What to do.
    #[schema(value_type = OrderedAction)]
    pub(super) action: OverrideAction,
    /// The pool whose cells are meant; empty for direct routes, null or left out for all.
    pub(super) pool: Option<String>,
    /// The lane. Required unless `provider` is given.
    #[schema(required = false)]
    pub(super) lane: String,
    /// The provider whose own cell is meant, in place of `pool` and `lane`. It must have a breaker.
    pub(super) provider: Option<String>,
    /// Labels an agent must have; left out = every agent of the gateway.
    #[schema(required = false)]
    pub(super) agents: BTreeMap<String, String>,
    /// Why. 1 to 500 bytes.
    pub(super) reason: String,
    /// How long it lasts, seconds, at most a week. Required except for a reset, which waits a minute
    /// for agents that are not connected.
    pub(super) ttl_secs: Option<u64>,
    /// Create it even if that leaves a pool without a usable member.
    #[schema(required = false)]
    pub(super) allow_empty: bool,
}

/// What an operator orders.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
pub(crate) enum OrderedAction {
    /// Refuse every attempt.
    ForceOpen,
    /// Admit every attempt and record without tripping.
    ForceClose,
    /// Let running attempts finish and admit no new one.
    Drain,
    /// Close the cells and forget their history, once.
    Reset,
}

impl Form for OverrideForm {
    const FIELDS: &'static [&'static str] = &[
        "action",
        "pool",
        "lane",
        "provider",
        "agents",
        "reason",
        "ttl_secs",
        "allow_empty",
    ];

    fn read(fields: &mut Fields) -> Option<Self> {
        let action = fields.text("action").and_then(|word| {
            let action = OverrideAction::from_name(&word);
            if action.is_none() {
                let message = "must be force_open, force_close, drain or reset";
                fields.refuse("action", "invalid_value", message);
            }
            action
        });
        let pool = fields.optional_text("pool");
        if let Some(pool) = &pool {
            check_word(fields, "pool", pool, 0, MAX_NAME_BYTES);
        }
        let provider = fields.optional_text("provider");
        let lane = if let Some(provider) = &provider {
            check_word(fields, "provider", provider, 1, MAX_NAME_BYTES);
            if pool.is_some() || fields.optional_text("lane").is_some() {
                let message = "must not be given with a pool or a lane";
                fields.refuse("provider", "invalid_value", message);
            }
            Some(String::new())
        } else {
            let lane = fields.text("lane");
            if let Some(lane) = &lane {
                check_word(fields, "lane", lane, 1, MAX_NAME_BYTES);
            }
            lane
        };
        let agents = fields.texts_by_name("agents");
        if agents.len() > MAX_LABELS {
            let message = format!("must be at most {MAX_LABELS} labels");
            fields.refuse("agents", "out_of_range", message);
        }
        for (label, value) in &agents {
            check_word(fields, "agents", label, 1, MAX_NAME_BYTES);
            check_word(fields, "agents", value, 0, MAX_NAME_BYTES);
        }
        let reason = fields.text("reason");
        if let Some(reason) = &reason {
            check_word(fields, "reason", reason.trim(), 1, MAX_REASON_BYTES);
        }
        let ttl_secs = fields.whole("ttl_secs");
        match (ttl_secs, action) {
            (Some(secs), _) if !(MIN_TTL_SECS..=MAX_TTL_SECS).contains(&secs) => {
                let message = format!("must be between {MIN_TTL_SECS} and {MAX_TTL_SECS}");
                fields.refuse("ttl_secs", "out_of_range", message);
            }
            (None, Some(OverrideAction::Reset) | None) | (Some(_), _) => {}
            // What is there and of a wrong type is not missing as well.
            (None, Some(_)) if fields.is_refused("ttl_secs") => {}
            (None, Some(_)) => fields.refuse("ttl_secs", "missing", "must be given"),
        }
        let allow_empty = fields.flag("allow_empty");
        Some(Self {
            action: action?,
            pool,
            lane: lane?,
            provider,
            agents,
            reason: reason?,
            ttl_secs,
            allow_empty,
        })
    }
}

/// Notes a text that is too short, too long or steers terminals.
fn check_word(fields: &mut Fields, field: &str, text: &str, min: usize, max: usize) {
    if !(min..=max).contains(&text.len()) {
        let message = format!("must be {min} to {max} bytes");
        fields.refuse(field, "out_of_range", message);
    }
    if text.contains(is_unseen) {
        let message = "must not have control or invisible characters";
        fields.refuse(field, "invalid_value", message);
    }
}
