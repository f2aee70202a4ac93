//! What one successful attempt costs a breaker, beside other breakers, in one run.
//!
//! Every subject gets the same rounds, in turn, so that a busy machine slows all alike; the figure
//! is the median in nanoseconds. The plain cell is asked as one owner of it asks. A cell behind a
//! mutex is locked for each of its three calls, as the agent does for a stream, or for two, as it
//! does for an answer that comes whole and is settled at its commit. The others are called as their
//! pages say, around a function that does nothing. Times are arguments of the cell, while the
//! others read the clock themselves where they need it: that is a part of their design and counts.
//!
//! Prints one JSON line, and writes it and a table into `bench-results/`.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use failsafe::backoff;
use failsafe::failure_policy::{self, ConsecutiveFailures, OrElse, SuccessRateOverTimeWindow};
use failsafe::{CircuitBreaker as _, StateMachine};
use futures_util::FutureExt as _;
use lanekeeper_breaker::{Admission, Cell, Outcome, Policy};
use lanekeeper_tests::repository;
use serde_json::{Map, Value, json};
use tower::{Service as _, ServiceExt as _};
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, SlidingWindowType};

/// Rounds a median is taken over.
const ROUNDS: usize = 9;

/// Attempts of a thread in a round.
const ATTEMPTS: u64 = 1_000_000;

/// Attempts where one costs microseconds and leaves an entry behind.
const SLOW_ATTEMPTS: u64 = 10_000;

/// Cells that do not fit into the nearest caches.
const MANY: usize = 10_000;

/// Attempts of one cell between two steps of the clock; the arithmetic of the bench is not to be
/// measured.
const ATTEMPTS_PER_STEP: u64 = 16;

/// A step of the clock: every cell sees 100,000 attempts a second, however many cells there are.
const STEP: Duration = Duration::from_micros(160);

const LEASE: Duration = Duration::from_secs(10);

/// What is measured of a subject: its cells and its threads.
const CASES: [(usize, usize, &str); 4] = [
    (1, 1, "one_thread"),
    (MANY, 1, "one_thread_10000_cells"),
    (1, 2, "two_threads"),
    (MANY, 2, "two_threads_10000_cells"),
];

/// A breaker that many threads may use.
trait Breaker: Sync + Sized {
    /// What a thread keeps to use it.
    type Hand;

    const ATTEMPTS: u64 = ATTEMPTS;

    fn new(now: Instant) -> Self;

    fn hand(&self) -> Self::Hand;

    /// One attempt that succeeds.
    fn attempt(&self, hand: &mut Self::Hand, now: Instant);
}

fn main() {
    let mut subjects = [
        Subject::new("cell", plain_cell),
        Subject::new("cell_in_mutex", round::<Mutex<Cell>>),
        Subject::new("cell_in_mutex_whole_answer", round::<Whole>),
        Subject::new("mutex_counter", round::<Counter>),
        Subject::new("recloser", round::<recloser::Recloser>),
        Subject::new("failsafe_consecutive", round::<Consecutive>),
        Subject::new("failsafe_default", round::<Either>),
        Subject::new("tower_resilience_count", round::<Tower<false>>),
        Subject::new("tower_resilience_time", round::<Tower<true>>),
    ];
    for turn in 0..=ROUNDS {
        for subject in &mut subjects {
            for (place, (cells, threads, _)) in CASES.into_iter().enumerate() {
                // The first turn warms up.
                if let Some(spent) = (subject.round)(cells, threads).filter(|_| turn > 0) {
                    subject.spent[place].push(spent);
                }
            }
        }
    }
    let selectable = median(&mut (0..ROUNDS).map(|_| selectable()).collect::<Vec<_>>());
    report(&mut subjects, selectable);
}

struct Subject {
    name: &'static str,
    /// Nanoseconds per attempt with that many cells and threads, where it can have them.
    round: fn(usize, usize) -> Option<f64>,
    spent: [Vec<f64>; CASES.len()],
}

impl Subject {
    fn new(name: &'static str, round: fn(usize, usize) -> Option<f64>) -> Self {
        Self {
            name,
            round,
            spent: Default::default(),
        }
    }
}

/// `None` for a case that was not measured.
fn median(results: &mut [f64]) -> Option<f64> {
    results.sort_by(f64::total_cmp);
    results.get(results.len() / 2).copied()
}

