//! How a benched lane comes back: every way a probe can end, and what must not touch it.

use crate::caller::{Ask, chat};
use crate::dialects::{ANTHROPIC, OPENAI, cut, ended};
use crate::gateway::{Agent, Document, eventually, timed};
use crate::upstream::{ROLE, Script, Step, Upstream, chunk, completion, json, stream, stream_head};
use http::Method;
use lanekeeper_model::CellState;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Trips at the first failure; the cooldown doubles once.
const TWICE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.2, \
                     max_cooldown_secs: 0.4, jitter_ratio: 0, jitter_floor_secs: 0}";

/// A plane whose cell `chat`/`a` is open and due for a probe.
async fn due(a: &Upstream, document: Document) -> Agent {
    a.next(json(503, ""));
    let agent = Agent::start(&document.yaml()).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    agent.cooled("chat", "a").await;
    agent
}

fn ask_models() -> Ask {
    let mut ask = chat("chat", false).at("/v1/models").body("");
    ask.method = Method::GET;
    ask
}

/// What a probe that ended leaves behind.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    /// Nothing was proved; the next request is the probe.
    Slot,
    /// It failed: open for twice as long.
    Open,
}

async fn end_probe(case: &'static str, streams: bool, script: Script, left: Left) {
    let a = Upstream::start(completion("hello")).await;
    let document = || Document::new().lane("a", &a).breaker(TWICE);
    let agent = due(&a, document()).await;
    let impatient = document().pool("failover: {timeout_secs: 0.3}");
    agent.apply(&impatient.yaml());
    let before = a.hits();
    a.next(script);
    let ((), took) = timed(async {
        chat("chat", streams).send(agent.address).await;
        agent.settles().await;
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["trips"], 1, "{case}: {cell}");
        match left {
            Left::Slot => assert_eq!(cell["state"], "half_open", "{case}: {cell}"),
            Left::Open => agent.cooled("chat", "a").await,
        }
    })
    .await;
    assert_eq!(a.hits(), before + 1, "{case}: the probe was sent");
    if left == Left::Open {
        assert!(took.as_secs_f64() >= 0.4, "{case}: escalated, {took:?}");
    }
    agent.apply(&document().yaml());
    assert_eq!(
        chat("chat", false).send(agent.address).await.status,
        200,
        "{case}: never stuck"
    );
    assert_eq!(agent.cell("chat", "a")["state"], "closed", "{case}");
    assert_eq!(agent.lane("a")["ok"], 1, "{case}: counted once");
}

