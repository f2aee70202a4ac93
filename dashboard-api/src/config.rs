//! What the server is told at its start.

use lanekeeper_serve::Limits;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The port of the HTTP API and the UI.
const HTTP_PORT: u16 = 7401;
/// Connections at once: so many that idle ones of strangers do not keep people out before
/// [`HEADER_READ_TIMEOUT`] ends them.
const MAX_CONNECTIONS: usize = 8192;
/// Time to the end of a request's headers, and between two requests of a connection.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that running requests have after the order to end.
const GRACE: Duration = Duration::from_secs(10);

/// What the server is told at its start.
///
/// # Examples
///
/// ```
/// let config = lanekeeper_dashboard_api::Config::default();
/// assert_eq!(config.http_listen.to_string(), "127.0.0.1:7401");
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the API and the UI listen; port 0 picks a free one. Default 127.0.0.1:7401.
    pub http_listen: SocketAddr,
    /// A folder of gateway documents. What it holds is written as revisions when it changes, and the
    /// API refuses to change those gateways. Default none.
    pub documents: Option<PathBuf>,
    /// Bounds of that listener. Default 8,192 connections, 5 s to read headers.
    pub limits: Limits,
    /// Time that running requests have after the order to end. Default 10 s.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, HTTP_PORT)),
            documents: None,
            limits: Limits {
                max_connections: MAX_CONNECTIONS,
                header_read_timeout: HEADER_READ_TIMEOUT,
                ..Limits::default()
            },
            grace: GRACE,
        }
    }
}

/// Where a started server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The API and the UI.
    pub http: SocketAddr,
}
