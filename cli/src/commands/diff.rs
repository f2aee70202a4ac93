//! `lanekeeper diff`: what `apply` would change.

use super::document;
use crate::api::{Api, segment};
use crate::args::{DiffArguments, Format};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};

pub(crate) async fn run(arguments: DiffArguments) -> Result<(), Failure> {
    let documents = document::all(&arguments.files)?;
    let api = Api::new(&arguments.api)?;
    let mut differences = 0;
    let mut results = Vec::new();
    for checked in &documents {
        let gateway = checked.gateway.name.to_string();
        let found = compare(&api, &gateway, &checked.document).await?;
        let changes = found
            .get("changes")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        differences += changes.len();
        if matches!(arguments.output, Format::Table | Format::Wide) {
            if found.get("revision") == Some(&Value::Null) {
                output::line(&format!(
                    "gateway {gateway} does not exist; apply creates it"
                ));
            } else {
                if documents.len() > 1 && !changes.is_empty() {
                    output::line(&format!("gateway {gateway}:"));
                }
                print(changes, found.get("truncated"));
            }
        }
        results.push(found);
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
    if arguments.exit_code && differences > 0 {
        return Err(Failure::new(
            Kind::Different,
            format!("{differences} difference(s)"),
        ));
    }
    Ok(())
}

/// What the server finds different from what it has.
async fn compare(api: &Api, gateway: &str, document: &Value) -> Result<Value, Failure> {
    let config = format!("/admin/v1/gateways/{}/config", segment(gateway));
    match api.find(&config).await? {
        Some(_) => Ok(api.post(&format!("{config}/diff"), document).await?.body),
        None => Ok(json!({
            "revision": null,
            "changes": [{"pointer": "", "before": null, "after": document}],
            "truncated": false,
        })),
    }
}

fn print(changes: &[Value], truncated: Option<&Value>) {
    if changes.is_empty() {
        output::hint("there are no differences");
    }
    for change in changes {
        for text in lines(change) {
            output::line(&text);
        }
    }
    if truncated == Some(&Value::Bool(true)) {
        output::line("… and more");
    }
}

/// A change as lines of a diff: what goes with a minus, what comes with a plus.
fn lines(change: &Value) -> Vec<String> {
    let pointer = change
        .get("pointer")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let side = |sign: char, name: &str| {
        let value = change.get(name).filter(|value| !value.is_null())?;
        Some(format!("{sign} {pointer}: {value}"))
    };
    side('-', "before")
        .into_iter()
        .chain(side('+', "after"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_shows_what_goes_and_what_comes() {
        let change = json!({"pointer": "/labels/team", "before": "a", "after": "b"});
        assert_eq!(
            lines(&change),
            ["- /labels/team: \"a\"", "+ /labels/team: \"b\""]
        );
        let added = json!({"pointer": "/labels/team", "before": null, "after": "b"});
        assert_eq!(lines(&added), ["+ /labels/team: \"b\""]);
        let removed = json!({"pointer": "/labels/team", "before": "a"});
        assert_eq!(lines(&removed), ["- /labels/team: \"a\""]);
    }
}
