//! Reading JSON without building trees: a scanner that checks the grammar (`scan`), the members of
//! one object as they stand (`fields`), whether a value holds anything (`filled`), and strings that
//! may hold half a character (`text`).

pub mod fields;
pub mod filled;
pub(crate) mod plain;
pub(crate) mod scan;
pub mod text;
