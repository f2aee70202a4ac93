//! What each answer of a provider proves about its lane, and what the caller sees of it.

use crate::caller::chat;
use crate::dialects::{ALL, ANTHROPIC, COHERE, Dialect, GEMINI, OPENAI, RESPONSES};
use crate::gateway::{Agent, Document, eventually, timed};
use crate::upstream::{Script, Step, Upstream, answer, completion, json};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Trips with the first failure; the cooldown doubles twice.
const SHORT: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.1, \
                     max_cooldown_secs: 0.4, hard_down_cooldown_secs: 0.1, jitter_ratio: 0, \
                     jitter_floor_secs: 0}";

fn window(cell: &Value) -> (u64, u64) {
    let count = |name: &str| cell["window"][name].as_u64().unwrap();
    (count("ok"), count("failed"))
}

/// A pool over `a` and a healthy `b`.
async fn beside_a_good_one(dialect: &Dialect, script: Script) -> (Upstream, Upstream, Agent) {
    let a = Upstream::start(script).await;
    let b = Upstream::start(json(200, dialect.whole)).await;
    let document = Document::new().lane("a", &a).lane("b", &b);
    let agent = dialect.agent(&document).await;
    (a, b, agent)
}

/// Field reports B14, B18, B19, B21, B22: without money or a good key the lane is out at once, the
/// caller has its answer, and never reads what the account looks like.
#[tokio::test]
async fn refused_accounts_bench_the_lane_at_once_and_the_sibling_answers() {
    let quota = r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"secret plan"}}"#;
    let mut rows = vec![
        (&OPENAI, 429, quota, "billing"),
        (&RESPONSES, 429, quota, "billing"),
        (
            &OPENAI,
            402,
            r#"{"error":{"code":402,"message":"secret: insufficient credits"}}"#,
            "billing",
        ),
        (
            &OPENAI,
            402,
            r#"{"error":{"code":402,"message":"secret: fewer max_tokens, or more credits"}}"#,
            "billing",
        ),
        (
            &ANTHROPIC,
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the secret API."}}"#,
            "billing",
        ),
        (
            &GEMINI,
            400,
            r#"{"error":{"code":400,"message":"secret","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#,
            "auth",
        ),
    ];
    for dialect in ALL {
        let body = r#"{"error":{"message":"secret"},"message":"secret"}"#;
        rows.extend([
            (dialect, 401, body, "auth"),
            (dialect, 402, body, "billing"),
        ]);
    }
    let refused = r#"{"error":{"message":"secret","type":"x","code":"account_deactivated"}}"#;
    rows.extend([
        (&OPENAI, 403, refused, "auth"),
        (&RESPONSES, 403, refused, "auth"),
        (
            &ANTHROPIC,
            403,
            r#"{"type":"error","error":{"type":"permission_error","message":"secret"}}"#,
            "auth",
        ),
        (
            &GEMINI,
            403,
            r#"{"error":{"code":403,"message":"secret","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_DISABLED"}]}}"#,
            "auth",
        ),
    ]);
    for (dialect, status, body, kind) in rows {
        let case = format!("{} {status} {body}", dialect.protocol);
        let (a, b, agent) = beside_a_good_one(dialect, json(status, body)).await;
        let got = dialect.ask(false).send(agent.address).await;
        assert_eq!(got.status, 200, "{case}");
        assert_eq!(got.body, dialect.whole, "{case}");
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["state"], "open", "{case}: {cell}");
        assert_eq!(cell["cause"]["kind"], kind, "{case}");
        let remaining = cell["cooldown_remaining_s"].as_f64().unwrap();
        assert!((1_600.0..2_000.0).contains(&remaining), "{case}: {cell}");
        assert_eq!((a.hits(), b.hits()), (1, 1), "{case}");

        // With no sibling left the answer is the agent's own.
        b.always(json(status, body));
        let got = dialect.ask(false).send(agent.address).await;
        let refused = if kind == "auth" { 401 } else { 503 };
        assert_eq!(got.status, refused, "{case}: {got:?}");
        assert!(!got.body.contains("secret"), "{case}: {}", got.body);
        let got = dialect.ask(false).send(agent.address).await;
        assert_eq!(got.status, 503, "{case}");
        assert!(!got.body.contains("secret"), "{case}: {}", got.body);
        let wait: u64 = got.header("retry-after").unwrap().parse().unwrap();
        assert!((1_500..2_100).contains(&wait), "{case}: {wait}");
        assert_eq!((a.hits(), b.hits()), (1, 2), "{case}");
    }
}

