//! Why an answer broke off, and whether the caller may hear of it in the lane's own words.

use lanekeeper_protocol::error_body::ErrorKind;
use lanekeeper_protocol::verdict::{Disposition, Verdict};

/// Why an answer broke.
pub(super) struct Death {
    pub(super) verdict: Verdict,
    /// The newest frame is the lane's own error, and the caller may see it.
    pub(super) is_shown: bool,
    /// What the caller hears of it instead, where that is more than that the answer broke off.
    pub(super) kind: Option<ErrorKind>,
}

impl Death {
    pub(super) fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            is_shown: false,
            kind: None,
        }
    }
}

/// A well-formed error of the upstream is passed on as it is, but not one about the gateway's own
/// account.
pub(super) fn speaks_for_itself(verdict: &Verdict) -> bool {
    verdict.status.is_some()
        && !matches!(
            verdict.disposition,
            Disposition::HardDownAuth | Disposition::HardDownBilling
        )
}
