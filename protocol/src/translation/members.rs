//! Reads the members of a caller's document. What is wrong is named by its place, from the innermost
//! member outwards.

use std::borrow::Cow;
use std::fmt::Display;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Refusal;
use crate::json::fields::Fields;
use crate::json::text::Text;

/// Puts the refusal of a member into its parent.
pub(crate) trait Within {
    /// The same, with `parent` before the member's name.
    fn within(self, parent: impl Display) -> Self;
}

impl<T> Within for Result<T, Refusal> {
    fn within(self, parent: impl Display) -> Self {
        self.map_err(|refusal| refusal.within(parent))
    }
}

fn read<'a, T: Deserialize<'a>>(value: &'a RawValue, what: &str) -> Result<T, Refusal> {
    serde_json::from_str(value.get()).map_err(|_| Refusal::new("", format!("must be {what}")))
}

/// An object.
pub(crate) fn object(value: &RawValue) -> Result<Fields<'_>, Refusal> {
    read(value, "an object")
}

/// A list.
pub(crate) fn list(value: &RawValue) -> Result<Vec<&RawValue>, Refusal> {
    read(value, "an array")
}

/// Text.
pub(crate) fn text(value: &RawValue) -> Result<Cow<'_, str>, Refusal> {
    read::<Text<'_>>(value, "a string").map(|text| text.0)
}

/// Several texts.
pub(crate) fn texts(value: &RawValue) -> Result<Vec<Cow<'_, str>>, Refusal> {
    let texts = read::<Vec<Text<'_>>>(value, "an array of strings")?;
    Ok(texts.into_iter().map(|text| text.0).collect())
}

/// A number.
pub(crate) fn number(value: &RawValue) -> Result<f64, Refusal> {
    read(value, "a number")
}

/// A whole number that is not negative.
pub(crate) fn count(value: &RawValue) -> Result<u64, Refusal> {
    read(value, "a whole number")
}

/// True or false.
pub(crate) fn flag(value: &RawValue) -> Result<bool, Refusal> {
    read(value, "true or false")
}

/// Anything, left as it stands.
pub(crate) fn anything(value: &RawValue) -> Result<&RawValue, Refusal> {
    Ok(value)
}

/// True for `null`, which says as much as a member that is absent.
pub(crate) fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// True for a string.
pub(crate) fn is_text(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

/// The member `name`, unless it is absent.
pub(crate) fn optional<'a, T>(
    fields: &Fields<'a>,
    name: &'static str,
    read: impl FnOnce(&'a RawValue) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    { fields.get(name) }
        .filter(|value| !is_null(value))
        .map(|value| read(value).within(name))
        .transpose()
}

/// The member `name`, which must be there.
pub(crate) fn required<'a, T>(
    fields: &Fields<'a>,
    name: &'static str,
    read: impl FnOnce(&'a RawValue) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    optional(fields, name, read)?.ok_or_else(|| Refusal::new(name, "is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let document = r#"{"a":[{"b":1}],"n":null}"#;
        let fields: Fields<'_> = serde_json::from_str(document).expect("an object");
        let inner = |value| -> Result<Cow<'_, str>, Refusal> {
            let items = list(value)?;
            required(&object(items[0])?, "b", text).within("[0]")
        };
        let refusal = required(&fields, "a", inner).expect_err("a number is no text");
        assert_eq!(refusal.to_string(), "a[0].b: must be a string");
        assert_eq!(optional(&fields, "n", text), Ok(None));
        let refusal = required(&fields, "n", text).expect_err("null is nothing");
        assert_eq!(refusal.to_string(), "n: is missing");
    }
}
