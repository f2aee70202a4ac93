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

use std::time::Duration;
use world::{Outcome, Sabotage, Settings, World, actions};

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

/// The first history of a small fleet, from a seed on, in which a sabotage breaks an invariant.
fn broken_by(sabotage: Sabotage, first: u64) -> Option<(u64, &'static str)> {
    (first..first + 40).find_map(|seed| {
        let settings = Settings {
            agents: 12,
            sabotage: Some(sabotage),
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
