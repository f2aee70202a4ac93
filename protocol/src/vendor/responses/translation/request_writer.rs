//! Responses requests, written for a lane. The lane keeps nothing: what it must know again comes back
//! with the next request.

use std::borrow::Cow;

use lanekeeper_model::gateway::Samplers;
use serde::Serialize;
use serde_json::value::RawValue;

use super::input_writer::{self, Item};
use crate::ir::{Format, ReasoningBudget, Request, Tool, ToolChoice};
use crate::translation::{LaneFacts, Losses, Refusal, writing};
use crate::vendor::openai::translation::wording;

/// The least that it takes as a limit of tokens (OpenAI's error for less).
const MIN_OUTPUT_TOKENS: u64 = 16;
/// What brings the model's own thoughts back with its answer, so that it goes on from them.
const ENCRYPTED: &str = "reasoning.encrypted_content";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
}

#[derive(Serialize)]
struct ToolEntry<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: Option<&'a RawValue>,
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    One { r#type: &'static str, name: &'a str },
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct Text<'a> {
    format: TextFormat<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TextFormat<'a> {
    Text,
    JsonObject,
    JsonSchema {
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        schema: &'a RawValue,
        strict: bool,
    },
}

pub(super) fn write(
    request: &Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Vec<u8>, Refusal> {
    body(request, lane, losses).map(|body| writing::document(&body))
}

/// Writes a request that is to be counted: of that the API takes only what has tokens.
pub(super) fn write_count(
    request: &Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Vec<u8>, Refusal> {
    let body = Body {
        max_output_tokens: None,
        temperature: None,
        top_p: None,
        include: Vec::new(),
        store: None,
        user: None,
        metadata: None,
        service_tier: None,
        prompt_cache_key: None,
        stream: None,
        ..body(request, lane, losses)?
    };
    Ok(writing::document(&body))
}

fn body<'a>(
    request: &'a Request<'_>,
    lane: &LaneFacts<'a>,
    losses: &mut Losses,
) -> Result<Body<'a>, Refusal> {
    let extras = &request.extras;
    let tools: Vec<_> = { request.tools.iter() }.filter_map(tool).collect();
    let has_tools = !tools.is_empty();
    let (instructions, messages) = input_writer::instructions(&request.messages);
    let input = input_writer::write(messages, losses)?;
    Ok(Body {
        model: lane.model,
        instructions,
        include: { thinks(request, lane, &input) }
            .then_some(ENCRYPTED)
            .into_iter()
            .collect(),
        input,
        tools,
        tool_choice: { request.tool_choice.as_ref() }
            .filter(|_| has_tools)
            .map(choice),
        parallel_tool_calls: request.parallel_tool_calls.filter(|_| has_tools),
        max_output_tokens: request.max_output_tokens.map(|count| {
            if count < MIN_OUTPUT_TOKENS {
                losses.name("max_output_tokens");
            }
            count.max(MIN_OUTPUT_TOKENS)
        }),
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        reasoning: reasoning(request, losses),
        text: { request.format.as_ref() }.map(|said| Text {
            format: format(said),
        }),
        store: Some(false),
        user: { extras.user.as_deref() }.map(|user| wording::key(user, "user", losses)),
        metadata: extras.metadata.as_deref(),
        service_tier: { extras.service_tier.as_deref() }
            .and_then(|tier| wording::service_tier(tier, losses)),
        prompt_cache_key: { extras.prompt_cache_key.as_deref() }
            .map(|key| wording::key(key, "prompt_cache_key", losses)),
        stream: request.streams.then_some(true),
    })
}

/// True when the model is known to think: models that do not refuse to hand out encrypted thoughts.
fn thinks(request: &Request<'_>, lane: &LaneFacts<'_>, input: &[Item<'_>]) -> bool {
    match request.reasoning.budget {
        Some(ReasoningBudget::Off) => false,
        Some(_) => true,
        // Only models that think refuse samplers.
        None => {
            lane.accepts.samplers != Samplers::All
                || request.reasoning.shows_thoughts == Some(true)
                || input.iter().any(Item::is_reasoning)
        }
    }
}

fn reasoning(request: &Request<'_>, losses: &mut Losses) -> Option<Reasoning> {
    let options = request.reasoning;
    let effort = options
        .budget
        .and_then(|budget| wording::effort(budget, losses));
    let is_off = options.budget == Some(ReasoningBudget::Off);
    let summary = (options.shows_thoughts == Some(true) && !is_off).then_some("auto");
    (effort.is_some() || summary.is_some()).then_some(Reasoning { effort, summary })
}

fn tool<'a>(tool: &'a Tool<'_>) -> Option<ToolEntry<'a>> {
    let Tool::Function(function) = tool else {
        // Tools of other kinds are functions by now, or gone.
        return None;
    };
    Some(ToolEntry {
        r#type: "function",
        name: &function.name,
        description: function.description.as_deref(),
        parameters: function.parameters.as_deref(),
        // It would be strict where that is not said.
        strict: function.is_strict,
    })
}

fn choice<'a>(choice: &'a ToolChoice<'_>) -> Choice<'a> {
    match choice {
        ToolChoice::Auto => Choice::Word("auto"),
        ToolChoice::None => Choice::Word("none"),
        ToolChoice::Required => Choice::Word("required"),
        ToolChoice::One(name) => Choice::One {
            r#type: "function",
            name,
        },
    }
}

fn format<'a>(format: &'a Format<'_>) -> TextFormat<'a> {
    match format {
        Format::Text => TextFormat::Text,
        Format::Json => TextFormat::JsonObject,
        Format::Schema(schema) => TextFormat::JsonSchema {
            name: wording::schema_name(schema.name.as_deref()),
            description: schema.description.as_deref(),
            schema: &schema.schema,
            strict: schema.is_strict,
        },
    }
}
