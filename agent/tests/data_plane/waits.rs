//! Waits told apart: a healthy lane that is slow in one of them is not a failing one.

use crate::caller::chat;
use crate::dialects::{ALL, OPENAI};
use crate::gateway::{Agent, Document};
use crate::upstream::{Script, Step, Upstream, chunk, completion, stream_end};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longer than ten seconds, which a bound on the whole attempt would cut healthy thought off at.
const SLOW: Duration = Duration::from_millis(10_500);

fn after(pause: Duration, script: Script) -> Script {
    let mut steps = vec![Step::Pause(pause)];
    steps.extend(script);
    steps
}

/// Traffic finding T1: an answer that is not streamed has its headers when the model is done.
#[tokio::test]
async fn slow_answers_cost_one_attempt_with_the_defaults_of_every_dialect() {
    let mut waiting = Vec::new();
    for dialect in ALL {
        for stream in [false, true] {
            waiting.push(tokio::spawn(async move {
                let script = after(SLOW, dialect.answer(stream));
                let a = Upstream::start(script.clone()).await;
                let b = Upstream::start(script).await;
                let document = Document::new().lane("a", &a).lane("b", &b);
                let agent = dialect.agent(&document).await;
                let got = dialect.ask(stream).send(agent.address).await;
                let case = (dialect.protocol, stream);
                assert_eq!(got.status, 200, "{case:?}: {}", got.body);
                assert_eq!(a.hits() + b.hits(), 1, "{case:?}");
                for lane in ["a", "b"] {
                    assert_eq!(agent.cell("chat", lane)["state"], "closed", "{case:?}");
                    assert_eq!(agent.lane(lane)["failed"], 0, "{case:?}");
                }
            }));
        }
    }
    for waiting in waiting {
        waiting.await.unwrap();
    }
}

/// A number counts for both kinds of calls.
#[tokio::test]
async fn bound_of_the_operator_counts_for_calls_that_stream_and_for_others() {
    for stream in [false, true] {
        let a = Upstream::start(after(Duration::from_secs(5), completion("late"))).await;
        let b = Upstream::start(if stream {
            OPENAI.answer(true)
        } else {
            completion("quick")
        })
        .await;
        let document = Document::new()
            .lane_at("a", a.address, 1000, "attempt_timeout_ms: 200")
            .lane("b", &b);
        let agent = Agent::start(&document.yaml()).await;
        let got = chat("chat", stream).send(agent.address).await;
        assert_eq!(
            (got.status.as_u16(), got.header("x-lanekeeper-lane")),
            (200, Some("b"))
        );
        assert_eq!(agent.lane("a")["failed"], 1);
    }
}

/// Traffic finding T8: a lane that sends pings lives, one that sends nothing does not.
#[tokio::test]
async fn pings_after_content_count_against_another_bound_than_silence() {
    for dialect in ALL {
        let fields = "idle_timeout_secs: 0.6, content_idle_timeout_secs: 30";
        let mut script = dialect.begun();
        for _ in 0..8 {
            script.push(Step::Pause(Duration::from_millis(200)));
            script.push(chunk(": ping\n\n"));
        }
        script.push(chunk(dialect.end));
        script.push(stream_end());
        let a = Upstream::start(script).await;
        let document = Document::new().lane_at("a", a.address, 1, fields);
        let agent = dialect.agent(&document).await;
        let got = dialect.ask(true).send(agent.address).await;
        assert!(got.whole, "{}: {got:?}", dialect.protocol);
        assert_eq!(agent.lane("a")["failed"], 0, "{}", dialect.protocol);
    }
}

/// A stream that is opened early says that it lives, and failover goes on behind it.
#[tokio::test]
async fn silent_stream_is_kept_open_while_failover_goes_on() {
    for dialect in ALL {
        let a = Upstream::start(after(Duration::from_millis(600), vec![Step::Reset])).await;
        let b = Upstream::start(dialect.answer(true)).await;
        let document = Document::new()
            .lane_at("a", a.address, 1000, "")
            .lane("b", &b)
            .pool("keepalive_after_secs: 0.2");
        let agent = dialect.agent(&document).await;
        let got = dialect.ask(true).send(agent.address).await;
        let case = dialect.protocol;
        assert_eq!(got.status, 200, "{case}");
        assert!(
            got.body.starts_with(": keep-alive\n\n"),
            "{case}: {}",
            got.body
        );
        assert!(
            got.whole && got.body.contains(dialect.end.trim()),
            "{case}: {}",
            got.body
        );
        assert_eq!((a.hits(), b.hits()), (1, 1), "{case}");
    }
}

