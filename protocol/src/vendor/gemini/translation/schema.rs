//! Gemini's own form of schemas, a subset of OpenAPI 3.0, as JSON Schema.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::members::{Members, items};
use crate::ir::Json;
use crate::json::filled::parsed;
use crate::json::text::Text;
use crate::translation::Refusal;
use crate::translation::members::{Within, object, text};

/// Deepest schema that is read.
const DEPTH_MAX: usize = 64;

/// The same schema as JSON Schema; what is JSON Schema already stays as it is.
pub(super) fn to_json_schema(schema: &RawValue) -> Result<Json<'_>, Refusal> {
    let mut out = String::with_capacity(schema.get().len());
    write(schema, &mut out, 0)?;
    RawValue::from_string(out)
        .map(Cow::Owned)
        .map_err(|_| Refusal::new("", "is no schema"))
}

fn write(schema: &RawValue, out: &mut String, depth: usize) -> Result<(), Refusal> {
    if depth > DEPTH_MAX {
        return Err(Refusal::new("", format!("is deeper than {DEPTH_MAX}")));
    }
    // `true` and `false` are schemas too.
    if !schema.get().starts_with('{') {
        out.push_str(schema.get());
        return Ok(());
    }
    let members = Members::of(schema)?;
    let is_nullable = members
        .get("nullable")
        .is_some_and(|value| value.get() == "true");
    out.push('{');
    let start = out.len();
    for (name, value) in members.iter() {
        if matches!(name, "nullable" | "propertyOrdering" | "example") || is_unsaid(name, value) {
            continue;
        }
        if out.len() > start {
            out.push(',');
        }
        push_name(name, out);
        member(name, value, is_nullable, out, depth).within(name)?;
    }
    out.push('}');
    Ok(())
}

/// True for members whose value says nothing in JSON Schema.
fn is_unsaid(name: &str, value: &RawValue) -> bool {
    let word = || parsed::<Text<'_>>(Some(value)).unwrap_or_default().0;
    match name {
        "type" => word() == "TYPE_UNSPECIFIED",
        "format" => word() == "enum",
        _ => false,
    }
}

fn push_name(name: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(name).to_string());
    out.push(':');
}

fn member(
    name: &str,
    value: &RawValue,
    is_nullable: bool,
    out: &mut String,
    depth: usize,
) -> Result<(), Refusal> {
    match name {
        "type" if value.get().starts_with('"') => {
            let kind = text(value)?.to_ascii_lowercase();
            let kind = serde_json::Value::from(kind).to_string();
            if is_nullable {
                out.push_str(&format!("[{kind},\"null\"]"));
            } else {
                out.push_str(&kind);
            }
        }
        "enum" if is_nullable => {
            let values = value.get().trim_end().strip_suffix(']').unwrap_or("[");
            let comma = if values.trim_end().ends_with('[') {
                ""
            } else {
                ","
            };
            out.push_str(&format!("{values}{comma}null]"));
        }
        "properties" | "$defs" | "defs" | "definitions" | "patternProperties" => {
            // The names in here are data.
            out.push('{');
            for (number, (name, schema)) in object(value)?.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                push_name(name, out);
                write(schema, out, depth + 1).within(name)?;
            }
            out.push('}');
        }
        "items" | "additionalProperties" | "not" => write(value, out, depth + 1)?,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            out.push('[');
            for (number, schema) in items(value)?.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(schema, out, depth + 1)?;
            }
            out.push(']');
        }
        // Google's JSON writes large whole numbers as strings.
        "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties" => {
            let digits = value.get().trim_matches('"');
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            out.push_str(if is_number { digits } else { value.get() });
        }
        _ => out.push_str(value.get()),
    }
    Ok(())
}
