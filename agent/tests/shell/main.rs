//! The agent's shell as a whole: sessions with a scripted control plane, the last-known-good file,
//! the standalone file, the ops listener, and the drain, all over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "a failed step of a test is a failed test"
)]

mod agent;
mod cached;
mod drain;
mod joined;
mod ops;
mod scripted;
mod standalone;
mod tls;
mod versions;
