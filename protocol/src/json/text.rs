//! Text of a JSON string, whatever it holds.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A string, borrowed from its document unless it holds escapes. Half of a surrogate pair, as
/// vendors send when they cut a character in two, is read as U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Only as bytes does the parser give strings that no UTF-8 can spell.
        deserializer.deserialize_bytes(Bytes(PhantomData))
    }
}

struct Bytes<'a>(PhantomData<Text<'a>>);

impl<'de: 'a, 'a> Visitor<'de> for Bytes<'a> {
    type Value = Text<'a>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Text(match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(repaired(bytes)),
        }))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(repaired(bytes))))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// The text with one U+FFFD for each sequence of bytes that is none.
fn repaired(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let begins_one = |first: &u8| !(0x80..0xc0).contains(first);
        if chunk.invalid().first().is_some_and(begins_one) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_is_read_and_nothing_else() {
        for (json, expected) in [
            (r#""plain""#, "plain"),
            (r#""""#, ""),
            (r#""\ud83d\ude00é\u0000\u2028\/""#, "😀é\0\u{2028}/"),
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00b""#, "\u{fffd}b"),
            (r#""\ud83dx\ud83d\ud83d""#, "\u{fffd}x\u{fffd}\u{fffd}"),
        ] {
            let text: Text<'_> = serde_json::from_str(json).expect(json);
            assert_eq!(text.0, expected, "{json}");
        }
        let text: Text<'_> = serde_json::from_str(r#""plain""#).expect("a string");
        assert!(matches!(text.0, Cow::Borrowed(_)));
        for json in ["1", "null", "[97]", "{}", "true", "\"a"] {
            assert!(serde_json::from_str::<Text<'_>>(json).is_err(), "{json}");
        }
    }
}
