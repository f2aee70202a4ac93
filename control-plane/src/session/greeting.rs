//! How a session begins: what the first message has to be, and the protocol version that both ends
//! speak.

use std::time::Duration;

use lanekeeper_proto::message::{FromAgent, Goodbye, GoodbyeReason, Hello};
use lanekeeper_proto::{Unfit, WireError, limits};

/// The stream broke the protocol: nothing in-band can mend it, so it ends with an error status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The first message is no Hello.
    #[error("the first message must be a Hello")]
    Unannounced,
    /// The first message cannot be read.
    #[error("{0}")]
    Unreadable(WireError),
    /// A Hello came later.
    #[error("a second Hello")]
    Repeated,
}

impl Fault {
    /// The goodbye where an error status would bring a good agent of another release back again and
    /// again: it said something that this release has no name for, and will say so at every dial.
    pub(crate) fn goodbye(&self) -> Option<Goodbye> {
        match self {
            Self::Unreadable(error @ WireError::UnknownValue { .. }) => Some(unspoken(format!(
                "this server cannot read the agent: {error}"
            ))),
            Self::Unreadable(_) | Self::Unannounced | Self::Repeated => None,
        }
    }
}

/// How long an agent stays away that this server does not understand, at least; and as much again
/// by chance.
const UNSPOKEN_WAIT: Duration = Duration::from_secs(60);

fn unspoken(detail: String) -> Goodbye {
    Goodbye {
        reason: GoodbyeReason::Protocol,
        detail,
        reconnect_after: UNSPOKEN_WAIT,
        jitter: UNSPOKEN_WAIT,
    }
}

/// Takes the first message of a stream.
///
/// # Errors
///
/// [`Fault`] unless it is a Hello that can be read.
pub(crate) fn first(message: Result<FromAgent, Unfit>) -> Result<Hello, Fault> {
    match message {
        Ok(FromAgent::Hello(hello)) => Ok(hello),
        Ok(
            FromAgent::ConfigResult(_)
            | FromAgent::Report(_)
            | FromAgent::OverridesResult(_)
            | FromAgent::ProbeLeases(_)
            | FromAgent::Bye(_),
        ) => Err(Fault::Unannounced),
        Err(unfit) if unfit.report_seq.is_some() => Err(Fault::Unannounced),
        Err(unfit) => Err(Fault::Unreadable(unfit.error)),
    }
}

/// The protocol version to speak with an agent, or the goodbye when there is none.
pub(crate) fn negotiate(hello: &Hello) -> Result<u32, Goodbye> {
    let highest = hello.protocol_max.min(limits::PROTOCOL_MAX);
    if highest < hello.protocol_min.max(limits::PROTOCOL_MIN) {
        return Err(unspoken(format!(
            "this server speaks protocol {} to {}, the agent {} to {}",
            limits::PROTOCOL_MIN,
            limits::PROTOCOL_MAX,
            hello.protocol_min,
            hello.protocol_max
        )));
    }
    Ok(highest)
}
