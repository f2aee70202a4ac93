//! What a cell obeys: the validated numbers of one `breaker:` block, with their defaults.
//!
//! The fields are public and plain so that the document's validation can build a policy field by
//! field; [`Policy::problems`] lists what is out of bounds, by the field names of the document.

use std::time::Duration;

use crate::names::names;
use crate::outcome::Outcome;

mod problems;

pub use problems::PolicyProblem;

names! {
    /// Whether a cell acts on what it sees.
    pub enum Mode {
        /// Trips, parks and refuses.
        Enforce = "enforce",
        /// Runs the whole machine and counts would-be trips, but refuses nothing.
        Observe = "observe",
        /// Records nothing and refuses nothing.
        Off = "off",
    }
}

names! {
    /// Which cells a hard-down (authentication, billing) opens.
    pub enum HardDownScope {
        /// Only the cell that saw it.
        Cell = "cell",
        /// Every cell of the lane: the credential is the lane's, whatever the pool.
        Lane = "lane",
    }
}

names! {
    /// What a stream that breaks after its first content proves.
    pub enum StreamDeath {
        /// It is a failure of the lane.
        Failure = "failure",
        /// It proves nothing.
        Neutral = "neutral",
    }
}

names! {
    /// What an answer proves that `failure_status_codes` does not list.
    pub enum Uncounted {
        /// Nothing.
        Neutral = "neutral",
        /// It is a success, in half-open too.
        Success = "success",
    }
}

names! {
    /// When a probe that streams has succeeded.
    pub enum ClosesAt {
        /// At its first content.
        Content = "content",
        /// At its good end.
        End = "end",
    }
}

names! {
    /// How outcomes are counted before a trip rule looks at them.
    pub enum WindowKind {
        /// The last `window` of time, moving with the clock.
        Sliding = "sliding",
        /// A span that starts with its first outcome and is dropped whole when it ends.
        Tumbling = "tumbling",
        /// A failure counter: it starts with the first failure, lives for two windows whatever
        /// follows, and is then dropped whole.
        Counter = "counter",
    }
}

/// Which of the trip rules count when the mode is [`TripMode::Any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `threshold` with `min_requests` counts.
    pub error_rate: bool,
    /// `consecutive_n` counts.
    pub consecutive: bool,
    /// `failure_count` counts.
    pub count: bool,
}

impl Rules {
    /// All three rules.
    pub const ALL: Self = Self {
        error_rate: true,
        consecutive: true,
        count: true,
    };
}

/// What opens a closed cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripMode {
    /// The share of failures in the window reaches the threshold.
    ErrorRate,
    /// That many failures in a row, whatever time they took.
    Consecutive,
    /// That many failures within the window.
    Count,
    /// Whichever of the named rules fires first.
    Any(Rules),
}

impl TripMode {
    /// The name in the document.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ErrorRate => "error_rate",
            Self::Consecutive => "consecutive",
            Self::Count => "count",
            Self::Any(_) => "any",
        }
    }

    /// The rules this mode looks at.
    pub const fn rules(self) -> Rules {
        match self {
            Self::ErrorRate => Rules {
                error_rate: true,
                consecutive: false,
                count: false,
            },
            Self::Consecutive => Rules {
                error_rate: false,
                consecutive: true,
                count: false,
            },
            Self::Count => Rules {
                error_rate: false,
                consecutive: false,
                count: true,
            },
            Self::Any(rules) => rules,
        }
    }
}

/// The `trip:` block: when a closed cell opens.
#[derive(Clone, Debug, PartialEq)]
pub struct Trip {
    /// Which rule decides. Default: error rate.
    pub mode: TripMode,
    /// Span the window covers. Default 30 s.
    pub window: Duration,
    /// How the window moves. Default: sliding.
    pub window_kind: WindowKind,
    /// Error rate: the share of failures that trips, in (0, 1]. Default 0.5.
    pub threshold: f64,
    /// Error rate: outcomes the window must hold before the share means anything. Default 5.
    pub min_requests: u32,
    /// Consecutive: failures in a row that trip. Default 3.
    pub consecutive_n: u32,
    /// Count: failures within the window that trip. Default 5.
    pub failure_count: u32,
    /// Time to first content that makes an answer slow; slow answers count as failures in the
    /// window, never in the streak. Default: none.
    pub slow_call: Option<Duration>,
}

impl Default for Trip {
    fn default() -> Self {
        Self {
            mode: TripMode::ErrorRate,
            window: Duration::from_secs(30),
            window_kind: WindowKind::Sliding,
            threshold: 0.5,
            min_requests: 5,
            consecutive_n: 3,
            failure_count: 5,
            slow_call: None,
        }
    }
}

/// The `half_open:` block: how an open cell finds its way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Probes that may run at once; 0 admits every request. Default 1.
    pub max_probes: u32,
    /// Successful probes that close the cell. Default 1.
    pub successes_to_close: u32,
    /// When a probe that streams has succeeded. Default: at its first content.
    pub closes_at: ClosesAt,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            max_probes: 1,
            successes_to_close: 1,
            closes_at: ClosesAt::Content,
        }
    }
}

