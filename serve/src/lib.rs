//! The accept loop behind every HTTP listener of the project.
//!
//! A listener that faces a network needs the same handful of guards whatever it serves: a bound on
//! connections, a bound on the time and size of request headers, Nagle off, patience when file
//! descriptors run out, and an end that comes within a stated time. They live here once, as does the
//! reading of the trace that a caller's request belongs to.

mod accept;
mod body_end;
mod ending;
mod exchange;
pub mod framing;
mod limits;
mod listener;
mod marked;
mod patience;
pub mod trace_context;
mod unreadable;
mod watched;

pub use accept::{End, Error, serve, serve_adjusted};
pub use body_end::BodyEnd;
pub use exchange::ConflictingLength;
pub use limits::{Limits, Waits};
pub use listener::bind;
pub use unreadable::{UnreadHead, Unreadable};
