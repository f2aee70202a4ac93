//! The naive model: whole milliseconds, every outcome kept for ever, every rule written out in the
//! order of the design's table, nothing clever.

use std::collections::HashMap;
use std::time::Duration;

use lanekeeper_breaker::{
    ClosesAt, Mode, Outcome, OverrideAction, Policy, Reason, Refusal, RefusalReason, Selectable,
    State, Transition, Trip, View, WindowKind,
};

/// What the cell answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Pass,
    Probe,
    Refuse(Refusal),
}

/// How the cell was asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Usual,
    Degraded,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Ordinary,
    /// Holds a slot until then.
    Probe {
        lease_until: u64,
    },
    Proven,
    /// Passed, but not judged.
    Stranger,
}

#[derive(Clone, Debug)]
struct Attempt {
    age: u64,
    began: u64,
    role: Role,
    committed: bool,
    /// A probe's content came in time, and its end decides.
    delivered: bool,
    /// Its content came slowly.
    slow: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Closed,
    Open { since: u64, until: u64, hard: bool },
    HalfOpen { successes: u32, served: u64 },
}

#[derive(Clone, Debug)]
struct Counted {
    /// In nanoseconds.
    at: u64,
    failed: bool,
    /// 0 when it cannot be taken back any more.
    attempt: u64,
}

#[derive(Debug)]
pub(crate) struct Naive {
    pub(crate) policy: Policy,
    condition: Condition,
    /// Counts state changes.
    age: u64,
    attempts: HashMap<u64, Attempt>,
    next_attempt: u64,
    counted: Vec<Counted>,
    span_began: Option<u64>,
    streak: u32,
    k: u32,
    trips: u64,
    soft: u64,
    hard: u64,
    override_: Option<(OverrideAction, u64)>,
    advised: Option<u64>,
    hard_down_at: Option<u64>,
    credential_at: u64,
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).expect("a test's span is short")
}

const DAY: u64 = 86_400_000;

/// Nanoseconds of a millisecond.
const NANOS: u64 = 1_000_000;

