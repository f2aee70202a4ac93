//! The cell as the agent uses it, behind a mutex that is taken for each call, under every order of
//! calls that a scheduler may choose. Shuttle chooses the orders: small cases are tried in full,
//! large ones at random.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

use std::time::{Duration, Instant};

use lanekeeper_breaker::{
    Admission, Cause, CauseKind, Cell, Mode, Outcome, Override, OverrideAction, Policy, Recovery,
    RefusalReason, Selectable, State, Ticket, Transition, Trip, TripMode, View,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

/// Most orders of a small case; they have far fewer.
const ALL_ORDERS: usize = 20_000;

/// Orders of a large case that are tried.
const SOME_ORDERS: usize = 1_000;

const LEASE: Duration = Duration::from_secs(10);

const FAILED: Outcome = Outcome::Transient {
    cause: Cause::with_status(CauseKind::Status, 503),
    retry_after: None,
};

fn policy(max_probes: u32, successes_to_close: u32) -> Policy {
    Policy {
        base_cooldown: Duration::from_secs(10),
        max_cooldown: Duration::from_secs(10),
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        park: Duration::ZERO,
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n: 2,
            ..Trip::default()
        },
        half_open: Recovery {
            max_probes,
            successes_to_close,
            ..Recovery::default()
        },
        ..Policy::default()
    }
}

/// A probe that has not ended, and the half-open period it belongs to.
#[derive(Clone, Copy, PartialEq)]
struct Probe {
    number: u64,
    period: u64,
    lease_until: Instant,
}

/// What the mutex guards: the cell, the clock and what is known of the probes.
struct Guarded {
    cell: Cell,
    now: Instant,
    max_probes: usize,
    admitted: u64,
    /// Times the cell became half-open.
    periods: u64,
    probes: Vec<Probe>,
}

struct Held {
    ticket: Ticket,
    number: u64,
}

impl Guarded {
    fn new(policy: Policy) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
        let now = Instant::now();
        Self {
            max_probes: policy.half_open.max_probes as usize,
            cell: Cell::new(std::sync::Arc::new(policy), now),
            now,
            admitted: 0,
            periods: 0,
            probes: Vec::new(),
        }
    }

    /// With a cooldown that has just ended.
    fn ready_to_probe(policy: Policy) -> Self {
        let mut guarded = Self::new(policy);
        for _ in 0..2 {
            let held = guarded.admit().expect("closed");
            guarded.settle(held, FAILED);
        }
        assert_eq!(guarded.view().state, State::Open);
        guarded.now += Duration::from_secs(10);
        guarded
    }

    fn view(&self) -> View {
        self.cell.view(self.now)
    }

    /// Runs one call and checks that what it returns is what happened.
    fn checked<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> T,
        change: impl FnOnce(&T) -> Option<Transition>,
    ) -> T {
        let (before, machine_before) = (self.view().state, self.view().machine_state);
        let answer = call(self);
        let (after, machine_after) = (self.view().state, self.view().machine_state);
        if machine_before != machine_after && machine_after == State::HalfOpen {
            self.periods += 1;
        }
        match change(&answer) {
            Some(change) => {
                assert_eq!((change.from, change.to), (before, after));
                assert_ne!(before, after, "a change that is none");
            }
            None => assert_eq!(before, after, "a change that is not returned"),
        }
        answer
    }

    fn admit(&mut self) -> Option<Held> {
        let admission = self.checked(
            |guarded| guarded.cell.admit(guarded.now, LEASE),
            |admission| match admission {
                Admission::Probe(_, change) => *change,
                Admission::Pass(_) | Admission::Refuse(_) => None,
            },
        );
        self.admitted += 1;
        let number = self.admitted;
        match admission {
            Admission::Pass(ticket) => Some(Held { ticket, number }),
            Admission::Probe(ticket, _) => {
                assert!(self.probing() < self.max_probes, "a probe too many");
                self.probes.push(Probe {
                    number,
                    period: self.periods,
                    lease_until: self.now + Duration::from_secs(30),
                });
                Some(Held { ticket, number })
            }
            Admission::Refuse(refusal) => {
                if refusal.reason == RefusalReason::ProbeBusy {
                    assert_eq!(self.probing(), self.max_probes, "a slot was lost");
                }
                None
            }
        }
    }

    fn commit(&mut self, held: &mut Held) -> Option<Transition> {
        let change = self.checked(
            |guarded| guarded.cell.commit(&mut held.ticket, guarded.now),
            |change| *change,
        );
        self.probes.retain(|probe| probe.number != held.number);
        change
    }

    fn settle(&mut self, held: Held, outcome: Outcome) -> Option<Transition> {
        self.probes.retain(|probe| probe.number != held.number);
        self.checked(
            |guarded| guarded.cell.settle(held.ticket, outcome, guarded.now, 0.5),
            |change| *change,
        )
    }

    fn abandon(&mut self, held: Held) {
        self.probes.retain(|probe| probe.number != held.number);
        let change = self.checked(
            |guarded| guarded.cell.abandon(held.ticket, guarded.now),
            |change| *change,
        );
        assert_eq!(
            change, None,
            "an attempt that proves nothing decides nothing"
        );
    }

    fn override_(&mut self, override_: Option<OverrideAction>) {
        self.checked(
            |guarded| {
                let override_ = override_.map(|action| Override {
                    action,
                    until: guarded.now + Duration::from_secs(3),
                });
                guarded.cell.apply_override(override_, guarded.now)
            },
            |change| *change,
        );
    }

    fn recover(&mut self, begun: Instant) {
        self.checked(
            |guarded| guarded.cell.recover(begun, guarded.now),
            |change| *change,
        );
    }

    fn take_policy(&mut self, policy: Policy) {
        self.max_probes = policy.half_open.max_probes as usize;
        self.checked(
            |guarded| {
                guarded
                    .cell
                    .apply_policy(std::sync::Arc::new(policy), guarded.now)
            },
            |change| *change,
        );
    }

    /// Slots in use by the probes of this half-open period.
    fn probing(&self) -> usize {
        let now = self.now;
        self.probes
            .iter()
            .filter(|probe| probe.period == self.periods && probe.lease_until > now)
            .count()
    }
}

