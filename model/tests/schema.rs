//! The checked-in JSON Schema is the one the types make, and uses only what messages exist for.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

#[path = "schema/reference.rs"]
mod reference;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// Set to rewrite the checked-in schema.
const UPDATE: &str = "UPDATE_SCHEMA";

#[test]
fn the_checked_in_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway.schema.json");
    let made = format!(
        "{}\n",
        serde_json::to_string_pretty(&lanekeeper_model::json_schema()).unwrap()
    );
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    assert!(
        made == checked_in,
        "model/gateway.schema.json differs from the types; \
         {UPDATE}=1 cargo test -p lanekeeper-model --test schema writes it"
    );
}

#[test]
fn the_schema_is_a_valid_schema() {
    let schema = lanekeeper_model::json_schema();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert!(jsonschema::meta::is_valid(&schema));
    assert!(jsonschema::draft202012::new(&schema).is_ok());
}

/// Calls back with each schema object within a schema.
fn each_schema(schema: &Value, seen: &mut dyn FnMut(&serde_json::Map<String, Value>)) {
    let Some(object) = schema.as_object() else {
        return;
    };
    seen(object);
    for keyword in ["properties", "$defs"] {
        for inner in object
            .get(keyword)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            each_schema(inner.1, seen);
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        for inner in object
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            each_schema(inner, seen);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get(keyword) {
            each_schema(inner, seen);
        }
    }
}

#[test]
fn every_keyword_of_the_schema_has_a_message() {
    let known = BTreeSet::from([
        "$defs",
        "$ref",
        "$schema",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "oneOf",
        "properties",
        "required",
        "title",
        "type",
    ]);
    each_schema(&lanekeeper_model::json_schema(), &mut |schema| {
        for keyword in schema.keys() {
            assert!(known.contains(keyword.as_str()), "{keyword} has no message");
        }
    });
}

#[test]
fn every_map_is_closed_and_every_key_described() {
    each_schema(&lanekeeper_model::json_schema(), &mut |schema| {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        assert_eq!(
            schema.get("additionalProperties"),
            Some(&Value::Bool(false)),
            "{schema:?}"
        );
        // A single-key form is described as a whole.
        let described = schema.contains_key("description");
        for (key, property) in properties {
            assert!(described || property.get("description").is_some(), "{key}");
        }
    });
}
