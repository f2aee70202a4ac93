//! What the body of an unstreamed 200 proves: an answer, an empty one, an error in disguise, or
//! nothing at all.
//!
//! Overloaded and proxied providers send error objects, login pages and `null` under status 200.
//! Such a body must fail over while nothing was sent, and must never be relayed as a success.

use crate::dialect::Dialect;
use crate::json::fields::Fields;
use crate::json::filled::filled;
use crate::reading::AnswerReading;
use crate::response::error_signal::ErrorSignal;
use crate::response::verdict::{Rules, Verdict, embedded};

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
    if rules.vendor.is_definitely_good(dialect.operation(), body) {
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
    let is = |key: &str, wanted: &str| top.get(key).is_some_and(|value| value.get() == wanted);
    if filled(top.get("error")) || is("type", "\"error\"") || is("status", "\"failed\"") {
        return error(rules, body);
    }
    match rules.vendor.answer(dialect.operation(), &top) {
        Some(AnswerReading::Good) => Answer::Good,
        Some(AnswerReading::Empty) => Answer::Empty,
        Some(AnswerReading::Failed) => error(rules, body),
        Some(AnswerReading::Malformed) | None => {
            if top.get("message").is_some() && top.get("code").is_some() {
                error(rules, body)
            } else {
                Answer::Malformed
            }
        }
    }
}

fn error(rules: Rules<'_>, body: &[u8]) -> Answer {
    let value = serde_json::from_slice(body).unwrap_or(serde_json::Value::Null);
    Answer::Error(Box::new(embedded(
        rules,
        &ErrorSignal::from_value(rules.vendor, &value),
    )))
}

#[cfg(test)]
mod tests;
