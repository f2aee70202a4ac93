//! What is bounded in a stream, and what is not: frames, silence before the headers, and time.

use crate::caller::chat;
use crate::dialects::{ALL, ANTHROPIC, OPENAI, ended};
use crate::gateway::{Agent, Document, timed};
use crate::upstream::{
    DONE, FINISH, ROLE, Step, Upstream, chunk, completion, delta, stream, stream_end, stream_head,
};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// More than the largest frame that is kept.
const ENDLESS_BYTES: usize = 17 * 1024 * 1024;

/// Field report B60: a frame without end is a failure of the lane, not the agent's memory.
#[tokio::test]
async fn frame_without_end_fails_the_lane_at_a_bound() {
    let line = format!("data: {}", "x".repeat(ENDLESS_BYTES));
    let lines = "data: x\n".repeat(ENDLESS_BYTES / "data: x\n".len());
    for (dialect, endless) in [(&OPENAI, &line), (&ANTHROPIC, &lines)] {
        let b = dialect.good_stream().await;
        // Before any content it is a hop.
        let a = Upstream::start(ended(&[dialect.lifecycle, endless])).await;
        let agent = dialect
            .agent(&Document::new().lane("a", &a).lane("b", &b))
            .await;
        let got = dialect.ask(true).send(agent.address).await;
        let expected = [dialect.lifecycle, dialect.content, dialect.end].concat();
        assert!(got.whole && got.body == expected, "{}", dialect.protocol);
        agent.settles().await;
        assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "bad_body");
        assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1);

        // After it the caller is told.
        let a = Upstream::start(ended(&[dialect.content, endless])).await;
        let agent = dialect.agent(&Document::new().lane("a", &a)).await;
        let got = dialect.ask(true).send(agent.address).await;
        let told = got.body.strip_prefix(dialect.content).unwrap();
        assert!(
            !got.whole && told.starts_with(dialect.error_event),
            "{} {} {told}",
            got.whole,
            dialect.protocol
        );
        assert!(told.len() < 1024, "nothing of the frame passes");
        agent.settles().await;
        assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1);
    }
}

/// Field report B61: tool arguments and inline images make lines of megabytes.
#[tokio::test]
async fn lines_of_megabytes_pass_byte_for_byte_in_every_protocol() {
    for dialect in ALL {
        for size in [70 * 1024, 1_100_000, 4 * 1024 * 1024] {
            let long = dialect.content.replace("hello", &"x".repeat(size));
            for frames in [
                vec![dialect.lifecycle, &long, dialect.end],
                vec![dialect.lifecycle, dialect.content, &long, dialect.end],
            ] {
                let a = Upstream::start(ended(&frames)).await;
                let agent = dialect.agent(&Document::new().lane("a", &a)).await;
                let got = dialect.ask(true).send(agent.address).await;
                let case = format!("{} {size}", dialect.protocol);
                assert!(got.whole, "{case}: {} bytes came", got.body.len());
                assert!(got.body == frames.concat(), "{case}");
                agent.settles().await;
                assert_eq!(agent.lane("a")["ok"], 1, "{case}");
            }
        }
    }
}

/// Field report B55: the member's bound on silence wins over the lane's, streaming or not.
#[tokio::test]
async fn silence_before_headers_ends_at_the_members_own_bound() {
    for streaming in [false, true] {
        let a = Upstream::start(vec![Step::Hang]).await;
        let good = if streaming {
            stream(&["hello"])
        } else {
            completion("hello")
        };
        let b = Upstream::start(good).await;
        let document = Document::new()
            .lane_at("a", a.address, 1, "attempt_timeout_ms: 10000")
            .lane("b", &b)
            .yaml()
            .replace(
                "{target: a, weight: 1}",
                "{target: a, weight: 1, attempt_timeout_ms: 300}",
            );
        let agent = Agent::start(&document).await;
        let (got, took) = timed(chat("chat", streaming).send(agent.address)).await;
        assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
        assert!((300..2_000).contains(&took.as_millis()), "{took:?}");
        let cell = agent.cell("chat", "a");
        assert_eq!(
            (&cell["window"]["failed"], &cell["cause"]["kind"]),
            (&1.into(), &"timeout".into())
        );
    }
}

/// The opposite of field report B55: a stream that goes on may outlive every bound on its
/// beginning.
#[tokio::test]
async fn healthy_stream_outlives_all_bounds_on_its_beginning() {
    let mut script = vec![stream_head(), chunk(ROLE)];
    for _ in 0..12 {
        script.push(chunk(&delta("x")));
        script.push(Step::Pause(Duration::from_millis(75)));
    }
    script.extend([chunk(FINISH), chunk(DONE), stream_end()]);
    let a = Upstream::start(script).await;
    let document = Document::new()
        .lane_at(
            "a",
            a.address,
            1,
            "attempt_timeout_ms: 250, first_content_timeout_ms: 300, idle_timeout_secs: 0.6",
        )
        .pool("failover: {timeout_secs: 0.4}");
    let agent = Agent::start(&document.yaml()).await;
    let (got, took) = timed(chat("chat", true).send(agent.address)).await;
    assert!(got.whole && got.body.ends_with(DONE), "{got:?}");
    assert!(took > Duration::from_millis(800), "{took:?}");
    agent.settles().await;
    assert_eq!(agent.lane("a")["ok"], 1);
    assert_eq!(agent.lane("a")["failed"], 0);
}

/// Field report B54: headers are no answer. What follows them is bounded by the time of all
/// attempts together, where nothing else bounds it.
#[tokio::test]
async fn silence_behind_the_headers_ends_with_the_budget() {
    let a = Upstream::start(vec![stream_head(), Step::Hang]).await;
    let b = Upstream::start(stream(&["hello"])).await;
    let document = |bound: &str| {
        Document::new()
            .lane_at("a", a.address, 1, bound)
            .lane("b", &b)
            .pool("failover: {timeout_secs: 0.8}")
            .yaml()
    };
    let agent = Agent::start(&document("attempt_timeout_ms: 100")).await;
    let (got, took) = timed(chat("chat", true).send(agent.address)).await;
    assert_eq!(got.status, 503, "{got:?}");
    assert!((750..2_000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1);
    assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "timeout");

    // A bound on the first content leaves time for the sibling.
    let agent = Agent::start(&document("first_content_timeout_ms: 200")).await;
    let got = chat("chat", true).send(agent.address).await;
    assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1);
}

/// A bound on the time of headers is a new one for every new connection.
#[tokio::test]
async fn bound_on_the_callers_headers_follows_the_configuration() {
    let a = Upstream::start(completion("a")).await;
    let document = |secs: f64| {
        Document::new()
            .lane("a", &a)
            .rest(&format!("limits: {{header_timeout_secs: {secs}}}"))
            .yaml()
    };
    let agent = Agent::start(&document(60.0)).await;
    let half_a_head = async || {
        let mut stream = TcpStream::connect(agent.address).await.unwrap();
        stream.write_all(b"POST /v1/").await.unwrap();
        stream
    };
    let mut patient = half_a_head().await;
    // Served behind it, so the listener has accepted the one before.
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    agent.apply(&document(0.3));
    let mut cut = half_a_head().await;
    let mut answer = Vec::new();
    let (read, took) = timed(cut.read_to_end(&mut answer)).await;
    assert!(read.is_ok() && took < Duration::from_secs(5), "{took:?}");
    patient
        .write_all(b"nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    patient.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}
