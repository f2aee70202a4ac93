//! Whether a schema can be kept to exactly.
//!
//! A function that does not say is strict where its schema allows it, and only there.

use serde_json::Value;

use crate::ir::Json;

/// Deepest schema that is looked into.
const MAX_DEPTH: usize = 32;

/// True when every object in `parameters` lists all it can hold and demands it, as strict schemas must.
pub(super) fn allows_strict(parameters: Option<&Json<'_>>) -> bool {
    let Some(parameters) = parameters else {
        return true;
    };
    { serde_json::from_str::<Value>(parameters.get()) }
        .is_ok_and(|schema| is_closed(&schema, MAX_DEPTH))
}

fn is_closed(schema: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let Value::Object(members) = schema else {
        return true;
    };
    let is_object = members.get("type").is_some_and(|kind| match kind {
        Value::String(kind) => kind == "object",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    });
    if is_object || members.contains_key("properties") {
        let names = members.get("properties").and_then(Value::as_object);
        let demanded = members.get("required").and_then(Value::as_array);
        let is_demanded = |name: &String| {
            demanded.is_some_and(|demanded| demanded.iter().any(|own| own == name.as_str()))
        };
        let is_complete = members.get("additionalProperties") == Some(&Value::Bool(false))
            && names.is_none_or(|names| names.keys().all(is_demanded));
        if !is_complete {
            return false;
        }
    }
    members.iter().all(|(name, value)| match name.as_str() {
        "properties" | "$defs" | "definitions" => { value.as_object() }
            .is_none_or(|inner| inner.values().all(|value| is_closed(value, depth))),
        "anyOf" => { value.as_array() }
            .is_none_or(|inner| inner.iter().all(|value| is_closed(value, depth))),
        "items" => is_closed(value, depth),
        "oneOf" | "allOf" | "not" | "patternProperties" => false,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::raw;

    #[test]
    fn only_a_schema_that_lists_and_demands_everything_allows_it() {
        let closed = serde_json::json!({"type": "object", "properties": {"a": {"type": "string"}},
            "required": ["a"], "additionalProperties": false});
        assert!(allows_strict(Some(&raw(&closed))));
        assert!(allows_strict(None));
        for (name, value) in [
            ("required", serde_json::json!([])),
            ("additionalProperties", serde_json::json!(true)),
            ("properties", serde_json::json!({"a": {"type": "object"}})),
            ("allOf", serde_json::json!([])),
        ] {
            let mut open = closed.clone();
            open[name] = value;
            assert!(!allows_strict(Some(&raw(&open))), "{open}");
        }
        let mut deep = serde_json::json!({"type": "string"});
        for _ in 0..100 {
            deep = serde_json::json!({"items": deep});
        }
        assert!(!allows_strict(Some(&raw(&deep))));
    }
}
