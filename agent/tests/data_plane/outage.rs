//! One of three lanes goes away under load and comes back: no caller notices, the lane is asked
//! once per cooldown, and it gets its share back as its ramp says.
//!
//! `make test` plays a short outage with short cooldowns; `make soak` plays long ones with the
//! cooldowns of the default policy.

use crate::caller::{Got, chat};
use crate::gateway::{Agent, Document, Stopwatch, eventually};
use crate::upstream::{Script, Step, Upstream, completion, json};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// The lane that fails has half of the weight.
const WEIGHT: u32 = 2;
const SHARE: f64 = 0.5;
/// How far a measured share may be from the exact one.
const SHARE_TOLERANCE: f64 = 0.03;
/// Requests under way when the cell opens reach the lane a little later.
const STRAGGLERS: Duration = Duration::from_millis(150);
/// Jitter and the clock's grain shorten the time between two probes by this factor at most.
const EARLIEST_PROBE: f64 = 0.8;
/// And lengthens the longest cooldown by this one.
const LATEST_PROBE: f64 = 1.2;
/// Longest call, which may have waited once for a silent lane.
const SLOWEST: Duration = Duration::from_secs(3);

/// How the lane fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    Errors,
    Resets,
    Silence,
}

/// One outage.
pub(crate) struct Plan {
    pub(crate) death: Death,
    pub(crate) calls_per_sec: u32,
    /// The time before it, and the time measured after it.
    pub(crate) calm: Duration,
    pub(crate) outage: Duration,
    /// Without the braces.
    pub(crate) breaker: &'static str,
    pub(crate) base_cooldown: Duration,
    pub(crate) longest_cooldown: Duration,
    pub(crate) ramp: Duration,
}

/// What an outage showed.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) calls: usize,
    /// Calls without a whole good answer.
    pub(crate) failed: Vec<String>,
    pub(crate) slowest: Duration,
    /// When the lane was asked, since the cell was seen open.
    pub(crate) probes: Vec<Duration>,
    /// From the lane's return to its first good probe.
    pub(crate) recovery: Duration,
    /// The lane's share in both halves of the ramp, and afterwards.
    pub(crate) shares: [f64; 3],
}

/// One call, when it began and how it went.
struct Call {
    began: Duration,
    took: Duration,
    got: Got,
}

/// The lane, which can be switched off.
struct Patient {
    upstream: Upstream,
    is_down: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Duration>>>,
}

impl Patient {
    async fn start(death: Death, watch: Stopwatch) -> Self {
        let (is_down, asked) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (down, times) = (Arc::clone(&is_down), Arc::clone(&asked));
        let dead: Script = match death {
            Death::Errors => json(503, "{}"),
            Death::Resets => vec![Step::Reset],
            Death::Silence => vec![Step::Hang],
        };
        let good = completion("a");
        let upstream = Upstream::deciding(move |_| {
            times.lock().unwrap().push(watch.elapsed());
            if down.load(Ordering::Relaxed) {
                dead.clone()
            } else {
                good.clone()
            }
        })
        .await;
        Self {
            upstream,
            is_down,
            asked,
        }
    }
}

/// Calls at a steady rate until told to stop, however long each takes.
async fn load(agent: Arc<Agent>, rate: u32, watch: Stopwatch, stop: Arc<AtomicBool>) -> Vec<Call> {
    let mut calls = JoinSet::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let agent = Arc::clone(&agent);
        calls.spawn(async move {
            let began = watch.elapsed();
            let got = chat("chat", false).send(agent.address).await;
            Call {
                began,
                took: watch.elapsed().saturating_sub(began),
                got,
            }
        });
    }
    calls.join_all().await
}

fn share(calls: &[Call], span: Range<Duration>) -> f64 {
    let within = calls.iter().filter(|call| span.contains(&call.began));
    let (mut all, mut of_a) = (0u32, 0u32);
    for call in within {
        all += 1;
        of_a += u32::from(call.got.header("x-lanekeeper-lane") == Some("a"));
    }
    f64::from(of_a) / f64::from(all.max(1))
}