type Shared = Arc<Mutex<Guarded>>;

/// Starts a thread for each of the works and waits for all of them.
fn together<const N: usize>(shared: &Shared, works: [fn(&Shared); N]) {
    let threads = works.map(|work| {
        let shared = Arc::clone(shared);
        thread::spawn(move || work(&shared))
    });
    for thread in threads {
        thread.join().expect("a thread ends well");
    }
}

macro_rules! locked {
    ($shared:expr) => {
        $shared.lock().expect("no thread panics")
    };
}

#[test]
fn one_of_many_callers_at_once_is_the_probe() {
    shuttle::check_dfs(
        || {
            let shared = Arc::new(Mutex::new(Guarded::ready_to_probe(policy(1, 1))));
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || locked!(shared).admit())
                })
                .collect();
            let held: Vec<_> = threads
                .into_iter()
                .filter_map(|thread| thread.join().expect("a thread ends well"))
                .collect();
            assert_eq!(held.len(), 1);
            assert_eq!(locked!(shared).periods, 1);
        },
        Some(ALL_ORDERS),
    );
}

#[test]
fn probe_that_ends_in_any_way_leaves_a_free_slot_or_a_decision() {
    fn succeed(shared: &Shared) {
        let held = locked!(shared).admit();
        if let Some(mut held) = held {
            locked!(shared).commit(&mut held);
            locked!(shared).settle(held, Outcome::Success);
        }
    }
    fn fail(shared: &Shared) {
        let held = locked!(shared).admit();
        if let Some(held) = held {
            locked!(shared).settle(held, FAILED);
        }
    }
    fn give_up(shared: &Shared) {
        let held = locked!(shared).admit();
        if let Some(held) = held {
            locked!(shared).abandon(held);
        }
    }
    shuttle::check_dfs(
        || {
            let shared = Arc::new(Mutex::new(Guarded::ready_to_probe(policy(1, 1))));
            together(&shared, [succeed, fail, give_up]);
            let guarded = locked!(shared);
            assert_eq!(guarded.probing(), 0);
            assert_eq!(
                guarded.view().selectable == Selectable::Probe,
                guarded.view().state == State::HalfOpen,
                "nothing holds the slot any more"
            );
        },
        Some(ALL_ORDERS),
    );
}

