//! Bounds of one listener.

use crate::Unreadable;
use std::time::Duration;

/// Connections open at once on one listener.
const MAX_CONNECTIONS: usize = 8192;
/// Time from a request's first byte to its complete headers.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Time a connection may stay open without a request. Above the 60 s after which load balancers
/// close what they keep, so that it is the balancer that ends the connection and no call is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Time a peer may leave bytes unacknowledged, or take none, before its connection ends.
const PEER_STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes of one request's head, and so the size of the read buffer.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Header lines of one request: the HTTP library's own bound, up to which it parses without setting
/// memory aside.
pub(crate) const MAX_HEADERS: usize = 100;
/// Smallest read buffer the HTTP library accepts.
const MIN_HEADER_BYTES: usize = 8 * 1024;

/// Bounds that [`crate::serve`] keeps for one listener.
///
/// # Examples
///
/// ```
/// use lanekeeper_serve::Limits;
///
/// let limits = Limits { max_connections: 64, ..Limits::default() };
/// assert_eq!(limits.max_headers, 100);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once; the next one waits in the kernel's backlog. Default 8,192.
    pub max_connections: usize,
    /// Longest wait for complete request headers, from the first byte of the request on. Default
    /// 10 s.
    pub header_read_timeout: Duration,
    /// Longest time a connection stays open without a request: before its first one and between
    /// two. Default 75 s.
    pub idle_timeout: Duration,
    /// Longest time a peer takes none of the bytes that wait for it; then its connection ends, and
    /// with it what the answer holds. Whole milliseconds; zero leaves it to the kernel. Default
    /// 120 s.
    pub peer_stall_timeout: Duration,
    /// Largest size of one request's head, its first line included; more is answered 431. Default
    /// 64 KiB, at least 8 KiB.
    pub max_header_bytes: usize,
    /// Largest number of header lines; more is answered 431. Default 100.
    pub max_headers: usize,
    /// Mark requests that state their body's length twice with [`crate::ConflictingLength`], so
    /// that the service can refuse them. Default false: they are served as chunked.
    pub tell_conflicting_length: bool,
    /// How requests are answered whose head cannot be read or is larger than the two bounds above.
    /// Default `None`: by the HTTP library, with a status alone.
    pub unreadable: Option<Unreadable>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: MAX_CONNECTIONS,
            header_read_timeout: HEADER_READ_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            peer_stall_timeout: PEER_STALL_TIMEOUT,
            max_header_bytes: MAX_HEADER_BYTES,
            max_headers: MAX_HEADERS,
            tell_conflicting_length: false,
            unreadable: None,
        }
    }
}

/// How long a connection waits for its peer to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// From a request's first byte to its complete headers.
    pub header: Duration,
    /// Without a request.
    pub idle: Duration,
}

impl Limits {
    /// The waits of its connections.
    #[must_use]
    pub const fn waits(&self) -> Waits {
        Waits {
            header: self.header_read_timeout,
            idle: self.idle_timeout,
        }
    }

    /// The bound on a head, and the size of its buffer, as the HTTP library wants it.
    pub(crate) fn head_bytes(&self) -> usize {
        self.max_header_bytes.max(MIN_HEADER_BYTES)
    }
}