/// Field report B16: each provider's own map wins over what is built in, and over nothing of its
/// sibling.
#[tokio::test]
async fn error_map_of_a_provider_says_what_its_codes_mean_and_only_its_own() {
    let quota = json(429, r#"{"error":{"code":"insufficient_quota"}}"#);
    let a = Upstream::start(quota.clone()).await;
    let b = Upstream::start(quota).await;
    let c = Upstream::start(completion("hello")).await;
    let document = Document::new().lane("a", &a).lane("b", &b).lane("c", &c);
    let document = document.yaml().replacen(
        "api_key: null",
        "api_key: null, error_map: {insufficient_quota: rate_limit}",
        1,
    );
    let agent = Agent::start(&document).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    let (mapped, plain) = (agent.cell("chat", "a"), agent.cell("chat", "b"));
    assert_eq!(mapped["state"], "closed", "{mapped}");
    assert_eq!(mapped["cause"]["kind"], "rate_limit");
    assert_eq!(window(&mapped), (0, 1));
    assert!(mapped["parked_remaining_s"].as_f64().unwrap() <= 5.0);
    assert_eq!(plain["state"], "open", "{plain}");
    assert_eq!(plain["cause"]["kind"], "billing");
}

/// Field report B17: whatever the operator says of a spent window, it costs one request per
/// cooldown, and the cooldown grows to its longest.
#[tokio::test]
async fn spent_window_is_asked_once_per_cooldown() {
    let a = Upstream::start(json(
        429,
        r#"{"type":"usage_limit_reached","resets_in_seconds":18000}"#,
    ))
    .await;
    let document = Document::new().lane("a", &a).breaker(SHORT).yaml();
    let remaining = |agent: &Agent| {
        let cell = agent.cell("chat", "a");
        cell["cooldown_remaining_s"].as_f64().unwrap()
    };
    let agent = Agent::start(&document).await;
    for hits in 1..=4 {
        if hits > 1 {
            agent.cooled("chat", "a").await;
        }
        assert_eq!(chat("chat", false).send(agent.address).await.status, 429);
        assert_eq!(a.hits(), hits);
    }
    let longest = remaining(&agent);
    assert!(longest > 0.2 && longest <= 0.4, "{longest}");

    let lasting = document
        .replace("base_cooldown_secs: 0.1", "base_cooldown_secs: 15")
        .replace("max_cooldown_secs: 0.4, hard_down_cooldown_secs: 0.1, ", "");
    let mapped = lasting.replace(
        "api_key: null",
        "api_key: null, error_map: {usage_limit_reached: billing}",
    );
    for (document, wanted) in [(lasting, 15.0), (mapped, 1_800.0)] {
        let agent = Agent::start(&document).await;
        let before = a.hits();
        for _ in 0..4 {
            chat("chat", false).send(agent.address).await;
        }
        assert_eq!(a.hits(), before + 1);
        let (most, least) = (wanted * 1.1, wanted * 0.8);
        assert!((least..most).contains(&remaining(&agent)), "{wanted}");
    }
}

/// Field report B22: a refusal that was about one moment is over when a request says so; nobody
/// restarts.
#[tokio::test]
async fn lane_with_a_refused_key_comes_back_with_its_next_good_answer() {
    for status in [401, 402, 403] {
        let a = Upstream::start(completion("hello")).await;
        a.next(json(status, r#"{"error":{"code":"account_deactivated"}}"#));
        let document = Document::new().lane("a", &a).breaker(SHORT);
        let agent = Agent::start(&document.yaml()).await;
        chat("chat", false).send(agent.address).await;
        let lane = agent.lane("a");
        assert_eq!(
            (&lane["usable"], &lane["dead"]),
            (&false.into(), &false.into())
        );
        assert!(lane["dead_reason"].is_string(), "{lane}");
        agent.cooled("chat", "a").await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, 200, "{status}");
        assert_eq!(agent.cell("chat", "a")["state"], "closed");
        let lane = agent.lane("a");
        assert_eq!(
            (&lane["usable"], &lane["dead_reason"]),
            (&true.into(), &Value::Null)
        );
    }
}

/// Field reports B15, B23, B24, B39: failures in passing go to the sibling in the same request, on
/// every protocol, whatever the body is.
#[tokio::test]
async fn failures_in_passing_go_to_the_sibling_on_every_protocol() {
    let rows = [
        (408, "status"),
        (429, "rate_limit"),
        (500, "status"),
        (520, "status"),
        (527, "status"),
        (529, "overloaded"),
        (530, "status"),
        (599, "status"),
        (302, "redirect"),
        (307, "redirect"),
    ];
    for dialect in ALL {
        for (status, kind) in rows {
            let headers = [
                ("content-type", "text/html"),
                ("location", "http://127.0.0.1:9/secret"),
            ];
            let page = "<html>insufficient_quota, invalid_api_key</html>";
            let (a, b, agent) = beside_a_good_one(dialect, answer(status, &headers, page)).await;
            let got = dialect.ask(false).send(agent.address).await;
            let case = format!("{} {status}", dialect.protocol);
            assert_eq!(
                (got.status.as_u16(), got.body.as_str()),
                (200, dialect.whole),
                "{case}"
            );
            assert_eq!((a.hits(), b.hits()), (1, 1), "{case}");
            let cell = agent.cell("chat", "a");
            assert_eq!(window(&cell), (0, 1), "{case}");
            assert_eq!(
                (&cell["state"], &cell["cause"]["kind"]),
                (&"closed".into(), &kind.into())
            );
        }
    }
}

/// Field report B39: a redirect is no success: it carries no key elsewhere and closes no half-open
/// cell.
#[tokio::test]
async fn redirects_are_never_followed_and_close_nothing() {
    let elsewhere = Upstream::start(completion("stolen")).await;
    let location = format!("http://{}/v1/chat/completions", elsewhere.address);
    for status in [302, 307] {
        let a = Upstream::start(answer(status, &[("location", &location)], "")).await;
        let document = Document::new().lane("a", &a).breaker(SHORT);
        let agent = Agent::start(&document.yaml()).await;
        for hits in 1..=2 {
            if hits > 1 {
                agent.cooled("chat", "a").await;
            }
            let got = chat("chat", false).send(agent.address).await;
            assert_eq!(got.status, 503, "{status}");
            assert_eq!(got.header("location"), None);
            assert_eq!(
                (a.hits(), &agent.cell("chat", "a")["state"]),
                (hits, &"open".into())
            );
        }
    }
    assert_eq!(elsewhere.hits(), 0);
}

/// Field report B25: outcomes inside the agent are no statuses and no headers, so an upstream can
/// fake none.
#[tokio::test]
async fn upstream_that_speaks_like_the_agent_is_an_upstream() {
    let spoof = [
        ("content-type", "application/json"),
        ("x-lanekeeper-degraded", "least_bad"),
        ("x-lanekeeper-lane", "spoof"),
        ("x-lanekeeper-attempts", "99"),
    ];
    for status in [419, 424, 499] {
        let (_a, b, agent) = beside_a_good_one(&OPENAI, answer(status, &spoof, "{\"a\":1}")).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(
            (got.status.as_u16(), got.body.as_str()),
            (status, "{\"a\":1}")
        );
        assert_eq!(got.header("x-lanekeeper-degraded"), None);
        assert_eq!(got.header("x-lanekeeper-lane"), Some("a"));
        assert_eq!(got.header("x-lanekeeper-attempts"), Some("1"));
        assert_eq!(b.hits(), 0);
        assert_eq!(window(&agent.cell("chat", "a")), (0, 0));
    }
    let exhausted = r#"{"error":{"message":"No lane can serve this model.","type":"server_error","code":"no_lane_available"}}"#;
    for status in [503, 599] {
        let (_a, b, agent) = beside_a_good_one(&OPENAI, answer(status, &spoof, exhausted)).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!((got.status.as_u16(), b.hits()), (200, 1), "{status}");
        assert_eq!(got.header("x-lanekeeper-lane"), Some("b"));
        assert_eq!(got.header("x-lanekeeper-degraded"), None);
    }
}

/// Field reports B18, B19, B20, B26, B33, B34: what the caller did wrong is told in the provider's
/// own words and held against nobody.
#[tokio::test]
async fn callers_faults_are_relayed_verbatim_and_leave_no_trace() {
    let schema = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.0: credit balance is no field"}}"#;
    let signature = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#;
    let argument =
        r#"{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT","details":[]}}"#;
    let location = r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#;
    let previous = r#"{"error":{"message":"Previous response with id 'r' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}"#;
    let rows = [
        (&ANTHROPIC, 400, schema),
        (&ANTHROPIC, 400, signature),
        (&GEMINI, 400, argument),
        (&GEMINI, 400, location),
        (&RESPONSES, 400, previous),
        (&RESPONSES, 404, previous),
        (&COHERE, 422, r#"{"message":"no such tool"}"#),
        (&OPENAI, 404, "not json"),
        (&OPENAI, 405, ""),
        (&OPENAI, 409, "{}"),
        (&OPENAI, 415, "{}"),
        (&OPENAI, 422, "{}"),
        (&OPENAI, 451, "{}"),
    ];
    for (dialect, status, body) in rows {
        let case = format!("{} {status} {body}", dialect.protocol);
        let (a, b, agent) = beside_a_good_one(dialect, json(status, body)).await;
        let got = dialect.ask(false).send(agent.address).await;
        assert_eq!(
            (got.status.as_u16(), got.body.as_str()),
            (status, body),
            "{case}"
        );
        assert_eq!((a.hits(), b.hits()), (1, 0), "{case}");
        let cell = agent.cell("chat", "a");
        assert_eq!(window(&cell), (0, 0), "{case}");
        assert_eq!(
            (&cell["state"], &cell["streak"]),
            (&"closed".into(), &0.into()),
            "{case}"
        );
    }
    // Twenty of them in a row, and the lane still serves.
    let a = Upstream::start(json(400, r#"{"error":{"type":"invalid_request_error"}}"#)).await;
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(SHORT).yaml()).await;
    for _ in 0..20 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 400);
    }
    a.always(completion("hello"));
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert_eq!(window(&agent.cell("chat", "a")), (1, 0));
    assert_eq!(agent.lane("a")["client_fault"], 20);
}

/// Field report B28: a rate limit is a failure like any other in the window, and it ends a probe.
#[tokio::test]
async fn rate_limits_count_towards_a_trip_and_fail_a_probe() {
    let a = Upstream::start(completion("hello")).await;
    let breaker = "{base_cooldown_secs: 0.2, max_cooldown_secs: 10, jitter_ratio: 0, \
                   jitter_floor_secs: 0}";
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(breaker).yaml()).await;
    for status in [503, 503, 429, 503, 429] {
        assert_eq!(agent.cell("chat", "a")["state"], "closed");
        a.next(json(status, ""));
        chat("chat", false).send(agent.address).await;
    }
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    for (hint, at_least, at_most) in [("soon", 0.2, 0.4), ("7", 6.0, 7.0)] {
        agent.cooled("chat", "a").await;
        a.next(answer(429, &[("retry-after", hint)], ""));
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, 429);
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["state"], "open");
        let remaining = cell["cooldown_remaining_s"].as_f64().unwrap();
        assert!(
            remaining > at_least && remaining <= at_most,
            "{hint}: {cell}"
        );
    }
    assert_eq!(a.hits(), 7);
}

