//! Reads requests: parameters, bodies and preconditions, each with an error that names what is wrong.
//!
//! The framework's own extractors answer in plain text and ignore unknown parameters, so every
//! route takes its input through these.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod cursor;
pub(crate) mod document;
mod json;
mod path;
pub(crate) mod precondition;
pub(crate) mod query;

pub(crate) use body::Json;
pub(crate) use path::Path;
pub(crate) use query::Query;
