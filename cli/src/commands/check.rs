//! `lanekeeper check`

mod mix;

use super::document;
use crate::args::{CheckArguments, Format};
use crate::exit::{Failure, Kind};
use crate::output;
use lanekeeper_model::Gateway;
use serde_json::{Value, json};

/// The warning about a document without any pool that could serve.
const NO_USABLE_POOL: &str = "warning: no pool has a member that can be selected; where the gateway \
                              serves already, it is refused without --allow-empty";

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    let text = document::read(&arguments.file)?;
    let parts = lanekeeper_model::split_documents(&text);
    let mut results = Vec::new();
    let mut refused: Vec<String> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let checked = document::check(part);
        results.push(match &checked {
            Ok(checked) => json!({
                "valid": true,
                "gateway": checked.gateway.name,
                "lanes": checked.gateway.lanes.len(),
                "pools": checked.gateway.pools.len(),
                "errors": [],
                "warnings": warnings(&checked.gateway),
                "notes": mix::notes(&checked.gateway),
            }),
            Err(problems) => json!({"valid": false, "errors": problems}),
        });
        if let Err(problems) = checked {
            let place = document::place(&arguments.file, index, parts.len());
            refused.push(document::invalid(&place, &problems).to_string());
        }
    }
    if matches!(arguments.output, Format::Table | Format::Wide) {
        let is_valid = |result: &&Value| result.get("valid") == Some(&Value::Bool(true));
        results.iter().filter(is_valid).for_each(table);
    }
    let result = match <[Value; 1]>::try_from(results) {
        Ok([only]) => only,
        Err(several) => Value::Array(several),
    };
    match arguments.output {
        Format::Json => output::json(&result),
        Format::Yaml => output::yaml(&result)?,
        Format::Table | Format::Wide => {}
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(Kind::Invalid, refused.join("\n")))
    }
}

/// What is allowed in a document and seldom meant.
fn warnings(gateway: &Gateway) -> Vec<&'static str> {
    let is_empty = !gateway.has_usable_pool();
    is_empty.then_some(NO_USABLE_POOL).into_iter().collect()
}

fn table(result: &Value) {
    let word = |name: &str| result.get(name).map(Value::to_string).unwrap_or_default();
    let (gateway, lanes, pools) = (word("gateway"), word("lanes"), word("pools"));
    output::line(&format!(
        "gateway {gateway} is valid: {lanes} lanes in {pools} pools"
    ));
    for list in ["warnings", "notes"] {
        let lines = result.get(list).and_then(Value::as_array);
        let lines = lines.into_iter().flatten().filter_map(Value::as_str);
        lines.for_each(output::hint);
    }
}
