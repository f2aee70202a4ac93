//! From text or JSON to a validated gateway, or to the list of everything that is wrong.
//!
//! Shape and meaning are checked in one go: an entry of the wrong shape is reported as such and left
//! out of the further checks, so that one mistake hides as few others as possible.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::text::{self, DEPTH_MAX};
use crate::{schema, validate};

pub use crate::schema::json_schema;
pub use crate::text::{DEPTH_MAX as DOCUMENT_DEPTH_MAX, DOCUMENT_BYTES_MAX, parse_json};

/// Most problems reported for one document.
pub const PROBLEMS_MAX: usize = 500;

/// A document that passed.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The document as it was given, comments gone.
    pub document: Value,
    /// What it means.
    pub gateway: Gateway,
}

/// Checks a document written as YAML (of which JSON is a part).
///
/// # Errors
///
/// Everything that is wrong, at most [`PROBLEMS_MAX`] problems, sorted by pointer. A syntax error
/// comes alone, with line and column.
pub fn check_yaml(text: &str) -> Result<Checked, Vec<Problem>> {
    let value = text::parse_yaml(text).map_err(|problem| vec![problem])?;
    check(value)
}

/// Checks a document given as JSON. Use [`parse_json`] to get there from text.
///
/// # Errors
///
/// Everything that is wrong, at most [`PROBLEMS_MAX`] problems, sorted by pointer.
pub fn check_json(value: &Value) -> Result<Checked, Vec<Problem>> {
    if deeper_than(value, DEPTH_MAX) {
        return Err(vec![Problem::new(
            "",
            "too_deep",
            format!("the document is nested deeper than {DEPTH_MAX} levels"),
        )]);
    }
    check(value.clone())
}

fn check(document: Value) -> Result<Checked, Vec<Problem>> {
    text::refuse_too_large_as_json(&document)
        .and_then(|()| validate::refuse_too_many_memberships(&document))
        .map_err(|problem| vec![problem])?;
    let mut problems = schema::structural_problems(&document);
    let gateway = validate::resolve(&document, &mut problems);
    match gateway {
        Some(gateway) if problems.is_empty() => Ok(Checked { document, gateway }),
        Some(_) | None => Err(tidy(problems)),
    }
}

/// Sorts, drops repetitions and bounds the list.
fn tidy(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort();
    problems.dedup();
    if problems.is_empty() {
        problems.push(Problem::new(
            "",
            "internal",
            "the document cannot be resolved",
        ));
    }
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    if more > 0 {
        problems.truncate(PROBLEMS_MAX.saturating_sub(1));
        problems.push(Problem::new(
            "",
            "too_many_problems",
            format!(
                "the list is cut: there are {} problems in all, {} more than are shown",
                more + PROBLEMS_MAX,
                more + 1
            ),
        ));
    }
    problems
}

/// True when maps and lists nest deeper than the bound. Does not recurse beyond it.
fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => true,
        Value::Array(values) => values.iter().any(|value| deeper_than(value, levels - 1)),
        Value::Object(values) => values.values().any(|value| deeper_than(value, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Names the content of a document: SHA-256 in hexadecimal over its JSON text without spaces and
/// with sorted keys. Equal for documents that differ only in the order of keys.
pub fn content_hash(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Sorts keys by itself: whether `serde_json` keeps them sorted depends on a feature that any crate
/// of the build can switch on.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(values) => {
            text.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(value, text);
            }
            text.push(']');
        }
        Value::Object(values) => {
            let mut entries: Vec<(&String, &Value)> = values.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                let _ = write!(text, "{}:", Value::String(key.clone()));
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(text, "{value}");
        }
    }
}

#[cfg(test)]
mod tests;
