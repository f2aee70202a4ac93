//! What the agent knows about the vendors' wire formats, and nothing about sockets or breakers.
//!
//! Everything peculiar to a vendor lives in its module of `vendor`, behind the trait [`Vendor`]. All
//! else asks through it, from the request's side (`request`) and the answer's (`response`), and so
//! takes any vendor: those that [`vendor()`] knows, or another one.
//!
//! Modules depend one way: `json`, `sse`, `path`, `coding`, `ir`, then `translation` and what readers
//! return (`reading`, `error_kind`), then `dialect` with the trait, then `vendor`, then `request` and
//! `response`. Every function is pure: time and rules come in as arguments.

pub mod coding;
mod dialect;
mod error_kind;
pub mod ir;
pub mod json;
pub mod path;
mod reading;
mod request;
mod response;
pub mod sse;
pub mod state;
pub mod translation;
mod vendor;

pub use dialect::{Dialect, Operation, OtherEndpoint, Protocol, Vendor};
pub use reading::{AnswerReading, End, ErrorDetails, FrameReading, UsageNames};
pub use request::{credentials, endpoint, headers, locate, query, rewrite, route, via};
pub use response::{
    answer, error_body, error_signal, frame, relayed_error, retry_after, usage, verdict,
};
pub use vendor::vendor;
