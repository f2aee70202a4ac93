//! A whole answer.

use std::borrow::Cow;

use super::Part;

/// A whole answer: one turn of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer<'a> {
    /// The vendor's id of it. Empty where it gave none, until one is made.
    pub id: Cow<'a, str>,
    /// The model that answered, as the vendor names it.
    pub model: Cow<'a, str>,
    /// What it says, in order.
    pub parts: Vec<Part<'a>>,
    /// Why it ended.
    pub finish: Finish<'a>,
    /// What it cost.
    pub usage: Option<Usage>,
}

/// Why an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Finish<'a> {
    /// The model was done.
    #[default]
    Stop,
    /// A stop sequence came; which one, where it is known.
    StopSequence(Option<Cow<'a, str>>),
    /// The limit on tokens, the request's or the model's.
    Length,
    /// The model waits for results of tools.
    ToolCalls,
    /// A filter of the vendor's stopped it.
    Filter,
    /// The model declined.
    Refusal,
    /// A reason that only the lane's dialect has. It passes as the nearest.
    Other(Cow<'a, str>),
}

impl Finish<'_> {
    /// The same without what it borrows.
    #[must_use]
    pub fn into_owned(self) -> Finish<'static> {
        match self {
            Self::Stop => Finish::Stop,
            Self::StopSequence(which) => {
                Finish::StopSequence(which.map(|which| Cow::Owned(which.into_owned())))
            }
            Self::Length => Finish::Length,
            Self::ToolCalls => Finish::ToolCalls,
            Self::Filter => Finish::Filter,
            Self::Refusal => Finish::Refusal,
            Self::Other(reason) => Finish::Other(Cow::Owned(reason.into_owned())),
        }
    }
}

/// Tokens of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, cached parts included. (Anthropic counts these apart.)
    pub input: u64,
    /// The whole answer, thoughts included. (Gemini counts these apart.)
    pub output: u64,
    /// Of the prompt: read from the cache.
    pub cache_read: Option<u64>,
    /// Of the prompt: written to the cache.
    pub cache_write: Option<u64>,
    /// Of the answer: thoughts.
    pub reasoning: Option<u64>,
}