/// Once it is open, only an event can say that nothing came of it.
#[tokio::test]
async fn stream_that_was_opened_early_and_fails_ends_with_an_error_event() {
    for dialect in ALL {
        let script = after(Duration::from_millis(600), vec![Step::Reset]);
        let a = Upstream::start(script).await;
        let document = Document::new()
            .lane("a", &a)
            .pool("keepalive_after_secs: 0.2");
        let agent = dialect.agent(&document).await;
        let got = dialect.ask(true).send(agent.address).await;
        let case = dialect.protocol;
        assert_eq!((got.status.as_u16(), got.ended), (200, true), "{case}");
        let behind = got.body.trim_start_matches(": keep-alive\n\n");
        assert!(
            behind.starts_with(dialect.error_event),
            "{case}: {}",
            got.body
        );
        assert!(!got.whole, "{case}: the connection ends");
        agent.settles().await;
    }
}

/// What takes less is answered as ever, with its status.
#[tokio::test]
async fn quick_answers_of_a_pool_that_keeps_streams_open_are_answered_as_ever() {
    let a = Upstream::start(vec![Step::Reset]).await;
    let document = Document::new()
        .lane("a", &a)
        .pool("keepalive_after_secs: 5");
    let agent = Agent::start(&document.yaml()).await;
    assert_eq!(chat("chat", true).send(agent.address).await.status, 503);
    a.always(completion("hello"));
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}

/// Traffic finding T12: silence is bounded, not a steady slow upload.
#[tokio::test]
async fn steady_slow_upload_is_served_and_a_silent_one_is_not() {
    let a = Upstream::start(completion("hello")).await;
    let rest = "limits: {body_timeout_secs: 0.5}";
    let agent = Agent::start(&Document::new().lane("a", &a).rest(rest).yaml()).await;
    let body = format!(
        r#"{{"model":"chat","messages":[],"pad":"{}"}}"#,
        "x".repeat(2000)
    );
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    for (pieces, status) in [(20, "200"), (2, "408")] {
        let mut stream = TcpStream::connect(agent.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        for piece in body.as_bytes().chunks(body.len() / pieces + 1) {
            if stream.write_all(piece).await.is_err() {
                break;
            }
            // Much less than the bound in twenty pieces, much more in two.
            tokio::time::sleep(Duration::from_millis(2400) / pieces as u32).await;
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{pieces}: {answer}"
        );
    }
}

/// Bodies that are not finished are bounded over all requests.
#[tokio::test]
async fn unfinished_bodies_take_no_more_than_the_room_and_small_ones_still_pass() {
    let a = Upstream::start(completion("hello")).await;
    let rest = "limits: {body_max_bytes: 262144, bodies_max_bytes: 1048576, body_timeout_secs: 30}";
    let agent = Agent::start(&Document::new().lane("a", &a).rest(rest).yaml()).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 262144\r\n\r\n";
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..10 {
        let mut stream = TcpStream::connect(agent.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; 262_143]).await.unwrap();
        open.push(stream);
    }
    for stream in &mut open {
        let mut some = [0; 512];
        let read = tokio::time::timeout(Duration::from_secs(3), stream.read(&mut some)).await;
        if let Ok(Ok(read)) = read {
            let answer = String::from_utf8_lossy(&some[..read]).into_owned();
            assert!(
                answer.starts_with("HTTP/1.1 503") && answer.contains("busy"),
                "{answer}"
            );
            assert!(
                answer.to_ascii_lowercase().contains("retry-after: 1\r\n"),
                "{answer}"
            );
            refused += 1;
        }
    }
    assert!((6..10).contains(&refused), "{refused}");
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}
