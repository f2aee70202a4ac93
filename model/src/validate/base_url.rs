//! A provider's base URL: what it may be, and where it may lead. Messages never repeat the URL,
//! which may hold a credential.

use std::net::IpAddr;

use url::{Host, Url};

use super::Report;
use super::hosts::HOST_LEN_MAX;
use crate::gateway::{AddressClass, AddressGuard, AllowedHosts, BaseUrl, Scheme};

/// Names of metadata services that are reached by name.
const METADATA_HOSTS: &[&str] = &["metadata", "metadata.google.internal", "instance-data"];

/// Ends of paths that are whole endpoints and not what a vendor's client takes as its base.
const ENDPOINTS: &[&str] = &[
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/responses",
    "/messages",
    "/v2/chat",
    ":generateContent",
    ":streamGenerateContent",
];

/// Parses and judges a base URL.
pub(super) fn base_url(
    text: &str,
    allowed: &AllowedHosts,
    place: &str,
    report: &mut Report<'_>,
) -> Option<(BaseUrl, AddressGuard)> {
    let before = report.problems.len();
    let parsed = parse(text, place, report)?;
    let guard = judge(&parsed, allowed, place, report);
    (report.problems.len() == before).then_some((parsed, guard))
}

fn parse(text: &str, place: &str, report: &mut Report<'_>) -> Option<BaseUrl> {
    // The parser drops tabs and line ends and reads a backslash as a slash; what people see and
    // what is connected to must be the same.
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        report.refuse(
            place,
            "invalid_url",
            "must not contain spaces, control characters or backslashes",
        );
        return None;
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) => {
            report.refuse(place, "invalid_url", format!("is not a URL: {error}"));
            return None;
        }
    };
    let scheme = match url.scheme() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => {
            report.refuse(place, "invalid_url", "must begin with https:// or http://");
            return None;
        }
    };
    if !url.username().is_empty() || url.password().is_some() {
        report.refuse(
            place,
            "literal_secret",
            "must not contain a user name or password; use api_key",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        report.refuse(
            place,
            "invalid_url",
            "must not have a query or a fragment; parameters belong into query",
        );
    }
    let port = url.port_or_known_default().filter(|port| *port != 0);
    let Some(port) = port else {
        report.refuse(place, "invalid_url", "must not have port 0");
        return None;
    };
    let host = plain_host(&url, text, place, report)?;
    Some(BaseUrl {
        scheme,
        host,
        port,
        path_prefix: path_prefix(&url, place, report)?,
    })
}

/// The path before the endpoint's own. A whole endpoint, the commonest mistake, is refused with the
/// right form.
fn path_prefix(url: &Url, place: &str, report: &mut Report<'_>) -> Option<String> {
    // The parser encodes braces.
    let path = url.path().replace("%7B", "{").replace("%7D", "}");
    let path = path.trim_end_matches('/');
    let without_model = path.replace(BaseUrl::MODEL_PLACEHOLDER, "");
    if without_model.contains(['{', '}']) {
        let message = "must not contain braces but for {model}, the lane's upstream_model";
        report.refuse(place, "invalid_url", message);
        return None;
    }
    if let Some(endpoint) = ENDPOINTS.iter().find(|endpoint| {
        // A word alone may be the name of a place; behind a version it is an operation.
        let is_word = endpoint.matches('/').count() == 1 && path == **endpoint;
        path.ends_with(*endpoint) && !is_word
    }) {
        report.refuse(
            place,
            "whole_endpoint",
            format!("is a whole endpoint; end the URL before `{endpoint}`, which is added"),
        );
        return None;
    }
    Some(path.to_owned())
}

/// The host, when it is written plainly.
fn plain_host(url: &Url, text: &str, place: &str, report: &mut Report<'_>) -> Option<String> {
    match url.host()? {
        Host::Ipv4(address) => {
            let plain = address.to_string();
            if written_host(text) == Some(plain.as_str()) {
                return Some(plain);
            }
            report.refuse(
                place,
                "invalid_host",
                "must write an IPv4 address as four decimal numbers",
            );
            None
        }
        Host::Ipv6(address) => {
            if address.to_ipv4_mapped().is_some() {
                report.refuse(
                    place,
                    "invalid_host",
                    "must write an IPv4 address as such, not inside an IPv6 address",
                );
                return None;
            }
            Some(address.to_string())
        }
        Host::Domain(name) => {
            if name.ends_with('.') {
                report.refuse(place, "invalid_host", "must not end the host with a dot");
                return None;
            }
            if name.len() > HOST_LEN_MAX || !super::hosts::is_host_name(name) {
                report.refuse(place, "invalid_host", "must have a valid host name");
                return None;
            }
            Some(name.to_owned())
        }
    }
}

/// The host as it stands in the text of a URL whose host is an IPv4 address.
fn written_host(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let after_user = authority.rsplit('@').next()?;
    after_user.split(':').next()
}

/// Judges where the URL leads, as far as that shows before a name is resolved.
fn judge(
    url: &BaseUrl,
    allowed: &AllowedHosts,
    place: &str,
    report: &mut Report<'_>,
) -> AddressGuard {
    let address = url.host.parse::<IpAddr>().ok();
    let class = match address {
        Some(address) => AddressClass::of(address),
        None if is_loopback_name(&url.host) => AddressClass::Loopback,
        None if METADATA_HOSTS.contains(&url.host.as_str()) => AddressClass::Metadata,
        None => AddressClass::Public,
    };
    let listed = allowed.allows_host(&url.host);
    let loopback = class == AddressClass::Loopback;
    if class != AddressClass::Public && !loopback && !listed {
        report.refuse(
            place,
            "private_address",
            format!(
                "leads to a {} address; list the host in allow_private_hosts if that is meant",
                class.as_str()
            ),
        );
    } else if url.scheme == Scheme::Http && !loopback && !listed {
        report.refuse(
            place,
            "plain_http",
            "must be https; plain http is for loopback and for hosts in allow_private_hosts",
        );
    }
    AddressGuard {
        host_allowed: listed,
        loopback_allowed: loopback,
        networks: allowed.networks.clone(),
    }
}

fn is_loopback_name(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}
