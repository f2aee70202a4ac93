//! The breaker block. Every field is optional: what is absent comes from the preset, whose numbers
//! live with the breaker itself.

use lanekeeper_breaker::limits;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A named set of breaker numbers to start from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Error rate over a sliding window, doubling cooldown.
    #[default]
    Default,
    /// Another name of `default`.
    Busbar,
    /// Failures in a row, fixed cooldown, fails open.
    Rolter,
    /// Failures per tumbling minute, unlimited probes.
    Myra,
    /// Failures per ten tumbling seconds, three probes.
    Aibridge,
}

/// Whether a breaker refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerMode {
    /// It refuses while open.
    Enforce,
    /// It counts what it would do and refuses nothing.
    Observe,
    /// It does nothing.
    Off,
}

/// How far a hard-down reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HardDownScope {
    /// The cell it was seen in.
    Cell,
    /// All cells of the lane.
    Lane,
}

/// What a stream that breaks after its first content counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamDeath {
    /// A failure.
    Failure,
    /// Nothing.
    Neutral,
}

/// When a probe that streams has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClosesAt {
    /// At its first content.
    Content,
    /// At its good end.
    End,
}

/// Which rule opens a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TripMode {
    /// A share of failures within the window.
    ErrorRate,
    /// Failures in a row.
    Consecutive,
    /// A number of failures within the window.
    Count,
    /// Whichever of the filled rules fires first.
    Any,
}

/// How the window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// With every moment.
    Sliding,
    /// In whole steps.
    Tumbling,
}

/// When a breaker opens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TripSpec {
    /// Which rule. Default preset: error_rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<TripMode>,
    /// Length of the window in seconds. Default preset: 30.
    #[schemars(range(min = limits::WINDOW_MIN.as_secs_f64(), max = limits::WINDOW_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_secs: Option<f64>,
    /// How the window moves. Default preset: sliding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowKind>,
    /// Share of failures that opens, over 0 and at most 1. Default preset: 0.5.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Fewest outcomes in the window before the share counts. Default preset: 5.
    #[schemars(range(min = 1, max = limits::COUNT_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_requests: Option<u32>,
    /// Failures in a row that open. Default preset: 3.
    #[schemars(range(min = 1, max = limits::COUNT_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_n: Option<u32>,
    /// Failures within the window that open. Default preset: 5.
    #[schemars(range(min = 1, max = limits::COUNT_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_count: Option<u32>,
    /// Seconds to first content from which an answer counts as a failure. Null = never.
    #[schemars(range(min = limits::SLOW_CALL_MIN.as_secs_f64(), max = limits::SLOW_CALL_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_call_secs: Option<f64>,
}

/// How a breaker closes again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HalfOpenSpec {
    /// Probes at a time; 0 admits every request. Default preset: 1.
    #[schemars(range(min = 0, max = limits::PROBES_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_probes: Option<u32>,
    /// Whether a probe that streams closes at its first content or at its good end. Default preset:
    /// content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closes_at: Option<ClosesAt>,
    /// Successes that close. Default preset: 1.
    #[schemars(range(min = 1, max = limits::SUCCESSES_TO_CLOSE_MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successes_to_close: Option<u32>,
}

/// A breaker's policy: a preset and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerSpec {
    /// The preset that fields absent here are taken from.
    pub preset: Preset,
    /// Whether it refuses. Default preset: enforce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<BreakerMode>,
    /// First cooldown in seconds. Default preset: 15.
    #[schemars(range(min = limits::COOLDOWN_MIN.as_secs_f64(), max = limits::COOLDOWN_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_cooldown_secs: Option<f64>,
    /// Longest cooldown in seconds, not under the base. Default preset: 120.
    #[schemars(range(min = limits::COOLDOWN_MIN.as_secs_f64(), max = limits::COOLDOWN_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cooldown_secs: Option<f64>,
    /// Random share added to or taken from a cooldown, 0 to 1. Default preset: 0.1.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ratio: Option<f64>,
    /// Least width of that band in seconds. Default preset: 1.
    #[schemars(range(min = 0.0, max = limits::JITTER_FLOOR_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_floor_secs: Option<f64>,
    /// Cooldown after a refused credential or an empty account, in seconds. Default preset: 1800.
    #[schemars(range(min = limits::COOLDOWN_MIN.as_secs_f64(), max = limits::COOLDOWN_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_down_cooldown_secs: Option<f64>,
    /// How far a hard-down reaches. Default preset: cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_down_scope: Option<HardDownScope>,
    /// Seconds a lane is avoided after one failure; 0 = not at all. Default preset: 5.
    #[schemars(range(min = 0.0, max = limits::PARK_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub park_secs: Option<f64>,
    /// Exactly these statuses are failures (transport errors always are). Null = the full
    /// classification. Absent = the preset's.
    #[serde(
        deserialize_with = "null_counts_as_given",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<Vec<u16>>", inner(range(min = limits::STATUS_MIN, max = limits::STATUS_MAX)))]
    pub failure_status_codes: Option<Option<Vec<u16>>>,
    /// A cell for each endpoint. Default preset: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_endpoint: Option<bool>,
    /// One request failing alike on several lanes counts once. Default preset: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poison_guard: Option<bool>,
    /// What a broken stream counts as. Default preset: failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_death: Option<StreamDeath>,
    /// With `trip.mode: count`, a success empties the counter. Default preset: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_clears_count: Option<bool>,
    /// When it opens.
    pub trip: TripSpec,
    /// How it closes.
    pub half_open: HalfOpenSpec,
    /// Seconds over which a closed lane's weight grows from 10 %. Default preset: 0.
    #[schemars(range(min = 0.0, max = limits::RAMP_MAX.as_secs_f64()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp_secs: Option<f64>,
}

/// Distinguishes `null` (the full classification) from an absent field (the preset's list).
fn null_counts_as_given<'de, D>(deserializer: D) -> Result<Option<Option<Vec<u16>>>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::<Vec<u16>>::deserialize(deserializer).map(Some)
}
