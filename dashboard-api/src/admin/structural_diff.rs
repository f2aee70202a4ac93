//! What differs between two documents, as a flat list of pointers.
//!
//! Members of a pool are compared by the lane they name, not by position: dropping the first of
//! three members is one removal, not three changes.

use crate::input::body::escape;
use serde_json::{Map, Value};

/// Changes listed in one answer.
const MAX_CHANGES: usize = 1000;
/// The field by which entries of a list are told apart, most telling first.
const IDENTITIES: [&str; 2] = ["target", "name"];

/// What happened to a place of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// It is new.
    Add,
    /// It is gone.
    Remove,
    /// It has another value.
    Replace,
}

/// One difference.
#[derive(Debug, PartialEq, serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Difference {
    /// What happened.
    op: Operation,
    /// Where, as an RFC 6901 pointer into the new document, or into the old one for a removal.
    pointer: String,
    /// The old value; absent for an addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    /// The new value; absent for a removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

/// The differences from `old` to `new`, and whether there are more than are listed.
pub(crate) fn differences(old: &Value, new: &Value) -> (Vec<Difference>, bool) {
    let mut found = Vec::new();
    compare(old, new, "", &mut found);
    let truncated = found.len() > MAX_CHANGES;
    found.truncate(MAX_CHANGES);
    (found, truncated)
}

fn compare(old: &Value, new: &Value, pointer: &str, found: &mut Vec<Difference>) {
    if old == new || found.len() > MAX_CHANGES {
        return;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => compare_objects(old, new, pointer, found),
        (Value::Array(old_items), Value::Array(new_items)) => {
            match IDENTITIES.into_iter().find_map(|field| {
                Some((identified(old_items, field)?, identified(new_items, field)?))
            }) {
                Some((old_items, new_items)) => {
                    compare_identified(&old_items, &new_items, pointer, found);
                }
                None => found.push(replaced(old, new, pointer)),
            }
        }
        _ => found.push(replaced(old, new, pointer)),
    }
}

fn compare_objects(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    pointer: &str,
    found: &mut Vec<Difference>,
) {
    for (key, before) in old {
        let place = format!("{pointer}/{}", escape(key));
        match new.get(key) {
            Some(after) => compare(before, after, &place, found),
            None => found.push(removed(before, place)),
        }
    }
    for (key, after) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        found.push(added(after, format!("{pointer}/{}", escape(key))));
    }
}

type Identified<'a> = Vec<(&'a str, &'a Value)>;

/// The list's entries by a field that each has and no two share; `None` when it is no such list.
fn identified<'a>(items: &'a [Value], field: &str) -> Option<Identified<'a>> {
    let entries: Option<Identified<'a>> = items
        .iter()
        .map(|item| Some((item.get(field)?.as_str()?, item)))
        .collect();
    let entries = entries?;
    let mut names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    (names.len() == entries.len()).then_some(entries)
}

fn compare_identified(
    old: &Identified<'_>,
    new: &Identified<'_>,
    pointer: &str,
    found: &mut Vec<Difference>,
) {
    let before = found.len();
    for (index, (name, value)) in old.iter().enumerate() {
        match new.iter().enumerate().find(|(_, (other, _))| other == name) {
            Some((place, (_, after))) => {
                compare(value, after, &format!("{pointer}/{place}"), found);
            }
            None => found.push(removed(value, format!("{pointer}/{index}"))),
        }
    }
    for (index, (name, value)) in new.iter().enumerate() {
        if !old.iter().any(|(other, _)| other == name) {
            found.push(added(value, format!("{pointer}/{index}")));
        }
    }
    if found.len() == before {
        // Only the order differs, which is a difference all the same.
        let list = |items: &Identified<'_>| {
            Value::Array(items.iter().map(|(_, value)| (*value).clone()).collect())
        };
        found.push(replaced(&list(old), &list(new), pointer));
    }
}

fn added(after: &Value, pointer: String) -> Difference {
    Difference {
        op: Operation::Add,
        pointer,
        before: None,
        after: Some(after.clone()),
    }
}

fn removed(before: &Value, pointer: String) -> Difference {
    Difference {
        op: Operation::Remove,
        pointer,
        before: Some(before.clone()),
        after: None,
    }
}

fn replaced(before: &Value, after: &Value, pointer: &str) -> Difference {
    Difference {
        op: Operation::Replace,
        pointer: pointer.to_owned(),
        before: Some(before.clone()),
        after: Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn diff(old: Value, new: Value) -> Vec<(Operation, String)> {
        differences(&old, &new)
            .0
            .into_iter()
            .map(|d| (d.op, d.pointer))
            .collect()
    }

    #[test]
    fn equal_documents_have_no_difference() {
        let document = json!({"pools": {"chat": {"members": [{"target": "a"}]}}});
        assert!(diff(document.clone(), document).is_empty());
    }

    #[test]
    fn each_changed_place_is_listed_once() {
        let old = json!({"a": 1, "b": {"c": 2, "x/y": 3}, "gone": true});
        let new = json!({"a": 1, "b": {"c": 4, "x/y": 5}, "new": []});
        assert_eq!(
            diff(old, new),
            [
                (Operation::Replace, "/b/c".to_owned()),
                (Operation::Replace, "/b/x~1y".to_owned()),
                (Operation::Remove, "/gone".to_owned()),
                (Operation::Add, "/new".to_owned()),
            ]
        );
    }

    #[test]
    fn members_are_followed_by_their_lane() {
        let old = json!([{"target": "a", "weight": 1}, {"target": "b"}, {"target": "c"}]);
        let new = json!([{"target": "b"}, {"target": "c", "weight": 2}, {"target": "d"}]);
        assert_eq!(
            diff(old, new),
            [
                (Operation::Remove, "/0".to_owned()),
                (Operation::Add, "/1/weight".to_owned()),
                (Operation::Add, "/2".to_owned()),
            ]
        );
    }

    #[test]
    fn a_new_order_is_one_difference() {
        let old = json!({"m": [{"target": "a"}, {"target": "b"}]});
        let new = json!({"m": [{"target": "b"}, {"target": "a"}]});
        assert_eq!(diff(old, new), [(Operation::Replace, "/m".to_owned())]);
    }

    #[test]
    fn the_list_is_bounded_and_says_so() {
        let old = json!({});
        let new: Map<String, Value> = (0..2000).map(|n| (n.to_string(), json!(n))).collect();
        let (found, truncated) = differences(&old, &Value::Object(new));
        assert_eq!(found.len(), MAX_CHANGES);
        assert!(truncated);
    }
}
