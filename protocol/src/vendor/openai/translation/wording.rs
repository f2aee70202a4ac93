//! Words that OpenAI's two dialects share.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::dialect::Protocol;
use crate::ir::{
    Effort, Finish, Format, Json, Part, PartBody, ReasoningBudget, SchemaFormat, Usage,
};
use crate::translation::Losses;
use crate::translation::Refusal;
use crate::translation::document::Object;

/// Longest value of `user`, `safety_identifier` and `prompt_cache_key`, in bytes (OpenAI's API
/// reference).
const KEY_MAX_BYTES: usize = 64;
/// Longest name of a schema, in bytes (OpenAI's API reference).
const SCHEMA_NAME_MAX_BYTES: usize = 64;
/// Up to so many tokens of thoughts count as little effort, and as a medium one.
const LOW_EFFORT_TOKENS: u64 = 2_048;
const MEDIUM_EFFORT_TOKENS: u64 = 8_192;

/// How much the model thinks, as OpenAI words it.
pub(in crate::vendor) fn budget_of(word: &str) -> Option<ReasoningBudget> {
    Some(ReasoningBudget::Effort(match word {
        "none" => return Some(ReasoningBudget::Off),
        "minimal" => Effort::Minimal,
        "low" => Effort::Low,
        "medium" => Effort::Medium,
        "high" => Effort::High,
        "xhigh" | "max" => Effort::XHigh,
        _ => return None,
    }))
}

/// The word for a budget; `None` leaves it to the model.
pub(in crate::vendor) fn effort(
    budget: ReasoningBudget,
    losses: &mut Losses,
) -> Option<&'static str> {
    Some(match budget {
        ReasoningBudget::Off => "none",
        ReasoningBudget::Dynamic => return None,
        ReasoningBudget::Effort(Effort::Minimal) => "minimal",
        ReasoningBudget::Effort(Effort::Low) => "low",
        ReasoningBudget::Effort(Effort::Medium) => "medium",
        ReasoningBudget::Effort(Effort::High) => "high",
        ReasoningBudget::Effort(Effort::XHigh) => "xhigh",
        ReasoningBudget::Tokens(tokens) => {
            losses.name("reasoning");
            if tokens <= LOW_EFFORT_TOKENS {
                "low"
            } else if tokens <= MEDIUM_EFFORT_TOKENS {
                "medium"
            } else {
                "high"
            }
        }
    })
}

/// A value that identifies somebody or something, no longer than OpenAI takes it: a longer one becomes
/// its digest, so that two stay two.
pub(in crate::vendor) fn key<'a>(
    value: &'a str,
    name: &'static str,
    losses: &mut Losses,
) -> Cow<'a, str> {
    if value.len() <= KEY_MAX_BYTES {
        return Cow::Borrowed(value);
    }
    losses.name(name);
    let digest = Sha256::digest(value.as_bytes());
    Cow::Owned(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The tier of service as OpenAI calls it.
pub(in crate::vendor) fn service_tier(given: &str, losses: &mut Losses) -> Option<&'static str> {
    Some(match given {
        "auto" => "auto",
        "default" | "standard" | "standard_only" => "default",
        "flex" => "flex",
        "priority" => "priority",
        "scale" => "scale",
        _ => {
            losses.name("service_tier");
            return None;
        }
    })
}

/// A schema's name as OpenAI takes it.
pub(in crate::vendor) fn schema_name<'a>(name: Option<&'a str>) -> Cow<'a, str> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    match name {
        None | Some("") => Cow::Borrowed("answer"),
        Some(name) if name.len() <= SCHEMA_NAME_MAX_BYTES && name.chars().all(plain) => {
            Cow::Borrowed(name)
        }
        Some(name) => { name.chars() }
            .take(SCHEMA_NAME_MAX_BYTES)
            .map(|sign| if plain(sign) { sign } else { '_' })
            .collect(),
    }
}

/// What a `json_schema` says, wherever the dialect puts it.
pub(in crate::vendor) fn schema_format<'a>(said: &Object<'a, '_>) -> Result<Format<'a>, Refusal> {
    let Some(schema) = said.raw("schema") else {
        return Ok(Format::Json);
    };
    Ok(Format::Schema(SchemaFormat {
        name: said.text("name")?,
        description: said.text("description")?.filter(|text| !text.is_empty()),
        schema: Json::Borrowed(schema),
        is_strict: said.flag("strict")?.unwrap_or(false),
    }))
}

/// Parameters of a function; `None` where there are none, however that is written.
pub(in crate::vendor) fn parameters<'a>(
    function: &Object<'a, '_>,
) -> Result<Option<Json<'a>>, Refusal> {
    let Some(schema) = function.raw("parameters") else {
        return Ok(None);
    };
    let at = crate::translation::document::At::Root;
    let Ok(fields) = Object::of(schema, at) else {
        return Err(function.refuse("parameters", "must be an object"));
    };
    let has_properties = fields.says("properties");
    let has_more = { fields.others(&["type", "properties", "additionalProperties", "required"]) }
        .any(|name| name != "$schema");
    Ok((has_properties || has_more).then_some(Json::Borrowed(schema)))
}

/// Input, output, and of these what came from the cache, what went there, and what was thought.
pub(in crate::vendor) fn usage(
    input: u64,
    output: u64,
    (cached, written): (Option<u64>, Option<u64>),
    thought: Option<u64>,
) -> Usage {
    let cached = cached.map(|cached| cached.min(input));
    let fresh = input.saturating_sub(cached.unwrap_or_default());
    Usage {
        input,
        output,
        cache_read: cached,
        cache_write: written.map(|written| written.min(fresh)),
        reasoning: thought.map(|thought| thought.min(output)),
    }
}

/// Why an answer ended, by all that it says: servers differ in what they report beside calls and
/// refusals.
pub(in crate::vendor) fn finish<'a>(
    reason: Finish<'a>,
    has_calls: bool,
    has_refusal: bool,
) -> Finish<'a> {
    match reason {
        Finish::Stop | Finish::ToolCalls if has_calls => Finish::ToolCalls,
        Finish::Stop | Finish::ToolCalls if has_refusal => Finish::Refusal,
        Finish::ToolCalls => Finish::Stop,
        reason => reason,
    }
}

/// As [`finish`], of parts.
pub(in crate::vendor) fn finish_of<'a>(reason: Finish<'a>, parts: &[Part<'_>]) -> Finish<'a> {
    let has = |wanted: fn(&PartBody<'_>) -> bool| parts.iter().any(|part| wanted(&part.body));
    finish(
        reason,
        has(|body| matches!(body, PartBody::ToolCall(_))),
        has(|body| matches!(body, PartBody::Refusal(_))),
    )
}

/// An id with the prefix that the dialect's clients expect.
pub(in crate::vendor) fn prefixed(prefix: &str, id: &str) -> String {
    if id.starts_with(prefix) {
        id.to_owned()
    } else {
        format!("{prefix}{id}")
    }
}

/// Begins the proof of thoughts that a server of OpenAI's chat protocol shows. They have no signature,
/// so the proof is only whose they are: the model's.
pub(in crate::vendor) fn own_thought(model: &str) -> crate::ir::Proof<'static> {
    crate::ir::Proof {
        protocol: Protocol::Openai,
        text: Cow::Owned(model.to_owned()),
        is_redacted: false,
    }
}
