//! The cell against a model that is slow, keeps everything and is easy to believe.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{
    Admission, Cause, CauseKind, Cell, ClosesAt, Mode, Outcome, Override, OverrideAction, Policy,
    Recovery, Rules, Ticket, Trip, TripMode, WindowKind,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

#[path = "model/naive.rs"]
mod naive;

use naive::{Asked, Naive, Way};

/// One thing that happens to a cell. Tickets are named by their place among those outstanding.
#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Admit {
        lease_ms: u64,
        degraded: bool,
    },
    Commit(usize),
    Settle(usize, Outcome, f64),
    Abandon(usize),
    Override(Option<(OverrideAction, u64)>),
    Recover {
        begun_ms_ago: u64,
    },
    Credential,
    Advisory(Option<u64>),
    Mode(Mode),
    Policy(Box<Policy>),
    Numbers {
        park_ms: u64,
        failure_count: u32,
        max_probes: u32,
    },
    Look,
}

fn spans() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..50, 50_u64..3_000, 3_000_u64..40_000, Just(7_200_000)]
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![8 => Just(Mode::Enforce), 1 => Just(Mode::Observe), 1 => Just(Mode::Off)]
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let cause = prop_oneof![
        Just(Cause::with_status(CauseKind::Status, 503)),
        Just(Cause::with_status(CauseKind::RateLimit, 429)),
        Just(Cause::new(CauseKind::Reset)),
    ];
    let retry_after = prop_oneof![
        6 => Just(None),
        2 => (0_u64..40_000).prop_map(|ms| Some(Duration::from_millis(ms))),
        1 => Just(Some(Duration::MAX)),
    ];
    prop_oneof![
        5 => Just(Outcome::Success),
        6 => (cause, retry_after)
            .prop_map(|(cause, retry_after)| Outcome::Transient { cause, retry_after }),
        1 => Just(Outcome::HardDown { cause: Cause::with_status(CauseKind::Auth, 401) }),
        1 => Just(Outcome::Neutral),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    let actions = prop_oneof![
        Just(OverrideAction::ForceOpen),
        Just(OverrideAction::ForceClose),
        Just(OverrideAction::Drain),
        Just(OverrideAction::Reset),
    ];
    prop_oneof![
        8 => spans().prop_map(Event::Wait),
        16 => (0_u64..90_000, prop::bool::weighted(0.1))
            .prop_map(|(lease_ms, degraded)| Event::Admit { lease_ms, degraded }),
        5 => (0_usize..6).prop_map(Event::Commit),
        16 => (0_usize..6, outcomes(), 0.0_f64..1.0)
            .prop_map(|(ticket, outcome, jitter)| Event::Settle(ticket, outcome, jitter)),
        2 => (0_usize..6).prop_map(Event::Abandon),
        1 => prop::option::of((actions, 0_u64..60_000)).prop_map(Event::Override),
        1 => (0_u64..5_000).prop_map(|begun_ms_ago| Event::Recover { begun_ms_ago }),
        1 => Just(Event::Credential),
        1 => prop::option::of(0_u64..30_000).prop_map(Event::Advisory),
        1 => modes().prop_map(Event::Mode),
        1 => policies().prop_map(|policy| Event::Policy(Box::new(policy))),
        1 => (0_u64..8_000, 1_u32..6, 0_u32..4).prop_map(|(park_ms, failure_count, max_probes)| {
            Event::Numbers { park_ms, failure_count, max_probes }
        }),
        2 => Just(Event::Look),
    ]
}

fn policies() -> impl Strategy<Value = Policy> {
    let trip_mode = prop_oneof![
        3 => Just(TripMode::ErrorRate),
        2 => Just(TripMode::Consecutive),
        2 => Just(TripMode::Count),
        1 => Just(TripMode::Any(Rules::ALL)),
    ];
    let kind = prop_oneof![
        3 => Just(WindowKind::Sliding),
        1 => Just(WindowKind::Tumbling),
        1 => Just(WindowKind::Counter),
    ];
    let trip = (
        trip_mode,
        kind,
        500_u64..20_000,
        prop_oneof![Just(0.5), Just(0.7), Just(1.0), 0.01_f64..1.0],
        (1_u32..7, 1_u32..5, 1_u32..7),
        prop::option::weighted(0.2, 1_u64..2_000),
    )
        .prop_map(
            |(mode, window_kind, window, threshold, counts, slow)| Trip {
                mode,
                window: Duration::from_millis(window),
                window_kind,
                threshold,
                min_requests: counts.0,
                consecutive_n: counts.1,
                failure_count: counts.2,
                slow_call: slow.map(Duration::from_millis),
            },
        );
    (
        trip,
        (10_u64..20_000, 0_u64..60_000),
        (0.0_f64..=1.0, 0_u64..3_000),
        (0_u64..6_000, any::<bool>()),
        (0_u32..4, 1_u32..4, any::<bool>()),
        modes(),
    )
        .prop_map(|(trip, cooldown, jitter, park, recovery, mode)| Policy {
            mode,
            base_cooldown: Duration::from_millis(cooldown.0),
            max_cooldown: Duration::from_millis(cooldown.0 + cooldown.1),
            jitter_ratio: jitter.0,
            jitter_floor: Duration::from_millis(jitter.1),
            hard_down_cooldown: Duration::from_secs(600),
            park: Duration::from_millis(park.0),
            success_clears_count: park.1,
            trip,
            half_open: Recovery {
                max_probes: recovery.0,
                successes_to_close: recovery.1,
                closes_at: if recovery.2 {
                    ClosesAt::End
                } else {
                    ClosesAt::Content
                },
            },
            ..Policy::default()
        })
}

