//! Operators' overrides and the fleet's advisories: whole sets that reach cells, end, and outlive
//! revisions.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Upstream, completion, json};
use lanekeeper_model::{Advisory, CellState, LaneName, Override, OverrideAction, PoolName};

const LONG: u64 = 60_000;
const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 60}";

fn order(id: &str, pool: Option<&str>, lane: &str, action: OverrideAction) -> Override {
    Override {
        id: id.to_owned(),
        pool: pool.map(PoolName::from),
        lane: LaneName::from(lane),
        provider: None,
        action,
        remaining_ms: LONG,
    }
}

fn advisory(lane: &str, remaining_ms: u64) -> Advisory {
    Advisory {
        pool: None,
        lane: LaneName::from(lane),
        endpoint: None,
        evidence_age_ms: 0,
        agents: 200,
        remaining_ms,
    }
}

async fn serving(a: &Upstream, agent: &Agent) -> bool {
    let before = a.hits();
    let got = chat("a", false).send(agent.address).await;
    assert_eq!(a.hits() > before, got.status == 200, "{got:?}");
    got.status == 200
}

#[tokio::test]
async fn order_on_all_pools_reaches_every_cell_and_one_on_a_pool_only_its_own() {
    let a = Upstream::start(completion("a")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    agent
        .plane
        .apply_overrides(&[order("1", Some("chat"), "a", OverrideAction::ForceOpen)]);
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    assert!(
        serving(&a, &agent).await,
        "the direct route is another cell"
    );
    agent
        .plane
        .apply_overrides(&[order("2", None, "a", OverrideAction::Drain)]);
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    assert!(!serving(&a, &agent).await);
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["state"], &cell["override"]),
        (&"open".into(), &"drain".into())
    );
    assert!(cell["override_remaining_s"].as_f64().unwrap() > 50.0);
    let lane = agent.lane("a");
    assert_eq!(lane["usable"], false);
    let reported = agent.plane.cells();
    assert!(
        reported
            .iter()
            .all(|cell| cell.override_action.as_deref() == Some("drain"))
    );
    agent.plane.apply_overrides(&[]);
    assert!(
        serving(&a, &agent).await,
        "what is not in the set is released"
    );
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert!(agent.cell("chat", "a")["override"].is_null());
}

