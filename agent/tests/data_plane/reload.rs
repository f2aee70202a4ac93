//! New revisions under running traffic.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Step, Upstream, chunk, completion, delta, json, stream_end, stream_head};
use std::sync::Arc;
use tokio::sync::Semaphore;

const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 60}";

#[tokio::test]
async fn cells_permits_and_budgets_survive_a_new_revision() {
    let (a, b) = (
        Upstream::start(json(503, "")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane_at("b", b.address, 1, "max_requests: 5")
        .breaker(TRIP_AT_ONCE);
    let agent = Agent::start(&document.yaml()).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    let before = agent.cell("chat", "a");
    assert_eq!(before["state"], "open");

    let changed = Document::new()
        .lane_at("b", b.address, 7, "max_requests: 5")
        .lane_at("a", a.address, 2, "")
        .breaker("{trip: {mode: consecutive, consecutive_n: 9}, base_cooldown_secs: 5}");
    agent.apply(&changed.yaml());
    let after = agent.cell("chat", "a");
    assert_eq!(
        (&after["state"], &after["trips"]),
        (&"open".into(), &1.into())
    );
    let (left, was) = (
        after["cooldown_remaining_s"].as_f64().unwrap(),
        before["cooldown_remaining_s"].as_f64().unwrap(),
    );
    assert!(left > was - 5.0 && left <= was, "{left} of {was}");
    assert_eq!(agent.lane("b")["requests_spent"], 1);
    assert_eq!(agent.plane.applied().unwrap().revision, 2);
}

/// Field report B115.
#[tokio::test]
async fn removed_lane_loses_state_and_series_and_comes_back_closed() {
    let (a, b) = (
        Upstream::start(json(503, "")).await,
        Upstream::start(completion("b")).await,
    );
    let both = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .breaker(TRIP_AT_ONCE)
        .yaml();
    let agent = Agent::start(&both).await;
    chat("chat", false).send(agent.address).await;
    assert!(agent.metrics().contains(r#"lane="a""#));
    agent.apply(&Document::new().lane("b", &b).breaker(TRIP_AT_ONCE).yaml());
    let metrics = agent.metrics();
    assert!(!metrics.contains(r#"lane="a""#), "{metrics}");
    assert!(agent.plane.cells().iter().all(|cell| cell.lane != "a"));
    agent.apply(&both);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
    assert_eq!(agent.cell("chat", "a")["trips"], 0);
}

#[tokio::test]
async fn running_stream_ends_under_the_revision_it_began_with() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(vec![
        stream_head(),
        chunk(&delta("early")),
        Step::Gate(Arc::clone(&gate)),
        chunk(&delta("late")),
        chunk(crate::upstream::DONE),
        stream_end(),
    ])
    .await;
    let b = Upstream::start(completion("b")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let address = agent.address;
    let caller = tokio::spawn(async move { chat("chat", true).send(address).await });
    eventually("the content has begun", || {
        agent.cell("chat", "a")["window"]["ok"] == 1
    })
    .await;
    agent.apply(&Document::new().lane("b", &b).yaml());
    gate.add_permits(1);
    let got = caller.await.unwrap();
    assert!(got.whole && got.body.contains("late"), "{got:?}");
    assert_eq!(
        chat("chat", false)
            .send(agent.address)
            .await
            .header("x-lanekeeper-lane"),
        Some("b")
    );
    assert!(!agent.metrics().contains(r#"lane="a""#));
}

#[tokio::test]
async fn missing_secret_makes_the_lane_unusable_until_its_file_appears() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new().lane("a", &a).lane("b", &b).yaml().replacen(
        "api_key: null",
        &format!("api_key: {{file: \"{}\"}}", path.display()),
        1,
    );
    let agent = Agent::start(&document).await;
    let problems = agent.plane.problems();
    assert!(
        problems.len() == 1 && problems[0].contains("providers.p-a"),
        "{problems:?}"
    );
    let lane = agent.lane("a");
    assert_eq!(
        (&lane["usable"], &lane["dead"]),
        (&false.into(), &true.into())
    );
    for _ in 0..4 {
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.header("x-lanekeeper-lane"), Some("b"));
    }
    assert_eq!(chat("a", false).send(agent.address).await.status, 503);

    std::fs::write(&path, "sk-first\n").unwrap();
    eventually("the key is read", || agent.lane("a")["usable"] == true).await;
    assert!(agent.plane.problems().is_empty());
    assert_eq!(chat("a", false).send(agent.address).await.status, 200);
    assert_eq!(a.seen()[0].header("authorization"), Some("Bearer sk-first"));
}

#[tokio::test]
async fn new_content_of_a_secret_turns_an_auth_failure_into_probe_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "old").unwrap();
    let a = Upstream::start(json(401, "")).await;
    let document = Document::new().lane("a", &a).yaml().replacen(
        "api_key: null",
        &format!("api_key: {{file: \"{}\"}}", path.display()),
        1,
    );
    let agent = Agent::start(&document).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 401);
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    a.always(completion("hello"));
    std::fs::write(&path, "a new one").unwrap();
    eventually("the cell may probe", || {
        agent.cell("chat", "a")["cooldown_remaining_s"] == 0.0
    })
    .await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}

#[tokio::test]
async fn fields_that_are_not_served_are_refused_by_name() {
    let a = Upstream::start(completion("a")).await;
    let document = Document::new()
        .lane("a", &a)
        .pool("failover: {retry_budget: {scope: fleet}}");
    let problems = lanekeeper_model::document::check_yaml(&document.yaml()).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].pointer.ends_with("/retry_budget/scope"),
        "{problems:?}"
    );
    assert_eq!(problems[0].code, "not_served");
}

#[tokio::test]
async fn lane_that_moved_starts_as_a_new_one() {
    let (a, b) = (
        Upstream::start(json(503, "")).await,
        Upstream::start(completion("b")).await,
    );
    let own = "api_key: null, breaker: {trip: {mode: consecutive, consecutive_n: 1}}";
    let at = |upstream: &Upstream| {
        let document = Document::new().lane("a", upstream).breaker(TRIP_AT_ONCE);
        document.yaml().replace("api_key: null", own)
    };
    let agent = Agent::start(&at(&a)).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    agent.apply(&at(&a));
    assert_eq!(
        agent.cell("chat", "a")["state"],
        "open",
        "it is where it was"
    );

    agent.apply(&at(&b));
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["state"], &cell["trips"], &cell["window"]["failed"]),
        (&"closed".into(), &0.into(), &0.into())
    );
    let stats = serde_json::to_value(agent.plane.stats()).unwrap();
    assert_eq!(stats["providers"][0]["cells"][0]["state"], "closed");
    let closed = "lanekeeper_breaker_state{pool=\"chat\",lane=\"a\"} 0.0\n";
    assert!(agent.metrics().contains(closed), "{}", agent.metrics());
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}

/// What still runs at the old address says nothing about the new one.
#[tokio::test]
async fn late_failure_at_the_old_address_is_not_the_moved_lanes() {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(json(503, ""));
    let (a, b) = (
        Upstream::start(script).await,
        Upstream::start(completion("b")).await,
    );
    let at = |upstream: &Upstream| {
        Document::new()
            .lane("a", upstream)
            .breaker(TRIP_AT_ONCE)
            .yaml()
    };
    let agent = Agent::start(&at(&a)).await;
    let address = agent.address;
    let caller = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("the request is there", || a.hits() == 1).await;
    agent.apply(&at(&b));
    gate.add_permits(1);
    assert_eq!(caller.await.unwrap().status, 503);
    agent.settles().await;
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}
