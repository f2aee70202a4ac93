//! Writes requests for Anthropic's lanes.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::answer_tool::{self, AnswerTool};
use super::blocks::{Block, CacheControl};
use super::request_writer_turns::{Marks, Turn, turns};
use super::thinking::{self, Thinking};
use crate::ir::{Function, Json, Request, Tool, ToolChoice};
use crate::json::fields::Fields;
use crate::translation::schema::has_parameters;
use crate::translation::{Feature, LaneFacts, Losses, Refusal, Written};

/// Longest `metadata.user_id`, in characters, by the vendor's reference.
const USER_MAX_CHARS: usize = 256;

#[derive(Serialize)]
struct Document<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WrittenTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

#[derive(Serialize)]
struct WrittenTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Json<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl<'a>>,
}

/// How the model may use tools.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice<'a> {
    Auto {
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    Any {
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    Tool {
        name: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        disable_parallel_tool_use: bool,
    },
    None,
}

/// Writes a request, or one that is to be counted: of that the API takes only what has tokens.
pub(super) fn write(
    request: &Request<'_>,
    lane: &LaneFacts<'_>,
    is_count: bool,
    losses: &mut Losses,
) -> Result<Written, Refusal> {
    let answer_tool = answer_tool::of(request)?;
    let mut marks = Marks::of(request, losses);
    let mut tools = functions(request, &mut marks);
    if let Some(tool) = &answer_tool {
        tools.push(WrittenTool {
            name: &tool.name,
            description: Some(&tool.description),
            input_schema: tool.schema.clone(),
            cache_control: None,
        });
    }
    let tool_choice = choice(request, answer_tool.as_ref());
    let is_forced = matches!(tool_choice, Some(Choice::Any { .. } | Choice::Tool { .. }));
    let max_tokens = request.max_output_tokens.unwrap_or(lane.max_output_tokens);
    let form = lane.accepts.reasoning;
    let asked = thinking::thinking(request, max_tokens, form, is_forced, losses);
    let (thinking, effort) = asked.map_or((None, None), |(it, effort)| (Some(it), effort));
    let is_off = thinking == Some(Thinking::Disabled);
    let is_thinking = thinking.is_some() && !is_off;
    let (system, messages) = turns(request, &mut marks, !is_off, losses)?;
    let sampling = Samplers::of(request, is_thinking, losses);
    let mut document = Document {
        model: lane.model,
        max_tokens: Some(max_tokens),
        system,
        messages,
        tools,
        tool_choice,
        thinking,
        output_config: effort.map(|effort| OutputConfig { effort }),
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k,
        stop_sequences: stop_sequences(request, losses),
        metadata: user(request, losses).map(|user_id| Metadata { user_id }),
        stream: request.streams,
    };
    if is_count {
        document = Document {
            max_tokens: None,
            temperature: None,
            top_p: None,
            top_k: None,
            stop_sequences: Vec::new(),
            metadata: None,
            stream: false,
            ..document
        };
    }
    let body = serde_json::to_vec(&document).map_err(|_| Refusal::untranslatable("messages"))?;
    Ok(Written {
        body,
        answer_tool: answer_tool.map(|tool| tool.name),
    })
}

fn functions<'a>(request: &'a Request<'_>, marks: &mut Marks) -> Vec<WrittenTool<'a>> {
    { request.tools.iter() }
        .filter_map(|tool| match tool {
            Tool::Function(function) => Some(WrittenTool {
                name: &function.name,
                description: function.description.as_deref(),
                input_schema: schema(function),
                cache_control: marks.next(function.cache.as_ref()),
            }),
            Tool::Custom(_) | Tool::BuiltIn { .. } => None,
        })
        .collect()
}

/// The schema of a function's parameters, which must be that of an object.
fn schema<'a>(function: &'a Function<'_>) -> Json<'a> {
    let Some(schema) = { function.parameters.as_deref() }.filter(|schema| has_parameters(schema))
    else {
        return crate::ir::raw(&serde_json::json!({"type": "object", "properties": {}}));
    };
    let fields = serde_json::from_str::<Fields<'_>>(schema.get());
    match fields {
        Ok(fields) if fields.get("type").is_none() => typed(schema),
        _ => Cow::Borrowed(schema),
    }
}

/// The same schema with its missing type in front.
fn typed(schema: &RawValue) -> Json<'_> {
    let rest = { schema.get() }
        .trim_start()
        .strip_prefix('{')
        .unwrap_or("}");
    RawValue::from_string(format!("{{\"type\":\"object\",{rest}"))
        .map_or(Cow::Borrowed(schema), Cow::Owned)
}

