//! What one attempt costs: admit, commit and settle of a success in a closed cell.
//!
//! Prints one JSON line with nanoseconds per attempt, medians over rounds. `std` only, so that
//! nothing but the cell is measured.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a bench may stop at the first surprise"
)]

use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use lanekeeper_breaker::{Admission, Cell, Outcome, Policy};

/// Rounds a median is taken over.
const ROUNDS: usize = 15;

/// Attempts in a round.
const ATTEMPTS: u32 = 1_000_000;

/// Attempts between two steps of the clock; the arithmetic of the bench is not to be measured.
const ATTEMPTS_PER_STEP: u32 = 16;

/// A step of the clock: 100,000 attempts a second.
const STEP: Duration = Duration::from_micros(160);

const LEASE: Duration = Duration::from_secs(10);

fn main() {
    let with_commit = median(|| one_thread(1, true));
    let without_commit = median(|| one_thread(1, false));
    let many_cells = median(|| one_thread(10_000, true));
    let select = median(select_only);
    let one_locked = median(|| threads(1));
    let two_locked = median(|| threads(2));
    println!(
        "{{\"admit_commit_settle_ns\":{with_commit:.1},\"admit_settle_ns\":{without_commit:.1},\
         \"admit_commit_settle_10000_cells_ns\":{many_cells:.1},\"selectable_ns\":{select:.1},\
         \"mutex_one_thread_ns\":{one_locked:.1},\"mutex_two_threads_ns\":{two_locked:.1},\
         \"cell_bytes\":{}}}",
        size_of::<Cell>()
    );
}

fn median(mut round: impl FnMut() -> f64) -> f64 {
    round();
    let mut results: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    results.sort_by(f64::total_cmp);
    results[ROUNDS / 2]
}

/// Returns the transitions it saw, so that none of the calls can be left out.
#[inline]
fn attempt(cell: &mut Cell, now: Instant, outcome: Outcome, commit: bool) -> u32 {
    let mut seen = 0;
    if let Admission::Pass(mut ticket) = cell.admit(now, LEASE) {
        if commit {
            seen += u32::from(cell.commit(&mut ticket, now).is_some());
        }
        seen += u32::from(cell.settle(ticket, outcome, now, 0.5).is_some());
    }
    seen
}

fn one_thread(cells: usize, commit: bool) -> f64 {
    let started = clock();
    let policy = Arc::new(Policy::default());
    let mut cells: Vec<Cell> = (0..cells)
        .map(|_| Cell::new(Arc::clone(&policy), started))
        .collect();
    let mut now = started;
    let mut left = ATTEMPTS;
    let began = clock();
    while left > 0 {
        if left.is_multiple_of(ATTEMPTS_PER_STEP) {
            now += STEP;
        }
        for cell in &mut cells {
            black_box(attempt(
                cell,
                black_box(now),
                black_box(Outcome::Success),
                commit,
            ));
            left = left.saturating_sub(1);
        }
    }
    per_attempt(began, ATTEMPTS)
}

fn select_only() -> f64 {
    let started = clock();
    let cell = Cell::new(Arc::new(Policy::default()), started);
    let now = started + STEP;
    let began = clock();
    for _ in 0..ATTEMPTS {
        black_box(black_box(&cell).selectable(black_box(now)));
    }
    per_attempt(began, ATTEMPTS)
}

/// As the agent uses a cell: the lock is taken for each call, not for the attempt.
fn threads(count: usize) -> f64 {
    let started = clock();
    let cell = Mutex::new(Cell::new(Arc::new(Policy::default()), started));
    let barrier = Barrier::new(count);
    let spent: Vec<f64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count)
            .map(|_| {
                scope.spawn(|| {
                    let mut now = started;
                    barrier.wait();
                    let began = clock();
                    for number in 0..ATTEMPTS / 4 {
                        if number.is_multiple_of(ATTEMPTS_PER_STEP) {
                            now += STEP;
                        }
                        let admission = cell.lock().expect("not poisoned").admit(now, LEASE);
                        if let Admission::Pass(mut ticket) = admission {
                            black_box(cell.lock().expect("not poisoned").commit(&mut ticket, now));
                            let mut cell = cell.lock().expect("not poisoned");
                            black_box(cell.settle(ticket, Outcome::Success, now, 0.5));
                        }
                    }
                    per_attempt(began, ATTEMPTS / 4)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("worker finished"))
            .collect()
    });
    spent.iter().sum::<f64>() / count as f64
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn clock() -> Instant {
    Instant::now()
}

fn per_attempt(began: Instant, attempts: u32) -> f64 {
    clock().duration_since(began).as_secs_f64() * 1e9 / f64::from(attempts)
}
