//! Whole fleets in one thread and in virtual time: the state machines of agents and control planes,
//! with a network and stores that fail, and operators at work between. One seed is one history.
//!
//! `SEED=n` plays one seed and tells it; `SEEDS=n` plays so many; `AGENTS=n` sets the size of the
//! fleet. See `docs/faults.md`.

mod checker;
mod documents;
mod live;
mod network;
mod plan;
mod random;
mod reader;
mod shrink;
mod store;
mod world;

use plan::Action;
use std::time::Duration;
use world::{Fleet, Outcome, Sabotage, Settings, Times, World, actions};

/// Seeds that every test run plays.
const SEEDS: u64 = 32;

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

/// Most fleets are small, so that many histories are played; some are as large as the design says.
fn settings(seed: u64) -> Settings {
    let size = if seed.is_multiple_of(16) { 200 } else { 24 };
    Settings {
        seed,
        agents: number("AGENTS").unwrap_or(size) as usize,
        replicas: 3,
        apis: 2,
        chaos: Duration::from_secs(150),
        sabotage: None,
        clocks_step: false,
        fleet: Fleet::Acts,
        direct: 0.3,
    }
}

fn play(settings: &Settings) -> Outcome {
    World::new(settings, actions(settings), false).run()
}

/// Plays seeds on all cores; the first violation of the lowest seed is told in its shortest form.
fn play_all(seeds: std::ops::Range<u64>) {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut events, mut lasted, mut failed) = (0, Duration::ZERO, Vec::new());
    std::thread::scope(|scope| {
        let work = || {
            let (mut events, mut lasted, mut failed) = (0, Duration::ZERO, Vec::new());
            loop {
                let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if seed >= seeds.end || !failed.is_empty() {
                    return (events, lasted, failed);
                }
                let outcome = play(&settings(seed));
                events += outcome.events;
                lasted += outcome.lasted;
                if outcome.violation.is_some() {
                    failed.push(seed);
                }
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let of_one = worker.join().expect("a seed is played");
            events += of_one.0;
            lasted += of_one.1;
            failed.extend(of_one.2);
        }
    });
    if let Some(seed) = failed.iter().min() {
        panic!("{}", shrink::shortest(&settings(*seed)));
    }
    let hours = lasted.as_secs_f64() / 3600.0;
    println!("{events} events in {hours:.1} virtual hours");
}

#[test]
fn invariants_hold_whatever_happens() {
    match number("SEED") {
        Some(seed) => play_all(seed..seed + 1),
        None => {
            let first = number("FIRST").unwrap_or(0);
            play_all(first..first + number("SEEDS").unwrap_or(SEEDS));
        }
    }
}

#[test]
fn a_seed_is_one_history() {
    let settings = settings(7);
    let (one, two) = (play(&settings), play(&settings));
    assert_eq!((one.events, one.digest), (two.events, two.digest));
}

/// 200 agents whose lane `a` dies for all at a minute; nothing else goes wrong.
fn outage(fleet: Fleet) -> Outcome {
    let settings = Settings {
        agents: 200,
        chaos: Duration::from_secs(150),
        fleet,
        direct: 0.0,
        ..settings(1)
    };
    let fails = Action::LaneFails {
        lane: "a",
        share: 1.0,
        lasts: Duration::from_secs(80),
    };
    let outcome = World::new(&settings, vec![(Duration::from_secs(60), fails)], false).run();
    let violation = outcome.violation.as_ref();
    assert!(violation.is_none(), "{fleet:?}: {violation:?}");
    outcome
}

/// Moments of one pool's lane, the earliest first.
fn of_lane(times: &Times) -> Vec<Duration> {
    let mut times: Vec<Duration> = { times.iter() }
        .filter(|((_, pool, lane), _)| &**pool == "chat" && &**lane == "a")
        .map(|(_, at)| *at)
        .collect();
    times.sort_unstable();
    times
}

