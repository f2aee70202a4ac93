//! How requests and attempts end, in the words of metrics and traces.

/// How one request of a caller ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// A lane's answer was delivered whole.
    Ok,
    /// The answer was the caller's own fault, relayed or made here.
    ClientFault,
    /// An answer began and died, or the agent answered with an error of a lane.
    Failed,
    /// No member could take it.
    Exhausted,
    /// The caller left first.
    Cancelled,
}

impl RequestOutcome {
    pub(super) const ALL: [Self; 5] = [
        Self::Ok,
        Self::ClientFault,
        Self::Failed,
        Self::Exhausted,
        Self::Cancelled,
    ];

    /// The outcome as metrics and traces spell it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientFault => "client_fault",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How one attempt ended, as the cell books it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Success,
    Transient,
    HardDown,
    Neutral,
}

impl AttemptOutcome {
    pub(super) const ALL: [Self; 4] = [
        Self::Success,
        Self::Transient,
        Self::HardDown,
        Self::Neutral,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Transient => "transient",
            Self::HardDown => "hard_down",
            Self::Neutral => "neutral",
        }
    }
}
