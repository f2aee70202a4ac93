//! Whole chat answers, written for a caller.

use std::borrow::Cow;

use serde::Serialize;

use super::wording::prefixed;
use crate::ir::{Answer, Finish, PartBody, ToolCall, Usage};
use crate::translation::{CallerFacts, custom, writing};

/// How ids of answers begin.
pub(super) const ID_PREFIX: &str = "chatcmpl-";

#[derive(Serialize)]
struct Body<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Counts>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u8,
    message: Message<'a>,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<Cow<'a, str>>,
    refusal: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

/// A call, whole or as it begins.
#[derive(Serialize)]
pub(super) struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<usize>,
    id: &'a str,
    #[serde(flatten)]
    called: Called<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Called<'a> {
    Function { function: Function<'a> },
    Custom { custom: Custom<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Custom<'a> {
    name: &'a str,
    input: Cow<'a, str>,
}

impl<'a> Call<'a> {
    /// A call of a function, or of a tool that takes free text.
    pub(super) fn new(id: &'a str, name: &'a str, arguments: &'a str, is_custom: bool) -> Self {
        let called = if is_custom {
            let input = custom::input(arguments);
            Called::Custom {
                custom: Custom { name, input },
            }
        } else {
            Called::Function {
                function: Function { name, arguments },
            }
        };
        Self {
            index: None,
            id,
            called,
        }
    }
}

/// What an answer cost.
#[derive(Serialize)]
pub(super) struct Counts {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for Counts {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.input.saturating_add(usage.output),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cache_read.unwrap_or_default(),
                cache_write_tokens: usage.cache_write,
            },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning.unwrap_or_default(),
            },
        }
    }
}

pub(super) fn write(answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8> {
    let (mut content, mut refusal, mut thoughts) = (None, None, None);
    let mut tool_calls = Vec::new();
    for part in &answer.parts {
        match &part.body {
            PartBody::Text(text) => add(&mut content, text),
            PartBody::Refusal(text) => add(&mut refusal, text),
            PartBody::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                add(&mut thoughts, &reasoning.text);
            }
            PartBody::ToolCall(call) => tool_calls.push(written(call, caller)),
            _ => {}
        }
    }
    let finish_reason = reason(&answer.finish, refusal.is_some());
    if tool_calls.is_empty() && refusal.is_none() {
        content.get_or_insert(Cow::Borrowed(""));
    }
    writing::document(&Body {
        id: prefixed(ID_PREFIX, &answer.id),
        object: "chat.completion",
        created: caller.created,
        model: model(&answer.model, caller),
        choices: [Choice {
            index: 0,
            message: Message {
                role: "assistant",
                content,
                refusal,
                reasoning_content: thoughts,
                tool_calls,
            },
            logprobs: None,
            finish_reason,
        }],
        usage: answer.usage.map(Counts::from),
    })
}

fn written<'a>(call: &'a ToolCall<'_>, caller: &CallerFacts) -> Call<'a> {
    let is_custom = caller.custom_tools.iter().any(|name| *name == call.name);
    Call::new(&call.id, &call.name, call.arguments.as_text(), is_custom)
}

fn add<'a>(to: &mut Option<Cow<'a, str>>, text: &'a str) {
    match to {
        None => *to = Some(Cow::Borrowed(text)),
        Some(own) => own.to_mut().push_str(text),
    }
}

/// The model that answered, or the one that was asked for.
pub(super) fn model<'a>(answered: &'a str, caller: &'a CallerFacts) -> &'a str {
    if answered.is_empty() {
        &caller.model
    } else {
        answered
    }
}

/// The nearest that the dialect has: a refusal in words is an ordinary end there.
pub(super) const fn reason(finish: &Finish<'_>, has_refusal: bool) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::Refusal if has_refusal => "stop",
        Finish::Filter | Finish::Refusal => "content_filter",
        Finish::Stop | Finish::StopSequence(_) | Finish::Other(_) => "stop",
    }
}
