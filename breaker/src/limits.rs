//! The bounds of every policy number. They live here once: the document's validation, its JSON
//! Schema and [`Policy::problems`](crate::Policy::problems) all read these constants.

use std::time::Duration;

/// Shortest cooldown a policy may ask for. Shorter ones would turn an open cell into a busy loop.
pub const COOLDOWN_MIN: Duration = Duration::from_millis(10);

/// Longest cooldown a policy may ask for (base, maximum and hard-down alike).
pub const COOLDOWN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest time a server's Retry-After can keep a cell open or parked. Anything above is cut to
/// this, so that one malformed header cannot bench a lane for years.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A computed cooldown is never shorter than this, unless the configured one already is.
pub const COOLDOWN_FLOOR: Duration = Duration::from_secs(1);

/// Shortest lease of a probe slot; a longer cooldown or attempt timeout lengthens it.
pub const PROBE_LEASE_MIN: Duration = Duration::from_secs(30);

/// Longest soft park after a single failure.
pub const PARK_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Shortest window outcomes are counted over.
pub const WINDOW_MIN: Duration = Duration::from_millis(100);

/// Longest window outcomes are counted over.
pub const WINDOW_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Upper end of `trip.threshold`; the lower end is zero, excluded.
pub const THRESHOLD_MAX: f64 = 1.0;

/// Upper end of `jitter_ratio`; the lower end is zero, included.
pub const JITTER_RATIO_MAX: f64 = 1.0;

/// Widest jitter floor.
pub const JITTER_FLOOR_MAX: Duration = Duration::from_secs(60 * 60);

/// Largest `min_requests`, `consecutive_n` and `failure_count`; the smallest is 1.
pub const COUNT_MAX: u32 = 1_000_000;

/// Shortest time to first content that may be called slow.
pub const SLOW_CALL_MIN: Duration = Duration::from_millis(1);

/// Longest time to first content that may be called slow.
pub const SLOW_CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Most probe slots of a half-open cell; zero means no limit.
pub const PROBES_MAX: u32 = 100;

/// Most successes a half-open cell may need before it closes; the least is 1.
pub const SUCCESSES_TO_CLOSE_MAX: u32 = 100;

/// Longest ramp after closing; zero means none.
pub const RAMP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Share of its weight a member starts with when a ramp begins.
pub const RAMP_START: f64 = 0.1;

/// Lowest status a `failure_status_codes` entry may name.
pub const STATUS_MIN: u16 = 100;

/// Highest status a `failure_status_codes` entry may name.
pub const STATUS_MAX: u16 = 599;

/// Most entries of `failure_status_codes`: one per possible status.
pub const STATUS_CODES_MAX: usize = (STATUS_MAX - STATUS_MIN) as usize + 1;