fn report(subjects: &mut [Subject], selectable: Option<f64>) {
    let mut table = String::from(
        "| ns per successful attempt | one thread | one thread, 10,000 cells | two threads, one cell | two threads, 10,000 cells |\n|---|---|---|---|---|\n",
    );
    let mut figures = Map::new();
    for subject in subjects {
        let mut figure = Map::new();
        _ = write!(table, "| {} |", subject.name.replace('_', " "));
        for ((_, _, case), spent) in CASES.iter().zip(&mut subject.spent) {
            let spent = median(spent).map(|spent| (spent * 10.0).round() / 10.0);
            figure.insert((*case).to_owned(), spent.into());
            _ = match spent {
                Some(spent) => write!(table, " {spent:.1} |"),
                None => write!(table, " - |"),
            };
        }
        table.push('\n');
        figures.insert(subject.name.to_owned(), figure.into());
    }
    let line = json!({
        "ns_per_attempt": Value::from(figures),
        "selectable_ns": selectable,
        "cell_bytes": size_of::<Cell>(),
    });
    println!("{line}");
    let folder = repository().join("bench-results");
    std::fs::create_dir_all(&folder).expect("the folder of results");
    std::fs::write(folder.join("breaker.json"), format!("{line}\n")).expect("results as JSON");
    std::fs::write(folder.join("breaker.md"), table).expect("results as a table");
}

/// The cell with one owner and no lock.
fn plain_cell(cells: usize, threads: usize) -> Option<f64> {
    if threads > 1 {
        return None;
    }
    let started = Instant::now();
    let policy = Arc::new(Policy::default());
    let mut cells: Vec<Cell> = (0..cells)
        .map(|_| Cell::new(Arc::clone(&policy), started))
        .collect();
    let mut now = started;
    let mut left = ATTEMPTS;
    let began = Instant::now();
    let mut passes = 0_u64;
    while left > 0 {
        passes += 1;
        if passes.is_multiple_of(ATTEMPTS_PER_STEP) {
            now += STEP;
        }
        for cell in &mut cells {
            if let Admission::Pass(mut ticket) = cell.admit(black_box(now), LEASE) {
                black_box(cell.commit(&mut ticket, now));
                black_box(cell.settle(ticket, black_box(Outcome::Success), now, 0.5));
            }
            left = left.saturating_sub(1);
        }
    }
    Some(per_attempt(began, ATTEMPTS))
}

fn round<B: Breaker>(cells: usize, threads: usize) -> Option<f64> {
    let started = Instant::now();
    let breakers: Vec<B> = (0..cells).map(|_| B::new(started)).collect();
    let barrier = Barrier::new(threads);
    let spent: f64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (breakers, barrier) = (&breakers, &barrier);
                scope.spawn(move || {
                    // Threads walk over the same cells, from different ones on.
                    let first = thread * cells / threads;
                    let mut hands: Vec<B::Hand> = breakers.iter().map(B::hand).collect();
                    let mut now = started;
                    let mut left = B::ATTEMPTS;
                    let mut place = first;
                    barrier.wait();
                    let began = Instant::now();
                    let mut passes = 0_u64;
                    while left > 0 {
                        breakers[place].attempt(&mut hands[place], black_box(now));
                        place += 1;
                        if place == cells {
                            place = 0;
                        }
                        if place == first {
                            passes += 1;
                            if passes.is_multiple_of(ATTEMPTS_PER_STEP) {
                                now += STEP;
                            }
                        }
                        left -= 1;
                    }
                    per_attempt(began, B::ATTEMPTS)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a thread of the bench ends well"))
            .sum()
    });
    Some(spent / threads as f64)
}

fn selectable() -> f64 {
    let started = Instant::now();
    let cell = Cell::new(Arc::new(Policy::default()), started);
    let began = Instant::now();
    for _ in 0..ATTEMPTS {
        black_box(black_box(&cell).selectable(black_box(started)));
    }
    per_attempt(began, ATTEMPTS)
}

fn per_attempt(began: Instant, attempts: u64) -> f64 {
    began.elapsed().as_secs_f64() * 1e9 / attempts as f64
}

impl Breaker for Mutex<Cell> {
    type Hand = ();

    fn new(now: Instant) -> Self {
        Self::new(Cell::new(Arc::new(Policy::default()), now))
    }

    fn hand(&self) {}

    fn attempt(&self, (): &mut (), now: Instant) {
        let admission = self.lock().expect("no thread panics").admit(now, LEASE);
        if let Admission::Pass(mut ticket) = admission {
            let mut cell = self.lock().expect("no thread panics");
            black_box(cell.commit(&mut ticket, now));
            drop(cell);
            let mut cell = self.lock().expect("no thread panics");
            black_box(cell.settle(ticket, Outcome::Success, now, 0.5));
        }
    }
}