/// Field reports B65, B66: a probe that is never answered, one whose answer dies, one that is the
/// caller's fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_end_of_a_probe_gives_its_slot_back() {
    let too_long = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let pings = (0..40).flat_map(|_| [chunk(": ping\n\n"), Step::Pause(Duration::from_millis(20))]);
    let rows: Vec<(&str, bool, Script, Left)> = vec![
        ("404", false, json(404, "{}"), Left::Slot),
        ("400", true, json(400, "{}"), Left::Slot),
        ("context length", false, json(400, too_long), Left::Slot),
        (
            "the caller's fault under 200",
            false,
            json(200, r#"{"error":{"type":"invalid_request_error"}}"#),
            Left::Slot,
        ),
        ("503", false, json(503, ""), Left::Open),
        ("no answer", false, vec![Step::Hang], Left::Open),
        ("no answer to a stream", true, vec![Step::Hang], Left::Open),
        ("death before the body", true, cut(&[]), Left::Open),
        ("death before content", true, cut(&[ROLE]), Left::Open),
        (
            "broken json",
            false,
            json(200, r#"{"choices":["#),
            Left::Open,
        ),
        (
            "pings for ever",
            true,
            [stream_head()].into_iter().chain(pings).collect(),
            // The lane lives; only the time of the request is over.
            Left::Slot,
        ),
    ];
    let running: Vec<_> = rows
        .into_iter()
        .map(|(case, streams, script, left)| tokio::spawn(end_probe(case, streams, script, left)))
        .collect();
    for row in running {
        row.await.unwrap();
    }
}

/// Field report B66: what the agent itself refuses takes no probe.
#[tokio::test]
async fn spent_budget_takes_no_probe() {
    let a = Upstream::start(completion("hello")).await;
    let document = |budget: u32| {
        let budget = format!("max_requests: {budget}");
        Document::new()
            .lane_at("a", a.address, 1, &budget)
            .breaker(TWICE)
    };
    let agent = due(&a, document(1)).await;
    assert_eq!(chat("a", false).send(agent.address).await.status, 200);
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), a.hits()), (503, 2), "{got:?}");
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    agent.apply(&document(9).yaml());
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// Field report B66: while the provider's own cell refuses, the pool's probe waits untouched.
#[tokio::test]
async fn refusal_of_the_provider_takes_no_probe_of_the_pool() {
    let a = Upstream::start(completion("hello")).await;
    a.next(json(503, ""));
    let own = "api_key: null, breaker: {trip: {mode: consecutive, consecutive_n: 1}}";
    let document = Document::new().lane("a", &a).breaker(TWICE).yaml();
    let agent = Agent::start(&document.replace("api_key: null", own)).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    agent.cooled("chat", "a").await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), a.hits()), (503, 1), "{got:?}");
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    assert_eq!(agent.lane("a")["usable"], false);
    agent.apply(&document);
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// Field report B68: the bad key of one caller must not cost the next one the lane.
#[tokio::test]
async fn callers_bad_key_gives_the_probe_back() {
    let a = Upstream::start(completion("hello")).await;
    let document = Document::new()
        .lane("a", &a)
        .breaker(TWICE)
        .pool("upstream_credentials: passthrough");
    a.next(json(503, ""));
    let agent = Agent::start(&document.yaml()).await;
    let ask = |key: &str| {
        chat("chat", false)
            .with("authorization", key)
            .send(agent.address)
    };
    ask("Bearer good").await;
    agent.cooled("chat", "a").await;
    for status in [401, 403] {
        a.next(json(status, r#"{"error":{"message":"your key"}}"#));
        let got = ask("Bearer bad").await;
        assert_eq!(got.status, status);
        assert!(got.body.contains("your key"), "{got:?}");
        assert_eq!(agent.cell("chat", "a")["state"], "half_open");
    }
    assert_eq!(ask("Bearer good").await.status, 200);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// Field report B69: lists and direct calls are none of the pool's business.
#[tokio::test]
async fn calls_beside_the_pool_take_no_probe() {
    let a = Upstream::start(completion("hello")).await;
    let agent = due(&a, Document::new().lane("a", &a).breaker(TWICE)).await;
    for _ in 0..3 {
        assert_eq!(ask_models().send(agent.address).await.status, 200);
        assert_eq!(chat("a", false).send(agent.address).await.status, 200);
    }
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    assert_eq!(agent.cell("", "a")["window"]["ok"], 3);
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// Field report B69: counting tokens is a call like any other, so it reports like any other.
#[tokio::test]
async fn counting_tokens_reports_what_its_probe_proved() {
    let a = Upstream::start(json(503, "")).await;
    let document = Document::new().lane("a", &a).breaker(TWICE);
    let agent = ANTHROPIC.agent(&document).await;
    let count = || {
        chat("chat", false)
            .at("/v1/messages/count_tokens")
            .send(agent.address)
    };
    ANTHROPIC.ask(false).send(agent.address).await;
    agent.cooled("chat", "a").await;
    a.next(json(404, "{}"));
    assert_eq!(count().await.status, 404);
    a.next(json(200, r#"{"input_tokens":3}"#));
    assert_eq!(count().await.status, 200, "the slot was free");
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// Field report B72: dashboards may look as often as they like.
#[tokio::test]
async fn thousand_reads_leave_the_next_request_the_probe() {
    let a = Upstream::start(completion("hello")).await;
    let agent = due(&a, Document::new().lane("a", &a).breaker(TWICE)).await;
    for _ in 0..1_000 {
        let _ = (
            agent.plane.stats(),
            agent.plane.cells(),
            agent.plane.totals(),
            agent.plane.any_lane_usable(),
        );
    }
    for _ in 0..50 {
        agent.metrics();
    }
    // Open with nothing left to wait for, wherever one looks.
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["state"], &cell["cooldown_remaining_s"]),
        (&"open".into(), &0.0.into())
    );
    let report = agent.plane.cells();
    let report = report.iter().find(|cell| &*cell.pool == "chat").unwrap();
    assert_eq!(
        (report.state, report.cooldown_remaining_ms),
        (CellState::Open, 0)
    );
    let line = r#"lanekeeper_breaker_state{pool="chat",lane="a"} 1.0"#;
    assert!(agent.metrics().contains(line));
    assert!(
        agent.plane.any_lane_usable(),
        "a probe would be let through"
    );
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert_eq!(
        (a.hits(), agent.cell("chat", "a")["state"].clone()),
        (2, "closed".into())
    );
}

/// Field report B72: the scheduler moves with requests and with nothing else.
#[tokio::test]
async fn reads_do_not_move_the_turn_of_the_members() {
    let a = Upstream::start(completion("hello")).await;
    let document = Document::new()
        .lane_at("a", a.address, 3, "")
        .lane_at("b", a.address, 1, "");
    let mut orders = Vec::new();
    for reads in [0, 3] {
        let agent = Agent::start(&document.yaml()).await;
        let mut order = String::new();
        for _ in 0..8 {
            for _ in 0..reads {
                let _ = (agent.plane.stats(), agent.metrics(), agent.plane.cells());
                assert!(agent.plane.any_lane_usable());
            }
            let got = chat("chat", false).send(agent.address).await;
            order += got.header("x-lanekeeper-lane").unwrap();
        }
        orders.push(order);
    }
    assert_eq!(orders[0], orders[1]);
    assert_eq!(orders[0].matches('a').count(), 6);
}

/// Field report B74: each further failed probe waits longer, and a recovery forgets it all.
#[tokio::test]
async fn every_failed_probe_lengthens_the_wait_until_a_success() {
    let a = Upstream::start(json(503, "")).await;
    let document = Document::new().lane("a", &a).breaker(
        "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.08, \
         max_cooldown_secs: 0.3, jitter_ratio: 0, jitter_floor_secs: 0}",
    );
    let agent = Agent::start(&document.yaml()).await;
    let fail_for = async |expected: f64| {
        let ((), took) = timed(async {
            chat("chat", false).send(agent.address).await;
            let left = agent.cell("chat", "a")["cooldown_remaining_s"].clone();
            assert!(left.as_f64().unwrap() <= expected, "{left} of {expected}");
            agent.cooled("chat", "a").await;
        })
        .await;
        assert!(took.as_secs_f64() >= expected, "{took:?} of {expected}");
    };
    for expected in [0.08, 0.16, 0.3, 0.3] {
        fail_for(expected).await;
    }
    assert_eq!(a.hits(), 4, "one probe for each cooldown");
    a.next(completion("hello"));
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    fail_for(0.08).await;
}

/// Field report B78: a stream may run for minutes; its first content is proof enough, and its death
/// is news.
#[tokio::test]
async fn streaming_probe_decides_at_its_first_content() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(stream(&["hello"])).await;
    let agent = due(&a, Document::new().lane("a", &a).breaker(TWICE)).await;
    a.next(vec![
        stream_head(),
        chunk(OPENAI.lifecycle),
        chunk(OPENAI.content),
        Step::Gate(Arc::clone(&gate)),
        Step::Close,
    ]);
    let address = agent.address;
    let probe = tokio::spawn(async move { chat("chat", true).send(address).await });
    eventually("the probe's content has come", || {
        agent.cell("chat", "a")["state"] == "closed"
    })
    .await;
    assert!(
        chat("chat", true).send(address).await.whole,
        "others pass while it runs"
    );
    gate.add_permits(1);
    assert!(!probe.await.unwrap().whole);
    agent.settles().await;
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["state"], &cell["trips"]),
        (&"open".into(), &2.into()),
        "a trip of its own: {cell}"
    );
    let left = cell["cooldown_remaining_s"].as_f64().unwrap();
    assert!(left <= 0.2, "which starts at the base, {left}");
}

/// Field reports B80, B81: traffic alone brings a lane back, and no second flag keeps it out.
#[tokio::test]
async fn traffic_alone_recovers_a_lane_once_its_cooldown_is_over() {
    let (a, b) = (
        Upstream::start(ended(&[])).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .breaker(TWICE)
        .pool("failover: {max_hops: 4}");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.header("x-lanekeeper-attempts"), Some("2"));
    assert_eq!((a.hits(), b.hits()), (1, 1), "never twice in one request");
    agent.cooled("chat", "a").await;
    assert_eq!(agent.lane("a")["usable"], true);
    a.always(completion("a"));
    for _ in 0..2 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    assert_eq!(a.hits(), 2);
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["state"], &cell["streak"], &cell["parked_remaining_s"]),
        (&"closed".into(), &0.into(), &0.0.into())
    );
    assert_eq!(agent.lane("a")["ok"], 1);
}
