//! The JSON Schema of the gateway document, made from the types, and the structural check against
//! it. What the schema promises to editors is exactly what is enforced.

use std::sync::LazyLock;

use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::problem::Problem;
use crate::spec::Document;

mod explain;

/// Both forms of the schema, made once.
struct Compiled {
    schema: Value,
    validator: Result<Validator, String>,
}

static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let schema = json_schema();
    let validator = jsonschema::draft202012::new(&schema).map_err(|error| error.to_string());
    Compiled { schema, validator }
});

/// The JSON Schema (draft 2020-12) of the gateway document, with descriptions.
pub fn json_schema() -> Value {
    SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Document>()
        .to_value()
}

/// Everything about the shape of a document that the schema refuses. Messages never repeat values.
pub(crate) fn structural_problems(document: &Value) -> Vec<Problem> {
    let compiled = &*COMPILED;
    match &compiled.validator {
        Ok(validator) => explain::explain(&compiled.schema, validator.iter_errors(document)),
        // The schema is fixed at build time and a test compiles it, so this means a broken build.
        Err(_) => vec![Problem::new(
            "",
            "internal",
            "the schema of the document cannot be compiled",
        )],
    }
}
