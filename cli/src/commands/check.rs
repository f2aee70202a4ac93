//! `lanekeeper check`

use super::document;
use crate::args::{CheckArguments, Format};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    let text = document::read(&arguments.file)?;
    let parts = document::split(&text);
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

fn table(result: &Value) {
    let word = |name: &str| result.get(name).map(Value::to_string).unwrap_or_default();
    let (gateway, lanes, pools) = (word("gateway"), word("lanes"), word("pools"));
    output::line(&format!(
        "gateway {gateway} is valid: {lanes} lanes in {pools} pools"
    ));
}