/// Everything a cell and the code around it need to know about one `breaker:` block.
///
/// `failure_status_codes`, `hard_down_scope`, `per_endpoint`, `poison_guard` and `stream_death`
/// are read by the code that classifies outcomes and owns the cells; the cell carries them only.
///
/// ```
/// use lanekeeper_breaker::Policy;
/// use std::time::Duration;
///
/// let policy = Policy { max_cooldown: Duration::from_secs(1), ..Policy::default() };
/// assert_eq!(policy.problems()[0].field, "max_cooldown_secs");
/// assert!(Policy::default().problems().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Whether the cell acts. Default: enforce.
    pub mode: Mode,
    /// First cooldown after a trip. Default 15 s.
    pub base_cooldown: Duration,
    /// Ceiling of the doubling cooldown; a server's Retry-After goes beyond it. Default 120 s.
    pub max_cooldown: Duration,
    /// Half width of the jitter band, as a share of the cooldown. Default 0.1.
    pub jitter_ratio: f64,
    /// Least half width of the jitter band. Default 1 s.
    pub jitter_floor: Duration,
    /// Cooldown after an authentication or billing failure. Default 1800 s.
    pub hard_down_cooldown: Duration,
    /// Which cells a hard-down opens. Default: the cell that saw it.
    pub hard_down_scope: HardDownScope,
    /// Soft park after a failure that does not trip; zero means none. Default 5 s.
    pub park: Duration,
    /// Exactly the statuses that are failures, or `None` to let classification decide.
    /// Transport errors are failures either way.
    pub failure_status_codes: Option<Vec<u16>>,
    /// What a failed answer with another status proves where those are listed. Default: nothing.
    pub uncounted: Uncounted,
    /// Whether each endpoint of a lane has a cell of its own. Default: no.
    pub per_endpoint: bool,
    /// Whether only the first of several lanes that fail one request alike is charged.
    /// Default: yes.
    pub poison_guard: bool,
    /// What a stream that breaks after its first content proves. Default: a failure.
    pub stream_death: StreamDeath,
    /// Whether a success empties the window (count mode of one preset). Default: no.
    pub success_clears_count: bool,
    /// When a closed cell opens.
    pub trip: Trip,
    /// How an open cell recovers.
    pub half_open: Recovery,
    /// Time over which the weight of a lane grows back after its cell closes; zero means at once.
    pub ramp: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            base_cooldown: Duration::from_secs(15),
            max_cooldown: Duration::from_secs(120),
            jitter_ratio: 0.1,
            jitter_floor: Duration::from_secs(1),
            hard_down_cooldown: Duration::from_secs(1800),
            hard_down_scope: HardDownScope::Cell,
            park: Duration::from_secs(5),
            failure_status_codes: None,
            uncounted: Uncounted::Neutral,
            per_endpoint: false,
            poison_guard: true,
            stream_death: StreamDeath::Failure,
            success_clears_count: false,
            trip: Trip::default(),
            half_open: Recovery::default(),
            ramp: Duration::ZERO,
        }
    }
}

impl Policy {
    /// The outcome as this policy counts it. Where statuses are listed, a listed one is an ordinary
    /// failure, 401 and 403 included, and nothing else that came with a status is a failure.
    pub fn counted(&self, outcome: Outcome) -> Outcome {
        let (cause, retry_after) = match outcome {
            Outcome::Transient { cause, retry_after } => (cause, retry_after),
            Outcome::HardDown { cause } => (cause, None),
            Outcome::Success | Outcome::Neutral => return outcome,
        };
        match self.status_is_failure(cause.status) {
            None => outcome,
            Some(true) => Outcome::Transient { cause, retry_after },
            Some(false) => match self.uncounted {
                Uncounted::Neutral => Outcome::Neutral,
                Uncounted::Success => Outcome::Success,
            },
        }
    }

    /// Whether a failed answer with this status counts against the lane, as far as
    /// `failure_status_codes` rules it: `None` leaves the ruling to classification. An attempt
    /// without a status (a transport error) always counts.
    pub fn status_is_failure(&self, status: Option<u16>) -> Option<bool> {
        let listed = self.failure_status_codes.as_ref()?;
        Some(status.is_none_or(|status| listed.contains(&status)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Cause, CauseKind};
    use crate::presets;

    const ASKED: Option<Duration> = Some(Duration::from_secs(7));

    fn transient(status: Option<u16>) -> Outcome {
        let cause = Cause {
            kind: CauseKind::Status,
            status,
        };
        Outcome::Transient {
            cause,
            retry_after: ASKED,
        }
    }

    fn refused(status: u16) -> Outcome {
        Outcome::HardDown {
            cause: Cause::with_status(CauseKind::Auth, status),
        }
    }

    #[test]
    fn listed_status_is_an_ordinary_failure_and_any_other_is_uncounted() {
        let listing = Policy {
            failure_status_codes: Some(vec![401, 500]),
            ..Policy::default()
        };
        assert_eq!(listing.counted(transient(Some(500))), transient(Some(500)));
        assert_eq!(listing.counted(transient(None)), transient(None));
        assert_eq!(listing.counted(transient(Some(502))), Outcome::Neutral);
        assert_eq!(listing.counted(refused(403)), Outcome::Neutral);
        let ordinary = Outcome::Transient {
            cause: Cause::with_status(CauseKind::Auth, 401),
            retry_after: None,
        };
        assert_eq!(listing.counted(refused(401)), ordinary);
        for same in [Outcome::Success, Outcome::Neutral] {
            assert_eq!(listing.counted(same), same);
        }
        assert_eq!(Policy::default().counted(refused(401)), refused(401));
    }

    #[test]
    fn presets_count_what_their_sources_count() {
        assert_eq!(presets::rolter().counted(refused(401)), Outcome::Neutral);
        let last = transient(Some(599));
        assert_eq!(presets::rolter().counted(last), last);
        assert_eq!(presets::aibridge().counted(refused(401)), Outcome::Success);
        assert_eq!(
            presets::myra().counted(transient(Some(429))),
            Outcome::Neutral
        );
    }
}
