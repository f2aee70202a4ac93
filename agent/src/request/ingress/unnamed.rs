//! Which pool serves a request that names no model.

use crate::clients::Caller;
use crate::lanes::snapshot::Snapshot;
use http::HeaderMap;
use lanekeeper_model::PoolName;
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::error_body::ErrorKind;

/// The caller's choice of a pool.
const POOL_HEADER: &str = "x-lanekeeper-pool";

/// The name of the pool: the one in the caller's header, else the only one the caller may use, else
/// the only one of them that speaks the dialect.
///
/// # Errors
///
/// None of these is one pool.
pub(super) fn pool(
    snapshot: &Snapshot,
    caller: &Caller,
    headers: &HeaderMap,
    dialect: Dialect,
) -> Result<String, ErrorKind> {
    let refused = |message: String| ErrorKind::BadRequest {
        message,
        field: Some("model".to_owned()),
    };
    if let Some(named) = headers.get(POOL_HEADER) {
        let name = named.to_str().ok().filter(|name| !name.is_empty());
        let unreadable = || refused(format!("The header {POOL_HEADER} names no pool."));
        return name.map(str::to_owned).ok_or_else(unreadable);
    }
    let allowed = || { snapshot.pools.iter() }.filter(|(name, _)| caller.may_use(name));
    let speaking = allowed().filter(|(_, pool)| pool.speaks(dialect.protocol()));
    only(allowed().map(|(name, _)| name))
        .or_else(|| only(speaking.map(|(name, _)| name)))
        .map(PoolName::to_string)
        .ok_or_else(|| {
            refused(format!(
                "The request names no model and several pools could serve it, or none. Name a \
                 model, or a pool in the header {POOL_HEADER}."
            ))
        })
}

/// The item of an iterator that has one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}