/// Field report B29: a single lane whose queue was full serves again one cooldown later, and a pool
/// that sends to the least bad member never stopped.
#[tokio::test]
async fn single_lane_with_a_full_queue_recovers_within_a_cooldown() {
    for (exhausted, meanwhile) in [("reject", 503), ("least_bad", 200)] {
        let a = Upstream::start(completion("hello")).await;
        let document = Document::new()
            .lane("a", &a)
            .breaker(
                "{base_cooldown_secs: 0.5, max_cooldown_secs: 0.5, jitter_ratio: 0, \
                 jitter_floor_secs: 0, park_secs: 0}",
            )
            .pool(&format!("on_exhausted: {exhausted}"));
        let agent = Agent::start(&document.yaml()).await;
        for _ in 0..5 {
            a.next(answer(503, &[("retry-after-ms", "20")], ""));
            chat("chat", false).send(agent.address).await;
            eventually("the hint is over", || {
                agent.cell("chat", "a")["parked_remaining_s"] == 0.0
            })
            .await;
        }
        assert_eq!(agent.cell("chat", "a")["state"], "open");
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, meanwhile, "{exhausted}");
        agent.cooled("chat", "a").await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, 200, "{exhausted}");
        assert_eq!(agent.cell("chat", "a")["state"], "closed");
    }
}

