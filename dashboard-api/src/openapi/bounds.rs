//! Bounds that the code has and derived schemas lack: what the description allows, the API takes.

use lanekeeper_store::TEXT_MAX;
use serde_json::{Map, Value, json};

/// Longest name of a gateway, token, pool or lane.
const NAME_MAX: usize = 63;

/// Adds the bounds to parameters and forms.
pub(super) fn add(document: &mut Value) {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let operations = paths
        .into_iter()
        .flat_map(|paths| paths.values_mut())
        .filter_map(Value::as_object_mut)
        .flat_map(|methods| methods.values_mut());
    for operation in operations {
        let parameters = operation
            .get_mut("parameters")
            .and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            let name = parameter
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let bounds = of_parameter(name);
            if let Some(schema) = parameter.get_mut("schema").and_then(Value::as_object_mut) {
                extend(schema, &bounds);
            }
        }
    }
    for (form, field, bounds) in forms() {
        let place = format!("/components/schemas/{form}/properties/{field}");
        if let Some(schema) = document.pointer_mut(&place).and_then(Value::as_object_mut) {
            extend(schema, &bounds);
        }
    }
}

fn extend(schema: &mut Map<String, Value>, bounds: &Value) {
    let bounds = bounds.as_object().into_iter().flatten();
    schema.extend(bounds.map(|(key, value)| (key.clone(), value.clone())));
}

/// Bounds of a parameter, by its name: it means the same wherever it stands.
fn of_parameter(name: &str) -> Value {
    match name {
        // Opaque, and nothing but ours is taken.
        "cursor" => json!({"minLength": 1, "pattern": "^[A-Za-z0-9_-]+$"}),
        "message" => json!({"maxLength": TEXT_MAX}),
        _ => json!({}),
    }
}

/// Bounds of the fields of forms.
fn forms() -> [(&'static str, &'static str, Value); 8] {
    let secs = |most: u64| json!({"minimum": 1, "maximum": most});
    [
        (
            "TokenForm",
            "name",
            json!({"minLength": 1, "maxLength": NAME_MAX}),
        ),
        (
            "TokenForm",
            "expires_in_secs",
            secs(crate::admin::tokens::MAX_LIFE_SECS),
        ),
        (
            "JoinTokenForm",
            "ttl_secs",
            secs(crate::admin::join_tokens::MAX_TTL_SECS),
        ),
        (
            "JoinTokenForm",
            "max_uses",
            secs(crate::admin::join_tokens::MAX_USES),
        ),
        (
            "OverrideForm",
            "ttl_secs",
            secs(crate::admin::overrides::MAX_TTL_SECS),
        ),
        (
            "OverrideForm",
            "reason",
            json!({"minLength": 1, "maxLength": crate::admin::overrides::MAX_REASON_BYTES}),
        ),
        ("StartForm", "message", json!({"maxLength": TEXT_MAX})),
        ("SignIn", "token", json!({"minLength": 1})),
    ]
}
