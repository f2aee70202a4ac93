//! Whether a JSON value holds anything, and its reading into a type.

use serde::Deserialize;
use serde_json::value::RawValue;

/// True when a JSON value holds anything.
#[must_use]
pub fn filled(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| is_filled(value.get().as_bytes()))
}

/// True when the JSON value that is spelled like this holds anything.
#[must_use]
pub fn is_filled(value: &[u8]) -> bool {
    !matches!(value, b"null" | b"\"\"" | b"[]" | b"{}" | b"false")
}

/// The value as a `T`; `None` when it is absent or something else.
#[must_use]
pub fn parsed<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(value?.get()).ok()
}
