//! `lanekeeper diff`: what `apply` would change.

use super::document;
use crate::api::Api;
use crate::args::{DiffArguments, Format};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};

pub(crate) async fn run(arguments: DiffArguments) -> Result<(), Failure> {
    let text = document::read(&arguments.file)?;
    let checked =
        document::check(&text).map_err(|problems| document::invalid(&arguments.file, &problems))?;
    let gateway = &checked.gateway.name;
    let api = Api::new(&arguments.api)?;
    let config = format!("/admin/v1/gateways/{gateway}/config");
    let found = match api.find(&config).await? {
        Some(_) => {
            let diff = format!("{config}/diff");
            api.post(&diff, &checked.document).await?.body
        }
        None => json!({
            "revision": null,
            "changes": [{"pointer": "", "before": null, "after": checked.document}],
            "truncated": false,
        }),
    };
    let changes = found
        .get("changes")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    match arguments.output {
        Format::Json => output::json(&found),
        Format::Yaml => output::yaml(&found)?,
        Format::Table | Format::Wide if found.get("revision") == Some(&Value::Null) => {
            output::line(&format!(
                "gateway {gateway} does not exist; apply creates it"
            ));
        }
        Format::Table | Format::Wide => print(changes, found.get("truncated")),
    }
    if arguments.exit_code && !changes.is_empty() {
        return Err(Failure::new(
            Kind::Different,
            format!("{} difference(s)", changes.len()),
        ));
    }
    Ok(())
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
