//! Why sessions end, and what can go wrong with a control plane.

use lanekeeper_agent::session_client::Leave;
use lanekeeper_proto::message::Goodbye;
use serde::Serialize;

/// What can go wrong with a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    /// No connection came about.
    Dial,
    /// A stream was not opened, or broke.
    Stream,
    /// A Welcome or acknowledgements did not come.
    Silence,
    /// A message came out of place.
    Protocol,
    /// A report was refused.
    Refused,
    /// A pushed revision was not valid.
    Rejected,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The run is over.
    #[error("the run is over")]
    Stopped,
    /// The server left in-band.
    #[error("the server said goodbye ({}): {}", .0.reason.as_str(), .0.detail)]
    Goodbye(Goodbye),
    /// Something went wrong.
    #[error("{1}")]
    Fault(Fault, String),
}

impl Ended {
    pub(crate) fn goodbye(&self) -> Option<&Goodbye> {
        match self {
            Self::Goodbye(goodbye) => Some(goodbye),
            Self::Stopped | Self::Fault(..) => None,
        }
    }

    pub(crate) fn broken(status: &tonic::Status) -> Self {
        Self::Fault(Fault::Stream, status.message().to_owned())
    }
}

impl From<Leave> for Ended {
    fn from(leave: Leave) -> Self {
        let reason = leave.to_string();
        match leave {
            Leave::Goodbye(goodbye) => Self::Goodbye(goodbye),
            Leave::Protocol(_) => Self::Fault(Fault::Protocol, reason),
            Leave::NoWelcome | Leave::NoAck | Leave::Stalled => Self::Fault(Fault::Silence, reason),
        }
    }
}
