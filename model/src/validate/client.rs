//! Clients and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Known, Report, names, refuse_unknown};
use crate::gateway::{Client, Limits};
use crate::ids::PoolName;
use crate::spec;

/// SHA-256 of the empty string.
const EMPTY_SHA256: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

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
        // What a script makes of a variable that is not set: it would let in an empty key.
        Some(EMPTY_SHA256) => report.refuse(
            format!("{place}/key_sha256"),
            "invalid_sha256",
            "is the SHA-256 of nothing at all; make a key of 256 random bits",
        ),
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

/// Resolves the limits; a bound of one may not be over the bound of all.
pub(super) fn limits(spec: &spec::Limits, report: &mut Report<'_>) -> Option<Limits> {
    if spec.body_max_bytes > spec.bodies_max_bytes {
        report.refuse(
            "/limits/body_max_bytes",
            "over_budget",
            format!(
                "must not be over bodies_max_bytes ({})",
                spec.bodies_max_bytes
            ),
        );
    }
    if spec.body_timeout_secs > spec.body_total_secs {
        report.refuse(
            "/limits/body_timeout_secs",
            "over_budget",
            format!(
                "must not be over body_total_secs ({})",
                spec.body_total_secs
            ),
        );
    }
    let secs = |value| Duration::try_from_secs_f64(value).ok();
    Some(Limits {
        body_max_bytes: usize::try_from(spec.body_max_bytes).ok()?,
        inbound_max: usize::try_from(spec.inbound_max).ok()?,
        header_timeout: secs(spec.header_timeout_secs)?,
        idle_timeout: secs(spec.idle_timeout_secs)?,
        body_timeout: secs(spec.body_timeout_secs)?,
        body_total: secs(spec.body_total_secs)?,
        bodies_max_bytes: usize::try_from(spec.bodies_max_bytes).ok()?,
        hops_max: spec.hops_max,
    })
}
