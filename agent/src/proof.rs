//! What an attempt proved about its lane, and what that counts for under a cell's policy.

use lanekeeper_breaker::{Cause, CauseKind, Outcome, Policy, StreamDeath};
use lanekeeper_protocol::verdict::{Disposition, Verdict};
use std::time::Duration;

/// What an attempt proved, before the policy of the cell that hears it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The lane answered whole.
    Success,
    /// The lane failed transiently.
    Transient {
        cause: Cause,
        retry_after: Option<Duration>,
    },
    /// The lane's credential or account is refused.
    HardDown { cause: Cause },
    /// The caller's request was at fault, with the status it was told so.
    ClientFault { status: u16 },
    /// Nothing.
    Neutral,
}

/// Circumstances that turn a failure into no evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Circumstances {
    /// The answer broke after its first content.
    pub(crate) after_content: bool,
    /// Another lane has failed this request with the same 5xx before.
    pub(crate) repeated: bool,
    /// Another lane was benched for its credential or account by this request. One request is
    /// evidence against one lane at most: a second one may be the caller's doing.
    pub(crate) hard_down_before: bool,
}

impl Proof {
    /// What a verdict on an answer proves.
    pub(crate) fn of(verdict: &Verdict) -> Self {
        match verdict.disposition {
            Disposition::Success => Self::Success,
            Disposition::Transient => Self::Transient {
                cause: verdict.cause,
                retry_after: verdict.retry_after,
            },
            Disposition::HardDownAuth
            | Disposition::HardDownBilling
            | Disposition::HardDownModel => Self::HardDown {
                cause: verdict.cause,
            },
            Disposition::ClientFault => Self::ClientFault {
                status: verdict.status.unwrap_or(400),
            },
            Disposition::ContextLength
            | Disposition::Neutral
            | Disposition::Local
            | Disposition::Misunderstood
            | Disposition::Empty => Self::Neutral,
        }
    }

    /// The outcome under `policy`.
    pub(crate) fn outcome(self, policy: &Policy, circumstances: Circumstances) -> Outcome {
        match self {
            Self::Success => Outcome::Success,
            Self::Neutral => Outcome::Neutral,
            Self::HardDown { cause } if circumstances.hard_down_before => {
                policy.counted(Outcome::Transient {
                    cause,
                    retry_after: None,
                })
            }
            Self::HardDown { cause } => policy.counted(Outcome::HardDown { cause }),
            Self::Transient { cause, retry_after } => {
                let excused = (circumstances.after_content
                    && policy.stream_death == StreamDeath::Neutral)
                    || (circumstances.repeated && policy.poison_guard);
                if excused {
                    Outcome::Neutral
                } else {
                    policy.counted(Outcome::Transient { cause, retry_after })
                }
            }
            Self::ClientFault { status } => {
                let listed = policy
                    .failure_status_codes
                    .as_ref()
                    .is_some_and(|codes| codes.contains(&status));
                if listed {
                    Outcome::Transient {
                        cause: Cause::with_status(CauseKind::Status, status),
                        retry_after: None,
                    }
                } else {
                    Outcome::Neutral
                }
            }
        }
    }
}
