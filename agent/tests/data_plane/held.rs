//! What is held back before the commit point, and what happens when it gets too much.

use crate::dialects::{ALL, Dialect, ended};
use crate::gateway::{Agent, Document};
use crate::upstream::{Step, Upstream, chunk, json, stream_end, stream_head};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Opens with the first failure, and soon asks for a probe.
const SHORT: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.1, \
                     max_cooldown_secs: 0.1, jitter_ratio: 0, jitter_floor_secs: 0}";
const PING: &str = ": keep-alive\n\n";
/// More than is held back, and less.
const TOO_MUCH_BYTES: usize = 300 * 1024;
const NOT_TOO_MUCH_BYTES: usize = 200 * 1024;

/// So many bytes of frames that say nothing.
fn chatter(frame: &str, bytes: usize) -> String {
    frame.repeat(bytes / frame.len() + 1)
}

/// A lane whose cell waits for its probe.
async fn due(dialect: &Dialect) -> (Upstream, Upstream, Agent) {
    let a = Upstream::start(json(503, "{}")).await;
    let b = dialect.good_stream().await;
    let document = Document::new()
        .lane_at("a", a.address, 1000, "max_requests: 9")
        .lane("b", &b)
        .breaker(SHORT);
    let agent = dialect.agent(&document).await;
    dialect.ask(true).send(agent.address).await;
    agent.cooled("chat", "a").await;
    (a, b, agent)
}

#[tokio::test]
async fn too_much_before_content_goes_to_the_caller_and_closes_nothing_yet() {
    for dialect in ALL {
        for silence in [PING, dialect.lifecycle] {
            let (a, b, agent) = due(dialect).await;
            let gate = Arc::new(Semaphore::new(0));
            let flood = chatter(silence, TOO_MUCH_BYTES);
            let last = [dialect.content, dialect.end].concat();
            a.always(vec![
                stream_head(),
                chunk(&flood),
                Step::Gate(Arc::clone(&gate)),
                chunk(&last),
                stream_end(),
            ]);
            let mut answer = dialect.ask(true).begin(agent.address).await;
            answer.until(&flood).await;
            let cell = agent.cell("chat", "a");
            assert_eq!(cell["state"], "half_open", "{}", dialect.protocol);
            assert_eq!(cell["window"]["ok"], 0, "{cell}");
            gate.add_permits(1);
            let got = answer.rest().await;
            assert!(
                got.whole && got.body == flood + &last,
                "{}",
                dialect.protocol
            );
            agent.settles().await;
            assert_eq!(agent.cell("chat", "a")["state"], "closed");
            assert_eq!((b.hits(), agent.lane("a")["ok"].clone()), (1, 1.into()));
            assert_eq!(agent.lane("a")["requests_spent"], 1);
        }
    }
}

async fn after_too_much(dialect: &'static Dialect, rest: &str) -> (crate::caller::Got, Agent) {
    let (a, b, agent) = due(dialect).await;
    let flood = chatter(dialect.lifecycle, TOO_MUCH_BYTES);
    a.always(ended(&[&flood, rest]));
    let got = dialect.ask(true).send(agent.address).await;
    agent.settles().await;
    assert!(got.body.starts_with(&flood), "{}", dialect.protocol);
    assert_eq!(
        (got.status.as_u16(), b.hits()),
        (200, 1),
        "it is too late for another lane"
    );
    (got, agent)
}

#[tokio::test]
async fn error_behind_too_much_is_told_in_the_stream_and_fails_the_probe() {
    for dialect in ALL {
        let (got, agent) = after_too_much(dialect, dialect.error).await;
        assert!(
            !got.whole && !got.body.contains(dialect.end),
            "{}",
            dialect.protocol
        );
        let told = &got.body[got.body.len() - dialect.error.len()..];
        assert_eq!(told, dialect.error);
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["state"], "open", "{}: {cell}", dialect.protocol);
        assert_eq!(agent.lane("a")["failed"], 2, "{}", dialect.protocol);
    }
}

#[tokio::test]
async fn end_without_content_behind_too_much_proves_nothing() {
    for dialect in ALL {
        // The end that the others give without text carries text in Gemini's dialect.
        if dialect.protocol == "gemini" {
            continue;
        }
        let (got, agent) = after_too_much(dialect, dialect.end).await;
        assert!(got.whole, "{}", dialect.protocol);
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["state"], "half_open", "{}: {cell}", dialect.protocol);
        assert_eq!(agent.lane("a")["ok"], 0, "{}", dialect.protocol);
    }
}

#[tokio::test]
async fn error_behind_less_than_too_much_goes_to_the_sibling() {
    for dialect in ALL {
        let (a, b, agent) = due(dialect).await;
        let silence = chatter(dialect.lifecycle, NOT_TOO_MUCH_BYTES);
        a.always(ended(&[&silence, dialect.error]));
        let got = dialect.ask(true).send(agent.address).await;
        assert_eq!((got.whole, b.hits()), (true, 2), "{}", dialect.protocol);
        assert_eq!(got.header("x-lanekeeper-lane"), Some("b"));
        assert_eq!(agent.lane("a")["requests_spent"], 0);
    }
}
