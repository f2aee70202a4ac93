//! After the first content: how streams end, well and badly.

use crate::caller::{Ask, chat};
use crate::dialects::{ALL, cut};
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{
    DONE, ERROR_FRAME, FINISH, ROLE, Script, Step, Upstream, chunk, completion, delta, stream,
    stream_end, stream_head,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

fn after_content(steps: Vec<Step>) -> Script {
    let mut script = vec![
        stream_head(),
        chunk(ROLE),
        chunk(&delta("hel")),
        chunk(&delta("lo")),
    ];
    script.extend(steps);
    script
}

#[tokio::test]
async fn good_stream_passes_byte_for_byte_and_counts_once() {
    let a = Upstream::start(stream(&["one", "two"])).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let got = chat("chat", true).send(agent.address).await;
    assert!(got.whole);
    let expected = [ROLE, &delta("one"), &delta("two"), FINISH, DONE].concat();
    assert_eq!(got.body, expected);
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
    agent.settles().await;
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["window"]["ok"], &cell["window"]["failed"]),
        (&1.into(), &0.into())
    );
    assert_eq!(agent.lane("a")["ok"], 1);
}

#[tokio::test]
async fn frames_cut_at_every_byte_pass_byte_for_byte() {
    let whole = [
        ROLE,
        &delta("one"),
        ": ping\r\n\r\n",
        &delta("two"),
        FINISH,
        DONE,
    ]
    .concat();
    for size in [1, 2, 3, 7, 50, 120] {
        let mut script = vec![stream_head()];
        let bytes: Vec<char> = whole.chars().collect();
        script.extend(
            bytes
                .chunks(size)
                .map(|piece| chunk(&piece.iter().collect::<String>())),
        );
        script.push(stream_end());
        let a = Upstream::start(script).await;
        let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
        let got = chat("chat", true).send(agent.address).await;
        assert_eq!(
            (got.body.as_str(), got.whole),
            (whole.as_str(), true),
            "pieces of {size}"
        );
        agent.settles().await;
        assert_eq!(agent.lane("a")["ok"], 1);
    }
}

/// Field reports B40, B44, B51.
#[tokio::test]
async fn stream_that_dies_after_content_ends_in_an_error_event_and_a_broken_connection() {
    for (death, steps, kind) in [
        ("cut", vec![Step::Close], "truncated"),
        (
            "reset",
            vec![Step::Pause(Duration::from_millis(50)), Step::Reset],
            "reset",
        ),
        (
            "clean end without a closing frame",
            vec![stream_end()],
            "truncated",
        ),
        ("silence", vec![Step::Hang], "stalled"),
        (
            "pings only",
            (0..20)
                .flat_map(|_| [chunk(": ping\n\n"), Step::Pause(Duration::from_millis(100))])
                .collect(),
            "stalled",
        ),
        (
            "error frame",
            vec![chunk(ERROR_FRAME), chunk(DONE), stream_end()],
            "error_frame",
        ),
        (
            "error frame in one chunk with the success terminator",
            vec![
                chunk(&[&delta("x"), ERROR_FRAME, DONE].concat()),
                stream_end(),
            ],
            "error_frame",
        ),
    ] {
        let a = Upstream::start(after_content(steps)).await;
        let b = Upstream::start(stream(&["other"])).await;
        let document = Document::new()
            .lane_at("a", a.address, 1, "idle_timeout_secs: 0.5")
            .lane("b", &b);
        let agent = Agent::start(&document.yaml()).await;
        let got = chat("chat", true).send(agent.address).await;
        assert_eq!(got.status, 200, "{death}");
        assert!(
            got.body.contains("hel") && got.body.contains("lo"),
            "{death}: {}",
            got.body
        );
        assert!(!got.whole, "{death}: the end must not look regular");
        assert!(!got.body.contains("[DONE]"), "{death}: {}", got.body);
        let last = got.body.trim_end().rsplit("data: ").next().unwrap();
        let event: serde_json::Value = serde_json::from_str(last).unwrap();
        assert!(
            event["error"]["message"].is_string(),
            "{death}: {}",
            got.body
        );
        assert_eq!(got.body.matches("\"error\"").count(), 1, "{death}");
        assert_eq!(b.hits(), 0, "{death}: no hop after content");
        agent.settles().await;
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["window"]["failed"], 1, "{death}: {cell}");
        assert_eq!(cell["window"]["ok"], 0, "{death}: {cell}");
        assert_eq!(cell["cause"]["kind"], kind, "{death}");
        assert_eq!(agent.plane.totals().failed, 1, "{death}");
    }
}

/// Field report B78.
#[tokio::test]
async fn lane_that_always_dies_after_content_trips() {
    let a = Upstream::start(after_content(vec![Step::Close])).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    for _ in 0..8 {
        chat("chat", true).send(agent.address).await;
        agent.settles().await;
    }
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    assert_eq!(a.hits(), 5);
}