struct Pair {
    start: Instant,
    now_ms: u64,
    cell: Cell,
    naive: Naive,
    tickets: Vec<(Ticket, u64)>,
}

impl Pair {
    fn new(policy: &Policy) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
        let start = Instant::now();
        Self {
            start,
            now_ms: 0,
            cell: Cell::new(Arc::new(policy.clone()), start),
            naive: Naive::new(policy.clone()),
            tickets: Vec::new(),
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn now(&self) -> Instant {
        self.at(self.now_ms)
    }

    fn apply(&mut self, event: &Event) {
        let now = self.now();
        match event {
            Event::Wait(ms) => self.now_ms += ms,
            Event::Admit { lease_ms, degraded } => self.admit(*lease_ms, *degraded),
            Event::Commit(place) => {
                if let Some((ticket, id)) = self.tickets.get_mut(*place) {
                    let change = self.cell.commit(ticket, now);
                    self.naive.commit(*id, self.now_ms, change);
                }
            }
            Event::Settle(place, outcome, jitter) => {
                if *place < self.tickets.len() {
                    let (ticket, id) = self.tickets.swap_remove(*place);
                    let change = self.cell.settle(ticket, *outcome, now, *jitter);
                    self.naive.settle(id, *outcome, self.now_ms, change);
                }
            }
            Event::Abandon(place) => {
                if *place < self.tickets.len() {
                    let (ticket, id) = self.tickets.swap_remove(*place);
                    let change = self.cell.abandon(ticket, now);
                    self.naive.settle(id, Outcome::Neutral, self.now_ms, change);
                }
            }
            Event::Override(override_) => {
                let given = override_.map(|(action, ms)| Override {
                    action,
                    until: self.at(self.now_ms + ms),
                });
                let change = self.cell.apply_override(given, now);
                let until = override_.map(|(action, ms)| (action, self.now_ms + ms));
                self.naive.override_(until, self.now_ms, change);
            }
            Event::Recover { begun_ms_ago } => {
                let begun = self.now_ms.saturating_sub(*begun_ms_ago);
                let change = self.cell.recover(self.at(begun), now);
                self.naive.recover(begun, self.now_ms, change);
            }
            Event::Credential => {
                let change = self.cell.credential_changed(now);
                self.naive.credential(self.now_ms, change);
            }
            Event::Advisory(ms) => {
                let until = ms.map(|ms| self.now_ms + ms);
                self.cell.apply_advisory(until.map(|until| self.at(until)));
                self.naive.advisory(until);
            }
            Event::Mode(mode) => {
                let mut policy = self.naive.policy.clone();
                policy.mode = *mode;
                self.take_policy(policy);
            }
            Event::Policy(policy) => self.take_policy(Policy::clone(policy)),
            Event::Numbers {
                park_ms,
                failure_count,
                max_probes,
            } => {
                let mut policy = self.naive.policy.clone();
                policy.park = Duration::from_millis(*park_ms);
                policy.trip.failure_count = *failure_count;
                policy.half_open.max_probes = *max_probes;
                self.take_policy(policy);
            }
            Event::Look => {
                let before = format!("{:?}", self.cell);
                for _ in 0..3 {
                    let _ = (self.cell.view(now), self.cell.selectable(now));
                }
                assert_eq!(
                    before,
                    format!("{:?}", self.cell),
                    "looking changed the cell"
                );
            }
        }
        self.naive.compare(&self.cell.view(self.now()), self.now_ms);
        assert_eq!(
            self.cell.selectable(self.now()),
            self.cell.view(self.now()).selectable
        );
    }

    fn take_policy(&mut self, policy: Policy) {
        let now = self.now();
        let change = self.cell.apply_policy(Arc::new(policy.clone()), now);
        self.naive.take_policy(policy, self.now_ms, change);
    }

    fn admit(&mut self, lease_ms: u64, degraded: bool) {
        let now = self.now();
        let lease = Duration::from_millis(lease_ms);
        let admission = if degraded {
            self.cell.admit_degraded(now, lease)
        } else {
            self.cell.admit(now, lease)
        };
        let (answer, ticket, change) = match admission {
            Admission::Pass(ticket) => (Asked::Pass, Some(ticket), None),
            Admission::Probe(ticket, change) => (Asked::Probe, Some(ticket), change),
            Admission::Refuse(refusal) => (Asked::Refuse(refusal), None, None),
        };
        let way = if degraded { Way::Degraded } else { Way::Usual };
        let id = self.naive.admit(self.now_ms, lease_ms, way, answer, change);
        if let (Some(ticket), Some(id)) = (ticket, id) {
            self.tickets.push((ticket, id));
        }
    }
}

/// Cases of a run; `PROPTEST_CASES` asks for another number.
const CASES: u32 = 100_000;

#[test]
fn cell_does_what_the_naive_model_does() {
    let asked = ProptestConfig::default();
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => asked.cases,
        None => CASES,
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let config = ProptestConfig {
        cases: cases.div_ceil(threads),
        failure_persistence: None,
        ..asked
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let story = (policies(), prop::collection::vec(events(), 1..120));
                let result = TestRunner::new(config.clone()).run(&story, |(policy, events)| {
                    let mut pair = Pair::new(&policy);
                    for event in &events {
                        pair.apply(event);
                    }
                    Ok(())
                });
                if let Err(difference) = result {
                    panic!("{difference}");
                }
            });
        }
    });
}
