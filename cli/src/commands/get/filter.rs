//! Which entries of a list are shown, and in which order. The API filters some lists by some fields;
//! here all of them are, by the same words.

use super::{columns, entries_mut};
use crate::args::{FilterArguments, Resource};
use crate::exit::{Failure, Kind};
use serde_json::Value;
use std::cmp::Ordering;

/// Leaves the entries that all filters hold of, sorted.
pub(in crate::commands) fn apply(
    resource: Resource,
    value: &mut Value,
    filter: &FilterArguments,
) -> Result<(), Failure> {
    let place = filter
        .sort_by
        .as_deref()
        .map(|column| place(resource, column))
        .transpose()?;
    let wanted = [
        ("state", &filter.state),
        ("pool", &filter.pool),
        ("lane", &filter.lane),
        ("provider", &filter.provider),
    ];
    let wanted: Vec<(&str, &String)> = wanted
        .iter()
        .filter_map(|(field, value)| Some((*field, value.as_ref()?)))
        .collect();
    let Some(entries) = entries_mut(value) else {
        return match (wanted.first(), &place) {
            (None, None) if filter.labels.is_empty() => Ok(()),
            _ => Err(usage(
                "this is one thing and no list: there is nothing to filter or sort",
            )),
        };
    };
    for (field, _) in &wanted {
        // A field that no entry has would hide them all without a word.
        if !entries.is_empty() && entries.iter().all(|entry| entry.get(field).is_none()) {
            return Err(usage(&format!("entries of this list have no {field}")));
        }
    }
    entries.retain(|entry| {
        let has_label = |(key, value): &(String, String)| {
            let labels = entry.get("labels").or_else(|| entry.get("agents"));
            labels.and_then(|it| it.get(key)).and_then(Value::as_str) == Some(value)
        };
        let is = |(field, value): &(&str, &String)| {
            entry.get(field).and_then(Value::as_str) == Some(value.as_str())
        };
        filter.labels.iter().all(has_label) && wanted.iter().all(is)
    });
    if let Some((place, is_backward)) = place {
        entries.sort_by(|a, b| {
            let order = compare(a.pointer(&place), b.pointer(&place));
            if is_backward { order.reverse() } else { order }
        });
    }
    Ok(())
}

fn usage(text: &str) -> Failure {
    Failure::new(Kind::Usage, text)
}

/// The pointer of a column by its heading, and whether the order is turned round.
fn place(resource: Resource, column: &str) -> Result<(String, bool), Failure> {
    let (column, is_backward) = match column.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (column, false),
    };
    if column.starts_with('/') {
        return Ok((column.to_owned(), is_backward));
    }
    match columns::place(resource, column) {
        Some(place) => Ok((place.to_owned(), is_backward)),
        None => {
            let names = columns::headings(resource).join(", ");
            Err(usage(&format!(
                "--sort-by: no column {column}; there are {names}"
            )))
        }
    }
}

/// Numbers by size, texts by their letters, what is missing last.
fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let given = |value: Option<&Value>| value.filter(|it| !it.is_null()).cloned();
    match (given(a), given(b)) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => columns::word(Some(&a)).cmp(&columns::word(Some(&b))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn agents() -> Value {
        json!({"agents": [
            {"name": "b", "state": "live", "labels": {"zone": "1"}, "applied_revision": 10},
            {"name": "a", "state": "stale", "labels": {"zone": "2"}, "applied_revision": 9},
            {"name": "c", "state": "live", "labels": {"zone": "2"}, "applied_revision": null},
        ]})
    }

    fn names(filter: FilterArguments) -> Result<Vec<String>, Failure> {
        let mut value = agents();
        apply(Resource::Agents, &mut value, &filter)?;
        let entries = value["agents"].as_array().unwrap();
        Ok(entries
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect())
    }

    #[test]
    fn filters_hold_together_and_an_unknown_field_is_an_error() {
        let all = FilterArguments::default;
        let label = ("zone".to_owned(), "2".to_owned());
        let live = Some("live".to_owned());
        let filter = FilterArguments {
            labels: vec![label],
            state: live,
            ..all()
        };
        assert_eq!(names(filter).unwrap(), ["c"]);
        let filter = FilterArguments {
            lane: Some("x".to_owned()),
            ..all()
        };
        assert_eq!(names(filter).unwrap_err().kind(), Kind::Usage);
    }

    #[test]
    fn columns_sort_numbers_by_size_with_what_is_missing_last() {
        let by = |column: &str| FilterArguments {
            sort_by: Some(column.to_owned()),
            ..FilterArguments::default()
        };
        assert_eq!(names(by("agent")).unwrap(), ["a", "b", "c"]);
        assert_eq!(names(by("APPLIED")).unwrap(), ["a", "b", "c"]);
        assert_eq!(names(by("-/labels/zone")).unwrap(), ["a", "c", "b"]);
        let failure = names(by("nonsense")).unwrap_err();
        assert!(failure.to_string().contains("AGENT"), "{failure}");
    }
}
