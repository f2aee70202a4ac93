//! How a gateway's revisions reach its agents, as an operator writes it down, and the rules for that.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

mod read;

/// Shares of the fleet between canary and all that a plan gets when it names none: 10 %.
pub const PERCENTS_DEFAULT: &[u8] = &[10];
/// The most shares a plan may name.
pub const PERCENTS_MAX: usize = 8;
/// The most labels a canary may be chosen by.
pub const LABELS_MAX: usize = 8;
/// The longest label key or value, in bytes.
pub const LABEL_LEN_MAX: usize = 128;
/// How long a stage is watched once all its agents have applied the revision: 30 s.
pub const HOLD_SECS_DEFAULT: u64 = 30;
/// The longest such watch: one day.
pub const HOLD_SECS_MAX: u64 = 86_400;
/// How long an agent of the stage may take to answer: 60 s.
pub const ANSWER_TIMEOUT_SECS_DEFAULT: u64 = 60;
/// The shortest time to answer; a push and its answer need a round trip and a report.
pub const ANSWER_TIMEOUT_SECS_MIN: u64 = 5;
/// The longest time to answer: one hour.
pub const ANSWER_TIMEOUT_SECS_MAX: u64 = 3600;
/// How much the share of open cells may rise: by 0.2.
pub const OPEN_SHARE_RISE_MAX_DEFAULT: f64 = 0.2;
/// How much the share of exhausted requests may rise: by 0.05.
pub const EXHAUSTED_SHARE_RISE_MAX_DEFAULT: f64 = 0.05;
/// How many of the stage's agents may have problems that are new with the revision: a share of 0.05,
/// so none of a stage of fewer than twenty.
pub const NEW_PROBLEM_SHARE_MAX_DEFAULT: f64 = 0.05;
/// Requests of the stage before the share of exhausted ones is judged: 20.
pub const EXHAUSTED_REQUESTS_MIN_DEFAULT: u64 = 20;

/// How a gateway's revisions reach its agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "strategy", rename_all = "snake_case")]
pub enum RolloutPlan {
    /// Every agent at once.
    #[default]
    AllAtOnce,
    /// A few agents first, then more, then all, each stage proven before the next begins.
    Staged(StagedPlan),
}

/// A plan in stages. Fields left out get their defaults, also of plans that were stored before a
/// field was there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StagedPlan {
    /// The first stage; null begins with the first of `percents`.
    pub canary: Option<Canary>,
    /// Shares of the fleet after the canary, in percent, rising; default 10. All agents come last.
    pub percents: Vec<u8>,
    /// Seconds a stage is watched once all its agents have applied the revision. Default 30.
    pub hold_secs: u64,
    /// Seconds an agent of the stage may take to answer. Default 60.
    pub answer_timeout_secs: u64,
    /// How much the share of open cells of the stage's agents may rise over its value at the
    /// stage's start, 0 to 1. Default 0.2.
    pub open_share_rise_max: f64,
    /// How much the share of exhausted requests of the stage's agents may rise over its value
    /// before the stage, 0 to 1. Default 0.05.
    pub exhausted_share_rise_max: f64,
    /// Requests of the stage before the share of exhausted ones is judged. Default 20.
    pub exhausted_requests_min: u64,
    /// Share of the stage's agents that may report problems they did not have before the revision,
    /// such as a missing environment variable, 0 to 1. Default 0.05.
    pub new_problem_share_max: f64,
    /// Go back by itself when a stage stops. Default false.
    pub auto_rollback: bool,
}

/// Who goes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Canary {
    /// Agents that carry all these labels.
    Labels(BTreeMap<String, String>),
    /// A share of the fleet, in percent.
    Percent(u8),
}

/// One step of a rollout: whom it reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage<'a> {
    /// Agents that carry all these labels.
    Labels(&'a BTreeMap<String, String>),
    /// A share of the fleet, in percent.
    Percent(u8),
    /// Everyone.
    All,
}

impl Default for StagedPlan {
    fn default() -> Self {
        Self {
            canary: None,
            percents: PERCENTS_DEFAULT.to_vec(),
            hold_secs: HOLD_SECS_DEFAULT,
            answer_timeout_secs: ANSWER_TIMEOUT_SECS_DEFAULT,
            open_share_rise_max: OPEN_SHARE_RISE_MAX_DEFAULT,
            exhausted_share_rise_max: EXHAUSTED_SHARE_RISE_MAX_DEFAULT,
            exhausted_requests_min: EXHAUSTED_REQUESTS_MIN_DEFAULT,
            new_problem_share_max: NEW_PROBLEM_SHARE_MAX_DEFAULT,
            auto_rollback: false,
        }
    }
}

impl RolloutPlan {
    /// Reads a plan as it was sent. Unknown fields are refused.
    ///
    /// # Errors
    ///
    /// Every problem at once, each with its pointer.
    pub fn check(value: &serde_json::Value) -> Result<Self, Vec<Problem>> {
        read::plan(value)
    }

    /// The stages in order; the last one is always everyone.
    pub fn stages(&self) -> Vec<Stage<'_>> {
        let Self::Staged(plan) = self else {
            return vec![Stage::All];
        };
        let canary = plan.canary.as_ref().map(|canary| match canary {
            Canary::Labels(labels) => Stage::Labels(labels),
            Canary::Percent(percent) => Stage::Percent(*percent),
        });
        canary
            .into_iter()
            .chain(plan.percents.iter().map(|percent| Stage::Percent(*percent)))
            .chain([Stage::All])
            .collect()
    }

    /// True when a revision goes to everyone at once.
    pub fn is_all_at_once(&self) -> bool {
        matches!(self, Self::AllAtOnce)
    }

    /// The numbers a stage is judged by; those of a plan that names nothing for all at once.
    pub(super) fn rules(&self) -> StagedPlan {
        match self {
            Self::Staged(plan) => plan.clone(),
            Self::AllAtOnce => StagedPlan {
                hold_secs: 0,
                ..StagedPlan::default()
            },
        }
    }
}

impl fmt::Display for Stage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Labels(labels) => {
                for (number, (key, value)) in labels.iter().enumerate() {
                    let comma = if number > 0 { "," } else { "" };
                    write!(f, "{comma}{key}={value}")?;
                }
                Ok(())
            }
            Self::Percent(percent) => write!(f, "{percent} %"),
            Self::All => f.write_str("all"),
        }
    }
}
