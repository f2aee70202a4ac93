//! The members of a JSON object, each value left as it stands.
//!
//! Answers are judged by a few fields whose names are known and by whether any other says
//! something. A list in the order of the text tells both, and costs one allocation where a map
//! costs one for every name.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Members of the usual object; a larger one makes the list grow.
const USUAL_MEMBERS: usize = 8;

/// One object's members.
#[derive(Debug, Default)]
pub struct Fields<'a>(Vec<(Key<'a>, &'a RawValue)>);

/// A name that is borrowed from the text unless it holds escapes.
#[derive(Debug, Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Fields<'a> {
    /// The value under `name`; of several the last, as most readers have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        let mut from_last = self.0.iter().rev();
        from_last
            .find(|(key, _)| key.0 == name)
            .map(|(_, value)| *value)
    }

    /// Every member with its name, in the order of the text.
    pub fn into_members(self) -> impl Iterator<Item = (Cow<'a, str>, &'a RawValue)> {
        self.0.into_iter().map(|(key, value)| (key.0, value))
    }

    /// Every member, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (key.0.as_ref(), *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<'a>(PhantomData<Fields<'a>>);

impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
    type Value = Fields<'a>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(USUAL_MEMBERS);
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Fields(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_kept_as_they_stand() {
        let text = r#"{"a": [1, 2],"b\u0063":"x" , "a" : null}"#;
        let fields: Fields<'_> = serde_json::from_str(text).expect("an object");
        let read: Vec<_> = fields
            .iter()
            .map(|(key, value)| (key, value.get()))
            .collect();
        assert_eq!(read, [("a", "[1, 2]"), ("bc", "\"x\""), ("a", "null")]);
        assert_eq!(fields.get("a").map(RawValue::get), Some("null"));
        assert!(fields.get("b").is_none());
    }

    #[test]
    fn anything_but_one_object_is_refused() {
        for text in [
            "",
            "null",
            "[]",
            "\"x\"",
            "{",
            r#"{"a"}"#,
            r#"{"a":1,}"#,
            "{} x",
        ] {
            assert!(serde_json::from_str::<Fields<'_>>(text).is_err(), "{text}");
        }
    }
}
