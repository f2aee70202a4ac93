//! How requests, attempts and probes end, as metrics and traces spell it.

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

/// How one turn of a lane's probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    /// The lane answered.
    Ok,
    /// The lane failed.
    Failed,
    /// The provider took the probe for a bad request; that says nothing about the lane.
    Misconfigured,
    /// The lane cannot be asked, for want of its key.
    Skipped,
    /// The provider's key changed under the probe; what the old one met says nothing.
    Void,
}

impl ProbeOutcome {
    /// Every outcome.
    pub(crate) const ALL: [Self; 5] = [
        Self::Ok,
        Self::Failed,
        Self::Misconfigured,
        Self::Skipped,
        Self::Void,
    ];

    /// The outcome as metrics and logs spell it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Misconfigured => "misconfigured",
            Self::Skipped => "skipped",
            Self::Void => "void",
        }
    }
}
