#![allow(clippy::disallowed_methods, reason = "a moment to count from")]

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn names(cells: usize) -> Vec<CellName> {
    (0..cells)
        .map(|number| CellName {
            pool: "chat".into(),
            lane: format!("lane-{number}").into(),
            provider: "one".into(),
        })
        .collect()
}

fn script(seed: u64, share: f64) -> (Script, Instant) {
    let now = Instant::now();
    (Script::new(seed, 500, share, MINUTE, now), now)
}

#[test]
fn the_wanted_share_is_in_trouble_from_the_start() {
    let (script, now) = script(1, 0.02);
    assert_eq!(script.report(&names(500), false, now).len(), 10);
    assert_eq!(script.report(&names(500), true, now).len(), 500);
}

#[test]
fn one_seed_tells_one_story() {
    let (mut one, now) = script(7, 0.02);
    let mut other = Script::new(7, 500, 0.02, MINUTE, now);
    let mut moment = now;
    for _ in 0..200 {
        moment = one.next().unwrap();
        assert_eq!(other.next(), Some(moment));
        assert_eq!(one.advance(moment), other.advance(moment));
    }
    let cells = names(500);
    assert_eq!(
        one.report(&cells, true, moment),
        other.report(&cells, true, moment)
    );
}

#[test]
fn transitions_come_at_the_mean_interval_and_leave_the_share_about_as_it_was() {
    let (mut script, now) = script(3, 0.02);
    let mut moment = now;
    for _ in 0..1000 {
        moment = script.next().unwrap();
        script.advance(moment);
    }
    let mean = (moment - now) / 1000;
    assert!(
        mean > MINUTE * 8 / 10 && mean < MINUTE * 12 / 10,
        "{mean:?}"
    );
    let open = script.report(&names(500), false, moment).len();
    assert!((8..=10).contains(&open), "{open} of 500 are in trouble");
}

#[test]
fn agents_share_the_weak_cells() {
    let cells = names(500);
    let mut agents_by_cell: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..50 {
        let (script, now) = script(seed, 0.02);
        for cell in script.report(&cells, false, now) {
            *agents_by_cell.entry(cell.lane.to_string()).or_default() += 1;
        }
    }
    let most = agents_by_cell.values().max().copied().unwrap_or(0);
    assert!(
        most >= 15,
        "the most common trouble is on {most} of 50 agents"
    );
}

#[test]
fn nothing_happens_without_cells_or_without_an_interval() {
    let now = Instant::now();
    assert_eq!(Script::new(1, 0, 1.0, MINUTE, now).next(), None);
    assert_eq!(Script::new(1, 10, 0.5, Duration::ZERO, now).next(), None);
}
