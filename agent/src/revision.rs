//! Where revisions come from and where they are kept: a file, a push, the last-known-good file.

pub(crate) mod adopt;
pub(crate) mod cache;
pub mod file;
