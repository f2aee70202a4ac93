//! Every state with every event: what follows is written down, pair by pair, and no pair is left
//! out.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{
    Admission, Cause, CauseKind, Cell, Mode, Outcome, Override, OverrideAction, Policy, Selectable,
    State, Ticket, Trip, TripMode,
};

const LEASE: Duration = Duration::from_secs(10);

/// Where a cell can be, as far as its rules distinguish places.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Fresh,
    SoftParked,
    HardParked,
    /// One more failure trips.
    OnEdge,
    Open,
    OpenByHardDown,
    /// The cooldown is over and nobody has asked yet.
    CooledDown,
    /// The only probe runs.
    Probing,
    /// Half-open with its slot free.
    ProbeFree,
    ForcedOpen,
    ForcedClosed,
    Observing,
    Off,
}

const PLACES: [Place; 13] = [
    Place::Fresh,
    Place::SoftParked,
    Place::HardParked,
    Place::OnEdge,
    Place::Open,
    Place::OpenByHardDown,
    Place::CooledDown,
    Place::Probing,
    Place::ProbeFree,
    Place::ForcedOpen,
    Place::ForcedClosed,
    Place::Observing,
    Place::Off,
];

/// What can happen to it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Admit,
    Commit,
    Succeed,
    Fail,
    FailAsking,
    HardDown,
    Neutral,
    Abandon,
    StaleSuccess,
    StaleFailure,
    StaleFailureAsking,
    StaleHardDown,
    Recover,
    RecoverTooOld,
    CredentialChanged,
    ForceOpen,
    ForceClose,
    Reset,
    Release,
    SamePolicy,
    TurnOff,
}

const EVENTS: [Event; 21] = [
    Event::Admit,
    Event::Commit,
    Event::Succeed,
    Event::Fail,
    Event::FailAsking,
    Event::HardDown,
    Event::Neutral,
    Event::Abandon,
    Event::StaleSuccess,
    Event::StaleFailure,
    Event::StaleFailureAsking,
    Event::StaleHardDown,
    Event::Recover,
    Event::RecoverTooOld,
    Event::CredentialChanged,
    Event::ForceOpen,
    Event::ForceClose,
    Event::Reset,
    Event::Release,
    Event::SamePolicy,
    Event::TurnOff,
];

/// What must be seen afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Passing,
    SoftParked,
    HardParked,
    Open,
    Probeable,
    ProbeBusy,
}

/// A cell at a place, with an attempt it would judge (where one can exist) and one from before its
/// last state change.
struct Scene {
    cell: Cell,
    now: Instant,
    current: Option<Ticket>,
    stale: Option<Ticket>,
}

fn policy(mode: Mode) -> Policy {
    Policy {
        mode,
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n: 3,
            ..Trip::default()
        },
        ..Policy::default()
    }
}

const CAUSE: Cause = Cause::with_status(CauseKind::Status, 503);

const FAILED: Outcome = Outcome::Transient {
    cause: CAUSE,
    retry_after: None,
};

const ASKING: Outcome = Outcome::Transient {
    cause: CAUSE,
    retry_after: Some(Duration::from_secs(300)),
};

const DENIED: Outcome = Outcome::HardDown { cause: CAUSE };

