//! What the body of an unstreamed 200 proves: an answer, an empty one, an error in disguise, or
//! nothing at all.
//!
//! Overloaded and proxied providers send error objects, login pages and `null` under status 200.
//! Such a body must fail over while nothing was sent, and must never be relayed as a success.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Dialect;
use super::classify::{Rules, Verdict, embedded};
use super::error_signal::ErrorSignal;
use super::fields::Fields;
use super::frames::{self, filled};
use super::glance;

/// What a body proves.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An answer with something in it.
    Good,
    /// A well-formed answer that says nothing and stopped of its own accord.
    Empty,
    /// An error object under status 200.
    Error(Box<Verdict>),
    /// Nothing the protocol knows: zero bytes, HTML, broken JSON, `null`, a missing list.
    Malformed,
}

/// Judges the whole body of a 200, without its content encoding.
#[must_use]
pub fn inspect(rules: Rules<'_>, dialect: Dialect, body: &[u8]) -> Answer {
    if glance::is_surely_good(dialect, body) {
        return Answer::Good;
    }
    read(rules, dialect, body)
}

/// Judges by reading the document's parts.
fn read(rules: Rules<'_>, dialect: Dialect, body: &[u8]) -> Answer {
    // Text is checked once here, and not again with every value.
    let text = std::str::from_utf8(body).unwrap_or_default();
    let Ok(top) = serde_json::from_str::<Fields<'_>>(text) else {
        return Answer::Malformed;
    };
    let raw = |key: &str| top.get(key);
    let is = |key: &str, wanted: &str| raw(key).is_some_and(|value| value.get() == wanted);
    if filled(raw("error")) || is("type", "\"error\"") || is("status", "\"failed\"") {
        return error(rules, body);
    }
    if has_failed(dialect, raw("choices"), raw("finish_reason")) {
        return error(rules, body);
    }
    let verdict = match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiCompletions => choices(raw("choices")),
        Dialect::OpenAiEmbeddings => list(raw("data")),
        // An account without any model still gets a well-formed list.
        Dialect::OpenAiModels | Dialect::AnthropicModels => {
            parsed::<Vec<&RawValue>>(raw("data")).map(|_| Answer::Good)
        }
        Dialect::GeminiModels => raw("models").map(|_| Answer::Good),
        Dialect::Anthropic => message(raw("content"), raw("stop_reason")),
        Dialect::AnthropicCountTokens => number(raw("input_tokens")),
        Dialect::Responses => parsed::<Vec<&RawValue>>(raw("output"))
            .map(|_| good_if(output_says(raw("output")) || is("status", "\"incomplete\""))),
        Dialect::GeminiGenerate | Dialect::GeminiStream => {
            candidates(raw("candidates"), raw("promptFeedback"))
        }
        Dialect::GeminiCountTokens => number(raw("totalTokens")),
        Dialect::GeminiEmbed | Dialect::GeminiEmbedBatch => {
            raw("embedding").or(raw("embeddings")).map(|_| Answer::Good)
        }
        Dialect::Cohere => cohere(raw("message"), raw("finish_reason")),
    };
    match verdict {
        Some(Answer::Malformed) | None if raw("message").is_some() && raw("code").is_some() => {
            error(rules, body)
        }
        Some(answer) => answer,
        None => Answer::Malformed,
    }
}

/// True when the reason for the end is a failure of the provider.
fn has_failed(dialect: Dialect, choices: Option<&RawValue>, reason: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiCompletions => {
            // Nearly every answer is spared the reading.
            let suspect = choices.filter(|choices| frames::names_error(choices.get().as_bytes()));
            let choices = parsed::<Vec<Choice<'_>>>(suspect).unwrap_or_default();
            { choices.iter() }.any(|choice| choice.finish_reason.as_deref() == Some("error"))
        }
        Dialect::Cohere => {
            let reason = parsed::<Cow<'_, str>>(reason);
            matches!(reason.as_deref(), Some("ERROR" | "TIMEOUT"))
        }
        _ => false,
    }
}

