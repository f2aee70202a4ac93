//! Requests to providers: connecting, keeping connections, and naming what went wrong.
//!
//! The client is a small one of our own on hyper's connection type, because the hot path wants no
//! task switch between a provider's bytes and the caller: an HTTP/1.1 connection is driven by
//! whoever waits for it, first the request, then the body, and while idle by nobody. Over TLS the
//! peer may choose HTTP/2; then requests share connections, each driven by a task of its own. The
//! protocol version is a private matter of this module.

mod body;
mod client;
mod connect;
mod error;
mod http1;
mod http2;
mod idle;
mod multiplex;
mod proxy;
mod target;
mod tls;
mod transport;

pub use body::Body;
pub use client::Client;
pub use error::{Error, ErrorKind};
pub use http2::{MAX_STREAMS, STREAM_WINDOW_BYTES};
pub use idle::{IDLE_TIMEOUT, MAX_IDLE_PER_TARGET};
pub use multiplex::MAX_CONNECTIONS_PER_TARGET;
pub use proxy::{Proxy, ProxyEnvironment};
pub use target::Target;
pub use tls::{CERT_FILE_VARIABLE, Tls};

#[cfg(test)]
mod tests;
