//! Counts and times of all agents, and the object they end up in.

use crate::ended::{Ended, Fault};
use crate::phase::{Phase, Phases};
use crate::{Config, clock};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Significant digits of the times.
const DIGITS: u8 = 3;
/// Revisions whose spreading is listed one by one; later ones count in the totals alone.
const REVISIONS_MAX: usize = 256;

/// How the agents of a run fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Agents of the run.
    pub agents: usize,
    /// Cells of each.
    pub cells: usize,
    /// How long it ran.
    pub seconds: f64,
    /// Sessions open at its end.
    pub connected: u64,
    /// Most sessions open at once.
    pub connected_peak: u64,
    /// Sessions opened.
    pub sessions: u64,
    /// Reports sent.
    pub reports: u64,
    /// Acknowledgements received. One may cover several reports.
    pub acks: u64,
    /// Transitions of cells.
    pub transitions: u64,
    /// 99 of 100 acknowledgements came within this many milliseconds; null when none came.
    pub ack_p99_ms: Option<f64>,
    /// From a report to its acknowledgement.
    pub ack: Option<Spread>,
    /// The same by what the swarm was busy with: `dialling`, `steady`, `pushing`, `returning`.
    pub ack_by_phase: BTreeMap<Phase, Spread>,
    /// Pushes received.
    pub pushes: u64,
    /// 99 of 100 pushes were applied within this many milliseconds; null when none were.
    pub push_p99_ms: Option<f64>,
    /// From the moment the first agent received a revision (or the session opened, if later) to its
    /// being applied.
    pub push: Option<Spread>,
    /// The longest pushed document, in bytes.
    pub push_bytes: u64,
    /// The revisions one by one, in order.
    pub revisions: Vec<PushedRevision>,
    /// From the loss of a session to the next Welcome.
    pub reconnect: Option<Spread>,
    /// Encoded messages sent, in bytes, before gRPC's and HTTP/2's frames.
    pub bytes_sent: u64,
    /// Encoded messages received, in bytes.
    pub bytes_received: u64,
    /// Goodbyes of the server by reason.
    pub goodbyes: BTreeMap<&'static str, u64>,
    /// Everything that went wrong.
    pub errors: u64,
    /// The same by kind: `dial`, `stream`, `silence`, `protocol`, `refused`, `rejected`.
    pub errors_by_kind: BTreeMap<String, u64>,
}

/// Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How many were measured.
    pub count: u64,
    /// The middle one.
    pub p50_ms: f64,
    /// 99 of 100 are at most this.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// How one revision reached the agents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PushedRevision {
    /// Its number.
    pub revision: u64,
    /// When the first agent received it, unix milliseconds.
    pub first_unix_ms: u64,
    /// From that moment to its being applied; null when no agent has applied it.
    pub applied: Option<Spread>,
}

/// What happened so far.
pub(crate) struct Tally {
    agents: u64,
    phases: Phases,
    connected: AtomicU64,
    connected_peak: AtomicU64,
    sessions: AtomicU64,
    reports: AtomicU64,
    acks: AtomicU64,
    transitions: AtomicU64,
    pushes: AtomicU64,
    push_bytes: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
    times: Mutex<Times>,
}

/// Times by kind; `None` only if the library refuses its settings.
#[derive(Default)]
struct Times {
    ack: Option<Histogram<u64>>,
    ack_by_phase: BTreeMap<Phase, Option<Histogram<u64>>>,
    push: Option<Histogram<u64>>,
    reconnect: Option<Histogram<u64>>,
    faults: BTreeMap<Fault, u64>,
    goodbyes: BTreeMap<&'static str, u64>,
    revisions: BTreeMap<u64, Spreading>,
}

/// How one revision spreads.
struct Spreading {
    first: Instant,
    first_unix_ms: u64,
    applied: Option<Histogram<u64>>,
}

impl Tally {
    /// For a run of so many agents.
    pub(crate) fn new(agents: usize) -> Self {
        Self {
            agents: agents as u64,
            phases: Phases::new(clock::now()),
            connected: AtomicU64::new(0),
            connected_peak: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            reports: AtomicU64::new(0),
            acks: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            pushes: AtomicU64::new(0),
            push_bytes: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            times: Mutex::default(),
        }
    }

