//! The accept loop behind every HTTP listener of the project.
//!
//! A listener that faces a network needs the same handful of guards whatever it serves: a bound on
//! connections, a bound on the time and size of request headers, Nagle off, patience when file
//! descriptors run out, and an end that comes within a stated time. They live here once.

mod accept;
pub mod framing;
mod limits;
mod listener;
mod watched;

pub use accept::{Error, serve, serve_adjusted};
pub use limits::Limits;
pub use listener::bind;
pub use watched::ConflictingLength;
