//! What dialects say differently about JSON Schemas of tools.

use serde_json::value::RawValue;

use super::members::{is_null, object};
use crate::json::filled::filled;

/// True when the schema of a function's parameters asks for any. Functions without parameters are
/// written in many ways: `null`, `{}`, an object without properties.
pub(crate) fn has_parameters(schema: &RawValue) -> bool {
    let Ok(fields) = object(schema) else {
        return !is_null(schema);
    };
    fields.iter().any(|(name, value)| match name {
        "type" | "$schema" | "$id" | "title" | "description" | "strict" => false,
        "properties" | "required" | "$defs" | "definitions" => filled(Some(value)),
        // Whatever the model likes is something too.
        "additionalProperties" => !matches!(value.get(), "false" | "null"),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_asks_for_nothing_is_seen_in_every_spelling() {
        let has = |json: &str| {
            let schema: &RawValue = serde_json::from_str(json).expect(json);
            has_parameters(schema)
        };
        for nothing in [
            "null",
            "{}",
            r#"{"type":"object"}"#,
            r#"{"type":"object","properties":{}}"#,
            r#"{"$schema":"x","type":"object","properties":{},"required":[],
                "additionalProperties":false}"#,
        ] {
            assert!(!has(nothing), "{nothing}");
        }
        for something in [
            r#"{"properties":{"a":{}}}"#,
            r#"{"type":"object","additionalProperties":true}"#,
            r#"{"anyOf":[{"type":"object"}]}"#,
            r##"{"$ref":"#/$defs/A"}"##,
        ] {
            assert!(has(something), "{something}");
        }
    }
}