#[test]
fn a_fleet_is_warned_within_seconds_and_spared_what_it_would_have_found_out() {
    let (together, alone) = (outage(Fleet::Acts), outage(Fleet::Observes));
    let opened = of_lane(&together.advice.opened);
    let followed = of_lane(&together.advice.followed);
    let of_alone = of_lane(&alone.advice.opened);
    let quorum = opened[99];
    let took = |share: f64| followed[(followed.len() as f64 * share) as usize - 1] - quorum;
    println!(
        "first fault 60 s, first open {:?}, quorum {quorum:?}; {} agents warned, p50 {:?}, p99 {:?}, \
         last {:?} after it; opened {} of 200, alone {}; failed attempts {}, alone {}",
        opened[0],
        followed.len(),
        took(0.5),
        took(0.99),
        took(1.0),
        opened.len(),
        of_alone.len(),
        together.advice.failed_attempts,
        alone.advice.failed_attempts,
    );
    assert!(took(1.0) <= Duration::from_millis(1500));
    assert!(opened.len() + 30 < of_alone.len(), "{}", opened.len());
    // Healing brings another document, which acts.
    let during = |at: &&Duration| **at < Duration::from_secs(150);
    let followed_alone = alone.advice.followed.values().filter(during).count();
    assert_eq!(followed_alone, 0, "nothing is sent in observe");
    assert!(alone.advice.begun > 0);
    assert!(together.advice.failed_attempts < alone.advice.failed_attempts);
    assert!(together.advice.spared > 0);
    // Attempts that were under way when the warning came may still end badly.
    let on_their_way = quorum + took(1.0) + Duration::from_secs(3);
    let late = opened.iter().filter(|at| **at > on_their_way).count();
    println!(
        "{late} agents opened later than that; advice began {} times",
        together.advice.begun
    );
}

#[test]
fn one_probe_serves_the_fleet() {
    let (together, alone) = (outage(Fleet::Observes), outage(Fleet::Alone));
    let (leases, by_oneself) = (&together.leases, alone.leases.probes);
    println!(
        "{} probes by {} leases with {} verdicts; {by_oneself} probes where each is alone",
        leases.probes, leases.granted, leases.verdicts
    );
    assert!(leases.granted > 0 && leases.verdicts > 0);
    assert!(
        leases.probes * 4 < by_oneself,
        "{} of {by_oneself}",
        leases.probes
    );
}

#[test]
fn without_a_control_plane_agents_behave_as_if_each_were_alone() {
    let cut_off = |fleet| {
        let settings = Settings {
            agents: 40,
            chaos: Duration::from_secs(150),
            fleet,
            direct: 0.0,
            ..settings(5)
        };
        let at = Duration::from_secs;
        let cut = Action::Cut {
            share: 1.0,
            replica: None,
            lasts: at(115),
        };
        let fails = Action::LaneFails {
            lane: "a",
            share: 1.0,
            lasts: at(60),
        };
        // Sessions that are cut off end after half a minute.
        let plan = vec![(at(20), cut), (at(60), fails)];
        let outcome = World::new(&settings, plan, false).run();
        let violation = outcome.violation.as_ref();
        assert!(violation.is_none(), "{fleet:?}: {violation:?}");
        outcome
    };
    let (together, alone) = (cut_off(Fleet::Acts), cut_off(Fleet::Alone));
    let until = |times: &Times| {
        let mut times = of_lane(times);
        times.retain(|at| *at < Duration::from_secs(130));
        times
    };
    // Their random draws differ, so their moments do; how many find out does not.
    let (together_opened, alone_opened) = (
        until(&together.advice.opened).len(),
        until(&alone.advice.opened).len(),
    );
    assert!(alone_opened >= 20, "{alone_opened}");
    assert!(
        together_opened.abs_diff(alone_opened) * 10 <= alone_opened,
        "{together_opened} and {alone_opened}"
    );
    assert!(until(&together.advice.followed).is_empty());
}

