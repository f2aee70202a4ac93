//! Routes and origins.

use std::collections::BTreeSet;

use url::Url;

use super::{Known, Report, refuse_unknown};
use crate::gateway::{Cors, Pattern, Route};
use crate::spec;

/// Most routes of a gateway: each is tried for a name that nobody declared.
pub(super) const ROUTES_MAX: usize = 1_000;
/// Most origins.
const ORIGINS_MAX: usize = 1_000;

/// Resolves a route. One behind a pattern that matches every name would never serve.
pub(super) fn route(
    spec: &spec::Route,
    seen: &mut BTreeSet<String>,
    known: &Known<'_>,
    place: &str,
    report: &mut Report<'_>,
) -> Option<Route> {
    let at = format!("{place}/match");
    if spec
        .pattern
        .contains(|c: char| c.is_control() || c.is_whitespace())
    {
        report.refuse(
            at,
            "invalid_pattern",
            "must not contain spaces or control characters",
        );
    } else if seen.contains("*") {
        report.refuse(
            at,
            "unreachable",
            "stands after `*`, which matches every name",
        );
    } else if !spec.pattern.contains('*')
        && (known.pools.contains(spec.pattern.as_str())
            || known.lanes.contains(spec.pattern.as_str()))
    {
        report.refuse(
            at,
            "unreachable",
            "is the name of a pool or model, which comes first",
        );
    } else if !seen.insert(spec.pattern.clone()) {
        report.refuse(at, "duplicate", "is a pattern of another route too");
    }
    if !known.pools.contains(spec.pool.as_str()) {
        refuse_unknown(
            "pool",
            &spec.pool,
            known.pools.iter().copied(),
            format!("{place}/pool"),
            report,
        );
    }
    Some(Route {
        pattern: Pattern::new(spec.pattern.clone()),
        pool: spec.pool.clone(),
    })
}

pub(super) fn cors(spec: &spec::Cors, report: &mut Report<'_>) -> Cors {
    let origins = &spec.origins;
    if origins.len() > ORIGINS_MAX {
        let message = format!(
            "has {} entries; at most {ORIGINS_MAX} are allowed",
            origins.len()
        );
        report.refuse("/cors/origins", "too_many", message);
        return Cors::Off;
    }
    match origins.as_slice() {
        [] => return Cors::Off,
        [only] if only == "*" => return Cors::Any,
        _ => {}
    }
    for (index, origin) in origins.iter().enumerate() {
        let at = format!("/cors/origins/{index}");
        // A browser's spelling is compared byte by byte, so only that one can ever match.
        let spelled = Url::parse(origin)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .map(|url| url.origin().ascii_serialization());
        if origin == "*" {
            report.refuse(
                at,
                "invalid_origin",
                "must stand alone: `*` is every origin",
            );
        } else if spelled.as_deref() != Some(origin) {
            report.refuse(
                at,
                "invalid_origin",
                "must be an origin as browsers write it, such as https://app.example.com",
            );
        } else if origins.iter().take(index).any(|before| before == origin) {
            report.refuse(at, "duplicate", "is listed already");
        }
    }
    Cors::Origins(origins.clone())
}
