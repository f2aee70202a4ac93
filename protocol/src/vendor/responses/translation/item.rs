//! Items of an answer, as callers of Responses see them.

use std::borrow::Cow;

use serde::Serialize;

use crate::dialect::Protocol;
use crate::ir::{Proof, Usage};
use crate::translation::ids;

/// How ids begin.
pub(super) const RESPONSE_PREFIX: &str = "resp_";
const MESSAGE_PREFIX: &str = "msg_";
const REASONING_PREFIX: &str = "rs_";
const FUNCTION_PREFIX: &str = "fc_";
const CUSTOM_PREFIX: &str = "ctc_";

/// Thoughts that OpenAI has encrypted.
pub(super) fn own_proof(text: Cow<'_, str>) -> Proof<'_> {
    Proof {
        protocol: Protocol::Responses,
        text,
        is_redacted: false,
    }
}

/// What an item says: a part of the answer.
#[derive(Debug)]
pub(super) enum Said {
    Text(String),
    Refusal(String),
    Reasoning {
        text: String,
        proof: Option<String>,
    },
    Function {
        call_id: String,
        name: String,
        arguments: String,
    },
    Custom {
        call_id: String,
        name: String,
        input: String,
    },
}

/// A proof in the opaque member of a reasoning item.
pub(super) fn encrypted(proof: &Proof<'_>) -> String {
    if proof.protocol == Protocol::Responses {
        proof.text.clone().into_owned()
    } else {
        ids::seal(proof)
    }
}

impl Said {
    /// The id of the item that says it: one for each place in the answer.
    pub(super) fn id(&self, unique: &str, index: usize) -> String {
        let prefix = match self {
            Self::Text(_) | Self::Refusal(_) => MESSAGE_PREFIX,
            Self::Reasoning { .. } => REASONING_PREFIX,
            Self::Function { .. } => FUNCTION_PREFIX,
            Self::Custom { .. } => CUSTOM_PREFIX,
        };
        format!("{prefix}{unique}_{index}")
    }

    /// The item, as it is now.
    pub(super) fn item<'a>(&'a self, id: &'a str, status: Status) -> Item<'a> {
        match self {
            Self::Text(_) | Self::Refusal(_) => Item::Message {
                id,
                status,
                role: "assistant",
                content: { self.content() }.into_iter().collect(),
            },
            Self::Reasoning { text, proof } => Item::Reasoning {
                id,
                summary: { !text.is_empty() }
                    .then_some(Content::SummaryText { text })
                    .into_iter()
                    .collect(),
                encrypted_content: proof.as_deref(),
            },
            Self::Function {
                call_id,
                name,
                arguments,
            } => Item::FunctionCall {
                id,
                call_id,
                name,
                arguments,
                status,
            },
            Self::Custom {
                call_id,
                name,
                input,
            } => Item::CustomToolCall {
                id,
                call_id,
                name,
                input,
                status,
            },
        }
    }

    /// The one content part of a message.
    pub(super) fn content(&self) -> Option<Content<'_>> {
        match self {
            Self::Text(text) => Some(Content::OutputText {
                text,
                annotations: [],
                logprobs: [],
            }),
            Self::Refusal(refusal) => Some(Content::Refusal { refusal }),
            Self::Reasoning { .. } | Self::Function { .. } | Self::Custom { .. } => None,
        }
    }

    /// What more of its text is added to.
    pub(super) const fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Text(text)
            | Self::Refusal(text)
            | Self::Reasoning { text, .. }
            | Self::Function {
                arguments: text, ..
            }
            | Self::Custom { input: text, .. } => text,
        }
    }
}

/// How far an item or an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Message {
        id: &'a str,
        status: Status,
        role: &'static str,
        content: Vec<Content<'a>>,
    },
    Reasoning {
        id: &'a str,
        summary: Vec<Content<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<&'a str>,
    },
    FunctionCall {
        id: &'a str,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
        status: Status,
    },
    CustomToolCall {
        id: &'a str,
        call_id: &'a str,
        name: &'a str,
        input: &'a str,
        status: Status,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    OutputText {
        text: &'a str,
        annotations: [(); 0],
        logprobs: [(); 0],
    },
    Refusal {
        refusal: &'a str,
    },
    SummaryText {
        text: &'a str,
    },
}

/// What an answer cost.
#[derive(Serialize)]
pub(super) struct Counts {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for Counts {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cache_read.unwrap_or_default(),
                cache_write_tokens: usage.cache_write.unwrap_or_default(),
            },
            output_tokens: usage.output,
            output_tokens_details: OutputDetails {
                reasoning_tokens: usage.reasoning.unwrap_or_default(),
            },
            total_tokens: usage.input.saturating_add(usage.output),
        }
    }
}
