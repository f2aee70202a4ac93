//! How a provider is reached beyond its base URL: query, authentication, proxy.

use std::collections::BTreeMap;

use url::{Host, Url};

use super::{Report, headers, secret};
use crate::credentials::{is_credential_name, is_like_key};
use crate::gateway::{Auth, Proxy};
use crate::problem::pointer;
use crate::spec::{self, AuthKind, SecretRef};

/// Most parameters of `query`.
const PARAMETERS_MAX: usize = 64;
/// Longest name or value of a parameter, in bytes.
const PARAMETER_LEN_MAX: usize = 1024;
/// Port of a proxy whose URL names none.
const PROXY_PORT: u16 = 3128;

pub(super) fn query(
    query: &BTreeMap<String, String>,
    place: &str,
    report: &mut Report<'_>,
) -> Vec<(String, String)> {
    let section = format!("{place}/query");
    if query.len() > PARAMETERS_MAX {
        let message = format!(
            "has {} entries; at most {PARAMETERS_MAX} are allowed",
            query.len()
        );
        report.refuse(section, "too_many", message);
        return Vec::new();
    }
    for (name, value) in query {
        let at = format!("{section}{}", pointer([name.as_str()]));
        let is_text =
            |text: &str| text.len() <= PARAMETER_LEN_MAX && !text.contains(char::is_control);
        if name.is_empty() || !is_text(name) || !is_text(value) {
            report.refuse(
                at,
                "invalid_query",
                format!(
                    "must have a name and at most {PARAMETER_LEN_MAX} characters, none of control"
                ),
            );
        } else if is_credential_name(name) || is_like_key(value) {
            report.refuse(
                at,
                "literal_secret",
                "must not carry a credential; a document never holds a key itself, use api_key",
            );
        }
    }
    query
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Which fields a form of authentication has: the missing and the useless ones are refused.
pub(super) fn auth(spec: &spec::Auth, place: &str, report: &mut Report<'_>) -> Option<Auth> {
    let section = format!("{place}/auth");
    let is_header = spec.kind == AuthKind::Header;
    let fields = [
        ("name", spec.name.is_some(), is_header),
        ("scheme", spec.scheme.is_some(), is_header),
        ("region", spec.region.is_some(), spec.kind == AuthKind::Aws),
    ];
    for (field, given, wanted) in fields {
        if given && !wanted {
            report.refuse(
                format!("{section}/{field}"),
                "without_effect",
                "belongs to another kind of authentication",
            );
        }
    }
    let missing = |field: &str, report: &mut Report<'_>| {
        let message = format!("the key `{field}` is missing for this kind");
        report.refuse(section.clone(), "missing_key", message);
    };
    match spec.kind {
        AuthKind::Protocol => Some(Auth::Protocol),
        AuthKind::Google => Some(Auth::Google),
        AuthKind::Header => {
            let Some(name) = &spec.name else {
                missing("name", report);
                return None;
            };
            let name = headers::header_name(name, &format!("{section}/name"), report)?;
            if let Some(scheme) = &spec.scheme
                && !scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            {
                report.refuse(
                    format!("{section}/scheme"),
                    "invalid_header",
                    "must be one word such as Bearer",
                );
            }
            Some(Auth::Header {
                name,
                scheme: spec.scheme.clone(),
            })
        }
        AuthKind::Aws => {
            let Some(region) = &spec.region else {
                missing("region", report);
                return None;
            };
            if !region
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            {
                report.refuse(
                    format!("{section}/region"),
                    "invalid_name",
                    "must be a region such as eu-central-1",
                );
            }
            Some(Auth::Aws {
                region: region.clone(),
            })
        }
    }
}

pub(super) fn proxy(
    spec: Option<&spec::Proxy>,
    place: &str,
    report: &mut Report<'_>,
) -> Option<Proxy> {
    let at = format!("{place}/proxy");
    match spec {
        None => Some(Proxy::Environment),
        Some(spec::Proxy::Url(text)) if text == "none" => Some(Proxy::Never),
        Some(spec::Proxy::Url(text)) => through(text, None, &at, report),
        Some(spec::Proxy::WithCredentials(proxy)) => {
            secret::check(&proxy.credentials, &format!("{at}/credentials"), report);
            through(
                &proxy.url,
                Some(&proxy.credentials),
                &format!("{at}/url"),
                report,
            )
        }
    }
}

fn through(
    text: &str,
    credentials: Option<&SecretRef>,
    at: &str,
    report: &mut Report<'_>,
) -> Option<Proxy> {
    let Some(url) = Url::parse(text).ok().filter(|url| url.scheme() == "http") else {
        report.refuse(
            at,
            "invalid_url",
            "must be none or a URL such as http://proxy:3128",
        );
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() {
        report.refuse(
            at,
            "literal_secret",
            "must not contain a user name or password; use {url: …, credentials: {env: NAME}}",
        );
        return None;
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        report.refuse(at, "invalid_url", "must have no path, query or fragment");
        return None;
    }
    let host = match url.host()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    };
    // The parser hides a port that is the scheme's own.
    let written = text.trim_end_matches('/').ends_with(":80").then_some(80);
    Some(Proxy::Through {
        host,
        port: url.port().or(written).unwrap_or(PROXY_PORT),
        credentials: credentials.cloned(),
    })
}