#[test]
fn a_clock_that_is_set_gives_no_minority_a_voice() {
    for (seed, by_ms) in [(1, 3_600_000), (2, -3_600_000), (3, 40_000), (4, -40_000)] {
        let settings = Settings {
            agents: 30,
            clocks_step: true,
            ..settings(seed)
        };
        let at = Duration::from_secs;
        let step = |replica, by_ms| Action::StepClock { replica, by_ms };
        let fails = |lane, share| Action::LaneFails {
            lane,
            share,
            lasts: at(60),
        };
        let lies = Action::Lie {
            lane: "b",
            share: 0.2,
            lasts: at(80),
        };
        let plan = vec![
            (at(40), step(0, by_ms)),
            (at(50), fails("a", 0.2)),
            (at(50), lies),
            (at(70), step(1, -by_ms)),
            (at(90), step(0, -by_ms)),
            (at(90), step(1, by_ms)),
        ];
        let outcome = World::new(&settings, plan, false).run();
        let violation = outcome.violation;
        assert!(violation.is_none(), "{seed} {by_ms}: {violation:?}");
    }
}

/// The first history of a small fleet, from a seed on, in which a sabotage breaks an invariant.
fn broken_by(sabotage: Sabotage, first: u64) -> Option<(u64, &'static str)> {
    (first..first + 40).find_map(|seed| {
        let settings = Settings {
            agents: 12,
            sabotage: Some(sabotage),
            fleet: Fleet::Alone,
            direct: 1.0,
            ..settings(seed)
        };
        let violation = play(&settings).violation?;
        Some((seed, violation.invariant))
    })
}

#[test]
fn every_broken_rule_is_noticed() {
    // The seeds only save time: a later one serves as well.
    let rules = [
        (Sabotage::ForgetEpoch, "I1", 163),
        (Sabotage::NeverPoll, "I2", 100),
        (Sabotage::RememberRefusals, "I2", 116),
        (Sabotage::DropOverrides, "I2", 100),
        (Sabotage::ConfirmEarly, "I3", 112),
        (Sabotage::PutBlindly, "I4", 174),
        (Sabotage::NeverStale, "I5", 100),
        (Sabotage::OverridesForever, "I6", 106),
        (Sabotage::ServeConnectedOnly, "I6", 100),
        (Sabotage::TwoProbes, "I7", 111),
        (Sabotage::ForgetKeys, "I8", 105),
        (Sabotage::ForgetOverrides, "I9", 100),
        (Sabotage::DropDrains, "I10", 100),
        (Sabotage::IgnoreRevocations, "I11", 100),
        (Sabotage::KeepForgotten, "I11", 100),
        (Sabotage::HideDuplicates, "I12", 100),
        (Sabotage::IgnorePace, "I13", 100),
    ];
    let mut missed = Vec::new();
    for (sabotage, invariant, first) in rules {
        let broken = broken_by(sabotage, first);
        println!("{sabotage:?}: {broken:?}");
        if broken.map(|(_, invariant)| invariant) != Some(invariant) {
            missed.push((sabotage, invariant, broken));
        }
    }
    assert!(missed.is_empty(), "wanted and found: {missed:?}");
}

#[test]
fn every_broken_rule_of_acting_together_is_noticed() {
    let at = Duration::from_secs;
    let fails = |share| Action::LaneFails {
        lane: "a",
        share,
        lasts: at(90),
    };
    let away = Action::LiveAway { lasts: at(70) };
    let rules = [
        (Sabotage::PermitAll, "I7", vec![(at(45), fails(1.0))]),
        (Sabotage::StuffVotes, "I15", vec![(at(45), fails(0.05))]),
        (Sabotage::OverlookSuccess, "I16", vec![(at(45), fails(0.6))]),
        (
            Sabotage::WaitForever,
            "I18",
            vec![(at(45), fails(1.0)), (at(60), away)],
        ),
    ];
    let mut missed = Vec::new();
    for (sabotage, invariant, plan) in rules {
        // Another rule may be broken first by the same sabotage: one fleet of a few shows each.
        let found: Vec<_> = (1..=6)
            .filter_map(|seed| {
                let settings = Settings {
                    agents: 30,
                    sabotage: Some(sabotage),
                    ..settings(seed)
                };
                World::new(&settings, plan.clone(), false).run().violation
            })
            .map(|violation| violation.invariant)
            .collect();
        if !found.contains(&invariant) {
            missed.push((sabotage, invariant, found));
        }
    }
    assert!(missed.is_empty(), "wanted and found: {missed:?}");
}
