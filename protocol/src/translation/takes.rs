//! The table behind every translation: what a request can hold, and what the lanes of each protocol
//! do with it. `docs/translation.md` is made from it.

/// Something that a request can hold and that not every protocol has a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// `temperature` above 1.
    HighTemperature,
    /// `top_k`.
    TopK,
    /// `frequency_penalty`.
    FrequencyPenalty,
    /// `presence_penalty`.
    PresencePenalty,
    /// `seed`.
    Seed,
    /// Stop sequences.
    Stop,
    /// More than one answer.
    Choices,
    /// One tool call at a time only.
    NoParallelCalls,
    /// Tools that the model must not call.
    ToolChoiceNone,
    /// A tool, whichever, that it must call.
    ToolChoiceRequired,
    /// The one tool that it must call.
    ToolChoiceOne,
    /// Arguments held to their schema.
    StrictTools,
    /// A tool's result that is a failure.
    ToolErrors,
    /// Pictures within a tool's result.
    ToolResultImages,
    /// Any JSON object as the answer.
    JsonFormat,
    /// JSON of one schema as the answer.
    SchemaFormat,
    /// How much the model thinks.
    ReasoningBudget,
    /// Pictures.
    Images,
    /// Pictures by their address.
    ImageUrls,
    /// `detail` of pictures.
    ImageDetail,
    /// Documents.
    Documents,
    /// Documents by their address.
    DocumentUrls,
    /// Sound.
    Audio,
    /// A last turn of the model's that it goes on with.
    Prefill,
    /// Names of participants.
    ParticipantNames,
    /// Marks of the prompt cache.
    CacheMarks,
    /// The end user.
    User,
    /// The caller's notes.
    Metadata,
    /// `service_tier`.
    ServiceTier,
    /// `prompt_cache_key`.
    PromptCacheKey,
}

/// What the lanes of a protocol do with a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Carried over.
    Carried,
    /// Brought into the range that the protocol has, and named.
    Cut,
    /// Left out, and named.
    Dropped,
    /// It cannot be said there, and leaving it out would change what is asked for: the lane is
    /// skipped.
    Refused,
}

impl Feature {
    /// Every feature, in the order of the documentation.
    pub const ALL: &[Self] = &[
        Self::HighTemperature,
        Self::TopK,
        Self::FrequencyPenalty,
        Self::PresencePenalty,
        Self::Seed,
        Self::Stop,
        Self::Choices,
        Self::NoParallelCalls,
        Self::ToolChoiceNone,
        Self::ToolChoiceRequired,
        Self::ToolChoiceOne,
        Self::StrictTools,
        Self::ToolErrors,
        Self::ToolResultImages,
        Self::JsonFormat,
        Self::SchemaFormat,
        Self::ReasoningBudget,
        Self::Images,
        Self::ImageUrls,
        Self::ImageDetail,
        Self::Documents,
        Self::DocumentUrls,
        Self::Audio,
        Self::Prefill,
        Self::ParticipantNames,
        Self::CacheMarks,
        Self::User,
        Self::Metadata,
        Self::ServiceTier,
        Self::PromptCacheKey,
    ];

    /// Its name in `x-lanekeeper-dropped`, in refusals and in the documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HighTemperature => "temperature",
            Self::TopK => "top_k",
            Self::FrequencyPenalty => "frequency_penalty",
            Self::PresencePenalty => "presence_penalty",
            Self::Seed => "seed",
            Self::Stop => "stop",
            Self::Choices => "n",
            Self::NoParallelCalls => "parallel_tool_calls",
            Self::ToolChoiceNone | Self::ToolChoiceRequired | Self::ToolChoiceOne => "tool_choice",
            Self::StrictTools => "tools.strict",
            Self::ToolErrors => "tool_result.is_error",
            Self::ToolResultImages => "tool_result.image",
            Self::JsonFormat | Self::SchemaFormat => "response_format",
            Self::ReasoningBudget => "reasoning",
            Self::Images => "image",
            Self::ImageUrls => "image_url",
            Self::ImageDetail => "image.detail",
            Self::Documents => "document",
            Self::DocumentUrls => "document_url",
            Self::Audio => "audio",
            Self::Prefill => "prefill",
            Self::ParticipantNames => "name",
            Self::CacheMarks => "cache_control",
            Self::User => "user",
            Self::Metadata => "metadata",
            Self::ServiceTier => "service_tier",
            Self::PromptCacheKey => "prompt_cache_key",
        }
    }
}
