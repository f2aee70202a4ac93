//! `lanekeeper diff`: what `apply` would change.

use super::document;
use crate::api::{Api, segment};
use crate::args::{DiffArguments, Format};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};

pub(crate) async fn run(arguments: DiffArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    if let (Some(gateway), Some(from)) = (&arguments.gateway, arguments.from) {
        return of_revisions(&api, gateway, from, &arguments).await;
    }
    let documents = document::all(&arguments.files)?;
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
    judge(differences, arguments.exit_code)
}

/// Fails when there are differences and they were to be told by the exit code.
fn judge(differences: usize, is_asked: bool) -> Result<(), Failure> {
    if is_asked && differences > 0 {
        let text = format!("{differences} difference(s)");
        return Err(Failure::new(Kind::Different, text));
    }
    Ok(())
}

/// What changed between two revisions of a gateway.
async fn of_revisions(
    api: &Api,
    gateway: &str,
    from: u64,
    arguments: &DiffArguments,
) -> Result<(), Failure> {
    let base = format!("/admin/v1/gateways/{}", segment(gateway));
    let document = async |number: u64| {
        let revision = api.get(&format!("{base}/revisions/{number}")).await?.body;
        Ok::<_, Failure>(revision.get("document").cloned().unwrap_or_default())
    };
    let before = document(from).await?;
    let after = match arguments.to {
        Some(to) => document(to).await?,
        None => api.get(&format!("{base}/config")).await?.body,
    };
    let mut changes = Vec::new();
    collect(&before, &after, String::new(), &mut changes);
    let differences = changes.len();
    match arguments.output {
        Format::Json => output::json(&json!({"changes": changes})),
        Format::Yaml => output::yaml(&json!({"changes": changes}))?,
        Format::Table | Format::Wide => print(&changes, None),
    }
    judge(differences, arguments.exit_code)
}

/// The places at which two values differ. Lists count as a whole: their order matters.
fn collect(before: &Value, after: &Value, pointer: String, changes: &mut Vec<Value>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let place = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                let side = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or_default()
                };
                collect(&side(old), &side(new), place, changes);
            }
        }
        (old, new) if old != new => {
            changes.push(json!({"pointer": pointer, "before": old, "after": new}));
        }
        _ => {}
    }
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
    fn revisions_differ_where_their_values_do() {
        let before = json!({"pools": {"a/b": {"members": [1]}}, "labels": {"x": "1"}, "gone": 1});
        let after = json!({"pools": {"a/b": {"members": [1, 2]}}, "labels": {"x": "1"}});
        let mut changes = Vec::new();
        collect(&before, &after, String::new(), &mut changes);
        let places: Vec<_> = changes
            .iter()
            .map(|it| it["pointer"].as_str().unwrap())
            .collect();
        assert_eq!(places, ["/gone", "/pools/a~1b/members"]);
    }

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
