//! The checks every inward conversion is made of.

use std::time::Duration;

use crate::error::WireError;
use crate::limits::{NAME_BYTES_MAX, PROBLEMS_MAX, TEXT_BYTES_MAX};

/// A short text that may be empty. It is shown in terminals and logs, where a control character could
/// pretend to be something else.
pub(super) fn name(value: String, field: &str) -> Result<String, WireError> {
    if value.chars().any(char::is_control) {
        return Err(WireError::ControlCharacter {
            field: field.to_owned(),
        });
    }
    bounded(value, field, NAME_BYTES_MAX)
}

/// A short text that may not be empty.
pub(super) fn required(value: String, field: &str) -> Result<String, WireError> {
    if value.is_empty() {
        return Err(WireError::Missing {
            field: field.to_owned(),
        });
    }
    name(value, field)
}

/// A gateway's name. It becomes part of keys and paths, and a document's name is held to less than
/// this, so that nothing legal is lost.
pub(super) fn gateway(value: String, field: &str) -> Result<String, WireError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !value.chars().all(good) {
        return Err(WireError::NotAName {
            field: field.to_owned(),
        });
    }
    required(value, field)
}

/// A text for people.
pub(super) fn text(value: String, field: &str) -> Result<String, WireError> {
    bounded(value, field, TEXT_BYTES_MAX)
}

/// Texts for people.
pub(super) fn texts(values: Vec<String>, field: &str) -> Result<Vec<String>, WireError> {
    at_most(values.len(), field, PROBLEMS_MAX)?;
    values
        .into_iter()
        .enumerate()
        .map(|(index, value)| text(value, &format!("{field}[{index}]")))
        .collect()
}

/// A list's length.
pub(super) fn at_most(len: usize, field: &str, limit: usize) -> Result<(), WireError> {
    if len > limit {
        return Err(WireError::TooMany {
            field: field.to_owned(),
            limit,
        });
    }
    Ok(())
}

/// An enum value this build has no name for, "not said" included.
pub(super) fn unknown(field: &str, value: i32) -> WireError {
    WireError::UnknownValue {
        field: field.to_owned(),
        value,
    }
}

/// A duration as wire milliseconds. 49 days is beyond every duration here, so the cap is never met.
pub(super) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// A text of some length, which may not be empty.
pub(super) fn filled(value: String, field: &str, limit: usize) -> Result<String, WireError> {
    if value.is_empty() {
        return Err(WireError::Missing {
            field: field.to_owned(),
        });
    }
    bounded(value, field, limit)
}

fn bounded(value: String, field: &str, limit: usize) -> Result<String, WireError> {
    if value.len() > limit {
        return Err(WireError::TooLong {
            field: field.to_owned(),
            limit,
        });
    }
    Ok(value)
}
