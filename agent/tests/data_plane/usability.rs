//! What reports say of pools: what they can serve with, and what came of their requests.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Step, Upstream, answer, completion, json};
use lanekeeper_model::{PoolReport, PoolUsability, UnusableReason};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest wait for a notice.
const PATIENCE: Duration = Duration::from_secs(10);
/// Trips with the first failure, and for a time tests can rely on.
const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 40, max_cooldown_secs: 80, \
     poison_guard: false}";

/// What the next report says of a pool, if it says anything.
fn reported(agent: &Agent, pool: &str) -> Option<PoolReport> {
    let (pools, _) = agent.plane.report_pools();
    pools.into_iter().find(|it| it.usability.pool == *pool)
}

/// What the pool `chat` can serve with.
fn chat_pool(agent: &Agent) -> PoolUsability {
    let mut pools = agent.plane.usability().into_iter();
    pools.find(|pool| pool.pool == *"chat").unwrap()
}

/// Why a lane cannot serve in the pool `chat`.
fn why(agent: &Agent, lane: &str) -> Vec<UnusableReason> {
    let pool = chat_pool(agent);
    let found = pool.unusable.iter().find(|it| it.lane == *lane);
    found.map_or_else(Vec::new, |it| it.reasons.iter().collect())
}

#[tokio::test]
async fn pool_that_is_usable_and_idle_is_not_in_the_report() {
    let a = Upstream::start(completion("a")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    assert_eq!(agent.plane.report_pools().0, []);
    assert_eq!(
        (chat_pool(&agent).members, chat_pool(&agent).usable),
        (1, 1)
    );
}

#[tokio::test]
async fn lane_without_its_key_is_unusable_wherever_it_is_a_member_and_says_why() {
    let a = Upstream::start(completion("a")).await;
    let document = Document::new().lane("a", &a).lane("b", &a).yaml();
    let keyless = "api_key: {env: LANEKEEPER_TEST_KEY_THAT_NOBODY_SETS}";
    let document = document.replacen("api_key: null", keyless, 1);
    let agent = Agent::start(&document).await;
    assert_eq!(why(&agent, "a"), [UnusableReason::MissingKey]);
    assert_eq!(why(&agent, "b"), []);
    let chat = reported(&agent, "chat").unwrap().usability;
    assert_eq!((chat.members, chat.usable, chat.exhausted), (2, 1, false));
    let direct = reported(&agent, "").unwrap().usability;
    assert_eq!((direct.members, direct.usable), (2, 1));

    let both = document.replace("api_key: null", keyless);
    agent.apply(&both);
    let chat = reported(&agent, "chat").unwrap().usability;
    assert!(chat.exhausted, "although every cell is closed");
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn each_other_reason_has_a_name_of_its_own() {
    let a = Upstream::start(json(503, "")).await;
    let document = Document::new()
        .lane_at("spent", a.address, 1, "max_requests: 1")
        .lane_at("idle", a.address, 0, "")
        .lane_at("out", a.address, 1, "")
        .lane_at("good", a.address, 1, "")
        .pool("failover: {exclusions: [out]}")
        .breaker(TRIP_AT_ONCE);
    let agent = Agent::start(&document.yaml()).await;
    assert_eq!(why(&agent, "idle"), [UnusableReason::WeightZero]);
    assert_eq!(why(&agent, "out"), [UnusableReason::Excluded]);
    assert_eq!(chat_pool(&agent).usable, 2);
    chat("chat", false).send(agent.address).await;
    assert_eq!(why(&agent, "good"), [UnusableReason::CellOpen]);
    assert!(why(&agent, "spent").contains(&UnusableReason::CellOpen));
    let pool = reported(&agent, "chat").unwrap();
    assert!(pool.usability.exhausted, "{pool:?}");
}

#[tokio::test]
async fn providers_own_open_cell_makes_its_lanes_unusable() {
    let a = Upstream::start(json(503, "")).await;
    let document = Document::new().lane("a", &a).yaml();
    let own = format!("api_key: null, breaker: {TRIP_AT_ONCE}");
    let document = document.replace("api_key: null", &own);
    let agent = Agent::start(&document).await;
    chat("chat", false).send(agent.address).await;
    assert!(why(&agent, "a").contains(&UnusableReason::ProviderOpen));
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn what_came_of_requests_is_reported_once_with_its_times_and_lanes() {
    let (bad, good) = (
        Upstream::start(json(500, "")).await,
        Upstream::start(completion("good")).await,
    );
    let document = Document::new().lane("bad", &bad).lane("good", &good);
    let agent = Agent::start(&document.yaml()).await;
    for _ in 0..4 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    agent.settles().await;
    let traffic = reported(&agent, "chat").unwrap().traffic;
    assert_eq!(traffic.totals.requests.ok, 4);
    assert_eq!(traffic.totals.requests.sum(), 4);
    assert_eq!(traffic.totals.first_content.count(), 4);
    assert_eq!(traffic.totals.whole.count(), 4);
    let on = |lane: &str| {
        let mut attempts = traffic.attempts.iter();
        attempts.find(|(name, _)| *name == *lane).unwrap().1
    };
    assert_eq!(on("good").success, 4);
    assert_eq!(on("bad").transient, traffic.totals.failovers);
    assert!(traffic.totals.failovers > 0);
    let again = reported(&agent, "chat");
    assert!(again.is_none_or(|it| it.traffic.is_empty()), "not twice");
    chat("chat", false).send(agent.address).await;
    agent.settles().await;
    let traffic = reported(&agent, "chat").unwrap().traffic;
    assert_eq!(traffic.totals.requests.ok, 1, "what has come since");
}

#[tokio::test]
async fn lane_that_asks_to_be_left_alone_is_worth_a_report_once() {
    let a = Upstream::start(answer(429, &[("retry-after", "60")], "")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let noticed = async |within: Duration| {
        let changed = agent.plane.changed().notified();
        tokio::time::timeout(within, changed).await.is_ok()
    };
    while noticed(Duration::ZERO).await {}
    chat("chat", false).send(agent.address).await;
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
    assert!(agent.cell("chat", "a")["parked_remaining_s"].as_f64() > Some(50.0));
    assert!(noticed(PATIENCE).await, "its park is shown at once");
    assert_eq!(why(&agent, "a"), [UnusableReason::CellOpen]);
}

#[tokio::test]
async fn busy_pool_is_exhausted_only_when_it_turns_requests_away() {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("a"));
    let a = Upstream::start(script).await;
    let document = Document::new().lane_at("a", a.address, 1, "max_concurrent: 1");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let first = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("the only permit is taken", || {
        why(&agent, "a") == [UnusableReason::PermitsGone]
    })
    .await;
    let pool = reported(&agent, "chat").unwrap().usability;
    assert_eq!((pool.usable, pool.in_flight, pool.exhausted), (0, 1, false));

    assert_eq!(chat("chat", false).send(address).await.status, 503);
    tokio::time::timeout(PATIENCE, agent.plane.changed().notified())
        .await
        .expect("the first request that is turned away is worth a report");
    let pool = reported(&agent, "chat").unwrap();
    assert!(pool.usability.exhausted);
    assert_eq!(pool.traffic.totals.requests.exhausted, 1);
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
    agent.settles().await;
    let pool = reported(&agent, "chat").unwrap().usability;
    assert_eq!((pool.usable, pool.exhausted, pool.in_flight), (1, false, 0));
}
