//! Headers a provider adds to every upstream request.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderName, HeaderValue};

use super::Report;
use crate::problem::pointer;

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

/// Headers that carry a credential, which belongs into `api_key`.
const CREDENTIALS: &[&str] = &[
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-goog-api-key",
];

/// How well-known keys begin.
const KEY_PREFIXES: &[&str] = &[
    "Bearer ", "bearer ", "Basic ", "sk-", "sk_", "AIza", "ghp_", "xai-",
];

/// Checks headers and writes their names in lower case. Values are never repeated.
pub(super) fn headers(
    headers: &BTreeMap<String, String>,
    place: &str,
    report: &mut Report<'_>,
) -> Vec<(String, String)> {
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
        if CREDENTIALS.contains(&lower.as_str())
            || KEY_PREFIXES.iter().any(|prefix| value.starts_with(prefix))
        {
            report.refuse(
                place,
                "literal_secret",
                "must not carry a credential; a document never holds a key itself, use api_key",
            );
        } else if value.len() > VALUE_LEN_MAX
            || !value.is_ascii()
            || HeaderValue::from_str(value).is_err()
        {
            report.refuse(
                place,
                "invalid_header",
                format!("must have a value of visible ASCII, at most {VALUE_LEN_MAX} characters"),
            );
        } else if !names.insert(lower.clone()) {
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