impl Scene {
    fn at(place: Place) -> Self {
        let mode = match place {
            Place::Observing => Mode::Observe,
            Place::Off => Mode::Off,
            Place::Fresh
            | Place::SoftParked
            | Place::HardParked
            | Place::OnEdge
            | Place::Open
            | Place::OpenByHardDown
            | Place::CooledDown
            | Place::Probing
            | Place::ProbeFree
            | Place::ForcedOpen
            | Place::ForcedClosed => Mode::Enforce,
        };
        #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
        let now = Instant::now();
        let mut scene = Self {
            cell: Cell::new(Arc::new(policy(mode)), now),
            now,
            current: None,
            stale: None,
        };
        // A reset moves the generation on, so that every place can have a stale ticket.
        scene.stale = Some(scene.pass());
        scene.override_(OverrideAction::Reset);
        match place {
            Place::Fresh | Place::Observing | Place::Off => scene.current = Some(scene.pass()),
            Place::SoftParked => {
                scene.current = Some(scene.pass());
                scene.attempt(FAILED);
            }
            Place::HardParked => {
                scene.current = Some(scene.pass());
                scene.attempt(ASKING);
            }
            Place::OnEdge => {
                scene.current = Some(scene.pass());
                scene.attempt(FAILED);
                scene.attempt(FAILED);
            }
            Place::Open => scene.trip(),
            Place::OpenByHardDown => scene.attempt(DENIED),
            Place::CooledDown => {
                scene.trip();
                scene.wait(15);
            }
            Place::Probing => {
                scene.trip();
                scene.wait(15);
                scene.current = Some(scene.probe());
            }
            Place::ProbeFree => {
                scene.trip();
                scene.wait(15);
                let probe = scene.probe();
                assert_eq!(scene.cell.abandon(probe, scene.now), None);
            }
            Place::ForcedOpen => {
                scene.current = Some(scene.pass());
                scene.override_(OverrideAction::ForceOpen);
            }
            Place::ForcedClosed => {
                scene.override_(OverrideAction::ForceClose);
                scene.current = Some(scene.pass());
            }
        }
        scene
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn pass(&mut self) -> Ticket {
        match self.cell.admit(self.now, LEASE) {
            Admission::Pass(ticket) => ticket,
            other => panic!("expected to pass, got {other:?}"),
        }
    }

    fn probe(&mut self) -> Ticket {
        match self.cell.admit(self.now, LEASE) {
            Admission::Probe(ticket, _) => ticket,
            other => panic!("expected a probe, got {other:?}"),
        }
    }

    fn attempt(&mut self, outcome: Outcome) {
        let ticket = self.pass();
        self.cell.settle(ticket, outcome, self.now, 0.5);
    }

    fn trip(&mut self) {
        for _ in 0..3 {
            self.attempt(FAILED);
        }
    }

    fn override_(&mut self, action: OverrideAction) {
        let override_ = Override {
            action,
            until: self.now + Duration::from_secs(3_600),
        };
        self.cell.apply_override(Some(override_), self.now);
    }

    fn settle_current(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.current.take() {
            self.cell.settle(ticket, outcome, self.now, 0.5);
        }
    }

    fn settle_stale(&mut self, outcome: Outcome) {
        let ticket = self.stale.take().expect("every scene has a stale ticket");
        assert_eq!(
            self.cell.settle(ticket, outcome, self.now, 0.5),
            None,
            "a stale result is never a transition"
        );
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Admit => {
                let _ = self.cell.admit(self.now, LEASE);
            }
            Event::Commit => {
                if let Some(ticket) = &mut self.current {
                    self.cell.commit(ticket, self.now);
                }
            }
            Event::Succeed => self.settle_current(Outcome::Success),
            Event::Fail => self.settle_current(FAILED),
            Event::FailAsking => self.settle_current(ASKING),
            Event::HardDown => self.settle_current(DENIED),
            Event::Neutral => self.settle_current(Outcome::Neutral),
            Event::Abandon => {
                if let Some(ticket) = self.current.take() {
                    assert_eq!(self.cell.abandon(ticket, self.now), None);
                }
            }
            Event::StaleSuccess => self.settle_stale(Outcome::Success),
            Event::StaleFailure => self.settle_stale(FAILED),
            Event::StaleFailureAsking => self.settle_stale(ASKING),
            Event::StaleHardDown => self.settle_stale(DENIED),
            Event::Recover => {
                // A hard-down at this very moment would count as newer.
                let begun = self.now + Duration::from_millis(1);
                self.cell.recover(begun, begun);
            }
            Event::RecoverTooOld => {
                let begun = self.now;
                self.now += Duration::from_millis(1);
                self.settle_stale(DENIED);
                assert_eq!(self.cell.recover(begun, self.now), None);
            }
            Event::CredentialChanged => {
                self.cell.credential_changed(self.now);
            }
            Event::ForceOpen => self.override_(OverrideAction::ForceOpen),
            Event::ForceClose => self.override_(OverrideAction::ForceClose),
            Event::Reset => self.override_(OverrideAction::Reset),
            Event::Release => {
                self.cell.apply_override(None, self.now);
            }
            Event::SamePolicy => {
                let same = Arc::clone(self.cell.policy());
                assert_eq!(self.cell.apply_policy(same, self.now), None);
            }
            Event::TurnOff => {
                self.cell
                    .apply_policy(Arc::new(policy(Mode::Off)), self.now);
            }
        }
    }

    fn seen(&self) -> Seen {
        let view = self.cell.view(self.now);
        let seen = match view.selectable {
            Selectable::Yes => Seen::Passing,
            Selectable::SoftParked | Selectable::Advised => Seen::SoftParked,
            Selectable::Probe => Seen::Probeable,
            Selectable::No { .. } if view.state == State::Closed => Seen::HardParked,
            Selectable::No { .. } if view.state == State::HalfOpen => Seen::ProbeBusy,
            Selectable::No { .. } => Seen::Open,
        };
        let fits = match seen {
            Seen::Passing | Seen::SoftParked | Seen::HardParked => view.state == State::Closed,
            Seen::Open => view.state == State::Open,
            Seen::Probeable => view.state != State::Closed,
            Seen::ProbeBusy => view.state == State::HalfOpen,
        };
        assert!(fits, "{seen:?} does not fit {view:?}");
        seen
    }
}