/// Field report B30: a caller's own patience is no evidence about a lane.
#[tokio::test]
async fn callers_without_patience_prove_nothing() {
    let mut slow = vec![Step::Pause(Duration::from_millis(300))];
    slow.extend(completion("hello"));
    let a = Upstream::start(slow).await;
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(SHORT).yaml()).await;
    let address = agent.address;
    let impatient: Vec<_> = (0..20)
        .map(|_| {
            tokio::spawn(async move {
                let asked = chat("chat", false)
                    .with("x-stainless-timeout", "0.05")
                    .send(address);
                tokio::time::timeout(Duration::from_millis(50), asked).await
            })
        })
        .collect();
    for caller in impatient {
        assert!(caller.await.unwrap().is_err());
    }
    agent.settles().await;
    let (cell, lane) = (agent.cell("chat", "a"), agent.lane("a"));
    assert_eq!(window(&cell), (0, 0), "{cell}");
    assert_eq!(cell["state"], "closed");
    assert_eq!((&lane["ok"], &lane["failed"]), (&0.into(), &0.into()));
    assert_eq!(chat("chat", false).send(address).await.status, 200);
}

/// Field reports B31, B32: "too long" in the words of each server goes to a lane that may be large
/// enough.
#[tokio::test]
async fn request_too_long_in_any_servers_words_goes_to_a_larger_lane() {
    let rows = [
        (
            &OPENAI,
            400,
            r#"{"message":"Input of 9000 tokens is longer than the model's context length of 8192."}"#,
        ),
        (
            &OPENAI,
            413,
            r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#,
        ),
        (
            &RESPONSES,
            400,
            r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#,
        ),
        (
            &ANTHROPIC,
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        ),
        (
            &GEMINI,
            400,
            r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}"#,
        ),
        (
            &COHERE,
            400,
            r#"{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081"}"#,
        ),
    ];
    for (dialect, status, body) in rows {
        for large in ["context_max: 131072", ""] {
            let (a, b, c) = (
                Upstream::start(json(status, body)).await,
                Upstream::start(json(200, dialect.whole)).await,
                Upstream::start(json(200, dialect.whole)).await,
            );
            let document = Document::new()
                .lane_at("a", a.address, 1, "context_max: 8192")
                .lane_at("b", b.address, 1, "context_max: 8192")
                .lane_at("c", c.address, 1, large);
            let agent = dialect.agent(&document).await;
            let got = dialect.ask(false).send(agent.address).await;
            let case = format!("{} {body}", dialect.protocol);
            assert_eq!(got.status, 200, "{case}");
            assert_eq!((a.hits(), b.hits(), c.hits()), (1, 0, 1), "{case}");
            let cell = agent.cell("chat", "a");
            assert_eq!(window(&cell), (0, 0), "{case}");
            assert_eq!(cell["parked_remaining_s"], 0.0, "{case}");
        }
    }
}

