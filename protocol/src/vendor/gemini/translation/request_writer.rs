//! Writes requests for Gemini's lanes.

use std::borrow::Cow;

use lanekeeper_model::gateway::ReasoningForm;
use serde::Serialize;

use super::parts::Content;
use super::request_writer_turns::turns;
use crate::ir::{Effort, Format, Json, ReasoningBudget, Request, Tool, ToolChoice};
use crate::translation::schema::has_parameters;
use crate::translation::{Feature, LaneFacts, Losses, Refusal};

/// Most stop sequences, by the vendor's reference.
const STOP_MAX: usize = 5;
/// Budgets of thoughts that every model takes that has budgets at all.
const BUDGET_TOKENS: std::ops::RangeInclusive<u64> = 512..=24_576;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    /// Where the path does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Declarations<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Config<'a>>,
}

/// A request that is to be counted with its instructions and tools, which the shorter form has not.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Count<'a> {
    generate_content_request: Document<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declarations<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<Json<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: Calling<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Calling<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[&'a str; 1]>,
}

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [Cow<'a, str>],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Schema<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Thinking>,
}

/// A schema, compared by its text.
#[derive(Serialize)]
#[serde(transparent)]
struct Schema<'a>(Json<'a>);

impl PartialEq for Schema<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Thinking {
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

/// Writes a request.
pub(super) fn write(
    request: &Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Vec<u8>, Refusal> {
    let document = document(request, lane, losses)?;
    serde_json::to_vec(&document).map_err(|_| Refusal::untranslatable("messages"))
}

/// Writes a request that is to be counted.
pub(super) fn write_count(
    request: &Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Vec<u8>, Refusal> {
    let mut document = document(request, lane, losses)?;
    let name = lane.model.strip_prefix("models/").unwrap_or(lane.model);
    document.model = Some(format!("models/{name}"));
    let count = Count {
        generate_content_request: document,
    };
    serde_json::to_vec(&count).map_err(|_| Refusal::untranslatable("messages"))
}

fn document<'a>(
    request: &'a Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Document<'a>, Refusal> {
    let (system, contents) = turns(request)?;
    let declarations: Vec<_> = request.tools.iter().filter_map(declaration).collect();
    let tool_config = if declarations.is_empty() {
        None
    } else {
        request.tool_choice.as_ref().map(tool_config)
    };
    let config = config(request, lane, losses)?;
    Ok(Document {
        model: None,
        system_instruction: system,
        contents,
        tools: if declarations.is_empty() {
            Vec::new()
        } else {
            vec![Declarations {
                function_declarations: declarations,
            }]
        },
        tool_config,
        generation_config: (config != Config::default()).then_some(config),
    })
}

fn declaration<'a>(tool: &'a Tool<'_>) -> Option<Declaration<'a>> {
    let Tool::Function(function) = tool else {
        return None;
    };
    // Older models refuse the schema of an object without properties.
    let schema = { function.parameters.as_deref() }.filter(|schema| has_parameters(schema));
    Some(Declaration {
        name: &function.name,
        description: function.description.as_deref(),
        parameters_json_schema: schema.map(Cow::Borrowed),
    })
}

fn tool_config<'a>(choice: &'a ToolChoice<'_>) -> ToolConfig<'a> {
    let (mode, name) = match choice {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::One(name) => ("ANY", Some(name)),
    };
    ToolConfig {
        function_calling_config: Calling {
            mode,
            allowed_function_names: name.map(|name| [name.as_ref()]),
        },
    }
}

fn config<'a>(
    request: &'a Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Config<'a>, Refusal> {
    let sampling = &request.sampling;
    if sampling.stop.len() > STOP_MAX {
        let reason =
            format!("has more sequences than the {STOP_MAX} that the lane's protocol takes");
        return Err(Refusal::new(Feature::Stop.name(), reason));
    }
    let seed = sampling.seed.and_then(|seed| i32::try_from(seed).ok());
    if seed.is_none() && sampling.seed.is_some() {
        losses.name(Feature::Seed.name());
    }
    let (media_type, schema) = match &request.format {
        None | Some(Format::Text) => (None, None),
        Some(Format::Json) => (Some("application/json"), None),
        Some(Format::Schema(format)) => {
            let schema = Schema(Cow::Borrowed(format.schema.as_ref()));
            (Some("application/json"), Some(schema))
        }
    };
    Ok(Config {
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k,
        frequency_penalty: sampling.frequency_penalty,
        presence_penalty: sampling.presence_penalty,
        seed,
        stop_sequences: &sampling.stop,
        max_output_tokens: request.max_output_tokens,
        response_mime_type: media_type,
        response_json_schema: schema,
        thinking_config: thinking(request, lane.accepts.reasoning, losses),
    })
}

/// A budget or a level, never both: a model takes one of them.
fn thinking(request: &Request<'_>, form: ReasoningForm, losses: &mut Losses) -> Option<Thinking> {
    let reasoning = request.reasoning;
    let mut thinking = Thinking {
        // Not to show thoughts is what happens anyway.
        include_thoughts: reasoning.shows_thoughts.filter(|shows| *shows),
        thinking_budget: None,
        thinking_level: None,
    };
    match (reasoning.budget, form) {
        (None, _) => {}
        (Some(budget), ReasoningForm::Budget) => {
            thinking.thinking_budget = Some(in_tokens(budget, losses));
        }
        (Some(budget), ReasoningForm::Effort) => thinking.thinking_level = level(budget, losses),
    }
    let says_nothing = thinking.include_thoughts.is_none()
        && thinking.thinking_budget.is_none()
        && thinking.thinking_level.is_none();
    (!says_nothing).then_some(thinking)
}

fn in_tokens(budget: ReasoningBudget, losses: &mut Losses) -> i64 {
    match budget {
        ReasoningBudget::Off => 0,
        ReasoningBudget::Dynamic => -1,
        ReasoningBudget::Effort(effort) => tokens(effort),
        ReasoningBudget::Tokens(wanted) => {
            let fitted = wanted.clamp(*BUDGET_TOKENS.start(), *BUDGET_TOKENS.end());
            if fitted != wanted {
                losses.name(Feature::ReasoningBudget.name());
            }
            i64::try_from(fitted).unwrap_or(-1)
        }
    }
}

/// The level: models that have levels cannot be kept from thinking.
fn level(budget: ReasoningBudget, losses: &mut Losses) -> Option<&'static str> {
    if budget == ReasoningBudget::Off {
        losses.name(Feature::ReasoningBudget.name());
        return Some("LOW");
    }
    Some(match budget.as_effort()? {
        Effort::Minimal | Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High | Effort::XHigh => "HIGH",
    })
}

/// The budget for an effort, as Google's own translation of OpenAI's requests has it.
const fn tokens(effort: Effort) -> i64 {
    match effort {
        Effort::Minimal | Effort::Low => 1_024,
        Effort::Medium => 8_192,
        Effort::High | Effort::XHigh => 24_576,
    }
}