impl Naive {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            condition: Condition::Closed,
            age: 0,
            attempts: HashMap::new(),
            next_attempt: 0,
            counted: Vec::new(),
            span_began: None,
            streak: 0,
            k: 0,
            trips: 0,
            soft: 0,
            hard: 0,
            override_: None,
            advised: None,
            hard_down_at: None,
            credential_at: 0,
        }
    }

    fn overridden(&self, now: u64) -> Option<OverrideAction> {
        self.override_
            .filter(|(_, until)| *until > now)
            .map(|(action, _)| action)
    }

    fn state(&self) -> State {
        match self.condition {
            Condition::Closed => State::Closed,
            Condition::Open { .. } => State::Open,
            Condition::HalfOpen { .. } => State::HalfOpen,
        }
    }

    fn shown(&self, now: u64) -> State {
        match self.overridden(now) {
            Some(OverrideAction::ForceOpen | OverrideAction::Drain) => State::Open,
            Some(OverrideAction::ForceClose) => State::Closed,
            _ if self.policy.mode != Mode::Enforce => State::Closed,
            _ => self.state(),
        }
    }

    // The window.

    fn width(&self) -> u64 {
        let width = self.policy.trip.window.as_nanos().div_ceil(64).max(1);
        u64::try_from(width).expect("a short window")
    }

    fn slot(&self, at: u64) -> u64 {
        at / self.width()
    }

    fn is_inside(&self, one: &Counted, now: u64) -> bool {
        self.policy.trip.window_kind != WindowKind::Sliding
            || self.slot(one.at) + 64 > self.slot(now * NANOS)
    }

    /// What the window keeps when it takes on another shape: between sliding windows outcomes
    /// move to the middle of their slots, else they are taken for outcomes of now.
    fn reshape(&mut self, next: &Trip, now: u64) {
        let old = &self.policy.trip;
        if (old.window, old.window_kind) == (next.window, next.window_kind) {
            return;
        }
        let slides = [old.window_kind, next.window_kind] == [WindowKind::Sliding; 2];
        if self.span_is_over(now) {
            self.forget_counts();
        }
        let mut kept = std::mem::take(&mut self.counted);
        kept.retain(|one| self.is_inside(one, now));
        let width = self.width();
        for one in &mut kept {
            let middle = one.at / width * width + width / 2;
            one.at = if slides {
                middle.min(now * NANOS)
            } else {
                now * NANOS
            };
            one.attempt = 0;
        }
        self.span_began = match next.window_kind {
            WindowKind::Sliding => None,
            WindowKind::Tumbling => Some(now),
            WindowKind::Counter => (!kept.is_empty()).then_some(now),
        };
        self.counted = kept;
    }

    fn span_is_over(&self, now: u64) -> bool {
        let life = match self.policy.trip.window_kind {
            WindowKind::Sliding => return false,
            WindowKind::Tumbling => self.policy.trip.window,
            WindowKind::Counter => self.policy.trip.window * 2,
        };
        self.span_began.is_some_and(|began| now >= began + ms(life))
    }

    fn totals(&self, now: u64) -> (u64, u64) {
        if self.span_is_over(now) {
            return (0, 0);
        }
        let mut totals = (0, 0);
        for one in self.counted.iter().filter(|one| self.is_inside(one, now)) {
            if one.failed {
                totals.1 += 1;
            } else {
                totals.0 += 1;
            }
        }
        totals
    }

    fn forget_counts(&mut self) {
        self.counted.clear();
        self.span_began = None;
    }

    fn count(&mut self, attempt: u64, failed: bool, now: u64) {
        if self.span_is_over(now) {
            self.forget_counts();
        }
        match self.policy.trip.window_kind {
            WindowKind::Sliding => {}
            WindowKind::Tumbling => {
                self.span_began.get_or_insert(now);
            }
            WindowKind::Counter => {
                if self.totals(now).1 == 0 {
                    if !failed {
                        return;
                    }
                    self.forget_counts();
                    self.span_began = Some(now);
                }
            }
        }
        self.counted.push(Counted {
            at: now * NANOS,
            failed,
            attempt,
        });
    }

    fn take_back(&mut self, attempt: u64, now: u64) {
        if !self.span_is_over(now) {
            self.counted.retain(|one| one.attempt != attempt);
        }
    }

    // The states.

    fn become_state(&mut self, next: Condition) {
        self.condition = next;
        self.age += 1;
    }

    fn close(&mut self) {
        self.become_state(Condition::Closed);
        self.forget_counts();
        self.streak = 0;
        self.k = 0;
        self.soft = 0;
        self.hard = 0;
    }

    /// Opens for as long as the cell said, after checking that this is a length it may choose.
    fn open(&mut self, hard_down: bool, asked: u64, now: u64, change: Option<Transition>) {
        if self.condition == Condition::Closed {
            self.k = 0;
            self.trips += 1;
        } else {
            self.k += 1;
        }
        let (low, high) = if hard_down {
            let sticky = ms(self.policy.hard_down_cooldown) as f64;
            (sticky, sticky)
        } else {
            let nominal = (self.policy.base_cooldown.as_secs_f64() * 2_f64.powf(self.k.into()))
                .min(self.policy.max_cooldown.as_secs_f64());
            let band =
                (nominal * self.policy.jitter_ratio).max(self.policy.jitter_floor.as_secs_f64());
            let least = nominal.min(1.0);
            (
                (nominal - band).max(least) * 1e3,
                (nominal + band).max(least) * 1e3,
            )
        };
        let floor = asked.max(self.hard.saturating_sub(now)) as f64;
        let until = match change {
            Some(change) => {
                let chosen = change.cooldown.expect("an opening has a cooldown");
                let chosen_ms = chosen.as_secs_f64() * 1e3;
                assert!(
                    chosen_ms >= low.max(floor) - 0.001 && chosen_ms <= high.max(floor) + 0.001,
                    "cooldown {chosen_ms} ms is outside {low}..{high}, floor {floor}"
                );
                now + u64::try_from(chosen.as_nanos().div_ceil(1_000_000)).expect("short")
            }
            // Under an override no transition is returned; the model learns the deadline on
            // looking.
            None => u64::MAX,
        };
        self.soft = 0;
        self.hard = 0;
        self.become_state(Condition::Open {
            since: now,
            until,
            hard: hard_down,
        });
    }

    fn returned(&self, change: Option<Transition>, from: State, reason: Reason, now: u64) {
        if self.overridden(now).is_some() {
            assert_eq!(change, None, "an override hides what the machine does");
            return;
        }
        let change = change.expect("the change is returned");
        assert_eq!((change.from, change.to), (from, self.state()));
        assert_eq!(change.reason, reason);
        assert_eq!(change.observed, self.policy.mode == Mode::Observe);
    }

    // The events.

    pub(crate) fn admit(
        &mut self,
        now: u64,
        lease: u64,
        way: Way,
        answer: Asked,
        change: Option<Transition>,
    ) -> Option<u64> {
        let override_ = self.overridden(now);
        if let Some(OverrideAction::ForceOpen | OverrideAction::Drain) = override_ {
            let until = self.override_.expect("in force").1;
            assert_eq!(answer, refused(Some(until - now), RefusalReason::Override));
            return None;
        }
        if self.policy.mode == Mode::Off {
            assert_eq!(answer, Asked::Pass);
            return Some(self.begin(now, Role::Stranger));
        }
        if let Condition::Open { since, until, .. } = self.condition
            && now >= until
        {
            let served = until - since;
            self.become_state(Condition::HalfOpen {
                successes: 0,
                served,
            });
            self.returned(change, State::Open, Reason::CooldownEnded, now);
        } else {
            assert_eq!(change, None);
        }
        let refusal = match self.condition {
            Condition::Closed => {
                if self.hard > now && override_.is_none() {
                    refused(Some(self.hard - now), RefusalReason::Parked)
                } else {
                    assert_eq!(answer, Asked::Pass);
                    return Some(self.begin(now, Role::Ordinary));
                }
            }
            Condition::Open { until, .. } => refused(Some(until - now), RefusalReason::Open),
            Condition::HalfOpen { served, .. } => {
                let slots = self.policy.half_open.max_probes;
                if slots == 0 || self.busy(now) < slots as usize {
                    assert_eq!(answer, Asked::Probe);
                    let lease_until = if slots == 0 {
                        u64::MAX
                    } else {
                        now + lease.max(30_000).max(served)
                    };
                    return Some(self.begin(now, Role::Probe { lease_until }));
                }
                refused(None, RefusalReason::ProbeBusy)
            }
        };
        if way == Way::Degraded || self.policy.mode == Mode::Observe {
            assert_eq!(answer, Asked::Pass);
            let judged = self.condition == Condition::Closed;
            let role = if judged {
                Role::Ordinary
            } else {
                Role::Stranger
            };
            return Some(self.begin(now, role));
        }
        match (answer, refusal) {
            // A deadline between two milliseconds.
            (Asked::Refuse(real), Asked::Refuse(model)) => {
                assert_eq!(real.reason, model.reason);
                assert_eq!(
                    real.retry_in.map(up_to_ms),
                    model.retry_in.map(up_to_ms),
                    "time left"
                );
            }
            _ => assert_eq!(answer, refusal),
        }
        None
    }

    fn begin(&mut self, now: u64, role: Role) -> u64 {
        self.next_attempt += 1;
        self.attempts.insert(
            self.next_attempt,
            Attempt {
                age: self.age,
                began: now,
                role,
                committed: false,
                delivered: false,
                slow: false,
            },
        );
        self.next_attempt
    }

    /// Slots in use: every limited probe that was neither settled nor proven, whose lease runs.
    fn busy(&self, now: u64) -> usize {
        self.attempts
            .values()
            .filter(|attempt| {
                attempt.age == self.age
                    && matches!(attempt.role, Role::Probe { lease_until }
                        if lease_until > now && lease_until != u64::MAX)
            })
            .count()
    }

    fn slow(&self, began: u64, now: u64) -> bool {
        self.policy
            .trip
            .slow_call
            .is_some_and(|slow| now - began >= ms(slow))
    }

    pub(crate) fn commit(&mut self, id: u64, now: u64, change: Option<Transition>) {
        let attempt = self.attempts[&id].clone();
        if attempt.age != self.age || attempt.committed || attempt.delivered {
            assert_eq!(change, None);
            return;
        }
        let slow = self.slow(attempt.began, now);
        match attempt.role {
            Role::Ordinary => {
                assert_eq!(change, None);
                let attempt = self.attempts.get_mut(&id).expect("known");
                attempt.committed = true;
                attempt.slow = slow;
                self.count(id, slow, now);
            }
            Role::Probe { .. } if self.policy.half_open.closes_at == ClosesAt::End => {
                assert_eq!(change, None);
                self.attempts.get_mut(&id).expect("known").delivered = !slow;
            }
            Role::Probe { lease_until } if !slow && lease_until > now => {
                self.prove(now, change);
                let closed = self.condition == Condition::Closed;
                let age = self.age;
                let attempt = self.attempts.get_mut(&id).expect("known");
                if closed {
                    attempt.age = age;
                    attempt.role = Role::Ordinary;
                    attempt.committed = true;
                    self.count(id, false, now);
                } else {
                    attempt.role = Role::Proven;
                }
            }
            Role::Probe { .. } | Role::Proven | Role::Stranger => assert_eq!(change, None),
        }
    }

    /// A probe brought good news.
    fn prove(&mut self, now: u64, change: Option<Transition>) {
        let needed = self.policy.half_open.successes_to_close;
        if let Condition::HalfOpen { successes, .. } = &mut self.condition {
            *successes += 1;
            if *successes >= needed {
                self.close();
                self.returned(change, State::HalfOpen, Reason::ProbeSucceeded, now);
                return;
            }
        }
        assert_eq!(change, None);
    }

    pub(crate) fn settle(
        &mut self,
        id: u64,
        outcome: Outcome,
        now: u64,
        change: Option<Transition>,
    ) {
        let attempt = self.attempts.remove(&id).expect("known");
        let outcome = match outcome {
            Outcome::HardDown { .. } if attempt.began < self.credential_at => Outcome::Neutral,
            other => other,
        };
        if matches!(outcome, Outcome::HardDown { .. }) {
            self.hard_down_at = Some(now);
        }
        let asked = match outcome {
            Outcome::Transient { retry_after, .. } => ms(retry_after
                .unwrap_or_default()
                .min(Duration::from_millis(DAY))),
            _ => 0,
        };
        let late = matches!(attempt.role, Role::Probe { lease_until } if lease_until <= now);
        if attempt.age != self.age || attempt.role == Role::Stranger || late {
            assert_eq!(change, None, "a late result decides nothing");
            if asked > 0
                && let Condition::Open { until, .. } = &mut self.condition
            {
                *until = (*until).max(now + asked);
            }
            return;
        }
        match attempt.role {
            Role::Ordinary => self.settle_closed(id, &attempt, outcome, asked, now, change),
            Role::Probe { .. } | Role::Proven => {
                let probing = attempt.role != Role::Proven;
                match outcome {
                    Outcome::Success
                        if probing && !attempt.delivered && self.slow(attempt.began, now) =>
                    {
                        self.reopen(id, false, 0, now, change);
                    }
                    Outcome::Success if probing => {
                        self.prove(now, change);
                        if self.condition == Condition::Closed {
                            self.count(id, false, now);
                        }
                    }
                    Outcome::Success | Outcome::Neutral => assert_eq!(change, None),
                    Outcome::Transient { .. } => self.reopen(id, false, asked, now, change),
                    Outcome::HardDown { .. } => self.reopen(id, true, 0, now, change),
                }
            }
            Role::Stranger => panic!("handled above"),
        }
    }

    fn reopen(&mut self, id: u64, hard: bool, asked: u64, now: u64, change: Option<Transition>) {
        self.count(id, true, now);
        self.streak += 1;
        self.open(hard, asked, now, change);
        let reason = if hard {
            Reason::HardDown
        } else {
            Reason::ProbeFailed
        };
        self.returned(change, State::HalfOpen, reason, now);
    }

    fn settle_closed(
        &mut self,
        id: u64,
        attempt: &Attempt,
        outcome: Outcome,
        asked: u64,
        now: u64,
        change: Option<Transition>,
    ) {
        let forced = self.overridden(now) == Some(OverrideAction::ForceClose);
        match outcome {
            Outcome::Neutral => {
                self.take_back(id, now);
                assert_eq!(change, None);
            }
            Outcome::Success => {
                // How the content came was settled when it was committed.
                let slow = if attempt.committed {
                    attempt.slow
                } else {
                    let slow = self.slow(attempt.began, now);
                    self.count(id, slow, now);
                    slow
                };
                self.streak = 0;
                self.soft = 0;
                if slow {
                    self.trip_or_not(forced, 0, now, change);
                } else {
                    assert_eq!(change, None);
                    if self.policy.success_clears_count && self.totals(now).1 > 0 {
                        self.forget_counts();
                        self.count(id, false, now);
                    }
                }
            }
            Outcome::Transient { .. } => {
                self.take_back(id, now);
                self.count(id, true, now);
                self.streak += 1;
                if !self.trip_or_not(forced, asked, now, change) {
                    if !self.policy.park.is_zero() {
                        self.soft = self.soft.max(now + ms(self.policy.park));
                    }
                    if asked > 0 {
                        self.hard = self.hard.max(now + asked);
                    }
                }
            }
            Outcome::HardDown { .. } => {
                self.take_back(id, now);
                self.count(id, true, now);
                self.streak += 1;
                if forced {
                    assert_eq!(change, None);
                } else {
                    self.open(true, 0, now, change);
                    self.returned(change, State::Closed, Reason::HardDown, now);
                }
            }
        }
    }

    fn trip_or_not(
        &mut self,
        forced: bool,
        asked: u64,
        now: u64,
        change: Option<Transition>,
    ) -> bool {
        let trip = &self.policy.trip;
        let rules = trip.mode.rules();
        let (ok, failed) = self.totals(now);
        let all = ok + failed;
        let reason = if rules.error_rate
            && all >= u64::from(trip.min_requests)
            && failed > 0
            && failed as f64 / all as f64 >= trip.threshold
        {
            Reason::ErrorRate
        } else if rules.consecutive && self.streak >= trip.consecutive_n {
            Reason::Consecutive
        } else if rules.count && failed >= u64::from(trip.failure_count) {
            Reason::Count
        } else {
            assert_eq!(change, None, "nothing reached its threshold");
            return false;
        };
        if forced {
            assert_eq!(change, None, "a forced cell does not trip");
            return false;
        }
        self.open(false, asked, now, change);
        self.returned(change, State::Closed, reason, now);
        true
    }

    pub(crate) fn override_(
        &mut self,
        override_: Option<(OverrideAction, u64)>,
        now: u64,
        change: Option<Transition>,
    ) {
        let before = self.shown(now);
        match override_ {
            Some((OverrideAction::Reset, _)) => {
                self.close();
                self.hard_down_at = None;
            }
            Some((action, until)) if until > now => {
                if action == OverrideAction::ForceClose
                    && self.overridden(now) != Some(OverrideAction::ForceClose)
                {
                    self.close();
                }
                self.override_ = Some((action, until));
            }
            Some(_) | None => self.override_ = None,
        }
        self.only_what_is_seen(before, now, change);
    }

    fn only_what_is_seen(&self, before: State, now: u64, change: Option<Transition>) {
        let after = self.shown(now);
        assert_eq!(
            change.map(|change| (change.from, change.to)),
            (before != after).then_some((before, after))
        );
    }

    pub(crate) fn recover(&mut self, begun: u64, now: u64, change: Option<Transition>) {
        if self.policy.mode == Mode::Off || self.hard_down_at.is_some_and(|at| at >= begun) {
            assert_eq!(change, None);
        } else if self.condition == Condition::Closed {
            self.streak = 0;
            self.soft = 0;
            assert_eq!(change, None);
        } else {
            let from = self.state();
            self.close();
            self.returned(change, from, Reason::Recovered, now);
        }
    }

    pub(crate) fn credential(&mut self, now: u64, change: Option<Transition>) {
        self.credential_at = now;
        if let Condition::Open {
            since,
            until,
            hard: true,
        } = self.condition
        {
            self.become_state(Condition::HalfOpen {
                successes: 0,
                served: until.min(now) - since,
            });
            self.returned(change, State::Open, Reason::CredentialChanged, now);
        } else {
            assert_eq!(change, None);
        }
    }

    pub(crate) fn advisory(&mut self, until: Option<u64>) {
        self.advised = until;
    }

    pub(crate) fn take_policy(&mut self, policy: Policy, now: u64, change: Option<Transition>) {
        let before = self.shown(now);
        self.reshape(&policy.trip, now);
        self.policy = policy;
        if self.policy.mode == Mode::Off {
            self.close();
        }
        self.only_what_is_seen(before, now, change);
    }

    // What is seen.

    pub(crate) fn compare(&mut self, view: &View, now: u64) {
        assert_eq!(view.state, self.shown(now));
        assert_eq!(view.machine_state, self.state());
        assert_eq!(view.streak, self.streak, "streak");
        assert_eq!(view.reopens, self.k, "k");
        assert_eq!(view.trips, self.trips, "trips");
        assert_eq!(
            (view.window_ok, view.window_failed),
            self.totals(now),
            "window"
        );
        assert_eq!(
            view.parked_remaining,
            Duration::from_millis(self.soft.max(self.hard).saturating_sub(now))
        );
        assert_eq!(view.parked_hard, self.hard > now);
        assert_eq!(
            view.hard_down,
            matches!(self.condition, Condition::Open { hard: true, .. })
        );
        let override_ = self.overridden(now);
        assert_eq!(view.override_.map(|shown| shown.action), override_);
        if let Condition::Open { until, .. } = &mut self.condition
            && *until == u64::MAX
        {
            *until = now + up_to_ms(view.machine_cooldown_remaining);
        }
        let remaining = match (view.state, override_, &self.condition) {
            (State::Open, Some(_), _) => self.override_.expect("in force").1 - now,
            (State::Open, None, Condition::Open { until, .. }) => until.saturating_sub(now),
            _ => 0,
        };
        assert_eq!(
            up_to_ms(view.cooldown_remaining),
            remaining,
            "cooldown left"
        );
        self.compare_selectable(view.selectable, now);
    }

    fn compare_selectable(&self, shown: Selectable, now: u64) {
        let override_ = self.overridden(now);
        let expected = match (override_, self.policy.mode, &self.condition) {
            (Some(OverrideAction::ForceOpen | OverrideAction::Drain), _, _) => "no",
            (Some(_), _, _) | (None, Mode::Observe | Mode::Off, _) => "yes",
            (None, Mode::Enforce, Condition::Closed) => {
                if self.hard > now {
                    "no"
                } else if self.soft > now {
                    "soft"
                } else if self.advised.is_some_and(|until| until > now) {
                    "advised"
                } else {
                    "yes"
                }
            }
            (None, Mode::Enforce, Condition::Open { until, .. }) => {
                if *until > now {
                    "no"
                } else {
                    "probe"
                }
            }
            (None, Mode::Enforce, Condition::HalfOpen { .. }) => {
                let slots = self.policy.half_open.max_probes;
                if slots == 0 || self.busy(now) < slots as usize {
                    "probe"
                } else {
                    "no"
                }
            }
        };
        let real = match shown {
            Selectable::Yes => "yes",
            Selectable::SoftParked => "soft",
            Selectable::Advised => "advised",
            Selectable::Probe => "probe",
            Selectable::No { .. } => "no",
        };
        assert_eq!(real, expected);
    }
}

fn refused(retry_in: Option<u64>, reason: RefusalReason) -> Asked {
    Asked::Refuse(Refusal {
        retry_in: retry_in.map(Duration::from_millis),
        reason,
    })
}

fn up_to_ms(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).expect("short")
}