/// Field report B35: looking a name up is a part of the attempt.
#[tokio::test]
async fn name_that_does_not_resolve_goes_to_the_sibling_within_the_attempts_time() {
    let b = Upstream::start(completion("hello")).await;
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let document = Document::new()
        .lane_at("a", nowhere, 1, "attempt_timeout_ms: 500")
        .lane("b", &b)
        .rest("allow_private_hosts: [does-not-exist.invalid]")
        .yaml()
        .replace("http://127.0.0.1:1\"", "http://does-not-exist.invalid\"");
    let agent = Agent::start(&document).await;
    let (got, took) = timed(chat("chat", false).send(agent.address)).await;
    assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    let cell = agent.cell("chat", "a");
    assert_eq!(window(&cell), (0, 1), "{cell}");
    let kind = cell["cause"]["kind"].as_str().unwrap();
    assert!(["dns", "timeout"].contains(&kind), "{cell}");
}

/// A peer that answers every connection's first bytes with `answer` and counts connections.
pub(crate) async fn peer(answer: &'static [u8]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut bytes = [0u8; 1024];
                let _ = stream.read(&mut bytes).await;
                let _ = stream.write_all(answer).await;
                // Until the peer has had enough.
                while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
            });
        }
    });
    (address, count)
}

/// Field report B36: what is no TLS is a failure at once, what never shakes hands ends with the
/// attempt, and neither is tried twice.
#[tokio::test]
async fn peer_that_cannot_do_tls_goes_to_the_sibling() {
    let rows: [(&'static [u8], &str); 2] = [
        (
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
            "tls",
        ),
        (b"", "timeout"),
    ];
    for (answer, kind) in rows {
        let (address, connections) = peer(answer).await;
        let b = Upstream::start(completion("hello")).await;
        let document = Document::new()
            .lane_at("a", address, 1, "attempt_timeout_ms: 300")
            .lane("b", &b)
            .yaml()
            .replace(&format!("http://{address}"), &format!("https://{address}"));
        let agent = Agent::start(&document).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(
            got.header("x-lanekeeper-lane"),
            Some("b"),
            "{kind}: {got:?}"
        );
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["cause"]["kind"], kind, "{cell}");
        assert_eq!(window(&cell), (0, 1), "{cell}");
        assert_eq!(connections.load(Ordering::Relaxed), 1, "{kind}");
    }
}

