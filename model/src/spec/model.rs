//! Lanes: one model on one provider.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ProviderName;

/// How long the headers of a call that streams may take when `attempt_timeout_ms` is null. A call that
/// does not stream has no such bound then: its headers come when the whole answer is ready.
pub const STREAM_ATTEMPT_TIMEOUT_MS: u64 = 60_000;
/// Default of `content_idle_timeout_secs`.
pub const CONTENT_IDLE_TIMEOUT_SECS: f64 = 600.0;
/// What is sent for `max_output_tokens` when it is null.
pub const MAX_OUTPUT_TOKENS: u64 = 4_096;
/// Default of `idle_timeout_secs`.
pub const IDLE_TIMEOUT_SECS: f64 = 120.0;

/// A lane: one model on one provider, with its own limit and budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The provider it runs on.
    pub provider: ProviderName,
    /// The provider's name of the model. Default: the entry's own name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 256))]
    pub upstream_model: Option<String>,
    /// Most requests at a time, over all pools. Null = unbounded.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::COUNT_MAX))]
    pub max_concurrent: Option<u32>,
    /// Most requests in the agent's lifetime. Null = unbounded.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::INTEGER_MAX))]
    pub max_requests: Option<u64>,
    /// Largest context in tokens. Null = unknown, never excluded on length.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::INTEGER_MAX))]
    pub context_max: Option<u64>,
    /// Milliseconds for connect and headers. Null = 60 s for a call that streams and only the pool's
    /// budget for one that does not, whose headers come with the whole answer. A number counts for
    /// both.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86400000))]
    pub attempt_timeout_ms: Option<u64>,
    /// Milliseconds to the first content. Null = only the pool's budget.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86400000))]
    pub first_content_timeout_ms: Option<u64>,
    /// Seconds in mid-stream without any byte, not even a comment or a ping, that end it.
    #[serde(default = "idle_timeout_secs")]
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub idle_timeout_secs: f64,
    /// Seconds in mid-stream with comments and pings but without content that end it.
    #[serde(default = "content_idle_timeout_secs")]
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub content_idle_timeout_secs: f64,
    /// What the model takes where its protocol's documents leave it open.
    #[serde(default)]
    pub accepts: Accepts,
    /// Sent as the bound of an answer where the protocol demands one and the caller gave none. Null =
    /// 4096.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::INTEGER_MAX))]
    pub max_output_tokens: Option<u64>,
}

/// What a model takes where its protocol's documents leave it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Accepts {
    /// The field that bounds an answer. Null = the one the caller or the translation uses.
    pub token_field: Option<TokenField>,
    /// Which of temperature and top_p it takes.
    pub samplers: Samplers,
    /// Whether it takes stop sequences.
    pub stop: bool,
    /// How it is asked to think, where its protocol has two ways.
    pub reasoning: ReasoningForm,
}

impl Default for Accepts {
    fn default() -> Self {
        Self {
            token_field: None,
            samplers: Samplers::default(),
            stop: true,
            reasoning: ReasoningForm::default(),
        }
    }
}

/// How a model is asked to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningForm {
    /// With a budget of tokens.
    #[default]
    Budget,
    /// With an effort, as newer models of Anthropic's and Gemini's are: some take no budget any more.
    Effort,
}

/// The field that bounds the tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenField {
    /// The older one.
    MaxTokens,
    /// The one that counts reasoning too.
    MaxCompletionTokens,
}

/// Which sampling parameters a model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Samplers {
    /// Every one.
    #[default]
    All,
    /// One at a time.
    One,
    /// None.
    None,
}

fn content_idle_timeout_secs() -> f64 {
    CONTENT_IDLE_TIMEOUT_SECS
}

fn idle_timeout_secs() -> f64 {
    IDLE_TIMEOUT_SECS
}
