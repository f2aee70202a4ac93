//! Cohere's chat requests, written for a lane. It refuses members that it does not know, and null.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::dialect::Protocol;
use crate::ir::{
    Effort, Format, Media, MediaSource, Message as Said, Part, PartBody, ReasoningBudget, Request,
    Role, Tool, ToolChoice, ToolResult,
};
use crate::translation::{LaneFacts, Losses, Refusal, media, writing};

/// Most stop sequences that it takes (Cohere's API reference).
const MAX_STOPS: usize = 5;
/// Largest `k` (Cohere's API reference).
const MAX_TOP_K: u64 = 500;
/// Tokens of thoughts for an effort that is said in words.
const LOW_EFFORT_TOKENS: u64 = 1_024;
const MEDIUM_EFFORT_TOKENS: u64 = 4_096;
const HIGH_EFFORT_TOKENS: u64 = 16_384;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict_tools: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [Cow<'a, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
}

#[derive(Serialize)]
struct Thinking {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_budget: Option<u64>,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ToolEntry<'a> {
    r#type: &'static str,
    function: FunctionEntry<'a>,
}

#[derive(Serialize)]
struct FunctionEntry<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: Parameters<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Parameters<'a> {
    Schema(&'a RawValue),
    None {
        r#type: &'static str,
        properties: Nothing,
    },
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_plan: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl<'a> Message<'a> {
    const fn new(role: &'static str, content: Option<Content<'a>>) -> Self {
        Self {
            role,
            content,
            tool_plan: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str },
    ImageUrl { image_url: Image<'a> },
}

#[derive(Serialize)]
struct Image<'a> {
    url: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: &'a str,
}

pub(super) fn write(
    request: &Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Vec<u8>, Refusal> {
    let sampling = &request.sampling;
    if sampling.stop.len() > MAX_STOPS {
        let reason = format!("holds more than the {MAX_STOPS} sequences that the lane takes");
        return Err(Refusal::new("stop", reason));
    }
    let (tools, tool_choice) = tools(request);
    let response_format = { request.format.as_ref() }.and_then(format);
    if !tools.is_empty() && response_format.is_some() {
        let reason = "cannot be asked for together with tools there";
        return Err(Refusal::new("response_format", reason));
    }
    let body = Body {
        model: lane.model,
        messages: messages(request)?,
        strict_tools: strict(request, losses),
        tools,
        tool_choice,
        response_format,
        max_tokens: request.max_output_tokens,
        stop_sequences: &sampling.stop,
        temperature: sampling.temperature,
        seed: sampling.seed,
        frequency_penalty: penalty(sampling.frequency_penalty, "frequency_penalty", losses),
        presence_penalty: penalty(sampling.presence_penalty, "presence_penalty", losses),
        k: sampling.top_k.map(|count| {
            if count > MAX_TOP_K {
                losses.name("top_k");
            }
            count.min(MAX_TOP_K)
        }),
        p: sampling.top_p,
        thinking: thinking(request),
        stream: request.streams.then_some(true),
    };
    Ok(writing::document(&body))
}

/// Penalties go from 0 to 1.
fn penalty(given: Option<f64>, name: &'static str, losses: &mut Losses) -> Option<f64> {
    given.map(|given| {
        if !(0.0..=1.0).contains(&given) {
            losses.name(name);
        }
        given.clamp(0.0, 1.0)
    })
}

/// All tools are strict, or none.
fn strict(request: &Request<'_>, losses: &mut Losses) -> Option<bool> {
    let is_strict =
        |tool: &Tool<'_>| matches!(tool, Tool::Function(function) if function.is_strict);
    if request.tools.is_empty() || !request.tools.iter().any(is_strict) {
        return None;
    }
    if request.tools.iter().all(is_strict) {
        return Some(true);
    }
    losses.name("tools.strict");
    None
}

/// The tools and how they may be used. Where one must be called, it is the only one.
fn tools<'a>(request: &'a Request<'_>) -> (Vec<ToolEntry<'a>>, Option<&'static str>) {
    let only = match &request.tool_choice {
        Some(ToolChoice::One(name)) => Some(name),
        _ => None,
    };
    let tools: Vec<_> = { request.tools.iter() }
        .filter_map(|tool| match tool {
            Tool::Function(function) => Some(function),
            _ => None,
        })
        .filter(|function| only.is_none_or(|only| function.name == *only))
        .map(|function| ToolEntry {
            r#type: "function",
            function: FunctionEntry {
                name: &function.name,
                description: function.description.as_deref(),
                parameters: match function.parameters.as_deref() {
                    Some(schema) => Parameters::Schema(schema),
                    None => Parameters::None {
                        r#type: "object",
                        properties: Nothing {},
                    },
                },
            },
        })
        .collect();
    let choice = match &request.tool_choice {
        _ if tools.is_empty() => None,
        None | Some(ToolChoice::Auto) => None,
        Some(ToolChoice::None) => Some("NONE"),
        Some(ToolChoice::Required | ToolChoice::One(_)) => Some("REQUIRED"),
    };
    (tools, choice)
}

fn format<'a>(format: &'a Format<'_>) -> Option<ResponseFormat<'a>> {
    let json_schema = match format {
        Format::Text => return None,
        Format::Json => None,
        Format::Schema(schema) => Some(schema.schema.as_ref()),
    };
    Some(ResponseFormat {
        r#type: "json_object",
        json_schema,
    })
}

fn thinking(request: &Request<'_>) -> Option<Thinking> {
    let tokens = match request.reasoning.budget? {
        ReasoningBudget::Off => {
            return Some(Thinking {
                r#type: "disabled",
                token_budget: None,
            });
        }
        ReasoningBudget::Dynamic => None,
        ReasoningBudget::Effort(Effort::Minimal | Effort::Low) => Some(LOW_EFFORT_TOKENS),
        ReasoningBudget::Effort(Effort::Medium) => Some(MEDIUM_EFFORT_TOKENS),
        ReasoningBudget::Effort(Effort::High | Effort::XHigh) => Some(HIGH_EFFORT_TOKENS),
        ReasoningBudget::Tokens(tokens) => Some(tokens),
    };
    // Room is left for the answer.
    let most = { request.max_output_tokens }.map_or(u64::MAX, |most| (most / 2).max(1));
    Some(Thinking {
        r#type: "enabled",
        token_budget: tokens.map(|tokens| tokens.clamp(1, most)),
    })
}

fn messages<'a>(request: &'a Request<'_>) -> Result<Vec<Message<'a>>, Refusal> {
    let mut written = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        match message.role {
            Role::System | Role::Developer => {
                let content = content(message.parts.iter())?;
                written.extend(content.map(|content| Message::new("system", Some(content))));
            }
            Role::User | Role::Tool => user(message, &mut written)?,
            Role::Assistant => assistant(message, &mut written),
        }
    }
    Ok(written)
}

fn user<'a>(message: &'a Said<'_>, written: &mut Vec<Message<'a>>) -> Result<(), Refusal> {
    // Results come first, as they answer the turn before.
    for part in &message.parts {
        if let PartBody::ToolResult(result) = &part.body {
            written.push(result_message(result)?);
        }
    }
    let said =
        { message.parts.iter() }.filter(|part| !matches!(part.body, PartBody::ToolResult(_)));
    let content = content(said)?;
    written.extend(content.map(|content| Message::new("user", Some(content))));
    Ok(())
}