#[test]
fn late_results_decide_nothing_in_whatever_order_they_come() {
    fn probe(shared: &Shared) {
        let held = locked!(shared).admit();
        if let Some(mut held) = held {
            locked!(shared).commit(&mut held);
            locked!(shared).settle(held, Outcome::Success);
        }
    }
    shuttle::check_dfs(
        || {
            let mut guarded = Guarded::new(policy(1, 1));
            let held_over = [(); 4].map(|()| guarded.admit().expect("closed"));
            for _ in 0..2 {
                let held = guarded.admit().expect("closed");
                guarded.settle(held, FAILED);
            }
            guarded.now += Duration::from_secs(10);
            let shared = Arc::new(Mutex::new(guarded));
            let late = Arc::clone(&shared);
            let thread = thread::spawn(move || {
                let hard = Outcome::HardDown {
                    cause: Cause::with_status(CauseKind::Auth, 401),
                };
                let outcomes = [FAILED, FAILED, Outcome::Success, hard];
                for (mut held, outcome) in held_over.into_iter().zip(outcomes) {
                    let mut guarded = locked!(late);
                    let before = guarded.view();
                    assert_eq!(guarded.commit(&mut held), None);
                    assert_eq!(guarded.settle(held, outcome), None);
                    assert_eq!(guarded.view(), before);
                }
            });
            probe(&shared);
            thread.join().expect("a thread ends well");
            assert_eq!(locked!(shared).view().state, State::Closed);
        },
        Some(ALL_ORDERS),
    );
}

#[test]
fn recovery_that_began_before_a_hard_down_never_closes_the_cell() {
    shuttle::check_dfs(
        || {
            let mut guarded = Guarded::new(policy(1, 1));
            let held = guarded.admit().expect("closed");
            let begun = guarded.now;
            guarded.now += Duration::from_secs(1);
            let shared = Arc::new(Mutex::new(guarded));
            let other = Arc::clone(&shared);
            let thread = thread::spawn(move || locked!(other).recover(begun));
            let hard = Outcome::HardDown {
                cause: Cause::with_status(CauseKind::Billing, 402),
            };
            locked!(shared).settle(held, hard);
            thread.join().expect("a thread ends well");
            assert_eq!(locked!(shared).view().state, State::Open);
        },
        Some(ALL_ORDERS),
    );
}

/// One thing a thread does, drawn at random.
fn something(shared: &Shared, held: &mut Vec<Held>) {
    let mut guarded = locked!(shared);
    match thread_rng().gen_range(0..16_u32) {
        0..5 => held.extend(guarded.admit()),
        5 => {
            if let Some(held) = held.last_mut() {
                guarded.commit(held);
            }
        }
        6..9 => {
            if let Some(held) = held.pop() {
                guarded.settle(held, FAILED);
            }
        }
        9 => {
            if let Some(held) = held.pop() {
                guarded.settle(held, Outcome::Success);
            }
        }
        10 => {
            if let Some(held) = held.pop() {
                guarded.abandon(held);
            }
        }
        11 => guarded.now += Duration::from_secs(7),
        12 => {
            let action = thread_rng().gen_range(0..5_usize);
            // The last draw releases.
            guarded.override_(OverrideAction::ALL.get(action).copied());
            // Overrides end unseen; here they are released before the clock moves on.
            guarded.override_(None);
        }
        13 => {
            let begun = guarded.now;
            guarded.recover(begun);
        }
        14 => {
            let max_probes = guarded.max_probes as u32;
            guarded.take_policy(policy(max_probes, thread_rng().gen_range(1..3)));
        }
        _ => {
            let change = guarded.checked(
                |guarded| guarded.cell.credential_changed(guarded.now),
                |change| *change,
            );
            assert!(change.is_none_or(|change| change.to == State::HalfOpen));
        }
    }
}

fn mixed(max_probes: u32) {
    shuttle::check_random(
        move || {
            let shared = Arc::new(Mutex::new(Guarded::new(policy(max_probes, 1))));
            fn work(shared: &Shared) {
                let mut held = Vec::new();
                for _ in 0..24 {
                    something(shared, &mut held);
                }
                for held in held {
                    locked!(shared).abandon(held);
                }
            }
            together(&shared, [work, work, work]);
            let mut guarded = locked!(shared);
            assert_eq!(guarded.probing(), 0, "every ticket is back");
            guarded.now += Duration::from_secs(3600);
            assert_eq!(guarded.view().mode, Mode::Enforce);
            assert!(guarded.admit().is_some(), "a slot never came back");
        },
        SOME_ORDERS,
    );
}

#[test]
fn any_mix_of_calls_keeps_one_probe_and_loses_no_slot() {
    mixed(1);
}

#[test]
fn any_mix_of_calls_keeps_within_three_probes_and_loses_no_slot() {
    mixed(3);
}
