//! Fields that this build knows and does not act on yet: refused by name, never ignored.
//!
//! The table is the whole list. Work that makes a field effective deletes its line.

use serde_json::Value;

use super::Report;
use crate::problem::pointer;

/// A field without effect yet. `*` in its path stands for every name.
struct Unserved {
    path: &'static [&'static str],
    values: Values,
}

/// Which values of a field have no effect yet.
enum Values {
    /// These texts.
    Texts(&'static [&'static str]),
    /// A list of more than one.
    Several,
}

/// What is refused. A default is never on the list, because a document without the field must pass;
/// it then means what the build does.
const UNSERVED: &[Unserved] = &[
    Unserved {
        path: &["providers", "*", "api_key"],
        values: Values::Several,
    },
    Unserved {
        path: &["providers", "*", "auth", "kind"],
        values: Values::Texts(&["google", "aws"]),
    },
    Unserved {
        path: &["pools", "*", "failover", "retry_budget", "scope"],
        values: Values::Texts(&["fleet"]),
    },
];

/// Refuses each field of the table that the document sets.
pub(super) fn refuse(document: &Value, report: &mut Report<'_>) {
    for field in UNSERVED {
        find(
            document,
            field.path,
            &mut Vec::new(),
            &mut |place, value| {
                if field.values.hold(value) {
                    report.refuse(
                        pointer(place.iter().copied()),
                        "not_served",
                        message(&field.values, value),
                    );
                }
            },
        );
    }
}

fn message(values: &Values, value: &Value) -> String {
    match values {
        Values::Several => "one is all that this version uses; name one".to_owned(),
        _ => format!("{value} has no effect in this version yet; leave it out"),
    }
}

impl Values {
    fn hold(&self, value: &Value) -> bool {
        match self {
            Self::Texts(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
            Self::Several => value.as_array().is_some_and(|list| list.len() > 1),
        }
    }
}

/// Calls `found` with each value at a path.
fn find<'d>(
    value: &'d Value,
    path: &[&'d str],
    place: &mut Vec<&'d str>,
    found: &mut dyn FnMut(&[&str], &Value),
) {
    let Some((step, rest)) = path.split_first() else {
        return found(place, value);
    };
    for (name, inner) in value.as_object().into_iter().flatten() {
        if *step == "*" || name == step {
            place.push(name);
            find(inner, rest, place, found);
            place.pop();
        }
    }
}
