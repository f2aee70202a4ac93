//! Chat requests, written for a lane.

mod messages;

use std::borrow::Cow;

use lanekeeper_model::gateway::TokenField;
use serde::Serialize;
use serde_json::value::RawValue;

use super::wording;
use crate::ir::{Format, Function, ReasoningBudget, Request, Tool, ToolChoice};
use crate::translation::{LaneFacts, Losses, Refusal, writing};

use messages::Message;

/// Most stop sequences that the protocol takes (OpenAI's API reference).
const MAX_STOPS: usize = 4;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [Cow<'a, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    One {
        r#type: &'static str,
        function: Named<'a>,
    },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    Text,
    JsonObject,
    JsonSchema { json_schema: Schema<'a> },
}

#[derive(Serialize)]
struct Schema<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
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
    let extras = &request.extras;
    let is_older = lane.accepts.token_field == Some(TokenField::MaxTokens);
    let (older, newer) = match request.max_output_tokens {
        count if is_older => (count, None),
        count => (None, count),
    };
    let tools: Vec<_> = { request.tools.iter() }.filter_map(tool).collect();
    let has_tools = !tools.is_empty();
    let body = Body {
        model: lane.model,
        messages: messages::write(request, lane, losses)?,
        tools,
        tool_choice: { request.tool_choice.as_ref() }
            .filter(|_| has_tools)
            .map(choice),
        parallel_tool_calls: request.parallel_tool_calls.filter(|_| has_tools),
        max_tokens: older,
        max_completion_tokens: newer,
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        frequency_penalty: sampling.frequency_penalty,
        presence_penalty: sampling.presence_penalty,
        seed: sampling.seed,
        stop: &sampling.stop,
        response_format: request.format.as_ref().map(format),
        reasoning_effort: { request.reasoning.budget }
            .and_then(|budget: ReasoningBudget| wording::effort(budget, losses)),
        user: { extras.user.as_deref() }.map(|user| wording::key(user, "user", losses)),
        service_tier: { extras.service_tier.as_deref() }
            .and_then(|tier| wording::service_tier(tier, losses)),
        prompt_cache_key: { extras.prompt_cache_key.as_deref() }
            .map(|key| wording::key(key, "prompt_cache_key", losses)),
        stream: request.streams.then_some(true),
        stream_options: request.streams.then_some(StreamOptions {
            include_usage: true,
        }),
    };
    Ok(writing::document(&body))
}

fn tool<'a>(tool: &'a Tool<'_>) -> Option<ToolEntry<'a>> {
    let Tool::Function(function) = tool else {
        // Tools of other kinds are functions by now, or gone.
        return None;
    };
    let Function {
        name,
        description,
        parameters,
        is_strict,
        cache: _,
    } = function;
    Some(ToolEntry {
        r#type: "function",
        function: FunctionEntry {
            name,
            description: description.as_deref(),
            parameters: parameters.as_deref(),
            strict: is_strict.then_some(true),
        },
    })
}

fn choice<'a>(choice: &'a ToolChoice<'_>) -> Choice<'a> {
    match choice {
        ToolChoice::Auto => Choice::Word("auto"),
        ToolChoice::None => Choice::Word("none"),
        ToolChoice::Required => Choice::Word("required"),
        ToolChoice::One(name) => Choice::One {
            r#type: "function",
            function: Named { name },
        },
    }
}

fn format<'a>(format: &'a Format<'_>) -> ResponseFormat<'a> {
    match format {
        Format::Text => ResponseFormat::Text,
        Format::Json => ResponseFormat::JsonObject,
        Format::Schema(schema) => ResponseFormat::JsonSchema {
            json_schema: Schema {
                name: wording::schema_name(schema.name.as_deref()),
                description: schema.description.as_deref(),
                schema: &schema.schema,
                strict: schema.is_strict.then_some(true),
            },
        },
    }
}
