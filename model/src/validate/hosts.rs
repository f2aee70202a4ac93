//! The entries of `allow_private_hosts`: host names, addresses and networks.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Report;
use crate::gateway::AllowedHosts;

/// Most entries.
const ENTRIES_MAX: usize = 1_000;
/// Longest host name, in bytes (RFC 1035).
pub(super) const HOST_LEN_MAX: usize = 253;
/// Longest part of a host name between dots, in bytes (RFC 1035).
const LABEL_LEN_MAX: usize = 63;

pub(super) fn allowed_hosts(entries: &[String], report: &mut Report<'_>) -> AllowedHosts {
    let mut allowed = AllowedHosts::default();
    if entries.len() > ENTRIES_MAX {
        report.refuse(
            "/allow_private_hosts",
            "too_many",
            format!(
                "has {} entries; at most {ENTRIES_MAX} are allowed",
                entries.len()
            ),
        );
        return allowed;
    }
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("/allow_private_hosts/{index}");
        if let Ok(address) = entry.parse::<IpAddr>() {
            allowed.networks.push(IpNet::from(address.to_canonical()));
        } else if let Ok(network) = entry.parse::<IpNet>() {
            if network.prefix_len() == 0 {
                report.refuse(
                    place,
                    "invalid_host",
                    "must not be the network of all addresses",
                );
            } else {
                allowed.networks.push(network.trunc());
            }
        } else if is_host_name(entry) {
            allowed.names.insert(entry.to_ascii_lowercase());
        } else {
            report.refuse(
                place,
                "invalid_host",
                "must be a host name, an address or a network such as 10.0.0.0/8, \
                 without scheme, port, path or wildcard",
            );
        }
    }
    allowed
}

/// A host name, and not an odd spelling of an address: those end in a number.
pub(super) fn is_host_name(host: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    host.len() <= HOST_LEN_MAX
        && !ends_in_number(host)
        && host.split('.').all(|label| {
            !label.is_empty() && label.len() <= LABEL_LEN_MAX && label.chars().all(good)
        })
}

/// The test by which URL parsers tell IPv4 addresses, in all their forms, from names.
fn ends_in_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    last.chars().all(|c| c.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))
}
