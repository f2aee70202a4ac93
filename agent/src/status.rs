//! Facts about this process that several parts of the shell write and the ops listener and the
//! reports read: who it is, whether it is connected, ready or draining, and what troubles it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The release, as shown in the fleet view.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a problem is about. Each topic holds one problem at most, so the list is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// The last-known-good file cannot be read.
    CacheRead,
    /// The last-known-good file cannot be written.
    CacheWrite,
    /// The previous configuration is served because the newest crashed the agent.
    RolledBack,
    /// The newest configuration was refused.
    Config,
    /// Nothing keeps the configuration current any more.
    Source,
    /// The agent has no certificate, or cannot renew it.
    Identity,
    /// A report does not fit into one message.
    Report,
}

/// Shared facts; every method takes `&self`.
#[derive(Debug)]
pub(crate) struct Status {
    instance: String,
    gateway: Mutex<String>,
    started: Instant,
    listening: AtomicBool,
    connected: AtomicBool,
    confirmed: AtomicBool,
    draining: AtomicBool,
    out_of_service: AtomicBool,
    sessions: AtomicU64,
    /// Unix milliseconds; 0 without a certificate of the control plane's.
    certificate_ends_ms: AtomicU64,
    problems: Mutex<BTreeMap<Topic, String>>,
}

impl Status {
    /// A fresh process with its own instance id.
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            instance: uuid::Uuid::now_v7().to_string(),
            gateway: Mutex::new(String::new()),
            started,
            listening: AtomicBool::new(false),
            connected: AtomicBool::new(false),
            confirmed: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            out_of_service: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
            certificate_ends_ms: AtomicU64::new(0),
            problems: Mutex::new(BTreeMap::new()),
        }
    }

    /// Tells this process from every other, also from its own predecessor.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// When the process started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// The gateway that is served, empty before it is known.
    pub(crate) fn gateway(&self) -> String {
        self.gateway.lock().clone()
    }

    pub(crate) fn set_gateway(&self, gateway: &str) {
        gateway.clone_into(&mut self.gateway.lock());
    }

    /// The proxy listeners accept.
    pub(crate) fn listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    pub(crate) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::Release);
    }

    /// A session with the control plane is open.
    pub(crate) fn connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Opens or ends the session; counts the openings.
    pub(crate) fn set_connected(&self, connected: bool) {
        let before = self.connected.swap(connected, Ordering::AcqRel);
        if connected && !before {
            self.sessions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sessions opened since the process started.
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// When the agent's certificate ends by this machine's clock, unix milliseconds.
    pub(crate) fn set_certificate_end(&self, ends_ms: u64) {
        self.certificate_ends_ms.store(ends_ms, Ordering::Relaxed);
    }

    /// What is left of the agent's certificate, in seconds, less than 0 after its end; `None` when
    /// the control plane gave it none.
    pub(crate) fn certificate_left_secs(&self, now: Duration) -> Option<i64> {
        let ends_ms = self.certificate_ends_ms.load(Ordering::Relaxed);
        let ends_secs = i64::try_from(ends_ms / 1000).unwrap_or(i64::MAX);
        let now_secs = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        (ends_ms != 0).then(|| ends_secs.saturating_sub(now_secs))
    }

    /// The control plane named the served revision as its newest: whatever it was loaded from, it
    /// is live.
    pub(crate) fn confirmed(&self) -> bool {
        self.confirmed.load(Ordering::Acquire)
    }

    pub(crate) fn confirm(&self) {
        self.confirmed.store(true, Ordering::Release);
    }

    /// The process was told to stop, or an operator took it out of service.
    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.out_of_service.load(Ordering::Acquire)
    }

    /// An operator takes the agent out of service, or back. Returns false when nothing changed.
    pub(crate) fn set_out_of_service(&self, active: bool) -> bool {
        self.out_of_service.swap(active, Ordering::AcqRel) != active
    }

    pub(crate) fn set_draining(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Raises a problem, replacing the one of the same topic. Returns false when it is the same.
    pub(crate) fn raise(&self, topic: Topic, problem: String) -> bool {
        let mut problems = self.problems.lock();
        problems.insert(topic, problem.clone()).as_ref() != Some(&problem)
    }

    /// Ends the problem of a topic. Returns true when there was one.
    pub(crate) fn clear(&self, topic: Topic) -> bool {
        self.problems.lock().remove(&topic).is_some()
    }

    /// The problems that stand.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_stands_per_topic() {
        let status = Status::new(crate::clock::now());
        assert!(status.raise(Topic::CacheWrite, "disk full".to_owned()));
        assert!(!status.raise(Topic::CacheWrite, "disk full".to_owned()));
        assert!(status.raise(Topic::CacheWrite, "read-only".to_owned()));
        assert_eq!(status.problems(), ["read-only"]);
        assert!(status.clear(Topic::CacheWrite));
        assert!(!status.clear(Topic::CacheWrite));
        assert!(status.problems().is_empty());
    }

    #[test]
    fn each_process_has_its_own_instance() {
        let now = crate::clock::now();
        assert_ne!(Status::new(now).instance(), Status::new(now).instance());
    }

    #[test]
    fn a_certificate_is_counted_down_past_its_end() {
        let status = Status::new(crate::clock::now());
        let at = Duration::from_secs;
        assert_eq!(status.certificate_left_secs(at(100)), None);
        status.set_certificate_end(130_000);
        assert_eq!(status.certificate_left_secs(at(100)), Some(30));
        assert_eq!(status.certificate_left_secs(at(200)), Some(-70));
    }

    #[test]
    fn sessions_are_counted_once_each() {
        let status = Status::new(crate::clock::now());
        for connected in [true, true, false, true] {
            status.set_connected(connected);
        }
        assert_eq!(status.sessions(), 2);
    }
}
