//! What can still be checked in a part whose shape is partly wrong: everything but the places that
//! were refused already. So an unknown key does not hide a private address beside it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Report;
use crate::problem::Problem;

/// Codes of checks that compare fields. In a salvaged part one of the fields may be missing, so
/// what these checks say there may be untrue.
const COMPARING_CODES: &[&str] = &[
    "base_over_max",
    "no_usable_member",
    "not_a_member",
    "nothing_trips",
    "over_budget",
];

/// Where the schema refused something, by part: `/limits`, `/pools/chat`, `/clients/0`.
#[derive(Default)]
pub(super) struct Refused {
    by_part: BTreeMap<String, Vec<String>>,
}

impl Refused {
    pub(super) fn new(problems: &[Problem]) -> Self {
        let mut refused = Self::default();
        for problem in problems {
            // Both the section and the entry within it are parts.
            let mut slashes = problem.pointer.match_indices('/').skip(1);
            let mut parts = vec![slashes.next().map(|(at, _)| at)];
            if parts != [None] {
                parts.push(slashes.next().map(|(at, _)| at));
            }
            for end in parts {
                let part = end.and_then(|end| problem.pointer.get(..end));
                refused
                    .by_part
                    .entry(part.unwrap_or(&problem.pointer).to_owned())
                    .or_default()
                    .push(problem.pointer.clone());
            }
        }
        refused
    }

    /// The places refused within a part; `None` when its shape is right.
    pub(super) fn within(&self, part: &str) -> Option<&[String]> {
        self.by_part.get(part).map(Vec::as_slice)
    }
}

/// The part without the refused places, and with stand-ins for missing keys that are required.
/// `None` when the part as a whole was refused.
pub(super) fn salvage(
    value: &Value,
    part: &str,
    refused: &[String],
    stand_ins: &[(&str, Value)],
) -> Option<Value> {
    let mut rest = value.as_object()?.clone();
    for pointer in refused {
        let inner = pointer.strip_prefix(part)?;
        let keys: Vec<String> = inner
            .split('/')
            .skip(1)
            .map(|key| key.replace("~1", "/").replace("~0", "~"))
            .collect();
        remove(&mut rest, &keys);
    }
    for (key, stand_in) in stand_ins {
        rest.entry(*key).or_insert_with(|| stand_in.clone());
    }
    Some(Value::Object(rest))
}

/// Removes the value at a path. Within a list the whole list goes, because the entries after it must
/// not change their positions.
fn remove(map: &mut Map<String, Value>, path: &[String]) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    match map.get_mut(key) {
        Some(Value::Object(inner)) if !rest.is_empty() => {
            remove(inner, rest);
            // `{queue: …}` without its queue is no longer any of the forms it could have.
            if inner.is_empty() {
                map.remove(key);
            }
        }
        Some(Value::Array(entries)) => match rest.split_first() {
            Some((index, rest)) if !rest.is_empty() => {
                let entry = index.parse().ok().and_then(|at: usize| entries.get_mut(at));
                if let Some(Value::Object(inner)) = entry {
                    remove(inner, rest);
                }
            }
            Some(_) | None => {
                map.remove(key);
            }
        },
        Some(_) | None => {
            map.remove(key);
        }
    }
}

impl Report<'_> {
    /// Drops what comparing checks said since there were this many problems.
    pub(super) fn forget_comparisons(&mut self, since: usize) {
        let mut index = 0;
        self.problems.retain(|problem| {
            let keep = index < since || !COMPARING_CODES.contains(&problem.code.as_str());
            index += 1;
            keep
        });
    }
}
