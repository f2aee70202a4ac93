//! Headers a provider adds to every upstream request.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderName, HeaderValue};

use super::{Report, secret};
use crate::credentials::{is_credential_name, is_like_key};
use crate::problem::pointer;
use crate::spec::HeaderValue as Value;

/// Most headers of a provider.
const HEADERS_MAX: usize = 64;
/// Longest value, in bytes.
const VALUE_LEN_MAX: usize = 4096;

/// Headers that the connection, the body or the agent itself rules.
const MANAGED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Checks headers and writes their names in lower case. Values are never repeated.
pub(super) fn headers(
    headers: &BTreeMap<String, Value>,
    place: &str,
    report: &mut Report<'_>,
) -> Vec<(String, Value)> {
    let mut checked = Vec::new();
    let mut names = BTreeSet::new();
    let section = format!("{place}/headers");
    if headers.len() > HEADERS_MAX {
        report.refuse(
            section,
            "too_many",
            format!(
                "has {} entries; at most {HEADERS_MAX} are allowed",
                headers.len()
            ),
        );
        return checked;
    }
    for (name, value) in headers {
        let place = format!("{section}{}", pointer([name.as_str()]));
        let Some(lower) = header_name(name, &place, report) else {
            continue;
        };
        match value {
            Value::Secret(reference) => secret::check(reference, &place, report),
            Value::Text(text) => check_text(&lower, text, &place, report),
        }
        if !names.insert(lower.clone()) {
            report.refuse(
                place,
                "duplicate",
                "is given twice: case does not tell header names apart",
            );
        } else {
            checked.push((lower, value.clone()));
        }
    }
    checked
}

fn check_text(name: &str, text: &str, place: &str, report: &mut Report<'_>) {
    if is_credential_name(name) || is_like_key(text) {
        report.refuse(
            place,
            "literal_secret",
            "must not carry a credential; a document never holds a key itself, use api_key or \
             {env: NAME}",
        );
    } else if text.len() > VALUE_LEN_MAX || !text.is_ascii() || HeaderValue::from_str(text).is_err()
    {
        report.refuse(
            place,
            "invalid_header",
            format!("must have a value of visible ASCII, at most {VALUE_LEN_MAX} characters"),
        );
    }
}

/// A header name that may be set or read here, in lower case.
pub(super) fn header_name(name: &str, place: &str, report: &mut Report<'_>) -> Option<String> {
    let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
        report.refuse(place, "invalid_header", "is not a valid header name");
        return None;
    };
    if MANAGED.contains(&parsed.as_str()) {
        report.refuse(
            place,
            "invalid_header",
            "belongs to the connection or the body and cannot be configured",
        );
        return None;
    }
    Some(parsed.as_str().to_owned())
}