/// True when the `output` of a Responses document says anything: a message with text or a refusal,
/// a tool call, an image. Reasoning alone does not.
pub(super) fn output_says(output: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        content: Option<Vec<Fields<'a>>>,
    }
    let items = parsed::<Vec<Item<'_>>>(output).unwrap_or_default();
    items.iter().any(|item| match item.kind.as_deref() {
        Some("reasoning") => false,
        Some("message") => item
            .content
            .iter()
            .flatten()
            .any(|part| ["text", "refusal"].iter().any(|key| filled(part.get(key)))),
        _ => true,
    })
}

fn error(rules: Rules<'_>, body: &[u8]) -> Answer {
    let value = serde_json::from_slice(body).unwrap_or(serde_json::Value::Null);
    Answer::Error(Box::new(embedded(
        rules,
        &ErrorSignal::from_value(rules.protocol, &value),
    )))
}

fn parsed<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(value?.get()).ok()
}

fn list(value: Option<&RawValue>) -> Option<Answer> {
    let items = parsed::<Vec<&RawValue>>(value)?;
    Some(if items.is_empty() {
        Answer::Malformed
    } else {
        Answer::Good
    })
}

fn number(value: Option<&RawValue>) -> Option<Answer> {
    parsed::<f64>(value).map(|_| Answer::Good)
}

fn good_if(good: bool) -> Answer {
    if good { Answer::Good } else { Answer::Empty }
}

fn choices(value: Option<&RawValue>) -> Option<Answer> {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        message: Option<Fields<'a>>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    let choices = parsed::<Vec<Choice<'_>>>(value)?;
    if choices.is_empty() {
        return Some(Answer::Malformed);
    }
    Some(good_if(choices.iter().any(|choice| {
        let message = choice.message.iter().flat_map(Fields::iter);
        filled(choice.text)
            || { message }.any(|(key, value)| key != "role" && filled(Some(value)))
            || choice
                .finish_reason
                .as_deref()
                .is_some_and(|reason| reason != "stop")
    })))
}

fn message(content: Option<&RawValue>, stop_reason: Option<&RawValue>) -> Option<Answer> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    let blocks = parsed::<Vec<Block<'_>>>(content)?;
    let says = blocks
        .iter()
        .any(|block| block.kind != "text" || filled(block.text));
    let reason = parsed::<Cow<'_, str>>(stop_reason);
    let natural = matches!(reason.as_deref(), None | Some("end_turn" | "stop_sequence"));
    Some(good_if(says || !natural))
}

fn candidates(candidates: Option<&RawValue>, feedback: Option<&RawValue>) -> Option<Answer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Candidate<'a> {
        #[serde(borrow)]
        content: Option<Content<'a>>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Option<Vec<Fields<'a>>>,
    }
    let blocked =
        parsed::<Fields<'_>>(feedback).is_some_and(|feedback| filled(feedback.get("blockReason")));
    if blocked {
        return Some(Answer::Good);
    }
    let candidates = parsed::<Vec<Candidate<'_>>>(candidates)?;
    if candidates.is_empty() {
        return Some(Answer::Malformed);
    }
    Some(good_if(candidates.iter().any(|candidate| {
        let parts = candidate
            .content
            .iter()
            .filter_map(|content| content.parts.as_ref())
            .flatten();
        { parts }.any(|part| part.iter().any(|(_, value)| filled(Some(value))))
            || candidate
                .finish_reason
                .as_deref()
                .is_some_and(|reason| reason != "STOP")
    })))
}

fn cohere(message: Option<&RawValue>, finish_reason: Option<&RawValue>) -> Option<Answer> {
    let message = parsed::<Fields<'_>>(message)?;
    let reason = parsed::<Cow<'_, str>>(finish_reason);
    let says = message
        .iter()
        .any(|(key, value)| key != "role" && filled(Some(value)));
    let natural = matches!(reason.as_deref(), None | Some("COMPLETE" | "STOP_SEQUENCE"));
    Some(good_if(says || !natural))
}

#[cfg(test)]
mod tests;
