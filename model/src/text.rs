//! YAML or JSON text to a JSON value: duplicate keys, several documents, alias bombs and numbers
//! JSON has no form for are refused, each with line and column.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::Problem;

/// Largest document, as the text it is given in and as the JSON that is stored and pushed: 15 MiB,
/// which is what fits into one message to an agent.
pub const DOCUMENT_BYTES_MAX: usize = 15 * 1024 * 1024;
/// Deepest nesting of maps and lists.
pub const DEPTH_MAX: usize = 32;
/// Most aliases a document may use.
const ALIASES_MAX: usize = 10_000;
/// Most parser events that aliases may repeat: what makes an alias bomb explode.
const REPEATED_EVENTS_MAX: usize = 100_000;
/// Most values in a document.
const NODES_MAX: usize = 1_000_000;

/// Reads one YAML document.
pub(crate) fn parse_yaml(text: &str) -> Result<Value, Problem> {
    refuse_too_large(text.len())?;
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX + 1,
            max_aliases: ALIASES_MAX,
            max_nodes: NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPEATED_EVENTS_MAX,
        },
    };
    match serde_saphyr::from_str_with_options::<Json>(text, options) {
        Ok(Json(value)) => Ok(value),
        Err(error) => Err(syntax_problem(&error)),
    }
}

/// Reads one JSON document. A key that is given twice is refused: keeping either would be a guess.
///
/// # Errors
///
/// A problem with line and column.
pub fn parse_json(text: &[u8]) -> Result<Value, Problem> {
    refuse_too_large(text.len())?;
    match serde_json::from_slice::<Json>(text) {
        Ok(Json(value)) => Ok(value),
        Err(error) => Err(Problem::new("", "syntax", error.to_string())),
    }
}

/// Refuses a document whose JSON text is over the bound: aliases make YAML grow.
pub(crate) fn refuse_too_large_as_json(value: &Value) -> Result<(), Problem> {
    let mut length = Length(0);
    // Counting cannot fail, and a value from text serialises.
    let _ = serde_json::to_writer(&mut length, value);
    refuse_too_large(length.0)
}

/// Counts what is written.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn refuse_too_large(bytes: usize) -> Result<(), Problem> {
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(Problem::new(
            "",
            "too_large",
            format!("the document has more than {DOCUMENT_BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

/// Reports what is wrong and where. No snippet of the text: it may show a secret.
fn syntax_problem(error: &serde_saphyr::Error) -> Problem {
    let message = error.without_snippet().to_string();
    let place = error.location().map(|at| (at.line(), at.column()));
    let message = match place {
        Some((line, column)) if line > 0 && !message.contains("line ") => {
            format!("{message} at line {line}, column {column}")
        }
        Some(_) | None => message,
    };
    Problem::new("", "syntax", message)
}

/// A JSON value read from text. Unlike [`Value`] itself it refuses infinite numbers instead of
/// turning them into null, which would read as "unbounded".
struct Json(Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        JsonSeed { depth: 0 }.deserialize(deserializer).map(Self)
    }
}

#[derive(Clone, Copy)]
struct JsonSeed {
    depth: usize,
}

impl JsonSeed {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(format_args!(
                "nested deeper than {DEPTH_MAX} levels"
            )));
        }
        Ok(Self {
            depth: self.depth + 1,
        })
    }
}

impl<'de> DeserializeSeed<'de> for JsonSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can hold")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<Value, E> {
        Err(E::custom("an integer is out of range"))
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<Value, E> {
        Err(E::custom("an integer is out of range"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(deeper)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(deeper)?;
            if values.insert(key, value).is_some() {
                return Err(A::Error::custom("a key is given twice"));
            }
        }
        Ok(Value::Object(values))
    }
}
