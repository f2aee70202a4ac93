//! `lanekeeper check`

use super::document;
use crate::args::{CheckArguments, Format};
use crate::exit::Failure;
use crate::output;
use serde_json::{Value, json};

pub(crate) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    let text = document::read(&arguments.file)?;
    let checked = document::check(&text);
    let result = match &checked {
        Ok(checked) => json!({
            "valid": true,
            "gateway": checked.gateway.name,
            "lanes": checked.gateway.lanes.len(),
            "pools": checked.gateway.pools.len(),
            "errors": [],
        }),
        Err(problems) => json!({"valid": false, "errors": problems}),
    };
    match arguments.output {
        Format::Json => output::json(&result),
        Format::Yaml => output::yaml(&result)?,
        Format::Table | Format::Wide if checked.is_ok() => table(&result),
        Format::Table | Format::Wide => {}
    }
    match checked {
        Ok(_) => Ok(()),
        Err(problems) => Err(document::invalid(&arguments.file, &problems)),
    }
}

fn table(result: &Value) {
    let word = |name: &str| result.get(name).map(Value::to_string).unwrap_or_default();
    let (gateway, lanes, pools) = (word("gateway"), word("lanes"), word("pools"));
    output::line(&format!(
        "gateway {gateway} is valid: {lanes} lanes in {pools} pools"
    ));
}