    /// A session opened, `after` this long without one.
    pub(crate) fn opened(&self, after: Option<Duration>) {
        count(&self.sessions, 1);
        self.phases.opened(clock::now());
        let connected = self.connected.fetch_add(1, Ordering::Relaxed) + 1;
        self.connected_peak.fetch_max(connected, Ordering::Relaxed);
        if let Some(after) = after {
            record(&mut self.times.lock().reconnect, after);
        }
    }

    /// A session that had opened is over.
    pub(crate) fn closed(&self) {
        self.phases.lost();
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// Why a session ended, or did not come about.
    pub(crate) fn ended(&self, ended: &Ended) {
        match ended {
            Ended::Stopped => {}
            Ended::Goodbye(goodbye) => {
                let reason = goodbye.reason.as_str();
                *self.times.lock().goodbyes.entry(reason).or_default() += 1;
            }
            Ended::Fault(fault, _) => self.fault(*fault),
        }
    }

    pub(crate) fn fault(&self, fault: Fault) {
        *self.times.lock().faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn reported(&self) {
        count(&self.reports, 1);
    }

    pub(crate) fn acknowledged(&self, took: Option<Duration>, refused: Option<&str>) {
        count(&self.acks, 1);
        if let Some(took) = took {
            let all_connected = self.connected.load(Ordering::Relaxed) == self.agents;
            let phase = self.phases.at(clock::now(), all_connected);
            let mut times = self.times.lock();
            record(&mut times.ack, took);
            record(times.ack_by_phase.entry(phase).or_default(), took);
        }
        if let Some(reason) = refused {
            tracing::warn!(reason, "a report was refused");
            self.fault(Fault::Refused);
        }
    }

    pub(crate) fn transition(&self) {
        count(&self.transitions, 1);
    }

    /// A push arrived; answers when the first one of its revision did.
    pub(crate) fn pushed(&self, revision: u64, bytes: usize) -> Instant {
        count(&self.pushes, 1);
        self.push_bytes.fetch_max(bytes as u64, Ordering::Relaxed);
        let now = clock::now();
        self.phases.pushed(now);
        let revisions = &mut self.times.lock().revisions;
        if revisions.len() >= REVISIONS_MAX && !revisions.contains_key(&revision) {
            return now;
        }
        let spreading = revisions.entry(revision).or_insert_with(|| Spreading {
            first: now,
            first_unix_ms: clock::unix_ms(),
            applied: None,
        });
        spreading.first
    }

    pub(crate) fn applied(&self, revision: u64, took: Duration) {
        let mut times = self.times.lock();
        record(&mut times.push, took);
        if let Some(spreading) = times.revisions.get_mut(&revision) {
            let since_first = clock::now().saturating_duration_since(spreading.first);
            record(&mut spreading.applied, since_first);
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        count(&self.bytes_sent, bytes as u64);
    }

    pub(crate) fn received(&self, bytes: usize) {
        count(&self.bytes_received, bytes as u64);
    }

    /// Everything so far as one object.
    pub(crate) fn outcome(&self, config: &Config, lasted: Duration) -> Outcome {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let times = self.times.lock();
        let (ack, push) = (spread(times.ack.as_ref()), spread(times.push.as_ref()));
        let named = |fault: &Fault| match serde_json::to_value(fault) {
            Ok(serde_json::Value::String(name)) => name,
            Ok(_) | Err(_) => String::new(),
        };
        Outcome {
            agents: config.agents,
            cells: config.cells,
            seconds: lasted.as_secs_f64(),
            connected: read(&self.connected),
            connected_peak: read(&self.connected_peak),
            sessions: read(&self.sessions),
            reports: read(&self.reports),
            acks: read(&self.acks),
            transitions: read(&self.transitions),
            ack_p99_ms: ack.map(|spread| spread.p99_ms),
            ack,
            ack_by_phase: times
                .ack_by_phase
                .iter()
                .filter_map(|(phase, histogram)| Some((*phase, spread(histogram.as_ref())?)))
                .collect(),
            pushes: read(&self.pushes),
            push_p99_ms: push.map(|spread| spread.p99_ms),
            push,
            push_bytes: read(&self.push_bytes),
            revisions: times
                .revisions
                .iter()
                .map(|(revision, spreading)| PushedRevision {
                    revision: *revision,
                    first_unix_ms: spreading.first_unix_ms,
                    applied: spread(spreading.applied.as_ref()),
                })
                .collect(),
            reconnect: spread(times.reconnect.as_ref()),
            bytes_sent: read(&self.bytes_sent),
            bytes_received: read(&self.bytes_received),
            goodbyes: times.goodbyes.clone(),
            errors: times.faults.values().sum(),
            errors_by_kind: times
                .faults
                .iter()
                .map(|(fault, times)| (named(fault), *times))
                .collect(),
        }
    }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

fn record(histogram: &mut Option<Histogram<u64>>, took: Duration) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let histogram = match histogram {
        Some(histogram) => histogram,
        None => match Histogram::new(DIGITS) {
            Ok(new) => histogram.insert(new),
            Err(_) => return,
        },
    };
    // It grows with the longest time, which no memory is too small for.
    let _ = histogram.record(micros);
}

fn spread(histogram: Option<&Histogram<u64>>) -> Option<Spread> {
    let histogram = histogram.filter(|histogram| !histogram.is_empty())?;
    let ms = |micros: u64| micros as f64 / 1000.0;
    Some(Spread {
        count: histogram.len(),
        p50_ms: ms(histogram.value_at_quantile(0.5)),
        p99_ms: ms(histogram.value_at_quantile(0.99)),
        max_ms: ms(histogram.max()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_proto::message::{Goodbye, GoodbyeReason};
    use serde_json::json;

    fn outcome(tally: &Tally) -> serde_json::Value {
        let config = Config::new("http://127.0.0.1:1".to_owned(), "edge".to_owned());
        serde_json::to_value(tally.outcome(&config, Duration::from_secs(1))).unwrap()
    }

    #[test]
    fn what_was_not_measured_is_null_and_not_zero() {
        let shown = outcome(&Tally::new(1));
        assert_eq!(shown["ack_p99_ms"], json!(null));
        assert_eq!(shown["push_p99_ms"], json!(null));
        assert_eq!(shown["errors"], 0);
    }

    #[test]
    fn errors_are_counted_by_kind_and_goodbyes_are_none() {
        let tally = Tally::new(1);
        tally.ended(&Ended::Fault(Fault::Dial, String::new()));
        tally.ended(&Ended::Fault(Fault::Dial, String::new()));
        tally.acknowledged(None, Some("report.cells: more than 3 entries"));
        tally.ended(&Ended::Goodbye(Goodbye {
            reason: GoodbyeReason::Shutdown,
            detail: String::new(),
            reconnect_after: Duration::ZERO,
            jitter: Duration::ZERO,
        }));
        let shown = outcome(&tally);
        assert_eq!(shown["errors"], 3);
        assert_eq!(shown["errors_by_kind"], json!({"dial": 2, "refused": 1}));
        assert_eq!(shown["goodbyes"], json!({"shutdown": 1}));
    }

    #[test]
    fn times_are_shown_as_they_were() {
        let tally = Tally::new(1);
        for ms in 1..=100 {
            tally.acknowledged(Some(Duration::from_millis(ms)), None);
        }
        let ack = &outcome(&tally)["ack"];
        assert_eq!(ack["count"], 100);
        let near = |name: &str, wanted: f64| {
            let ms = ack[name].as_f64().unwrap();
            assert!((ms / wanted - 1.0).abs() < 0.01, "{name} is {ms}");
        };
        near("p50_ms", 50.0);
        near("p99_ms", 99.0);
        near("max_ms", 100.0);
    }

    #[test]
    fn connected_counts_sessions_that_are_open_now() {
        let tally = Tally::new(1);
        tally.opened(None);
        tally.opened(Some(Duration::from_millis(250)));
        tally.closed();
        let shown = outcome(&tally);
        assert_eq!(
            (&shown["connected"], &shown["connected_peak"]),
            (&json!(1), &json!(2))
        );
        assert_eq!(shown["reconnect"]["count"], 1);
    }
}
