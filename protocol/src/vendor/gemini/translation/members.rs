//! Reads Google's JSON: names in camelCase or snake_case, a single object where a list is meant,
//! numbers that may be strings.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::fields::Fields;
use crate::translation::Refusal;
use crate::translation::members::{Within, is_null, list, object, text};

/// The members of an object that are not null, their names in camelCase.
#[derive(Debug)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> From<Fields<'a>> for Members<'a> {
    fn from(fields: Fields<'a>) -> Self {
        let members = { fields.into_members() }
            .filter(|(_, value)| !is_null(value))
            .map(|(name, value)| (camel(name), value));
        Self(members.collect())
    }
}

impl<'a> Members<'a> {
    pub(super) fn of(value: &'a RawValue) -> Result<Self, Refusal> {
        object(value).map(Self::from)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let mut from_last = self.0.iter().rev();
        { from_last.find(|(own, _)| own == name) }.map(|(_, value)| *value)
    }

    /// The member `name`, unless it is absent.
    pub(super) fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        { self.get(name) }
            .map(|value| read(value).within(name))
            .transpose()
    }

    /// The member `name`, which must be there.
    pub(super) fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&'a RawValue) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.optional(name, read)?
            .ok_or_else(|| Refusal::new(name, "is missing"))
    }
}

/// A name as Google's JSON writes it.
fn camel(name: Cow<'_, str>) -> Cow<'_, str> {
    if !name.contains('_') {
        return name;
    }
    let mut camel = String::with_capacity(name.len());
    let mut is_next = false;
    for letter in name.chars() {
        match letter {
            '_' => is_next = true,
            letter if is_next => {
                camel.push(letter.to_ascii_uppercase());
                is_next = false;
            }
            letter => camel.push(letter),
        }
    }
    Cow::Owned(camel)
}

/// The items of a list, or the one that stands in its place.
pub(super) fn items(value: &RawValue) -> Result<Vec<&RawValue>, Refusal> {
    if value.get().starts_with('[') {
        list(value)
    } else {
        Ok(vec![value])
    }
}

/// A number, which may be written as a string.
pub(super) fn number(value: &RawValue) -> Result<f64, Refusal> {
    let text = value.get().trim_matches('"');
    { text.parse().ok() }
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| Refusal::new("", "must be a number"))
}

/// A whole number, which may be written as a string or with a fraction of nothing.
pub(super) fn whole(value: &RawValue) -> Result<i64, Refusal> {
    let text = value.get().trim_matches('"');
    let text = text.split_once('.').map_or(text, |(whole, fraction)| {
        let is_nothing = fraction.bytes().all(|digit| digit == b'0');
        if is_nothing { whole } else { text }
    });
    { text.parse().ok() }.ok_or_else(|| Refusal::new("", "must be a whole number"))
}

/// As [`whole`], of one that is not negative.
pub(super) fn count(value: &RawValue) -> Result<u64, Refusal> {
    u64::try_from(whole(value)?).map_err(|_| Refusal::new("", "must not be negative"))
}

/// A word of an enumeration, in capitals.
pub(super) fn word(value: &RawValue) -> Result<String, Refusal> {
    text(value).map(|word| word.to_ascii_uppercase())
}

/// Texts of a list, or the one that stands in its place.
pub(super) fn texts(value: &RawValue) -> Result<Vec<Cow<'_, str>>, Refusal> {
    items(value)?.into_iter().map(text).collect()
}