/// A cell whose answers come whole.
struct Whole(Mutex<Cell>);

impl Breaker for Whole {
    type Hand = ();

    fn new(now: Instant) -> Self {
        Self(Mutex::new(Cell::new(Arc::new(Policy::default()), now)))
    }

    fn hand(&self) {}

    fn attempt(&self, (): &mut (), now: Instant) {
        let admission = self.0.lock().expect("no thread panics").admit(now, LEASE);
        if let Admission::Pass(ticket) = admission {
            let mut cell = self.0.lock().expect("no thread panics");
            black_box(cell.settle(ticket, Outcome::Success, now, 0.5));
        }
    }
}

/// The least that can be called a breaker: failures in a row under a lock, no time at all.
struct Counter(Mutex<(u64, u64)>);

impl Breaker for Counter {
    type Hand = ();

    fn new(_: Instant) -> Self {
        Self(Mutex::new((0, 0)))
    }

    fn hand(&self) {}

    fn attempt(&self, (): &mut (), _: Instant) {
        let passes = self.0.lock().expect("no thread panics").0 < 5;
        if black_box(passes) {
            let mut counts = self.0.lock().expect("no thread panics");
            counts.0 = 0;
            counts.1 += 1;
        }
    }
}

impl Breaker for recloser::Recloser {
    type Hand = ();

    fn new(_: Instant) -> Self {
        Self::custom().error_rate(0.5).closed_len(100).build()
    }

    fn hand(&self) {}

    fn attempt(&self, (): &mut (), _: Instant) {
        _ = black_box(self.call(|| Ok::<(), ()>(())));
    }
}

type Grown = backoff::EqualJittered;

/// Failures in a row.
struct Consecutive(StateMachine<ConsecutiveFailures<Grown>, ()>);

fn backoff() -> Grown {
    backoff::equal_jittered(Duration::from_secs(10), Duration::from_secs(300))
}

impl Breaker for Consecutive {
    type Hand = ();

    fn new(_: Instant) -> Self {
        Self(
            failsafe::Config::new()
                .failure_policy(failure_policy::consecutive_failures(5, backoff()))
                .build(),
        )
    }

    fn hand(&self) {}

    fn attempt(&self, (): &mut (), _: Instant) {
        _ = black_box(self.0.call(|| Ok::<(), ()>(())));
    }
}

/// The crate's own choice: a success rate over time, or failures in a row.
struct Either(
    StateMachine<OrElse<SuccessRateOverTimeWindow<Grown>, ConsecutiveFailures<Grown>>, ()>,
);

impl Breaker for Either {
    type Hand = ();

    fn new(_: Instant) -> Self {
        Self(failsafe::Config::new().build())
    }

    fn hand(&self) {}

    fn attempt(&self, (): &mut (), _: Instant) {
        _ = black_box(self.0.call(|| Ok::<(), ()>(())));
    }
}

type Nothing = std::future::Ready<Result<(), ()>>;

type Guarded = tower_resilience_circuitbreaker::CircuitBreaker<
    tower::util::ServiceFn<fn(()) -> Nothing>,
    tower_resilience_circuitbreaker::DefaultClassifier,
>;

/// A service behind the layer; its window counts calls, or keeps those of a time.
struct Tower<const TIMED: bool>(Guarded);

impl<const TIMED: bool> Breaker for Tower<TIMED> {
    type Hand = Guarded;

    const ATTEMPTS: u64 = SLOW_ATTEMPTS;

    fn new(_: Instant) -> Self {
        let builder = CircuitBreakerLayer::builder().failure_rate_threshold(0.5);
        let layer = if TIMED {
            builder
                .sliding_window_type(SlidingWindowType::TimeBased)
                .sliding_window_duration(Duration::from_secs(30))
        } else {
            builder.sliding_window_size(100)
        }
        .build()
        .expect("legal numbers");
        let nothing: fn(()) -> Nothing = |()| std::future::ready(Ok(()));
        Self(layer.layer_fn(tower::service_fn(nothing)))
    }

    fn hand(&self) -> Guarded {
        self.0.clone()
    }

    fn attempt(&self, hand: &mut Guarded, _: Instant) {
        let ready = hand.ready().now_or_never();
        if let Some(Ok(service)) = ready {
            _ = black_box(service.call(()).now_or_never());
        }
    }
}
