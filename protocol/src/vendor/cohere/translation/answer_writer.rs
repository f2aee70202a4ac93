//! Whole answers, written for a caller of Cohere's.

use serde::Serialize;

use crate::ir::{Answer, Finish, PartBody, Usage};
use crate::translation::writing;

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    finish_reason: &'static str,
    message: Message<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Counts>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    content: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str },
}

/// A call, whole or as it begins.
#[derive(Serialize)]
pub(super) struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    pub(super) const fn new(id: &'a str, name: &'a str, arguments: &'a str) -> Self {
        Self {
            id,
            r#type: "function",
            function: Function { name, arguments },
        }
    }
}

/// What an answer cost. What is billed is the vendor's matter: the same is said of both.
#[derive(Serialize)]
pub(super) struct Counts {
    billed_units: Tokens,
    tokens: Tokens,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Serialize)]
struct Tokens {
    input_tokens: u64,
    output_tokens: u64,
}

impl From<Usage> for Counts {
    fn from(usage: Usage) -> Self {
        let tokens = Tokens {
            input_tokens: usage.input,
            output_tokens: usage.output,
        };
        Self {
            billed_units: tokens,
            tokens,
            cached_tokens: usage.cache_read,
        }
    }
}

pub(super) fn write(answer: &Answer<'_>) -> Vec<u8> {
    let mut content = Vec::new();
    let mut tool_calls = Vec::new();
    for part in &answer.parts {
        match &part.body {
            PartBody::Text(text) | PartBody::Refusal(text) => content.push(Content::Text { text }),
            PartBody::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                let thinking = reasoning.text.as_ref();
                content.push(Content::Thinking { thinking });
            }
            PartBody::ToolCall(call) => {
                let arguments = call.arguments.as_text();
                tool_calls.push(Call::new(&call.id, &call.name, arguments));
            }
            _ => {}
        }
    }
    if content.is_empty() && tool_calls.is_empty() {
        content.push(Content::Text { text: "" });
    }
    writing::document(&Body {
        id: &answer.id,
        finish_reason: reason(&answer.finish),
        message: Message {
            role: "assistant",
            content,
            tool_calls,
        },
        usage: answer.usage.map(Counts::from),
    })
}

/// The nearest that the dialect has. It has none for filters and refusals that is not a failure.
pub(super) const fn reason(finish: &Finish<'_>) -> &'static str {
    match finish {
        Finish::StopSequence(_) => "STOP_SEQUENCE",
        Finish::Length => "MAX_TOKENS",
        Finish::ToolCalls => "TOOL_CALL",
        Finish::Stop | Finish::Filter | Finish::Refusal | Finish::Other(_) => "COMPLETE",
    }
}