/// Field report B51.
#[tokio::test]
async fn finish_without_the_closing_frame_is_accepted() {
    let a = Upstream::start(after_content(vec![chunk(FINISH), stream_end()])).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let got = chat("chat", true).send(agent.address).await;
    assert!(got.whole, "{got:?}");
    agent.settles().await;
    assert_eq!(agent.lane("a")["ok"], 1);
}

/// Field reports B48, B49.
#[tokio::test]
async fn empty_answer_is_relayed_and_proves_nothing() {
    let mut script = vec![
        stream_head(),
        chunk(ROLE),
        chunk(FINISH),
        chunk(DONE),
        stream_end(),
    ];
    let a = Upstream::start(script.clone()).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let got = chat("chat", true).send(agent.address).await;
    assert_eq!((got.status.as_u16(), got.whole), (200, true));
    assert_eq!(got.body, [ROLE, FINISH, DONE].concat());
    agent.settles().await;
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["window"]["ok"], &cell["window"]["failed"]),
        (&0.into(), &0.into())
    );
    // An upstream that keeps the connection after its closing frame holds nobody up.
    script.pop();
    script.push(Step::Hang);
    a.always(script);
    let got = chat("chat", true).send(agent.address).await;
    assert!(got.whole, "{got:?}");
}

#[tokio::test]
async fn first_frame_reaches_the_caller_while_the_rest_is_pending() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(vec![
        stream_head(),
        chunk(&delta("early")),
        Step::Gate(Arc::clone(&gate)),
        chunk(&delta("late")),
        chunk(DONE),
        stream_end(),
    ])
    .await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let address = agent.address;
    let caller = tokio::spawn(async move { chat("chat", true).send(address).await });
    eventually("the first content is booked", || {
        agent.cell("chat", "a")["window"]["ok"] == 1
    })
    .await;
    assert_eq!(
        agent.lane("a")["inflight"],
        1,
        "the permit is held to the end"
    );
    gate.add_permits(1);
    let got = caller.await.unwrap();
    assert!(got.whole && got.body.contains("late"));
}

#[tokio::test]
async fn large_answer_is_relayed_whole() {
    let text = "x".repeat(3 * 1024 * 1024);
    let a = Upstream::start(completion(&text)).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert!(got.whole);
    assert_eq!(
        got.json()["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .len(),
        text.len()
    );
    agent.settles().await;
    assert_eq!(agent.lane("a")["ok"], 1);
}

#[tokio::test]
async fn end_of_the_grace_cuts_streams_with_an_error_event_and_blames_nobody() {
    let a = Upstream::start(after_content(vec![Step::Hang])).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let address = agent.address;
    let caller = tokio::spawn(async move { chat("chat", true).send(address).await });
    eventually("the stream runs", || a.hits() == 1).await;
    eventually("its content has begun", || {
        agent.cell("chat", "a")["window"]["ok"] == 1
    })
    .await;
    agent.drain.closing.cancel();
    let got = caller.await.unwrap();
    assert!(!got.whole);
    assert!(got.body.contains("\"error\""), "{}", got.body);
    agent.settles().await;
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 0);
}

#[tokio::test]
async fn end_of_the_grace_speaks_every_dialect_before_and_after_content() {
    for dialect in ALL {
        let started = |frames: &[&str]| {
            let mut script = cut(frames);
            script.pop();
            script.push(Step::Hang);
            script
        };
        let a = Upstream::start(started(&[dialect.lifecycle])).await;
        a.next(started(&[dialect.lifecycle, dialect.content]));
        let agent = dialect.agent(&Document::new().lane("a", &a)).await;
        let mut running = dialect.ask(true).begin(agent.address).await;
        running.until(dialect.content).await;
        let (ask, address) = (dialect.ask(true), agent.address);
        let waiting = tokio::spawn(async move { ask.send(address).await });
        eventually("the second has its lifecycle frame", || a.hanging() == 2).await;
        agent.drain.closing.cancel();

        let got = running.rest().await;
        let told = got.body.rsplit_once(dialect.content).unwrap().1;
        assert!(
            !got.whole && told.starts_with(dialect.error_event),
            "{told}"
        );
        assert!(told.contains("shutting down"), "{told}");
        let got = waiting.await.unwrap();
        assert_eq!((got.status.as_u16(), got.whole), (503, true), "{got:?}");
        assert!(got.body.contains("shutting down"), "{got:?}");
        assert_eq!(got.header("content-type"), Some("application/json"));
        agent.settles().await;
        assert_eq!(agent.lane("a")["failed"], 0, "{}", dialect.protocol);
    }
}

