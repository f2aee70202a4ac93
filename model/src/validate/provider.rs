//! Providers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Report, base_url, breaker, headers, reach, secret};
use crate::gateway::{AllowedHosts, Health, Protocols, Provider};
use crate::ids::ProviderName;
use crate::problem::pointer;
use crate::spec::{self, ErrorMeaning};

/// Longest error code of `error_map`, in bytes.
const ERROR_CODE_LEN_MAX: usize = 128;
/// Most entries of `error_map`.
const ERROR_CODES_MAX: usize = 256;

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
    let protocols = protocols(&spec.protocol, place, report);
    let api_keys = secret::keys(spec.api_key.as_ref(), place, report);
    let query = reach::query(&spec.query, place, report);
    let auth = reach::auth(&spec.auth, place, report);
    let proxy = reach::proxy(spec.proxy.as_ref(), place, report);
    check_error_map(&spec.error_map, place, report);
    let headers = headers::headers(&spec.headers, place, report);
    let breaker = spec
        .breaker
        .as_ref()
        .map(|block| Arc::new(breaker::policy(block, &format!("{place}/breaker"), report)));
    let (base_url, address_guard) = url?;
    Some(Provider {
        name: ProviderName::from(name),
        protocols: protocols?,
        base_url,
        address_guard,
        query,
        api_keys,
        auth: auth?,
        proxy: proxy?,
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

fn protocols(spec: &spec::Protocols, place: &str, report: &mut Report<'_>) -> Option<Protocols> {
    let listed = spec.as_slice();
    for (index, protocol) in listed.iter().enumerate() {
        if listed.iter().take(index).any(|before| before == protocol) {
            report.refuse(
                format!("{place}/protocol/{index}"),
                "duplicate",
                format!("`{}` is listed already", protocol.as_str()),
            );
        }
    }
    let (primary, others) = listed.split_first()?;
    Some(Protocols::new(*primary, others.to_vec()))
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
