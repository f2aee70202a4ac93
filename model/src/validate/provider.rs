//! Providers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Report, base_url, breaker, headers};
use crate::gateway::{AllowedHosts, Health, Provider};
use crate::ids::ProviderName;
use crate::problem::pointer;
use crate::spec::{self, ErrorMeaning, SecretRef};

/// Longest error code of `error_map`, in bytes.
const ERROR_CODE_LEN_MAX: usize = 128;
/// Most entries of `error_map`.
const ERROR_CODES_MAX: usize = 256;
/// Longest path of a secret file, in bytes.
const SECRET_PATH_LEN_MAX: usize = 4096;

/// Resolves a provider. Without the allowed hosts (they are wrong themselves) the base URL cannot be
/// judged, and the rest is checked all the same.
pub(super) fn provider(
    name: &str,
    spec: &spec::Provider,
    allowed: Option<&AllowedHosts>,
    place: &str,
    report: &mut Report<'_>,
) -> Option<Provider> {
    let url = allowed.and_then(|allowed| {
        base_url::base_url(
            &spec.base_url,
            allowed,
            &format!("{place}/base_url"),
            report,
        )
    });
    if let Some(secret) = &spec.api_key {
        check_secret(secret, place, report);
    }
    check_error_map(&spec.error_map, place, report);
    let headers = headers::headers(&spec.headers, place, report);
    let breaker = spec
        .breaker
        .as_ref()
        .map(|block| Arc::new(breaker::policy(block, &format!("{place}/breaker"), report)));
    let (base_url, address_guard) = url?;
    Some(Provider {
        name: ProviderName::from(name),
        protocol: spec.protocol,
        base_url,
        address_guard,
        api_key: spec.api_key.clone(),
        error_map: spec.error_map.clone(),
        health: Health {
            mode: spec.health.mode,
            interval: secs(spec.health.interval_secs)?,
            timeout: secs(spec.health.timeout_secs)?,
        },
        headers,
        connect_timeout: secs(spec.connect_timeout_secs)?,
        http_version: spec.http_version,
        empty_answer: spec.empty_answer,
        breaker,
    })
}

/// A key pasted where a name or path belongs is refused like any literal key, without repeating it.
fn check_secret(secret: &SecretRef, place: &str, report: &mut Report<'_>) {
    match secret {
        SecretRef::Env(name) => {
            let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !(starts_well && name.len() <= 128 && name.chars().all(good)) {
                report.refuse(
                    format!("{place}/api_key/env"),
                    "invalid_secret_ref",
                    "must be the name of an environment variable: letters, digits and underscores",
                );
            }
        }
        SecretRef::File(path) => {
            let good = path.starts_with('/')
                && path.len() <= SECRET_PATH_LEN_MAX
                && !path.contains(char::is_control);
            if !good {
                report.refuse(
                    format!("{place}/api_key/file"),
                    "invalid_secret_ref",
                    "must be the absolute path of a file",
                );
            }
        }
    }
}

fn check_error_map(map: &BTreeMap<String, ErrorMeaning>, place: &str, report: &mut Report<'_>) {
    let section = format!("{place}/error_map");
    if map.len() > ERROR_CODES_MAX {
        let message = format!(
            "has {} entries; at most {ERROR_CODES_MAX} are allowed",
            map.len()
        );
        report.refuse(section.clone(), "too_many", message);
    }
    for code in map.keys() {
        let good = !code.is_empty()
            && code.len() <= ERROR_CODE_LEN_MAX
            && !code.contains(|c: char| c.is_whitespace() || c.is_control());
        if !good {
            report.refuse(
                format!("{section}{}", pointer([code.as_str()])),
                "invalid_error_code",
                "must be a whole error code without spaces, not prose",
            );
        }
    }
}

fn secs(value: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value).ok()
}