/// What a place shows while nothing happens.
fn rest(place: Place) -> Seen {
    match place {
        Place::Fresh | Place::ForcedClosed | Place::Observing | Place::Off => Seen::Passing,
        Place::SoftParked | Place::OnEdge => Seen::SoftParked,
        Place::HardParked => Seen::HardParked,
        Place::Open | Place::OpenByHardDown | Place::ForcedOpen => Seen::Open,
        Place::CooledDown | Place::ProbeFree => Seen::Probeable,
        Place::Probing => Seen::ProbeBusy,
    }
}

/// The table.
fn expected(place: Place, event: Event) -> Seen {
    use Place::{
        CooledDown, ForcedClosed, ForcedOpen, Fresh, HardParked, Observing, Off, OnEdge, Open,
        OpenByHardDown, ProbeFree, Probing, SoftParked,
    };
    match (event, place) {
        (Event::Admit, CooledDown | ProbeFree) => Seen::ProbeBusy,
        (Event::Admit, _) => rest(place),

        (Event::Commit, Probing) => Seen::Passing,
        (Event::Commit, _) => rest(place),

        (Event::Succeed, SoftParked | OnEdge | Probing) => Seen::Passing,
        (Event::Succeed, _) => rest(place),

        (Event::Fail, Fresh) => Seen::SoftParked,
        (Event::Fail, OnEdge | Probing) => Seen::Open,
        (Event::Fail, _) => rest(place),

        (Event::FailAsking, Fresh | SoftParked) => Seen::HardParked,
        (Event::FailAsking, OnEdge | Probing) => Seen::Open,
        (Event::FailAsking, _) => rest(place),

        (Event::HardDown, Fresh | SoftParked | HardParked | OnEdge | Probing) => Seen::Open,
        (Event::HardDown, _) => rest(place),

        (Event::Neutral | Event::Abandon, Probing) => Seen::Probeable,
        (Event::Neutral | Event::Abandon, _) => rest(place),

        // A Retry-After reaches an open cell even after its cooldown.
        (Event::StaleFailureAsking, CooledDown) => Seen::Open,
        (
            Event::StaleSuccess
            | Event::StaleFailure
            | Event::StaleFailureAsking
            | Event::StaleHardDown
            | Event::RecoverTooOld
            | Event::SamePolicy,
            _,
        ) => rest(place),

        (
            Event::Recover,
            SoftParked | OnEdge | Open | OpenByHardDown | CooledDown | Probing | ProbeFree,
        ) => Seen::Passing,
        (Event::Recover, Fresh | HardParked | ForcedOpen | ForcedClosed | Observing | Off) => {
            rest(place)
        }

        (Event::CredentialChanged, OpenByHardDown) => Seen::Probeable,
        (Event::CredentialChanged, _) => rest(place),

        (Event::ForceOpen, _) => Seen::Open,
        (Event::ForceClose, _) => Seen::Passing,
        (Event::Reset | Event::TurnOff, ForcedOpen) => Seen::Open,
        (Event::Reset | Event::TurnOff, _) => Seen::Passing,
        (Event::Release, ForcedOpen) => Seen::Passing,
        (Event::Release, _) => rest(place),
    }
}

#[test]
fn every_event_in_every_state_does_what_the_table_says() {
    for place in PLACES {
        assert_eq!(Scene::at(place).seen(), rest(place), "{place:?} at rest");
        for event in EVENTS {
            let mut scene = Scene::at(place);
            scene.happen(event);
            assert_eq!(
                scene.seen(),
                expected(place, event),
                "{event:?} in {place:?}"
            );
        }
    }
}

#[test]
fn reopening_counts_only_where_a_probe_failed() {
    for place in PLACES {
        for event in EVENTS {
            let mut scene = Scene::at(place);
            scene.happen(event);
            let reopened = place == Place::Probing
                && matches!(event, Event::Fail | Event::FailAsking | Event::HardDown);
            assert_eq!(
                scene.cell.view(scene.now).reopens,
                u32::from(reopened),
                "{event:?} in {place:?}"
            );
        }
    }
}

#[test]
fn looking_changes_nothing_anywhere() {
    for place in PLACES {
        let scene = Scene::at(place);
        let before = format!("{:?}", scene.cell);
        for ahead in [0, 1, 15, 100, 100_000] {
            let _ = scene.cell.view(scene.now + Duration::from_secs(ahead));
        }
        assert_eq!(format!("{:?}", scene.cell), before, "{place:?}");
    }
}
