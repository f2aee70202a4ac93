//! JSON that says what it means: a key given twice is an error, not a quiet loss of the first.

use super::body::escape;
use crate::error::{Error, Fault};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;

/// Parses a whole body. Nesting is bounded by the JSON library (128 levels).
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let place = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Strict(&place)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| refusal(&error, &pointer(&place.borrow())))
}

fn pointer(place: &[String]) -> String {
    place
        .iter()
        .map(|step| format!("/{}", escape(step)))
        .collect()
}

/// The error for a body that could not be read.
fn refusal(error: &serde_json::Error, pointer: &str) -> Error {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    match error.classify() {
        Category::Data => {
            let message = if error.line() == 0 { reason } else { text };
            Error::InvalidBody(vec![Fault::at(pointer, "invalid_value", message)])
        }
        Category::Syntax | Category::Eof | Category::Io => Error::MalformedJson {
            reason,
            line: error.line(),
            column: error.column(),
        },
    }
}

/// Reads a value below a place, which stands still where reading failed.
#[derive(Clone, Copy)]
struct Strict<'p>(&'p RefCell<Vec<String>>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            self.0.borrow_mut().push(items.len().to_string());
            let Some(item) = seq.next_element_seed(self)? else {
                break;
            };
            self.0.borrow_mut().pop();
            items.push(item);
        }
        self.0.borrow_mut().pop();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.0.borrow_mut().push(key.clone());
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key '{key}' is given twice"
                )));
            }
            let value = entries.next_value_seed(self)?;
            self.0.borrow_mut().pop();
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_json_is_read_as_it_is() {
        let text = br#"{"a":[1,-2,0.5,null,true,"x"],"b":{"c":18446744073709551615}}"#;
        let expected = json!({"a": [1, -2, 0.5, null, true, "x"], "b": {"c": u64::MAX}});
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn a_syntax_error_has_its_line_and_column() {
        let error = parse(b"{\n  \"a\": 1,\n  oops\n}").unwrap_err();
        assert!(
            matches!(
                error,
                Error::MalformedJson {
                    line: 3,
                    column: 3,
                    ..
                }
            ),
            "{error}"
        );
        assert!(matches!(
            parse(b"").unwrap_err(),
            Error::MalformedJson { .. }
        ));
        assert!(matches!(
            parse(b"{} trailing").unwrap_err(),
            Error::MalformedJson { .. }
        ));
    }

    #[test]
    fn a_key_given_twice_is_refused_with_its_place() {
        let Error::InvalidBody(faults) = parse(b"{\"lane\": 1,\n\"lane\": 2}").unwrap_err() else {
            panic!("not refused as a body");
        };
        assert!(
            faults[0]
                .message
                .starts_with("the key 'lane' is given twice at line 2")
        );
        let deep = br#"{"a": [1, {"x/y": 1}], "pools": {"p": [{}, {"m": 1, "m": 2}]}}"#;
        let Error::InvalidBody(faults) = parse(deep).unwrap_err() else {
            panic!("not refused as a body");
        };
        assert_eq!(faults[0].pointer.as_deref(), Some("/pools/p/1/m"));
    }

    #[test]
    fn bottomless_nesting_is_refused() {
        let deep = "[".repeat(100_000);
        assert!(matches!(
            parse(deep.as_bytes()).unwrap_err(),
            Error::MalformedJson { reason, .. } if reason.contains("recursion limit")
        ));
    }
}
