//! Each fault before the first content: what the caller sees, what is booked, where it goes next.

use crate::caller::chat;
use crate::gateway::{Agent, Document, timed};
use crate::upstream::{
    ERROR_FRAME, FINISH, ROLE, Script, Step, Upstream, answer, chunk, completion, json, stream,
    stream_end, stream_head,
};
use std::time::Duration;

/// How the failed lane's cell stands after one fault.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Booked {
    /// One failure in the window, of this kind.
    Failure(&'static str),
    /// Open at once, by this kind.
    HardDown(&'static str),
}

fn faults() -> Vec<(&'static str, Script, Booked)> {
    use Booked::{Failure, HardDown};
    let stream_of = |steps: Vec<Step>| {
        let mut script = vec![stream_head()];
        script.extend(steps);
        script
    };
    vec![
        ("503", json(503, "{}"), Failure("status")),
        (
            "500 with html",
            answer(500, &[("content-type", "text/html")], "<html>"),
            Failure("status"),
        ),
        ("529", json(529, "{}"), Failure("overloaded")),
        ("524", json(524, ""), Failure("status")),
        ("408", json(408, "{}"), Failure("status")),
        (
            "429",
            answer(429, &[("retry-after", "7")], "{}"),
            Failure("rate_limit"),
        ),
        (
            "401",
            json(401, r#"{"error":{"message":"bad key sk-secret"}}"#),
            HardDown("auth"),
        ),
        ("403", json(403, "{}"), HardDown("auth")),
        ("402", json(402, "{}"), HardDown("billing")),
        (
            "429 without money",
            json(
                429,
                r#"{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}"#,
            ),
            HardDown("billing"),
        ),
        (
            "302",
            answer(302, &[("location", "http://127.0.0.1:9/")], ""),
            Failure("redirect"),
        ),
        (
            "close without an answer",
            vec![Step::Close],
            Failure("truncated"),
        ),
        (
            "reset without an answer",
            vec![Step::Reset],
            Failure("reset"),
        ),
        (
            "silence before headers",
            vec![Step::Hang],
            Failure("timeout"),
        ),
        (
            "silence after headers",
            stream_of(vec![Step::Hang]),
            Failure("timeout"),
        ),
        (
            "silence after lifecycle frames",
            stream_of(vec![chunk(ROLE), Step::Hang]),
            Failure("timeout"),
        ),
        (
            "200 html",
            answer(200, &[("content-type", "text/html")], "<html>"),
            Failure("bad_body"),
        ),
        ("200 null", json(200, "null"), Failure("bad_body")),
        ("200 without bytes", json(200, ""), Failure("bad_body")),
        (
            "200 broken json",
            json(200, r#"{"choices":["#),
            Failure("bad_body"),
        ),
        (
            "200 with an error object",
            json(
                200,
                r#"{"error":{"message":"x","code":"rate_limit_exceeded"}}"#,
            ),
            Failure("rate_limit"),
        ),
        (
            "error frame first",
            stream_of(vec![chunk(ERROR_FRAME), stream_end()]),
            Failure("error_frame"),
        ),
        (
            "error frame after lifecycle",
            stream_of(vec![chunk(ROLE), chunk(ERROR_FRAME), stream_end()]),
            Failure("error_frame"),
        ),
        (
            "comments and then the end",
            stream_of(vec![
                chunk(": keep-alive\n\n"),
                chunk(": keep-alive\n\n"),
                stream_end(),
            ]),
            Failure("truncated"),
        ),
        (
            "cut after lifecycle",
            stream_of(vec![chunk(ROLE), Step::Close]),
            Failure("truncated"),
        ),
    ]
}

/// Field reports B14, B40, B45 to B48, B55.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_before_content_goes_to_the_sibling_and_is_booked() {
    for streaming in [false, true] {
        for (fault, script, booked) in faults() {
            let good = if streaming {
                stream(&["hello"])
            } else {
                completion("hello")
            };
            let (a, b) = (Upstream::start(script).await, Upstream::start(good).await);
            let document = Document::new()
                .lane_at(
                    "a",
                    a.address,
                    1,
                    "attempt_timeout_ms: 150, first_content_timeout_ms: 300",
                )
                .lane("b", &b);
            let agent = Agent::start(&document.yaml()).await;
            let got = chat("chat", streaming).send(agent.address).await;
            let case = format!("{fault}, stream {streaming}");
            assert_eq!(got.status, 200, "{case}: {got:?}");
            assert!(got.body.contains("hello") && got.whole, "{case}: {got:?}");
            assert!(!got.body.contains("secret"), "{case}");
            assert_eq!(
                got.body.matches("\"role\"").count(),
                1,
                "{case}: {}",
                got.body
            );
            assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{case}");
            assert_eq!(got.header("x-lanekeeper-attempts"), Some("2"), "{case}");
            assert_eq!((a.hits(), b.hits()), (1, 1), "{case}");
            agent.settles().await;

            let cell = agent.cell("chat", "a");
            let kind = cell["cause"]["kind"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            match booked {
                Booked::Failure(expected) => {
                    assert_eq!(cell["state"], "closed", "{case}: {cell}");
                    assert_eq!(cell["window"]["failed"], 1, "{case}: {cell}");
                    assert_eq!(kind, expected, "{case}");
                }
                Booked::HardDown(expected) => {
                    assert_eq!(cell["state"], "open", "{case}: {cell}");
                    assert!(
                        cell["cooldown_remaining_s"].as_f64().unwrap() > 1500.0,
                        "{case}"
                    );
                    assert_eq!(kind, expected, "{case}");
                }
            }
            assert_eq!(agent.lane("a")["failed"], 1, "{case}");
            assert_eq!(agent.lane("a")["requests_spent"], 0, "{case}: refunded");
            assert_eq!(agent.lane("b")["ok"], 1, "{case}");
            assert_eq!(agent.lane("b")["requests_spent"], 1, "{case}");
            let totals = agent.plane.totals();
            assert_eq!(
                (totals.ok, totals.failed, totals.failovers),
                (1, 0, 1),
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn event_stream_for_a_call_that_wants_one_document_is_a_bad_body() {
    let empty = vec![stream_head(), chunk(ROLE), chunk(FINISH), stream_end()];
    for script in [stream(&["hel", "lo"]), empty] {
        let (a, b) = (
            Upstream::start(script).await,
            Upstream::start(completion("hello")).await,
        );
        let agent = Agent::start(&Document::new().lane("a", &a).lane("b", &b).yaml()).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(
            (got.status.as_u16(), got.header("x-lanekeeper-lane")),
            (200, Some("b"))
        );
        assert_eq!(got.header("content-type"), Some("application/json"));
        assert_eq!(got.json()["choices"][0]["message"]["content"], "hello");
        assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "bad_body");
        assert_eq!(agent.lane("a")["failed"], 1);
    }
}

/// Field report B35.
#[tokio::test]
async fn refused_connection_and_unknown_host_go_to_the_sibling() {
    let b = Upstream::start(completion("hello")).await;
    // Bound and dropped: nobody listens there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let document = Document::new().lane_at("a", nobody, 1, "").lane("b", &b);
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(
        (got.status.as_u16(), got.header("x-lanekeeper-lane")),
        (200, Some("b"))
    );
    assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "connect");
}

/// Field report B80.
#[tokio::test]
async fn lane_of_a_failed_request_is_not_asked_twice() {
    let a = Upstream::start(json(503, "{}")).await;
    let document = Document::new()
        .lane("a", &a)
        .pool("failover: {max_hops: 5}");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 503, "{got:?}");
    assert_eq!(a.hits(), 1);
}

#[tokio::test]
async fn lane_whose_kept_connection_dies_at_work_gets_the_request_once() {
    for death in [Step::Close, Step::Reset] {
        let a = Upstream::start(vec![Step::Pause(Duration::from_millis(400)), death]).await;
        let b = Upstream::start(completion("other")).await;
        a.next(completion("hello"));
        let document = Document::new()
            .lane_at("a", a.address, 1000, "")
            .lane("b", &b);
        let agent = Agent::start(&document.yaml()).await;
        let got = chat("chat", false).send(agent.address).await;
        assert!(got.body.contains("hello"), "{got:?}");
        let got = chat("chat", false).send(agent.address).await;
        assert!(got.body.contains("other"), "{got:?}");
        assert_eq!(got.header("x-lanekeeper-attempts"), Some("2"));
        assert_eq!((a.hits(), b.hits()), (2, 1));
        assert_eq!(agent.cell("chat", "a")["window"]["failed"], 1);
    }
}

#[tokio::test]
async fn hops_end_at_their_bound() {
    let bad = Upstream::start(json(503, "{}")).await;
    let good = Upstream::start(completion("hello")).await;
    let document = Document::new()
        .lane("a", &bad)
        .lane("b", &bad)
        .lane("c", &bad)
        .lane("d", &good)
        .pool("failover: {max_hops: 2}");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), bad.hits()), (503, 3), "{got:?}");
    assert_eq!(got.header("x-lanekeeper-attempts"), Some("3"));
}

#[tokio::test]
async fn one_deadline_covers_all_attempts() {
    let hanging = Upstream::start(vec![Step::Hang]).await;
    let mut document = Document::new();
    for name in ["a", "b", "c", "d", "e"] {
        document = document.lane_at(name, hanging.address, 1, "attempt_timeout_ms: 300");
    }
    let document = document.pool("failover: {timeout_secs: 0.7, max_hops: 9}");
    let agent = Agent::start(&document.yaml()).await;
    let (got, took) = timed(chat("chat", false).send(agent.address)).await;
    assert_eq!(got.status, 503, "{got:?}");
    assert!(got.header("retry-after").is_some());
    assert!((600..1200).contains(&took.as_millis()), "{took:?}");
    assert_eq!(
        hanging.hits(),
        3,
        "the third attempt is cut to what is left"
    );
}

#[tokio::test]
async fn every_hop_gets_the_untouched_body_its_own_model_and_no_foreign_key() {
    let (a, b) = (
        Upstream::start(json(503, "{}")).await,
        Upstream::start(completion("hello")).await,
    );
    let agent = Agent::start(&Document::new().lane("a", &a).lane("b", &b).yaml()).await;
    let body = r#"{ "model" : "chat", "messages":[{"role":"user","content":"é \u00e9 chat"}], "x": 1.50 }"#;
    let got = chat("chat", false)
        .body(body)
        .with("authorization", "Bearer callers-key")
        .with("cookie", "session=1")
        .with("x-custom", "kept")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 200);
    for (upstream, model) in [(&a, "up-a"), (&b, "up-b")] {
        let seen = &upstream.seen()[0];
        assert_eq!(
            seen.body,
            body.replacen("\"chat\"", &format!("\"{model}\""), 1)
        );
        assert_eq!(seen.path, "/v1/chat/completions");
        assert_eq!(seen.header("authorization"), None);
        assert_eq!(seen.header("cookie"), None);
        assert_eq!(seen.header("x-custom"), Some("kept"));
        assert_eq!(
            seen.header("host"),
            Some(upstream.address.to_string().as_str())
        );
    }
}

