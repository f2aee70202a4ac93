//! Random pools under random faults and random load: whatever they are, nobody is turned away while
//! a member could serve, no lane is asked twice for one request, and everything comes back.

use crate::caller::{Got, chat};
use crate::gateway::{Agent, Stopwatch};
use crate::upstream::{
    DONE, ERROR_FRAME, FINISH, ROLE, Script, Seen, Step, Upstream, chunk, completion_body, delta,
};
use futures_util::StreamExt as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// The same cases in every run; another seed gives others.
const SEED: u64 = 2026;
const CASES: u32 = 80;
/// No further case begins after this.
const TIME: Duration = Duration::from_secs(15);
const REQUESTS: usize = 30;
/// Beyond any number of members here.
const HOPS: u32 = 9;

/// How a lane is, over all requests.
#[derive(Clone, Copy, Debug)]
enum Health {
    Good,
    Flaky,
    Bad,
}

/// What a lane does with one request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Answer,
    /// An answer that breaks off after its first content.
    HalfAnswer,
    /// A fault that is the request's own: every lane sees it.
    Refuse,
    Status(u16),
    Close,
    Reset,
    Hang,
    Null,
    ErrorFirst,
    CutEarly,
}

const FAULTS: [Deed; 12] = [
    Deed::HalfAnswer,
    Deed::Status(503),
    Deed::Status(503),
    Deed::Status(500),
    Deed::Status(429),
    Deed::Status(529),
    Deed::Close,
    Deed::Reset,
    Deed::Hang,
    Deed::Null,
    Deed::ErrorFirst,
    Deed::CutEarly,
];

impl Health {
    /// The lane's answer to this request, the same whenever it is asked.
    fn deed(self, case: u64, lane: usize, request: usize) -> Deed {
        let mut hasher = DefaultHasher::new();
        (case, lane, request).hash(&mut hasher);
        let chance = hasher.finish();
        if request % 11 == 10 {
            return Deed::Refuse;
        }
        let fails = match self {
            Self::Good => false,
            Self::Flaky => chance.is_multiple_of(2),
            Self::Bad => true,
        };
        if fails {
            FAULTS[(chance >> 8) as usize % FAULTS.len()]
        } else {
            Deed::Answer
        }
    }
}

/// Answers on connections of their own: none is ever found stale, which would be asked again.
fn document(status: u16, body: &str) -> Script {
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    vec![Step::Write((head + body).into_bytes()), Step::Close]
}

fn frames(frames: &[&str], ends: bool) -> Script {
    let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut script = vec![Step::Write(head.into())];
    script.extend(frames.iter().map(|frame| chunk(frame)));
    if ends {
        script.push(crate::upstream::stream_end());
    }
    script.push(Step::Close);
    script
}