/// Plays the outage.
pub(crate) async fn play(plan: &Plan) -> Findings {
    let watch = Stopwatch::start();
    let a = Patient::start(plan.death, watch).await;
    let (b, c) = (
        Upstream::start(completion("b")).await,
        Upstream::start(completion("c")).await,
    );
    let breaker = format!(
        "{{{}, ramp_secs: {}}}",
        plan.breaker,
        plan.ramp.as_secs_f64()
    );
    let document = Document::new()
        .lane_at("a", a.upstream.address, WEIGHT, "attempt_timeout_ms: 300")
        .lane("b", &b)
        .lane("c", &c)
        .breaker(&breaker);
    let agent = Arc::new(Agent::start(&document.yaml()).await);
    let stop = Arc::<AtomicBool>::default();
    let caller = tokio::spawn(load(
        Arc::clone(&agent),
        plan.calls_per_sec,
        watch,
        Arc::clone(&stop),
    ));
    tokio::time::sleep(plan.calm).await;
    a.is_down.store(true, Ordering::Relaxed);
    let begin = watch.elapsed();
    let is = |state: &str| agent.cell("chat", "a")["state"] == *state;
    eventually("the cell opens", || is("open")).await;
    let opened = watch.elapsed();
    tokio::time::sleep(plan.outage.saturating_sub(opened - begin)).await;
    a.is_down.store(false, Ordering::Relaxed);
    let back = watch.elapsed();
    while !is("closed") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let closed = watch.elapsed();
    tokio::time::sleep(plan.ramp + plan.calm).await;
    stop.store(true, Ordering::Relaxed);
    let calls = caller.await.unwrap();
    agent.settles().await;

    let (half, full) = (closed + plan.ramp / 2, closed + plan.ramp);
    let asked = a.asked.lock().unwrap().clone();
    Findings {
        calls: calls.len(),
        failed: calls
            .iter()
            .filter(|call| call.got.status != 200 || !call.got.whole)
            .map(|call| format!("{:?}: {:?}", call.began, call.got))
            .collect(),
        slowest: calls.iter().map(|call| call.took).max().unwrap_or_default(),
        probes: asked
            .into_iter()
            .filter(|time| (opened + STRAGGLERS..back).contains(time))
            .collect(),
        recovery: closed - back,
        shares: [
            share(&calls, closed..half),
            share(&calls, half..full),
            share(&calls, full..full + plan.calm),
        ],
    }
}

impl Findings {
    /// Holds what was found against what is promised.
    pub(crate) fn check(&self, plan: &Plan) {
        let death = plan.death;
        assert!(
            self.failed.is_empty(),
            "{death:?}, failed calls: {:#?}",
            self.failed
        );
        let expected = plan.outage.as_secs_f64() * f64::from(plan.calls_per_sec);
        assert!(
            self.calls as f64 > expected,
            "the load was kept up: {self:#?}"
        );
        assert!(self.slowest < SLOWEST, "{death:?}: {self:#?}");
        assert!(!self.probes.is_empty(), "{death:?}: {self:#?}");
        for pair in self.probes.windows(2) {
            let apart = pair[1] - pair[0];
            assert!(
                apart >= plan.base_cooldown.mul_f64(EARLIEST_PROBE),
                "two probes within one cooldown, {death:?}: {self:#?}"
            );
        }
        let latest = plan.longest_cooldown.mul_f64(LATEST_PROBE) + STRAGGLERS;
        assert!(
            self.recovery < latest,
            "the lane is back late, {death:?}: {self:#?}"
        );
        let [first, second, after] = self.shares;
        assert!(
            first < second && second < SHARE,
            "{death:?}, no ramp: {self:#?}"
        );
        assert!(
            (after - SHARE).abs() < SHARE_TOLERANCE,
            "{death:?}: {self:#?}"
        );
    }
}

/// The cooldowns of the short outages.
const SHORT: &str = "trip: {window_secs: 2}, park_secs: 0.2, base_cooldown_secs: 0.5, \
                     max_cooldown_secs: 2, jitter_floor_secs: 0.05";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_under_load_fails_no_call_and_the_lane_comes_back_slowly() {
    let mut outages = JoinSet::new();
    for (death, calls_per_sec, secs) in [
        (Death::Errors, 200, 8),
        (Death::Resets, 60, 6),
        (Death::Silence, 60, 6),
    ] {
        let plan = Plan {
            death,
            calls_per_sec,
            calm: Duration::from_secs(2),
            outage: Duration::from_secs(secs),
            breaker: SHORT,
            base_cooldown: Duration::from_millis(500),
            longest_cooldown: Duration::from_secs(2),
            ramp: Duration::from_secs(2),
        };
        outages.spawn(async move { play(&plan).await.check(&plan) });
    }
    outages.join_all().await;
}
