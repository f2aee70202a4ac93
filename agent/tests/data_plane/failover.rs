//! The way from lane to lane: bounds, bodies, retries, and what a failure hands on. What each fault
//! means by itself is in `scenarios.rs`.

use crate::caller::chat;
use crate::gateway::{Agent, Document, timed};
use crate::upstream::{
    FINISH, ROLE, Step, Upstream, chunk, completion, json, stream, stream_end, stream_head,
};
use std::time::Duration;

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
    for (name, bound) in [("a", 50), ("b", 50), ("c", 60_000), ("d", 60_000)] {
        let bound = format!("attempt_timeout_ms: {bound}");
        document = document.lane_at(name, hanging.address, 1, &bound);
    }
    // The first two attempts leave most of it, whatever else the machine has to do.
    let document = document.pool("failover: {timeout_secs: 2, max_hops: 9}");
    let agent = Agent::start(&document.yaml()).await;
    let (got, took) = timed(chat("chat", false).send(agent.address)).await;
    assert_eq!(got.status, 503, "{got:?}");
    assert!(got.header("retry-after").is_some());
    assert!((1990..30_000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(
        hanging.hits(),
        3,
        "the third attempt is cut to what is left, and nothing is left for a fourth"
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
        .with("x-title", "kept")
        .with("x-custom", "dropped")
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
        assert_eq!(seen.header("x-title"), Some("kept"));
        assert_eq!(seen.header("x-custom"), None);
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
