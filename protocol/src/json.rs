//! Reading JSON without building trees: a scanner that checks the grammar (`scan`), the members of
//! one object as they stand (`fields`), and whether a value holds anything (`filled`).

pub mod fields;
pub mod filled;
pub(crate) mod plain;
pub(crate) mod scan;