fn choice<'a>(
    request: &'a Request<'_>,
    answer_tool: Option<&'a AnswerTool<'_>>,
) -> Option<Choice<'a>> {
    let disable_parallel_tool_use = request.parallel_tool_calls == Some(false);
    let has_tools = !request.tools.is_empty();
    let calls_none = request.tool_choice == Some(ToolChoice::None);
    if let Some(tool) = answer_tool {
        // Beside tools that the model may call, it calls one of them or answers.
        return Some(if has_tools && !calls_none {
            Choice::Any {
                disable_parallel_tool_use,
            }
        } else {
            Choice::Tool {
                name: &tool.name,
                disable_parallel_tool_use: true,
            }
        });
    }
    if !has_tools {
        return None;
    }
    match request.tool_choice.as_ref() {
        None if !disable_parallel_tool_use => None,
        None | Some(ToolChoice::Auto) => Some(Choice::Auto {
            disable_parallel_tool_use,
        }),
        Some(ToolChoice::None) => Some(Choice::None),
        Some(ToolChoice::Required) => Some(Choice::Any {
            disable_parallel_tool_use,
        }),
        Some(ToolChoice::One(name)) => Some(Choice::Tool {
            name,
            disable_parallel_tool_use,
        }),
    }
}

/// What the model takes of the samplers.
struct Samplers {
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<u64>,
}

impl Samplers {
    fn of(request: &Request<'_>, is_thinking: bool, losses: &mut Losses) -> Self {
        /// Thoughts forbid a smaller one.
        const THINKING_TOP_P_MIN: f64 = 0.95;
        let sampling = &request.sampling;
        // Newer models refuse both at once, and clients send this one though it says nothing.
        let top_p = sampling.top_p.filter(|top_p| *top_p < 1.0);
        if !is_thinking {
            return Self {
                temperature: sampling.temperature,
                top_p,
                top_k: sampling.top_k,
            };
        }
        if sampling
            .temperature
            .is_some_and(|temperature| temperature < 1.0)
        {
            losses.name("temperature");
        }
        if sampling.top_k.is_some() {
            losses.name(Feature::TopK.name());
        }
        let kept = top_p.filter(|top_p| *top_p >= THINKING_TOP_P_MIN);
        if kept != top_p {
            losses.name("top_p");
        }
        Self {
            temperature: None,
            top_p: kept,
            top_k: None,
        }
    }
}

/// Sequences of blanks are refused.
fn stop_sequences<'a>(request: &'a Request<'_>, losses: &mut Losses) -> Vec<&'a str> {
    let given = &request.sampling.stop;
    let kept: Vec<&str> = { given.iter() }
        .map(AsRef::as_ref)
        .filter(|sequence: &&str| !sequence.trim().is_empty())
        .collect();
    if kept.len() < given.len() {
        losses.name(Feature::Stop.name());
    }
    kept
}

fn user<'a>(request: &'a Request<'_>, losses: &mut Losses) -> Option<&'a str> {
    let user = request.extras.user.as_deref()?;
    if user.is_empty() || user.chars().count() > USER_MAX_CHARS {
        losses.name(Feature::User.name());
        return None;
    }
    Some(user)
}
