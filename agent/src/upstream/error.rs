//! What can go wrong between the agent and a provider's answer, by name.

use std::fmt;

use lanekeeper_breaker::CauseKind;
use lanekeeper_protocol::verdict::Verdict;

/// The stage at which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The name does not resolve.
    Dns,
    /// The name resolves only to addresses this provider must not be at.
    Blocked,
    /// The peer refused the connection, or a stream of it.
    Refused,
    /// No connection for another reason.
    Connect,
    /// No connection for want of something on this machine.
    Local,
    /// The TLS handshake failed.
    Tls,
    /// The deadline, or the connect time-out, passed.
    Timeout,
    /// The connection broke under the request or the answer.
    Reset,
    /// The peer closed the connection before the answer was whole.
    Closed,
    /// The peer's bytes are no HTTP.
    Protocol,
    /// The TLS set-up of this process is unusable.
    Setup,
}

/// A failed request. Its text is for logs; it holds no URL, header or body.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    detail: String,
}

impl Error {
    pub(super) fn new(kind: ErrorKind, detail: impl fmt::Display) -> Self {
        Self {
            kind,
            detail: detail.to_string(),
        }
    }

    /// Names an error of an established connection.
    pub(super) fn from_hyper(error: &hyper::Error) -> Self {
        let kind = if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            ErrorKind::Closed
        } else if error.is_parse() {
            ErrorKind::Protocol
        } else if error.is_timeout() {
            ErrorKind::Timeout
        } else {
            match io_source(error).map(std::io::Error::kind) {
                Some(std::io::ErrorKind::UnexpectedEof) => ErrorKind::Closed,
                Some(std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput) => {
                    ErrorKind::Protocol
                }
                _ => ErrorKind::Reset,
            }
        };
        Self::new(kind, Chain(error))
    }

    /// Names an error of an HTTP/2 connection or of one of its streams.
    pub(super) fn from_h2(error: &h2::Error) -> Self {
        let kind = if let Some(io) = error.get_io() {
            match io.kind() {
                std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe => {
                    ErrorKind::Closed
                }
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
                    ErrorKind::Protocol
                }
                _ => ErrorKind::Reset,
            }
        } else if error.reason() == Some(h2::Reason::REFUSED_STREAM) {
            ErrorKind::Refused
        } else if error.is_go_away() && error.is_remote() {
            ErrorKind::Closed
        } else if error.is_library() {
            ErrorKind::Protocol
        } else {
            ErrorKind::Reset
        };
        Self::new(kind, error)
    }

    /// The stage at which it failed.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The kind of evidence for a cell.
    #[must_use]
    pub const fn cause(&self) -> CauseKind {
        match self.kind {
            ErrorKind::Dns => CauseKind::Dns,
            ErrorKind::Blocked => CauseKind::Blocked,
            ErrorKind::Refused | ErrorKind::Connect | ErrorKind::Local => CauseKind::Connect,
            ErrorKind::Tls | ErrorKind::Setup => CauseKind::Tls,
            ErrorKind::Timeout => CauseKind::Timeout,
            ErrorKind::Reset => CauseKind::Reset,
            ErrorKind::Closed => CauseKind::Truncated,
            ErrorKind::Protocol => CauseKind::Protocol,
        }
    }

    /// What a request without an answer proves about its lane.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match self.kind {
            ErrorKind::Local => Verdict::local(),
            _ => Verdict::transient(self.cause()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ErrorKind::Dns => "name not resolved",
            ErrorKind::Blocked => "address not allowed",
            ErrorKind::Refused => "connection refused",
            ErrorKind::Connect => "no connection",
            ErrorKind::Local => "no room for a connection",
            ErrorKind::Tls => "tls handshake failed",
            ErrorKind::Timeout => "timed out",
            ErrorKind::Reset => "connection broken",
            ErrorKind::Closed => "connection closed early",
            ErrorKind::Protocol => "not http",
            ErrorKind::Setup => "tls set-up unusable",
        };
        write!(f, "{what}: {}", self.detail)
    }
}

impl std::error::Error for Error {}

/// Why an exchange on a connection failed.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) error: Error,
    pub(super) again: Again,
}

/// Whether a request may go out a second time: only if the peer did not work on it, as far as can
/// be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    No,
    Yes,
    /// The peer asks for it over HTTP/1.1.
    OverHttp1,
}

impl Again {
    pub(super) const fn when(is_unprocessed: bool) -> Self {
        if is_unprocessed { Self::Yes } else { Self::No }
    }
}

/// An error with its causes, one line.
struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

fn io_source(error: &hyper::Error) -> Option<&std::io::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref() {
            return Some(io);
        }
        source = cause.source();
    }
    None
}