/// Field report B37: a kept connection that closes under a request costs a second connection and
/// nothing else.
#[tokio::test]
async fn stale_connections_are_nobodys_failure() {
    const STALE: usize = 25;
    let a = Upstream::start(completion("hello")).await;
    a.next(completion("hello"));
    for _ in 0..STALE {
        a.next(vec![Step::Close]);
        a.next(completion("hello"));
    }
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(SHORT).yaml()).await;
    for _ in 0..=STALE {
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(got.header("x-lanekeeper-attempts"), Some("1"));
    }
    assert_eq!(a.hits(), 1 + 2 * STALE);
    assert_eq!(agent.cell("chat", "a")["streak"], 0);
    assert_eq!(agent.lane("a")["failed"], 0);
    assert_eq!(agent.lane("a")["ok"], STALE + 1);
}

/// What is told by its status is told, also when the words behind it break off or never come.
#[tokio::test]
async fn error_whose_words_do_not_arrive_is_judged_by_its_status() {
    let head = |status: u16| {
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{\"error\":"
        );
        Step::Write(head.into_bytes())
    };
    for end in [Step::Close, Step::Reset, Step::Hang] {
        let hangs = matches!(end, Step::Hang);
        let (_a, b, agent) = beside_a_good_one(&OPENAI, vec![head(503), end.clone()]).await;
        let (_c, d, other) = beside_a_good_one(&OPENAI, vec![head(422), end]).await;
        let ((got, took), fault) = tokio::join!(
            timed(chat("chat", false).send(agent.address)),
            chat("chat", false).send(other.address)
        );
        assert_eq!((got.status.as_u16(), b.hits()), (200, 1), "{hangs}");
        assert_eq!(agent.cell("chat", "a")["cause"]["status"], 503, "{hangs}");
        assert!(took < Duration::from_secs(5), "{took:?}");

        assert_eq!((fault.status.as_u16(), d.hits()), (422, 0), "{fault:?}");
        assert!(fault.whole, "{hangs}: {fault:?}");
        assert_eq!(window(&other.cell("chat", "a")), (0, 0), "{hangs}");
    }
}
