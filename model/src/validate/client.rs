//! Clients and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Known, Report, names, refuse_unknown};
use crate::gateway::{Client, Limits};
use crate::ids::PoolName;
use crate::spec;

/// Names and keys of the clients before.
#[derive(Default)]
pub(super) struct Seen {
    names: BTreeSet<String>,
    keys: BTreeMap<[u8; 32], String>,
}

/// Resolves a client: its name and key must be its own, and its pools must exist.
pub(super) fn client(
    spec: &spec::Client,
    seen: &mut Seen,
    known: &Known<'_>,
    place: &str,
    report: &mut Report<'_>,
) -> Option<Client> {
    names::check(&spec.name, &format!("{place}/name"), report);
    if !seen.names.insert(spec.name.clone()) {
        report.refuse(
            format!("{place}/name"),
            "duplicate",
            format!("`{}` is the name of another client", spec.name),
        );
    }
    let key_sha256 = sha256(&spec.key_sha256);
    match key_sha256 {
        // A key pasted in place of its hash must not come back in the message.
        None => report.refuse(
            format!("{place}/key_sha256"),
            "invalid_sha256",
            "must be the SHA-256 of the key: 64 hexadecimal digits, never the key itself",
        ),
        Some(key) => {
            if let Some(other) = seen.keys.insert(key, spec.name.clone()) {
                report.refuse(
                    format!("{place}/key_sha256"),
                    "duplicate",
                    format!("is the key of client `{other}` too"),
                );
            }
        }
    }
    let pools = spec
        .pools
        .as_ref()
        .map(|pools| check_pools(pools, known, place, report));
    Some(Client {
        name: spec.name.clone(),
        key_sha256: key_sha256?,
        pools,
        max_concurrent: spec.max_concurrent,
    })
}

fn check_pools(
    pools: &[PoolName],
    known: &Known<'_>,
    place: &str,
    report: &mut Report<'_>,
) -> BTreeSet<PoolName> {
    for (index, pool) in pools.iter().enumerate() {
        if !known.pools.contains(pool.as_str()) && !known.lanes.contains(pool.as_str()) {
            refuse_unknown(
                "pool or model",
                pool,
                known.pools.iter().chain(&known.lanes).copied(),
                format!("{place}/pools/{index}"),
                report,
            );
        }
    }
    pools.iter().cloned().collect()
}

/// Reads 64 hexadecimal digits.
fn sha256(text: &str) -> Option<[u8; 32]> {
    let mut digits = text.chars().map(|digit| digit.to_digit(16));
    let mut bytes = [0_u8; 32];
    for byte in &mut bytes {
        let high = digits.next()??;
        let low = digits.next()??;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    digits.next().is_none().then_some(bytes)
}

pub(super) fn limits(spec: &spec::Limits) -> Option<Limits> {
    Some(Limits {
        body_max_bytes: usize::try_from(spec.body_max_bytes).ok()?,
        inbound_max: usize::try_from(spec.inbound_max).ok()?,
        header_timeout: Duration::try_from_secs_f64(spec.header_timeout_secs).ok()?,
        body_timeout: Duration::try_from_secs_f64(spec.body_timeout_secs).ok()?,
    })
}
