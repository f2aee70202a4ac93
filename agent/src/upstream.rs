//! Requests to providers: connecting, keeping connections, and naming what went wrong.
//!
//! The client is a small one of our own on hyper's connection type, because the hot path wants no
//! task switch between a provider's bytes and the caller: a connection is driven by whoever waits
//! for it, first the request, then the body, and while idle by nobody. The protocol version is a
//! private matter of this module, so that HTTP/2 can be added beside `http1`.

mod body;
mod client;
mod connect;
mod error;
mod http1;
mod idle;
mod target;
mod tls;

pub use body::Body;
pub use client::Client;
pub use error::{Error, ErrorKind};
pub use idle::{IDLE_TIMEOUT, MAX_IDLE_PER_TARGET};
pub use target::Target;
pub use tls::{CERT_FILE_VARIABLE, Tls};

#[cfg(test)]
mod tests;
