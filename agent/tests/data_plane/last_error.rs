//! Whose words a caller gets when every lane failed, and whose account an answer is about.

use crate::caller::chat;
use crate::dialects::ALL;
use crate::gateway::{Agent, Document};
use crate::upstream::{Upstream, answer, completion, json};

const BUSY: &str = r#"{"error":{"message":"the lane's own words","code":"overloaded"}}"#;

/// Traffic finding T23: with one member there is nothing else to tell.
#[tokio::test]
async fn last_lanes_answer_is_relayed_where_the_pool_says_so() {
    for (pool, lanes, relayed) in [
        ("last_error: auto", 1, true),
        ("last_error: auto", 2, false),
        ("last_error: relay", 2, true),
        ("last_error: own", 1, false),
        ("last_error: auto\non_exhausted: fail_open", 2, true),
    ] {
        for status in [500, 502, 503, 504, 408, 501, 529] {
            let a = Upstream::start(answer(status, &[("retry-after", "7")], BUSY)).await;
            let mut document = Document::new().pool(pool);
            for lane in ["a", "b"].iter().take(lanes) {
                document = document.lane(lane, &a);
            }
            let agent = Agent::start(&document.yaml()).await;
            let got = chat("chat", false).send(agent.address).await;
            let case = format!("{pool} {lanes} {status}: {got:?}");
            if relayed {
                assert_eq!(
                    (got.status.as_u16(), got.body.as_str()),
                    (status, BUSY),
                    "{case}"
                );
                assert_eq!(got.header("retry-after"), Some("7"), "{case}");
            } else {
                assert_eq!(got.status, 503, "{case}");
                assert_eq!(got.json()["error"]["code"], "upstream_failed", "{case}");
                let last = got.header("x-lanekeeper-last-status");
                assert_eq!(last, Some(status.to_string().as_str()), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn answers_about_the_gateways_account_or_with_its_key_are_never_relayed() {
    let key = "KEY-OF-THE-GATEWAY";
    for (status, body) in [
        (401, BUSY.to_owned()),
        (402, BUSY.to_owned()),
        (403, BUSY.to_owned()),
        (302, BUSY.to_owned()),
        (500, BUSY.replace("own", key)),
    ] {
        let a = Upstream::start(json(status, &body)).await;
        let document = Document::new().lane("a", &a).pool("last_error: relay");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, key).unwrap();
        let file = format!("api_key: {{file: {}}}", file.display());
        let agent = Agent::start(&document.yaml().replace("api_key: null", &file)).await;
        let got = chat("chat", false).send(agent.address).await;
        assert!(
            !got.body.contains("words") && !got.body.contains(key),
            "{status}: {got:?}"
        );
    }
}

/// The limits that a vendor names stay on a 429 of the agent's own.
#[tokio::test]
async fn limits_of_the_last_lane_stay_on_a_429() {
    let headers = [
        ("retry-after", "3"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("anthropic-ratelimit-tokens-reset", "2026-12-01T00:00:00Z"),
        ("x-should-retry", "true"),
    ];
    let a = Upstream::start(answer(429, &headers, BUSY)).await;
    let document = Document::new().lane("a", &a).lane("b", &a);
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 429);
    for (name, value) in headers.into_iter().skip(1) {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn request_is_named_as_the_provider_names_it() {
    let a = Upstream::start(answer(200, &[("x-request-id", "theirs")], ALL[0].whole)).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let got = chat("chat", false)
        .with("x-request-id", "mine")
        .send(agent.address)
        .await;
    assert_eq!(got.header("x-request-id"), Some("mine"));
    assert_eq!(
        got.header("x-lanekeeper-upstream-request-id"),
        Some("theirs")
    );
}

/// Traffic finding T6: what is said of the caller's own account is the caller's.
#[tokio::test]
async fn callers_own_account_benches_no_lane() {
    for dialect in ALL {
        for status in [401, 402, 403, 429] {
            for breaker in ["{}", "{preset: rolter}", "{preset: aibridge}"] {
                let headers = [("retry-after", "86400")];
                let a = Upstream::start(answer(status, &headers, BUSY)).await;
                let document = Document::new()
                    .lane("a", &a)
                    .breaker(breaker)
                    .pool("upstream_credentials: passthrough");
                let agent = dialect.agent(&document).await;
                for _ in 0..6 {
                    let got = dialect.ask(false).send(agent.address).await;
                    assert_eq!((got.status.as_u16(), got.body.as_str()), (status, BUSY));
                }
                let cell = agent.cell("chat", "a");
                let case = format!("{} {status} {breaker}: {cell}", dialect.protocol);
                assert_eq!(
                    (&cell["state"], &cell["streak"]),
                    (&"closed".into(), &0.into()),
                    "{case}"
                );
                assert_eq!(cell["parked_remaining_s"], 0.0, "{case}");
            }
        }
    }
}

/// Traffic finding T5: one request is evidence against one lane at most.
#[tokio::test]
async fn one_request_hard_downs_one_lane_at_most() {
    let refused = r#"{"error":{"message":"m","code":"account_deactivated"}}"#;
    let lanes = [403, 403, 401, 402]
        .map(|status| async move { Upstream::start(json(status, refused)).await });
    let mut document = Document::new();
    for (name, lane) in ["a", "b", "c", "d"].into_iter().zip(lanes) {
        document = document.lane(name, &lane.await);
    }
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    let open = ["a", "b", "c", "d"]
        .iter()
        .filter(|lane| agent.cell("chat", lane)["state"] == "open")
        .count();
    assert_eq!(open, 1);
}

/// Traffic finding T4: a model that is gone at one provider is that lane's fault.
#[tokio::test]
async fn missing_model_fails_over_benches_and_is_a_problem() {
    let gone =
        r#"{"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}"#;
    let a = Upstream::start(json(404, gone)).await;
    let b = Upstream::start(completion("hello")).await;
    let document = Document::new().lane("a", &a).lane("b", &b);
    let agent = Agent::start(&document.yaml()).await;
    for _ in 0..12 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    assert_eq!(a.hits(), 1);
    assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "model_missing");
    let problems = agent.plane.problems();
    assert!(
        problems
            .iter()
            .any(|it| it.contains("models.a") && it.contains("up-a")),
        "{problems:?}"
    );
    // With no member left it is the lane's own answer.
    b.always(json(404, gone));
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), got.body.as_str()), (404, gone));
}