fn script(deed: Deed, streams: bool) -> Script {
    match deed {
        Deed::Answer if streams => frames(&[ROLE, &delta("hello"), FINISH, DONE], true),
        Deed::Answer => document(200, &completion_body("hello")),
        Deed::HalfAnswer if streams => frames(&[ROLE, &delta("hello")], false),
        Deed::ErrorFirst if streams => frames(&[ROLE, ERROR_FRAME], true),
        Deed::CutEarly if streams => frames(&[ROLE], false),
        Deed::HalfAnswer | Deed::ErrorFirst | Deed::CutEarly => {
            document(200, r#"{"error":{"code":"server_error"}}"#)
        }
        Deed::Refuse => document(400, r#"{"error":{"message":"no"}}"#),
        Deed::Status(status) => document(status, "{}"),
        Deed::Close => vec![Step::Close],
        Deed::Reset => vec![Step::Reset],
        Deed::Hang => vec![Step::Hang],
        Deed::Null => document(200, "null"),
    }
}

#[derive(Clone, Debug)]
struct AnyLane {
    health: Health,
    limit: Option<u32>,
}

#[derive(Clone, Debug)]
struct AnyPool {
    /// Lanes, modulo their number, with their weights.
    members: Vec<(usize, u32)>,
    strategy: &'static str,
    exhausted: &'static str,
    affinity: bool,
    hops: u32,
    breaker: &'static str,
}

#[derive(Clone, Debug)]
struct World {
    case: u64,
    lanes: Vec<AnyLane>,
    /// Each falls back to the next if it falls back at all.
    pools: Vec<AnyPool>,
    callers: usize,
}

fn any_lane() -> impl Strategy<Value = AnyLane> {
    let health = prop_oneof![
        2 => Just(Health::Good),
        3 => Just(Health::Flaky),
        2 => Just(Health::Bad),
    ];
    (
        health,
        prop_oneof![3 => Just(None), 1 => (1u32..4).prop_map(Some)],
    )
        .prop_map(|(health, limit)| AnyLane { health, limit })
}

fn any_pool() -> impl Strategy<Value = AnyPool> {
    (
        prop::collection::vec((0usize..5, 0u32..4), 1..5),
        prop::sample::select(vec!["weighted", "least_loaded", "fastest"]),
        prop::sample::select(vec!["reject", "least_bad", "fail_open", "queue", "fallback", "fallback"]),
        any::<bool>(),
        prop_oneof![3 => Just(HOPS), 1 => Just(1u32)],
        prop::sample::select(vec![
            "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.02, max_cooldown_secs: 0.1, jitter_floor_secs: 0}",
            "{trip: {mode: consecutive, consecutive_n: 3}, base_cooldown_secs: 0.05, max_cooldown_secs: 0.1, jitter_floor_secs: 0, park_secs: 0}",
            "{trip: {mode: error_rate, min_requests: 3}, base_cooldown_secs: 5}",
            "{mode: observe}",
            "{mode: \"off\"}",
        ]),
    )
        .prop_map(|(members, strategy, exhausted, affinity, hops, breaker)| AnyPool {
            members,
            strategy,
            exhausted,
            affinity,
            hops,
            breaker,
        })
}

fn any_world() -> impl Strategy<Value = World> {
    (
        any::<u64>(),
        prop::collection::vec(any_lane(), 1..6),
        prop::collection::vec(any_pool(), 1..4),
        1usize..9,
    )
        .prop_map(|(case, lanes, pools, callers)| World {
            case,
            lanes,
            pools,
            callers,
        })
}

impl World {
    /// The pool's members, each lane once, the first with some weight.
    fn members(&self, pool: usize) -> Vec<(usize, u32)> {
        let mut members: Vec<(usize, u32)> = Vec::new();
        for (lane, weight) in &self.pools[pool].members {
            let lane = lane % self.lanes.len();
            if members.iter().all(|(seen, _)| *seen != lane) {
                let weight = if members.is_empty() { 1 } else { *weight };
                members.push((lane, weight));
            }
        }
        members
    }

    fn falls_back(&self, pool: usize) -> bool {
        self.pools[pool].exhausted == "fallback" && pool + 1 < self.pools.len()
    }

    /// The pools a request to the first one may come to.
    fn chain(&self) -> usize {
        (0..self.pools.len())
            .find(|pool| !self.falls_back(*pool))
            .map_or(self.pools.len(), |last| last + 1)
    }

    fn yaml(&self, upstreams: &[Upstream]) -> String {
        let mut yaml = "gateway: edge\nproviders:\n".to_owned();
        for (lane, upstream) in upstreams.iter().enumerate() {
            let address = upstream.address;
            yaml += &format!(
                "  p{lane}: {{protocol: openai, base_url: \"http://{address}\", api_key: null}}\n"
            );
        }
        yaml += "models:\n";
        for (lane, any) in self.lanes.iter().enumerate() {
            let limit = any
                .limit
                .map_or("null".to_owned(), |limit| limit.to_string());
            yaml += &format!(
                "  lane{lane}: {{provider: p{lane}, max_concurrent: {limit}, max_requests: 1000, attempt_timeout_ms: 60, first_content_timeout_ms: 1000}}\n"
            );
        }
        yaml += "pools:\n";
        for (number, pool) in self.pools.iter().enumerate() {
            yaml += &format!("  pool{number}:\n    members:\n");
            for (lane, weight) in self.members(number) {
                yaml += &format!("      - {{target: lane{lane}, weight: {weight}}}\n");
            }
            let exhausted = match pool.exhausted {
                "fallback" if self.falls_back(number) => {
                    format!("{{fallback_pool: pool{}}}", number + 1)
                }
                "fallback" => "reject".to_owned(),
                "queue" => "{queue: {max_ms: 40}}".to_owned(),
                other => other.to_owned(),
            };
            let affinity = if pool.affinity { "session" } else { "none" };
            yaml += &format!(
                "    last_error: own\n    strategy: {}\n    breaker: {}\n    on_exhausted: {exhausted}\n    affinity: {{mode: {affinity}}}\n    failover: {{timeout_secs: 8, max_hops: {}}}\n",
                pool.strategy, pool.breaker, pool.hops
            );
        }
        yaml
    }
}

/// How the cells and lanes stood at one moment.
struct Books(serde_json::Value);

impl Books {
    fn of(agent: &Agent) -> Self {
        Self(serde_json::to_value(agent.plane.stats()).unwrap())
    }

    fn lane(&self, lane: usize) -> &serde_json::Value {
        let name = format!("lane{lane}");
        let lanes = self.0["lanes"].as_array().unwrap();
        lanes.iter().find(|lane| lane["lane"] == *name).unwrap()
    }

    fn cell(&self, pool: usize, lane: usize) -> &serde_json::Value {
        let name = format!("pool{pool}");
        let cells = self.lane(lane)["cells"].as_array().unwrap();
        cells.iter().find(|cell| cell["pool"] == *name).unwrap()
    }
}

/// One request as its caller saw it, and the books around it.
struct Told {
    request: usize,
    got: Got,
    before: Books,
    after: Books,
}

struct Trial {
    world: World,
    agent: Agent,
    upstreams: Vec<Upstream>,
}

impl Trial {
    async fn start(world: World) -> Self {
        let mut upstreams = Vec::new();
        for (lane, any) in world.lanes.iter().enumerate() {
            let (case, health) = (world.case, any.health);
            let decide = move |seen: &Seen| {
                let request = request_of(seen);
                let streams = seen.body.contains("\"stream\":true");
                script(health.deed(case, lane, request), streams)
            };
            upstreams.push(Upstream::deciding(decide).await);
        }
        let agent = Agent::start(&world.yaml(&upstreams)).await;
        Self {
            world,
            agent,
            upstreams,
        }
    }

    async fn ask(&self, request: usize) -> Told {
        let before = Books::of(&self.agent);
        let got = chat("pool0", request.is_multiple_of(2))
            .with("x-client-request-id", &request.to_string())
            .with("x-session-id", &format!("s-{}", request % 4))
            .send(self.agent.address)
            .await;
        Told {
            request,
            got,
            before,
            after: Books::of(&self.agent),
        }
    }

    /// The lanes that saw the request.
    fn tried(&self, request: usize) -> Vec<usize> {
        let mut tried = Vec::new();
        for (lane, upstream) in self.upstreams.iter().enumerate() {
            let seen = upstream.seen();
            tried.extend(
                seen.iter()
                    .filter(|seen| request_of(seen) == request)
                    .map(|_| lane),
            );
        }
        tried
    }

    /// Whether the member could have served at any moment of the request.
    fn could_serve(&self, told: &Told, pool: usize, lane: usize) -> bool {
        let alone = self.world.callers == 1;
        let limit = self.world.lanes[lane].limit;
        if limit.is_some_and(|limit| (limit as usize) < self.world.callers) {
            return false;
        }
        let (was, is) = (told.before.cell(pool, lane), told.after.cell(pool, lane));
        // Due for its probe, which nobody else can be.
        if alone && was["state"] != "closed" && was["cooldown_remaining_s"] == 0.0 {
            return true;
        }
        let unharmed = told.before.lane(lane)["failed"] == told.after.lane(lane)["failed"];
        was["state"] == "closed"
            && is["state"] == "closed"
            && was["trips"] == is["trips"]
            && unharmed
    }

    fn check(&self, told: &Told) -> Result<(), TestCaseError> {
        let (got, tried) = (&told.got, self.tried(told.request));
        let mut once = tried.clone();
        once.dedup();
        prop_assert_eq!(&once, &tried, "request {} asked a lane twice", told.request);
        let deed = |lane: usize| {
            let health = self.world.lanes[lane].health;
            health.deed(self.world.case, lane, told.request)
        };
        let last = got.header("x-lanekeeper-lane").map(|lane| {
            let number = lane.trim_start_matches("lane");
            deed(number.parse().unwrap())
        });
        match (got.status.as_u16(), got.whole) {
            (200, true) => prop_assert_eq!(last, Some(Deed::Answer)),
            (200, false) => prop_assert_eq!(last, Some(Deed::HalfAnswer)),
            (400, true) => prop_assert_eq!(last, Some(Deed::Refuse)),
            (429 | 503, true) => {
                prop_assert!(got.header("retry-after").is_some());
                for pool in 0..self.world.chain() {
                    if self.world.pools[pool].hops != HOPS {
                        continue;
                    }
                    for (lane, weight) in self.world.members(pool) {
                        let missed = weight > 0
                            && !tried.contains(&lane)
                            && self.could_serve(told, pool, lane);
                        prop_assert!(
                            !missed,
                            "request {} was told {} though lane{} of pool{} could serve; tried {:?}",
                            told.request,
                            got.status,
                            lane,
                            pool,
                            tried
                        );
                    }
                }
            }
            _ => prop_assert!(false, "request {}: {:?}", told.request, got),
        }
        Ok(())
    }

    fn check_books(&self, all: &[Told]) -> Result<(), TestCaseError> {
        let books = Books::of(&self.agent);
        for (lane, any) in self.world.lanes.iter().enumerate() {
            let shown = books.lane(lane);
            prop_assert_eq!(&shown["inflight"], 0);
            prop_assert_eq!(&shown["permits_available"], &serde_json::json!(any.limit));
            let name = format!("lane{lane}");
            let answers = all.iter().filter(|told| {
                told.got.status == 200 && told.got.header("x-lanekeeper-lane") == Some(&name)
            });
            prop_assert_eq!(&shown["requests_spent"], answers.count(), "{}", name);
        }
        for pool in books.0["pools"].as_array().unwrap() {
            prop_assert_eq!(&pool["queued"], 0);
        }
        let totals = self.agent.plane.totals();
        let served = |told: &&Told| told.got.status == 200 && told.got.whole;
        prop_assert_eq!(totals.requests, REQUESTS as u64);
        prop_assert_eq!(totals.ok, all.iter().filter(served).count() as u64);
        Ok(())
    }
}

fn request_of(seen: &Seen) -> usize {
    seen.header("x-client-request-id").unwrap().parse().unwrap()
}

async fn run(world: World) -> Result<(), TestCaseError> {
    let trial = Trial::start(world).await;
    let all: Vec<Told> = futures_util::stream::iter(0..REQUESTS)
        .map(|request| trial.ask(request))
        .buffer_unordered(trial.world.callers)
        .collect()
        .await;
    trial.agent.settles().await;
    for told in &all {
        trial.check(told)?;
    }
    trial.check_books(&all)
}

#[test]
fn nobody_is_turned_away_while_a_member_could_serve() {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(SEED),
        max_shrink_iters: 30,
        ..Config::default()
    };
    let began = Stopwatch::start();
    let result = TestRunner::new(config).run(&any_world(), |world| {
        if began.elapsed() > TIME {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let result = runtime.block_on(run(world));
        runtime.shutdown_background();
        result
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