fn result_message<'a>(result: &'a ToolResult<'_>) -> Result<Message<'a>, Refusal> {
    let content = content(result.content.iter())?.unwrap_or(Content::Text(""));
    let mut message = Message::new("tool", Some(content));
    message.tool_call_id = Some(&result.call_id);
    Ok(message)
}

/// A turn of the model's; turns that follow each other are one, as calls and plan belong together.
fn assistant<'a>(message: &'a Said<'_>, written: &mut Vec<Message<'a>>) {
    let mut pieces = Vec::new();
    let mut calls = Vec::new();
    for part in &message.parts {
        match &part.body {
            PartBody::Text(text) | PartBody::Refusal(text) => pieces.push(Piece::Text { text }),
            PartBody::Reasoning(reasoning) => {
                let is_own =
                    { reasoning.proof.as_ref() }.is_some_and(|it| it.protocol == Protocol::Cohere);
                if is_own && !reasoning.text.is_empty() {
                    let thinking = reasoning.text.as_ref();
                    pieces.push(Piece::Thinking { thinking });
                }
            }
            PartBody::ToolCall(call) => calls.push(Call {
                id: &call.id,
                r#type: "function",
                function: Called {
                    name: &call.name,
                    arguments: call.arguments.as_text(),
                },
            }),
            _ => {}
        }
    }
    if let Some(last) = written.last_mut().filter(|last| last.role == "assistant") {
        let mut own = std::mem::take(&mut last.tool_calls);
        own.append(&mut calls);
        calls = own;
        let mut said = match last.content.take() {
            None => Vec::new(),
            Some(Content::Text(text)) => vec![Piece::Text { text }],
            Some(Content::Parts(pieces)) => pieces,
        };
        said.append(&mut pieces);
        pieces = said;
    } else {
        written.push(Message::new("assistant", None));
    }
    let Some(last) = written.last_mut() else {
        return;
    };
    if !calls.is_empty() {
        let plan = last.tool_plan.get_or_insert_default();
        pieces.retain(|piece| match piece {
            Piece::Text { text } => {
                plan.push_str(text);
                false
            }
            _ => true,
        });
        if plan.is_empty() {
            last.tool_plan = None;
        }
    }
    last.content = match pieces.as_slice() {
        [] => None,
        [Piece::Text { text }] => Some(Content::Text(text)),
        _ => Some(Content::Parts(pieces)),
    };
    last.tool_calls = calls;
    if last.content.is_none() && last.tool_calls.is_empty() {
        written.pop();
    }
}

/// What the user, the operator or a tool says; `None` for nothing.
fn content<'a, 'p: 'a>(
    parts: impl Iterator<Item = &'a Part<'p>>,
) -> Result<Option<Content<'a>>, Refusal> {
    let mut pieces = Vec::new();
    for part in parts {
        pieces.extend(match &part.body {
            PartBody::Text(text) | PartBody::Refusal(text) => Some(Piece::Text { text }),
            PartBody::Image(media) => Some(image(media)?),
            _ => None,
        });
    }
    Ok(match pieces.as_slice() {
        [] => None,
        [Piece::Text { text }] => Some(Content::Text(text)),
        _ => Some(Content::Parts(pieces)),
    })
}

fn image<'a>(media: &'a Media<'_>) -> Result<Piece<'a>, Refusal> {
    let url = match &media.source {
        MediaSource::Url(url) => Cow::Borrowed(url.as_ref()),
        MediaSource::Base64 { media_type, data } if media::is_common_picture(media_type) => {
            Cow::Owned(media::data_url(media_type, data))
        }
        MediaSource::Base64 { .. } | MediaSource::Text(_) => {
            return Err(Refusal::new(
                "image",
                "is of a kind that the lane does not read",
            ));
        }
    };
    let detail = media.detail.as_deref();
    Ok(Piece::ImageUrl {
        image_url: Image { url, detail },
    })
}
