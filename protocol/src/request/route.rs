//! Which operation of which vendor a request's path means.

use std::borrow::Cow;

use http::HeaderMap;

use crate::dialect::{Dialect, Operation};
use crate::vendor;

/// The operation at `path`, and the model that the path names.
#[must_use]
pub fn operation(path: &str) -> Option<(Dialect, Option<Cow<'_, str>>)> {
    vendor::ALL.iter().find_map(|vendor| {
        let (operation, model) = vendor.route(path)?;
        Some((Dialect::new(*vendor, operation), model))
    })
}

/// The list of models that the caller's package reads. Several vendors list their models at the path
/// of [`Dialect::OPENAI_MODELS`]; what only their own packages send tells which list is wanted. Other
/// operations stay what they are.
#[must_use]
pub fn list(dialect: Dialect, headers: &HeaderMap, query: Option<&str>) -> Dialect {
    if dialect != Dialect::OPENAI_MODELS {
        return dialect;
    }
    let caller = { vendor::ALL.iter() }.find(|vendor| vendor.is_caller(headers, query));
    caller.map_or(dialect, |vendor| Dialect::new(*vendor, Operation::Models))
}

/// What the caller of a path that nobody serves most likely speaks.
#[must_use]
pub fn guess(path: &str, headers: &HeaderMap, query: Option<&str>) -> Dialect {
    let caller = { vendor::ALL.iter() }
        .find(|vendor| vendor.is_caller(headers, query) || vendor.resembles(path));
    caller.map_or(Dialect::OPENAI_CHAT, |vendor| {
        Dialect::new(*vendor, Operation::Chat)
    })
}
