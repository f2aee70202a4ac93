//! What can still be checked in a part whose shape is partly wrong: everything but the places that
//! were refused already. So an unknown key does not hide a private address beside it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Report;
use crate::problem::Problem;

/// Codes of checks that compare fields, each with the blocks of a part it reads. Where something in
/// those blocks was refused, a compared field may be missing, and what the check reports may be
/// untrue.
const COMPARISONS: &[(&str, &[&str])] = &[
    ("base_over_max", &["breaker"]),
    ("nothing_trips", &["breaker"]),
    ("no_usable_member", &["members", "failover"]),
    ("not_a_member", &["members"]),
    ("over_budget", &["failover", "on_exhausted"]),
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

/// Removes the value at a path. Within a list the whole list goes, because the entries after it
/// must not change their positions.
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
    /// Drops what comparing checks said of a salvaged part since there were this many problems, as
    /// far as they read something that was refused.
    pub(super) fn forget_comparisons(&mut self, part: &str, since: usize) {
        let refused = self.refused.within(part).unwrap_or_default();
        let is_refused = |block: &&str| {
            let block = format!("{part}/{block}");
            refused.iter().any(|pointer| {
                pointer == part
                    || pointer
                        .strip_prefix(&block)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let mut index = 0;
        self.problems.retain(|problem| {
            let comparison = COMPARISONS.iter().find(|(code, _)| *code == problem.code);
            let keep = index < since
                || !comparison.is_some_and(|(_, blocks)| blocks.iter().any(&is_refused));
            index += 1;
            keep
        });
    }
}
