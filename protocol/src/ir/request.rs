//! A chat request.

use std::borrow::Cow;

use super::{Json, Part, Tool, ToolChoice};

/// A chat request. Members that are absent were not said by the caller.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// Instructions and turns in the caller's order.
    pub messages: Vec<Message<'a>>,
    /// What the model may call.
    pub tools: Vec<Tool<'a>>,
    /// How it may call them.
    pub tool_choice: Option<ToolChoice<'a>>,
    /// Whether it may call several at a time.
    pub parallel_tool_calls: Option<bool>,
    /// How tokens are drawn.
    pub sampling: Sampling<'a>,
    /// Most tokens of the answer, thoughts included.
    pub max_output_tokens: Option<u64>,
    /// How many answers are wanted.
    pub choices: Option<u64>,
    /// The answer's form.
    pub format: Option<Format<'a>>,
    /// How much the model thinks, and what is shown of it.
    pub reasoning: ReasoningOptions,
    /// An event stream is wanted.
    pub streams: bool,
    /// The stream ends with an event that counts tokens, where the dialect leaves the choice.
    pub stream_usage: bool,
    /// What loses nothing but comfort.
    pub extras: Extras<'a>,
    /// Fields, as the caller writes them, whose loss would change what is asked for and that this
    /// representation has no place for: only lanes of the caller's protocol can serve the request.
    pub untranslatable: Vec<Cow<'a, str>>,
    /// Fields that are dropped and named: the representation has no place for them.
    pub unknown: Vec<Cow<'a, str>>,
}

/// Whose words a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The operator's instructions.
    System,
    /// The developer's, where a dialect knows both.
    Developer,
    /// The user's.
    User,
    /// The model's.
    Assistant,
    /// A tool's results.
    Tool,
}

/// A message: neighbours may have the same role.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Whose words it holds.
    pub role: Role,
    /// The words.
    pub parts: Vec<Part<'a>>,
    /// The participant's name.
    pub name: Option<Cow<'a, str>>,
}

impl<'a> Message<'a> {
    /// A message of a nameless participant.
    #[must_use]
    pub const fn new(role: Role, parts: Vec<Part<'a>>) -> Self {
        Self {
            role,
            parts,
            name: None,
        }
    }
}

/// How tokens are drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling<'a> {
    /// 0 up to the dialect's maximum: 2, or 1 for Anthropic and Cohere.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Only the likeliest tokens.
    pub top_k: Option<u64>,
    /// Against words that came often.
    pub frequency_penalty: Option<f64>,
    /// Against words that came at all.
    pub presence_penalty: Option<f64>,
    /// For answers that repeat.
    pub seed: Option<i64>,
    /// Where the answer stops.
    pub stop: Vec<Cow<'a, str>>,
}

/// The answer's form.
#[derive(Clone, Debug)]
pub enum Format<'a> {
    /// Text, said in so many words.
    Text,
    /// Some JSON object.
    Json,
    /// JSON of one schema.
    Schema(SchemaFormat<'a>),
}

/// JSON of one schema.
#[derive(Clone, Debug)]
pub struct SchemaFormat<'a> {
    /// The schema's name.
    pub name: Option<Cow<'a, str>>,
    /// What it is for.
    pub description: Option<Cow<'a, str>>,
    /// The schema.
    pub schema: Json<'a>,
    /// The model must keep to it exactly. Always said: readers put in their dialect's default.
    pub is_strict: bool,
}

/// How much the model thinks, and what is shown of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasoningOptions {
    /// How much.
    pub budget: Option<ReasoningBudget>,
    /// Whether the thoughts, or a summary of them, are part of the answer.
    pub shows_thoughts: Option<bool>,
}

/// How much the model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningBudget {
    /// Not at all.
    Off,
    /// As the model sees fit.
    Dynamic,
    /// In words.
    Effort(Effort),
    /// In tokens.
    Tokens(u64),
}

impl ReasoningBudget {
    /// Budgets in words: where a number ends and the next word begins.
    const LOW_TOKENS_MAX: u64 = 4_096;
    /// As [`Self::LOW_TOKENS_MAX`].
    const MEDIUM_TOKENS_MAX: u64 = 12_288;

    /// The same in words; `None` for a budget that leaves it to the model, or is none.
    #[must_use]
    pub const fn as_effort(self) -> Option<Effort> {
        match self {
            Self::Off | Self::Dynamic => None,
            Self::Effort(effort) => Some(effort),
            Self::Tokens(tokens) if tokens <= Self::LOW_TOKENS_MAX => Some(Effort::Low),
            Self::Tokens(tokens) if tokens <= Self::MEDIUM_TOKENS_MAX => Some(Effort::Medium),
            Self::Tokens(_) => Some(Effort::High),
        }
    }
}

/// How hard the model thinks, in the words of OpenAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// `minimal`.
    Minimal,
    /// `low`.
    Low,
    /// `medium`.
    Medium,
    /// `high`.
    High,
    /// `xhigh`, and `max` elsewhere.
    XHigh,
}

/// What loses nothing but comfort.
#[derive(Clone, Debug, Default)]
pub struct Extras<'a> {
    /// The end user, for the vendor's abuse checks.
    pub user: Option<Cow<'a, str>>,
    /// The caller's own notes, one JSON object.
    pub metadata: Option<Json<'a>>,
    /// What the call may cost and how soon it is served, as the caller's dialect writes it.
    pub service_tier: Option<Cow<'a, str>>,
    /// The key under which a prompt is cached.
    pub prompt_cache_key: Option<Cow<'a, str>>,
}
