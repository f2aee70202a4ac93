//! Rules for names and labels.

use std::collections::BTreeMap;

use super::{LABELS_MAX, Report};
use crate::ids::NAME_LEN_MAX;
use crate::problem::pointer;

/// Longest value of a label, in bytes.
const LABEL_VALUE_LEN_MAX: usize = 256;

/// Gateways: lower-case letters, digits and hyphens, because the name goes into paths and hosts.
pub(super) fn check_gateway(name: &str, place: &str, report: &mut Report<'_>) {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !check_length(name, place, report) && !name.chars().all(good) {
        report.refuse(
            place,
            "invalid_name",
            "must consist of lower-case letters, digits and hyphens",
        );
    }
}

/// Everything else: what model names in the wild consist of, and nothing that would break a path, a
/// header or a metric label.
pub(super) fn check(name: &str, place: &str, report: &mut Report<'_>) {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if check_length(name, place, report) {
        return;
    }
    if !starts_well || !name.chars().all(good) {
        report.refuse(
            place,
            "invalid_name",
            "must start with a letter or digit and consist of letters, digits and -_.:/@+",
        );
    }
}

/// True when the length was refused.
fn check_length(name: &str, place: &str, report: &mut Report<'_>) -> bool {
    if name.is_empty() {
        report.refuse(place, "empty", "a name must not be empty");
    } else if name.len() > NAME_LEN_MAX {
        report.refuse(
            place,
            "too_long",
            format!("a name must have at most {NAME_LEN_MAX} characters"),
        );
    } else {
        return false;
    }
    true
}

pub(super) fn check_labels(labels: &BTreeMap<String, String>, report: &mut Report<'_>) {
    if labels.len() > LABELS_MAX {
        report.refuse(
            "/labels",
            "too_many",
            format!(
                "has {} entries; at most {LABELS_MAX} are allowed",
                labels.len()
            ),
        );
    }
    for (key, value) in labels {
        let place = pointer(["labels", key]);
        check(key, &place, report);
        if value.len() > LABEL_VALUE_LEN_MAX {
            report.refuse(
                place,
                "too_long",
                format!("must have at most {LABEL_VALUE_LEN_MAX} characters"),
            );
        } else if value.chars().any(char::is_control) {
            report.refuse(
                place,
                "invalid_label",
                "must not contain control characters",
            );
        }
    }
}
