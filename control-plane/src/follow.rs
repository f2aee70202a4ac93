//! What the database says now: revisions, overrides and drains, followed by polls and hints.

pub(crate) mod advice;
pub(crate) mod config;
pub(crate) mod drains;
pub(crate) mod overrides;
pub(crate) mod poll;