/// Field report B26.
#[tokio::test]
async fn clients_fault_is_relayed_verbatim_and_proves_nothing() {
    let body = r#"{"error":{"message":"no such tool","type":"invalid_request_error"}}"#;
    let a = Upstream::start(json(400, body)).await;
    let b = Upstream::start(completion("hello")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).lane("b", &b).yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), got.body.as_str()), (400, body));
    assert_eq!(b.hits(), 0);
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["window"]["failed"], &cell["window"]["ok"]),
        (&0.into(), &0.into())
    );
    assert_eq!(agent.lane("a")["client_fault"], 1);
    assert_eq!(agent.plane.totals().failed, 0);
}

/// Field report B31.
#[tokio::test]
async fn request_too_long_for_a_lane_goes_to_a_larger_one_without_penalty() {
    let words = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let small = Upstream::start(json(400, words)).await;
    let other = Upstream::start(completion("small")).await;
    let large = Upstream::start(completion("large")).await;
    let document = |with_large: bool| {
        let document = Document::new()
            .lane_at("a", small.address, 1, "context_max: 8192")
            .lane_at("b", other.address, 1, "context_max: 4096");
        if with_large {
            document
                .lane_at("c", large.address, 1, "context_max: 100000")
                .yaml()
        } else {
            document.yaml()
        }
    };
    let agent = Agent::start(&document(true)).await;
    let got = chat("chat", false).send(agent.address).await;
    assert!(got.body.contains("large"), "{got:?}");
    assert_eq!(other.hits(), 0, "smaller lanes are not asked");
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 0);

    let agent = Agent::start(&document(false)).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), got.body.as_str()), (400, words));
}

