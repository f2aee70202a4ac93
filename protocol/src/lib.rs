//! What the agent knows about the vendors' wire formats, and nothing about sockets or breakers.
//!
//! Each file answers one question of the request path: where the model name stands in a body
//! (`locate`), how to send the same body with another name (`rewrite`), which path, query and
//! headers go upstream (`endpoint`, `query`, `headers`, `credentials`), what an answer proves about
//! a lane (`classify`, `answer`, `frames`, `retry_after`), what it says about itself (`usage`) and how the agent's own errors look to the
//! caller (`error_body`).
//! Every function is pure: time and rules come in as arguments.

pub mod answer;
pub mod classify;
pub mod coding;
pub mod credentials;
pub mod endpoint;
pub mod error_body;
pub mod error_signal;
pub mod fields;
pub mod frames;
mod glance;
pub mod headers;
pub mod locate;
pub mod query;
pub mod retry_after;
pub mod rewrite;
pub mod sse;
pub mod usage;

pub use lanekeeper_model::gateway::Protocol;

/// What one caller speaks: a protocol and the operation within it, known from the request's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `POST /v1/chat/completions`.
    OpenAiChat,
    /// `POST /v1/completions`.
    OpenAiCompletions,
    /// `POST /v1/embeddings`.
    OpenAiEmbeddings,
    /// `GET /v1/models`.
    OpenAiModels,
    /// `GET /v1/models` by a caller that speaks Anthropic's protocol.
    AnthropicModels,
    /// `GET /v1beta/models`.
    GeminiModels,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/messages`.
    Anthropic,
    /// `POST /v1/messages/count_tokens`.
    AnthropicCountTokens,
    /// `POST /v1beta/models/{model}:generateContent`.
    GeminiGenerate,
    /// `POST /v1beta/models/{model}:streamGenerateContent`.
    GeminiStream,
    /// `POST /v1beta/models/{model}:countTokens`.
    GeminiCountTokens,
    /// `POST /v1beta/models/{model}:embedContent`.
    GeminiEmbed,
    /// `POST /v1beta/models/{model}:batchEmbedContents`.
    GeminiEmbedBatch,
    /// `POST /v2/chat`.
    Cohere,
}

impl Dialect {
    /// The protocol a lane must speak to serve this dialect without translation.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::OpenAiChat
            | Self::OpenAiCompletions
            | Self::OpenAiEmbeddings
            | Self::OpenAiModels => Protocol::Openai,
            Self::Responses => Protocol::Responses,
            Self::Anthropic | Self::AnthropicCountTokens | Self::AnthropicModels => {
                Protocol::Anthropic
            }
            Self::GeminiGenerate
            | Self::GeminiStream
            | Self::GeminiCountTokens
            | Self::GeminiEmbed
            | Self::GeminiEmbedBatch
            | Self::GeminiModels => Protocol::Gemini,
            Self::Cohere => Protocol::Cohere,
        }
    }

    /// The operation's name, used where a breaker keeps a cell per endpoint.
    #[must_use]
    pub const fn endpoint_name(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::GeminiGenerate | Self::GeminiStream | Self::Cohere => "chat",
            Self::OpenAiCompletions => "completions",
            Self::OpenAiEmbeddings | Self::GeminiEmbed | Self::GeminiEmbedBatch => "embeddings",
            Self::OpenAiModels | Self::AnthropicModels | Self::GeminiModels => "models",
            Self::Responses => "responses",
            Self::Anthropic => "messages",
            Self::AnthropicCountTokens | Self::GeminiCountTokens => "count_tokens",
        }
    }

    /// True when the answer may be an event stream.
    #[must_use]
    pub const fn can_stream(self) -> bool {
        matches!(
            self,
            Self::OpenAiChat
                | Self::OpenAiCompletions
                | Self::Responses
                | Self::Anthropic
                | Self::GeminiStream
                | Self::Cohere
        )
    }

    /// True when the caller asks which names it may use, which the agent answers itself.
    #[must_use]
    pub const fn lists_models(self) -> bool {
        matches!(
            self,
            Self::OpenAiModels | Self::AnthropicModels | Self::GeminiModels
        )
    }
}