#[tokio::test]
async fn the_same_set_again_changes_nothing() {
    let a = Upstream::start(completion("a")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    for _ in 0..5 {
        agent
            .plane
            .apply_overrides(&[order("1", None, "a", OverrideAction::ForceOpen)]);
    }
    let metrics = agent.metrics();
    let line = r#"lanekeeper_breaker_transitions_total{pool="chat",lane="a",from="closed",to="open",reason="override",cause="",mode="enforce"} 1"#;
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn orders_outlive_revisions_and_reach_lanes_that_come_later() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let one = Document::new().lane("a", &a);
    let agent = Agent::start(&one.yaml()).await;
    agent.plane.apply_overrides(&[
        order("1", None, "a", OverrideAction::ForceOpen),
        order("2", None, "b", OverrideAction::ForceOpen),
    ]);
    agent.apply(&Document::new().lane("a", &a).lane("b", &b).yaml());
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    assert_eq!(a.hits() + b.hits(), 0);
    assert_eq!(agent.cell("chat", "b")["override"], "force_open");
}

#[tokio::test]
async fn order_ends_by_itself_with_one_line_and_one_count() {
    let a = Upstream::start(completion("a")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let mut short = order("1", None, "a", OverrideAction::ForceOpen);
    short.remaining_ms = 100;
    agent.plane.apply_overrides(&[short]);
    assert!(!serving(&a, &agent).await);
    eventually("it is over", || {
        agent.cell("chat", "a")["state"] == "closed"
    })
    .await;
    assert!(serving(&a, &agent).await);
    let line = r#"{pool="chat",lane="a",from="open",to="closed",reason="override_ended",cause="",mode="enforce"} 1"#;
    eventually("it was told", || agent.metrics().contains(line)).await;
}

#[tokio::test]
async fn order_that_a_later_one_hid_comes_back_when_that_one_ends() {
    let a = Upstream::start(completion("a")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let mut short = order("2", Some("chat"), "a", OverrideAction::ForceClose);
    short.remaining_ms = 300;
    let set = [
        order("1", Some("chat"), "a", OverrideAction::ForceOpen),
        short,
    ];
    agent.plane.apply_overrides(&set);
    assert_eq!(agent.cell("chat", "a")["override"], "force_close");
    eventually("the earlier one holds again", || {
        agent.cell("chat", "a")["override"] == "force_open"
    })
    .await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
}

#[tokio::test]
async fn pools_order_holds_before_one_for_all_whatever_their_order() {
    let a = Upstream::start(completion("a")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let of_pool = order("1", Some("chat"), "a", OverrideAction::ForceClose);
    let for_all = order("2", None, "a", OverrideAction::Drain);
    for set in [[of_pool.clone(), for_all.clone()], [for_all, of_pool]] {
        agent.plane.apply_overrides(&set);
        assert_eq!(agent.cell("chat", "a")["override"], "force_close");
        assert_eq!(agent.cell("", "a")["override"], "drain");
    }
}

#[tokio::test]
async fn orders_that_concern_no_cell_are_named_until_a_revision_has_it() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    agent.plane.apply_overrides(&[
        order("here", Some("chat"), "a", OverrideAction::Drain),
        order("no-pool", Some("chta"), "a", OverrideAction::Drain),
        order("no-lane", None, "b", OverrideAction::Reset),
    ]);
    assert_eq!(agent.plane.unmet_overrides(), ["no-pool", "no-lane"]);
    agent.apply(&Document::new().lane("a", &a).lane("b", &b).yaml());
    assert_eq!(agent.plane.unmet_overrides(), ["no-pool"]);
    agent.plane.apply_overrides(&[]);
    assert!(agent.plane.unmet_overrides().is_empty());
}

#[tokio::test]
async fn reset_is_not_carried_out_again_by_a_set_that_lacked_it_in_between() {
    let a = Upstream::start(json(503, "")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(TRIP_AT_ONCE).yaml()).await;
    let reset = [order("r", Some("chat"), "a", OverrideAction::Reset)];
    agent.plane.apply_overrides(&reset);
    chat("chat", false).send(agent.address).await;
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    agent.plane.apply_overrides(&[]);
    agent.plane.apply_overrides(&reset);
    assert_eq!(agent.cell("chat", "a")["state"], "open");
}

#[tokio::test]
async fn forced_close_serves_a_failing_lane_and_reset_forgets_once() {
    let a = Upstream::start(json(503, "")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(TRIP_AT_ONCE).yaml()).await;
    chat("chat", false).send(agent.address).await;
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    let reset = [order("r", Some("chat"), "a", OverrideAction::Reset)];
    agent.plane.apply_overrides(&reset);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
    chat("chat", false).send(agent.address).await;
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    agent.plane.apply_overrides(&reset);
    assert_eq!(
        agent.cell("chat", "a")["state"],
        "open",
        "the same reset works once"
    );
    agent
        .plane
        .apply_overrides(&[order("c", None, "a", OverrideAction::ForceClose)]);
    for _ in 0..3 {
        let hits = a.hits();
        chat("chat", false).send(agent.address).await;
        assert_eq!(a.hits(), hits + 1);
    }
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn drain_lets_a_running_answer_end() {
    use crate::upstream::{Step, chunk, delta, stream_end, stream_head};
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let a = Upstream::start(vec![
        stream_head(),
        chunk(&delta("a")),
        Step::Gate(std::sync::Arc::clone(&gate)),
        chunk(crate::upstream::FINISH),
        chunk(crate::upstream::DONE),
        stream_end(),
    ])
    .await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let address = agent.address;
    let caller = tokio::spawn(async move { chat("chat", true).send(address).await });
    eventually("the stream runs", || agent.lane("a")["inflight"] == 1).await;
    agent
        .plane
        .apply_overrides(&[order("1", None, "a", OverrideAction::Drain)]);
    assert_eq!(chat("chat", false).send(address).await.status, 503);
    gate.add_permits(1);
    let got = caller.await.unwrap();
    assert!(got.whole && got.body.contains("[DONE]"), "{got:?}");
}

#[tokio::test]
async fn advised_lane_is_the_last_choice_and_never_exhausts_the_pool() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new().lane("a", &a).lane("b", &b);
    let agent = Agent::start(&document.yaml()).await;
    agent.plane.apply_advisories(&[advisory("a", LONG)]);
    for _ in 0..6 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    assert_eq!((a.hits(), b.hits()), (0, 6));
    let cell = agent.cell("chat", "a");
    assert!(cell["advisory"].as_f64().unwrap() > 50.0, "{cell}");
    assert_eq!(cell["state"], "closed");
    assert!(
        agent
            .plane
            .cells()
            .iter()
            .any(|cell| cell.advisory && cell.is_notable())
    );
    // A revision keeps the hint, and with both advised the pool still serves.
    agent.apply(&document.yaml());
    agent
        .plane
        .apply_advisories(&[advisory("a", LONG), advisory("b", LONG)]);
    for _ in 0..6 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    assert!(a.hits() > 0);
    agent.plane.apply_advisories(&[]);
    assert!(agent.cell("chat", "a")["advisory"].is_null());
    // Without contact a hint ends by itself.
    agent.plane.apply_advisories(&[advisory("a", 50)]);
    eventually("the hint is over", || {
        agent.cell("chat", "a")["advisory"].is_null()
    })
    .await;
}

fn on_provider(id: &str, provider: &str, action: OverrideAction) -> Override {
    Override {
        pool: None,
        lane: LaneName::none(),
        provider: Some(provider.into()),
        ..order(id, None, "", action)
    }
}

/// The document's one provider gets a breaker of its own.
fn with_own_breaker(document: &str, breaker: &str) -> String {
    document.replace(
        "protocol: openai",
        &format!("protocol: openai, breaker: {breaker}"),
    )
}

#[tokio::test]
async fn override_of_a_provider_reaches_its_own_cell_and_one_of_a_lane_does_not() {
    let a = Upstream::start(completion("a")).await;
    let document = with_own_breaker(&Document::new().lane("a", &a).yaml(), TRIP_AT_ONCE);
    let agent = Agent::start(&document).await;
    let own = || {
        let cells = agent.plane.cells();
        cells
            .into_iter()
            .find(|cell| cell.is_of_provider())
            .unwrap()
    };
    let provider = own().provider.to_string();
    agent
        .plane
        .apply_overrides(&[on_provider("1", &provider, OverrideAction::ForceOpen)]);
    assert!(!serving(&a, &agent).await);
    assert_eq!(own().override_action.as_deref(), Some("force_open"));
    assert!(agent.plane.unmet_overrides().is_empty());
    let lanes = agent.plane.cells();
    let mut lanes = lanes.iter().filter(|cell| !cell.is_of_provider());
    assert!(lanes.all(|cell| cell.override_action.is_none()));

    agent
        .plane
        .apply_overrides(&[order("2", None, "a", OverrideAction::Drain)]);
    assert_eq!(own().override_action, None, "released, and not of the lane");
    agent.plane.apply_overrides(&[]);
    assert!(serving(&a, &agent).await);

    agent.apply(&Document::new().lane("a", &a).yaml());
    agent
        .plane
        .apply_overrides(&[on_provider("3", &provider, OverrideAction::Drain)]);
    assert_eq!(agent.plane.unmet_overrides(), ["3"], "it has no such cell");
    agent.apply(&document);
    assert_eq!(own().override_action.as_deref(), Some("drain"));
}

#[tokio::test]
async fn reset_and_force_close_of_a_provider_let_its_lanes_serve() {
    let a = Upstream::start(json(500, "")).await;
    let document = Document::new()
        .lane("a", &a)
        .breaker("{mode: observe}")
        .yaml();
    let agent = Agent::start(&with_own_breaker(&document, TRIP_AT_ONCE)).await;
    let own = || {
        let cells = agent.plane.cells();
        cells
            .into_iter()
            .find(|cell| cell.is_of_provider())
            .unwrap()
    };
    let provider = own().provider.to_string();
    chat("a", false).send(agent.address).await;
    agent.settles().await;
    assert_eq!(own().state, CellState::Open);
    a.always(completion("a"));
    assert!(!serving(&a, &agent).await);
    let rejects = format!("lanekeeper_provider_breaker_rejects_total{{provider=\"{provider}\"}} 1");
    assert!(agent.metrics().contains(&rejects), "{}", agent.metrics());

    let reset = on_provider("1", &provider, OverrideAction::Reset);
    agent.plane.apply_overrides(std::slice::from_ref(&reset));
    assert_eq!(own().state, CellState::Closed);
    assert!(serving(&a, &agent).await);

    a.always(json(500, ""));
    chat("a", false).send(agent.address).await;
    agent.settles().await;
    agent.plane.apply_overrides(&[reset]);
    assert_eq!(
        own().state,
        CellState::Open,
        "a reset works once for its id"
    );
    a.always(completion("a"));
    agent
        .plane
        .apply_overrides(&[on_provider("2", &provider, OverrideAction::ForceClose)]);
    assert!(serving(&a, &agent).await);
}