#[tokio::test]
async fn end_of_the_grace_tells_every_waiting_caller_and_blames_nobody() {
    let a = Upstream::start(vec![Step::Hang]).await;
    let pings = vec![stream_head(), chunk(": ping\n\n"), chunk(ROLE), Step::Hang];
    let b = Upstream::start(pings).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 1")
        .lane_at("b", b.address, 0, "")
        .pool("on_exhausted: {queue: {max_ms: 60000}}");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let ask = |ask: Ask| tokio::spawn(async move { ask.send(address).await });
    let mut callers = vec![ask(chat("chat", false))];
    eventually("the first waits for the lane", || a.hits() == 1).await;
    callers.push(ask(chat("chat", true)));
    callers.push(ask(chat("b", true)));
    eventually("all wait", || {
        let stats = serde_json::to_value(agent.plane.stats()).unwrap();
        b.hits() == 1 && stats["pools"][0]["queued"] == 1
    })
    .await;
    let mut uploading = TcpStream::connect(address).await.unwrap();
    uploading
        .write_all(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        .await
        .unwrap();
    eventually("one still sends its body", || {
        agent.plane.totals().inflight == 4
    })
    .await;
    agent.drain.closing.cancel();
    for caller in callers {
        let got = caller.await.unwrap();
        assert_eq!((got.status.as_u16(), got.whole), (503, true), "{got:?}");
        assert_eq!(got.json()["error"]["code"], "shutting_down");
        assert_eq!(got.header("retry-after"), Some("1"));
    }
    let mut answer = String::new();
    uploading.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("\"overloaded_error\""), "{answer}");
    agent.settles().await;
    let totals = agent.plane.totals();
    assert_eq!((totals.failed, totals.exhausted), (4, 0));
    for lane in ["a", "b"] {
        assert_eq!(agent.lane(lane)["failed"], 0, "{lane}");
        assert_eq!(agent.lane(lane)["requests_spent"], 0, "{lane}");
    }
}

#[tokio::test]
async fn frames_that_come_with_the_first_content_can_still_be_an_error() {
    for (case, tail) in [
        ("no JSON", "data: }{\n\n"),
        ("null", "data: null\n\n"),
        ("the lane's own error", ERROR_FRAME),
        (
            "more content, then no JSON",
            &[&delta("lo"), "data: }{\n\n"].concat(),
        ),
    ] {
        for end in [vec![stream_end()], vec![Step::Close], vec![Step::Hang]] {
            let mut script = vec![stream_head(), chunk(&[ROLE, &delta("hel"), tail].concat())];
            script.extend(end);
            let a = Upstream::start(script).await;
            let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
            let got = chat("chat", true).send(agent.address).await;
            assert!(!got.whole && got.body.contains("hel"), "{case}: {got:?}");
            assert!(!got.body.contains("[DONE]"), "{case}: {got:?}");
            let last = got.body.trim_end().rsplit("data: ").next().unwrap();
            let event: serde_json::Value = serde_json::from_str(last).unwrap();
            assert!(event["error"]["message"].is_string(), "{case}: {got:?}");
            agent.settles().await;
            assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1, "{case}");
        }
    }
}

#[tokio::test]
async fn held_content_lets_an_early_death_fail_over() {
    let a = Upstream::start(after_content(vec![
        Step::Pause(Duration::from_millis(30)),
        Step::Close,
    ]))
    .await;
    let b = Upstream::start(stream(&["other"])).await;
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("failover: {hold_ms: 400}");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", true).send(agent.address).await;
    assert!(got.whole && got.body.contains("other"), "{got:?}");
    assert!(!got.body.contains("hel"), "{}", got.body);
    agent.settles().await;
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1);

    // A stream that outlives the hold is relayed from its beginning.
    a.always(after_content(vec![
        Step::Pause(Duration::from_millis(600)),
        chunk(&delta("!")),
        chunk(DONE),
        stream_end(),
    ]));
    let got = chat("a", true).send(agent.address).await;
    assert!(got.whole, "{got:?}");
}

/// Field report B48.
#[tokio::test]
async fn empty_answer_is_tried_once_more_where_the_provider_says_so() {
    let empty = vec![
        stream_head(),
        chunk(ROLE),
        chunk(FINISH),
        chunk(DONE),
        stream_end(),
    ];
    let a = Upstream::start(empty.clone()).await;
    let b = Upstream::start(stream(&["other"])).await;
    let document = Document::new().lane("a", &a).lane("b", &b).yaml().replace(
        "api_key: null",
        "api_key: null, empty_answer: retry_once_then_failure",
    );
    let agent = Agent::start(&document).await;
    let got = chat("chat", true).send(agent.address).await;
    assert!(got.body.contains("other"), "{got:?}");
    assert_eq!((a.hits(), b.hits()), (2, 1));
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["window"]["failed"], &cell["cause"]["kind"]),
        (&1.into(), &"empty_answer".into())
    );

    a.next(empty);
    a.always(stream(&["hello"]));
    let got = chat("a", true).send(agent.address).await;
    assert!(got.whole && got.body.contains("hello"), "{got:?}");
    assert_eq!(agent.cell("", "a")["window"]["failed"], 0);
}