/// Field report B22.
#[tokio::test]
async fn refused_credential_without_a_sibling_is_an_auth_error_of_our_own_words() {
    let a = Upstream::start(json(401, r#"{"error":{"message":"key sk-secret"}}"#)).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 401);
    assert!(!got.body.contains("sk-secret"), "{}", got.body);
    assert_eq!(got.json()["error"]["type"], "authentication_error");
    assert_eq!(agent.lane("a")["usable"], false);
    assert_eq!(agent.lane("a")["dead"], false);
    assert_eq!(
        agent.lane("a")["dead_reason"],
        "auth rejected: the provider refuses the key (status 401)"
    );
    assert!(!agent.plane.any_lane_usable());
}

#[tokio::test]
async fn surfaced_auth_failure_does_not_hop() {
    let (a, b) = (
        Upstream::start(json(401, "{}")).await,
        Upstream::start(completion("hello")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("on_auth_down: surface");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), b.hits()), (401, 0));
}

#[tokio::test]
async fn request_that_poisons_lanes_counts_against_the_first_only() {
    let (a, b) = (
        Upstream::start(json(500, "{}")).await,
        Upstream::start(json(500, "{}")).await,
    );
    let agent = Agent::start(&Document::new().lane("a", &a).lane("b", &b).yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 503);
    let failed = |lane| {
        agent.cell("chat", lane)["window"]["failed"]
            .as_u64()
            .unwrap()
    };
    assert_eq!((failed("a"), failed("b")), (1, 0));

    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .breaker("{poison_guard: false}");
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    let failed = |lane| {
        agent.cell("chat", lane)["window"]["failed"]
            .as_u64()
            .unwrap()
    };
    assert_eq!((failed("a"), failed("b")), (1, 1));
}

#[tokio::test]
async fn lane_is_tried_again_in_place_when_the_pool_says_so() {
    let a = Upstream::start(completion("hello")).await;
    let b = Upstream::start(completion("other")).await;
    a.next(json(500, "{}"));
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("failover: {same_lane_retries: 1, retry_backoff_ms: 1}");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(
        (got.status.as_u16(), a.hits(), b.hits()),
        (200, 2, 0),
        "{got:?}"
    );
    let window = &agent.cell("chat", "a")["window"];
    assert_eq!((&window["ok"], &window["failed"]), (&1.into(), &1.into()));
}

#[tokio::test]
async fn weights_are_exact_over_requests() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane_at("a", a.address, 3, "")
        .lane_at("b", b.address, 1, "");
    let agent = Agent::start(&document.yaml()).await;
    for _ in 0..40 {
        chat("chat", false).send(agent.address).await;
    }
    assert_eq!((a.hits(), b.hits()), (30, 10));
}

#[tokio::test]
async fn drained_and_excluded_members_are_never_selected() {
    let (a, b, c) = (
        Upstream::start(json(503, "{}")).await,
        Upstream::start(completion("b")).await,
        Upstream::start(completion("c")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane_at("b", b.address, 0, "")
        .lane("c", &c)
        .pool("failover: {exclusions: [c]}");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), b.hits(), c.hits()), (503, 0, 0));
}

/// Field report B55.
#[tokio::test]
async fn slow_but_healthy_answer_is_no_failure() {
    let slow = vec![
        stream_head(),
        Step::Pause(Duration::from_millis(300)),
        chunk(&crate::upstream::delta("hello")),
        chunk(crate::upstream::DONE),
        stream_end(),
    ];
    let a = Upstream::start(slow).await;
    // Only the headers are bounded: the stream may take its time.
    let document = Document::new().lane_at("a", a.address, 1, "attempt_timeout_ms: 100");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", true).send(agent.address).await;
    assert!(got.whole && got.body.contains("hello"), "{got:?}");
    agent.settles().await;
    assert_eq!(agent.lane("a")["ok"], 1);
}
