//! What an upstream says about when to come back, and what the caller is told about it.

use crate::caller::{Got, chat};
use crate::dialects::{ALL, COHERE, Dialect, GEMINI, OPENAI};
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Script, Upstream, answer, completion, json};
use std::time::{Duration, SystemTime};

/// Trips with the first failure, for exactly the time configured.
fn trips(base: f64, max: f64) -> String {
    format!(
        "{{trip: {{mode: consecutive, consecutive_n: 1}}, base_cooldown_secs: {base}, \
         max_cooldown_secs: {max}, jitter_ratio: 0, jitter_floor_secs: 0, poison_guard: false}}"
    )
}

fn cooldown(agent: &Agent, lane: &str) -> f64 {
    let cell = agent.cell("chat", lane);
    assert_eq!(cell["state"], "open", "{cell}");
    cell["cooldown_remaining_s"].as_f64().unwrap()
}

/// How long the only lane is benched after this answer.
async fn benched(dialect: &Dialect, script: Script, breaker: &str) -> f64 {
    let a = Upstream::start(script).await;
    let document = Document::new().lane("a", &a).breaker(breaker);
    let agent = dialect.agent(&document).await;
    dialect.ask(false).send(agent.address).await;
    let remaining = cooldown(&agent, "a");
    // However often the caller asks again, the lane is left alone.
    for _ in 0..3 {
        assert!(
            dialect
                .ask(false)
                .send(agent.address)
                .await
                .status
                .is_server_error()
        );
    }
    assert_eq!(a.hits(), 1);
    remaining
}

/// Field reports B04, B05, B06, B08, B11: the hint is a floor, in any of its forms and on any
/// transient status.
#[tokio::test]
async fn hint_is_a_floor_that_may_pass_the_longest_cooldown_but_not_a_day() {
    let day = 86_400.0;
    let rows: &[(u16, &str, &str, f64, f64)] = &[
        (429, "retry-after", "20.4", 1.0, 21.0),
        (429, "retry-after", "1.5", 0.2, 2.0),
        (429, "retry-after", "0.2", 0.1, 1.0),
        (429, "retry-after", "0", 20.0, 20.0),
        (429, "retry-after-ms", "0", 20.0, 20.0),
        (429, "retry-after-ms", "45000", 1.0, 45.0),
        (429, "retry-after", "-5", 20.0, 20.0),
        (429, "retry-after", "nan", 20.0, 20.0),
        (504, "retry-after", "86400", 15.0, day),
        (504, "retry-after", "999999", 15.0, day),
        (429, "retry-after", "1000000001", 15.0, day),
        (408, "retry-after", "120", 15.0, 120.0),
        (500, "retry-after", "120", 15.0, 120.0),
        (502, "retry-after", "120", 15.0, 120.0),
        (503, "retry-after", "120", 15.0, 120.0),
        (524, "retry-after", "120", 15.0, 120.0),
        (529, "retry-after", "120", 15.0, 120.0),
    ];
    for (status, name, value, base, wanted) in rows {
        let script = answer(*status, &[(name, value)], "");
        let remaining = benched(&OPENAI, script, &trips(*base, 60.0)).await;
        let case = format!("{status} {name}: {value} on {base}: {remaining}");
        assert!(remaining <= *wanted, "{case}");
        assert!(remaining > wanted - 0.5, "{case}");
    }
}

/// Field report B06: the band of the jitter lies neither below the floor nor above the cap.
#[tokio::test]
async fn jitter_moves_no_hint() {
    let breaker = "{trip: {mode: consecutive, consecutive_n: 1}, jitter_ratio: 0.5, \
                   jitter_floor_secs: 5, max_cooldown_secs: 60}";
    for _ in 0..8 {
        let script = answer(504, &[("retry-after", "86400")], "");
        let remaining = benched(&OPENAI, script, breaker).await;
        assert!((86_399.0..=86_400.0).contains(&remaining), "{remaining}");
    }
}

/// Field report B06: what an upstream asked for binds requests, not the probe that asks it again.
#[tokio::test]
async fn good_active_probe_ends_a_wait_of_a_day_at_once() {
    let a = Upstream::start(completion("hello")).await;
    a.next(answer(504, &[("retry-after", "86400")], ""));
    let document = Document::new().lane("a", &a).breaker(&trips(15.0, 60.0));
    let probed = document.yaml().replace(
        "api_key: null",
        "api_key: null, health: {mode: dead, interval_secs: 0.5, timeout_secs: 1}",
    );
    let agent = Agent::start(&probed).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    eventually("the cell is closed", || {
        agent.cell("chat", "a")["state"] == "closed"
    })
    .await;
    assert_eq!(agent.cell("chat", "a")["cooldown_remaining_s"], 0.0);
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}

/// Field report B05: a hint of zero takes nothing from what one failure costs anyway.
#[tokio::test]
async fn one_failure_parks_a_lane_for_the_longer_of_its_hint_and_the_policys_time() {
    for (hint, wanted) in [("0", 5.0), ("2", 5.0), ("20.4", 21.0)] {
        let a = Upstream::start(answer(503, &[("retry-after", hint)], "")).await;
        let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
        chat("chat", false).send(agent.address).await;
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["state"], "closed", "{hint}");
        let parked = cell["parked_remaining_s"].as_f64().unwrap();
        assert!(
            parked > wanted - 0.5 && parked <= wanted,
            "{hint}: {parked}"
        );
    }
}

/// Field report B07: Gemini's body counts beside the header, and only on a lane that speaks
/// Gemini's protocol.
#[tokio::test]
async fn wait_in_the_body_of_gemini_is_a_hint() {
    let limited = |delay: &str, header: Option<&'static str>| {
        let body = format!(
            r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota","details":[{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}]}}}}"#
        );
        let header = header.map(|seconds| ("retry-after", seconds));
        answer(429, header.as_slice(), &body)
    };
    let rows = [
        (&GEMINI, "52s", None, 52.0),
        (&GEMINI, "52.45s", None, 53.0),
        (&GEMINI, "52s", Some("90"), 90.0),
        (&GEMINI, "52s", Some("10"), 52.0),
        (&GEMINI, "0s", None, 15.0),
        (&GEMINI, "-3s", None, 15.0),
        (&GEMINI, "abc", None, 15.0),
        (&OPENAI, "52s", None, 15.0),
        (&COHERE, "52s", None, 15.0),
    ];
    for (dialect, delay, header, wanted) in rows {
        let remaining = benched(dialect, limited(delay, header), &trips(15.0, 60.0)).await;
        let case = format!("{} {delay} {header:?}: {remaining}", dialect.protocol);
        assert!(remaining <= wanted && remaining > wanted - 0.5, "{case}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "dates are measured by the wall clock"
)]
fn date_in(seconds: u64) -> String {
    httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds))
}

/// Field report B10: a number and a date that mean the same are the same.
#[tokio::test]
async fn date_benches_a_lane_as_long_as_the_number_it_stands_for() {
    let a = Upstream::start(answer(429, &[("retry-after", "20")], "")).await;
    let b = Upstream::start(answer(429, &[("retry-after", &date_in(20))], "")).await;
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .breaker(&trips(1.0, 2.0));
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    let difference = cooldown(&agent, "a") - cooldown(&agent, "b");
    // A date has no fraction of a second.
    assert!(difference.abs() <= 1.5, "{difference}");
    assert!(cooldown(&agent, "b") > 18.0);
}

fn retry_after(got: &Got) -> u64 {
    got.header("retry-after").unwrap().parse().unwrap()
}

/// Field report B12: a status, a header and a body that the caller's client understands, and what
/// is left of the wait rather than what it was.
#[tokio::test]
async fn refusal_says_in_every_dialect_how_much_of_the_wait_is_left() {
    for dialect in ALL {
        let (a, b) = (
            Upstream::start(answer(503, &[("retry-after", "40")], "")).await,
            Upstream::start(answer(503, &[("retry-after", "70")], "")).await,
        );
        let document = Document::new()
            .lane("a", &a)
            .lane("b", &b)
            .breaker(&trips(1.0, 2.0));
        let agent = dialect.agent(&document).await;
        dialect.ask(false).send(agent.address).await;
        for stream in [false, true] {
            let got = dialect.ask(stream).send(agent.address).await;
            assert_eq!(got.status, 503, "{}", dialect.protocol);
            assert_eq!(retry_after(&got), 40, "{}", dialect.protocol);
            let body = got.json();
            let message = match dialect.protocol {
                "cohere" => &body["message"],
                _ => &body["error"]["message"],
            };
            assert!(message.is_string(), "{}: {body}", dialect.protocol);
        }
        if dialect.protocol == "openai" {
            eventually("a second and a bit are over", || {
                cooldown(&agent, "a") < 38.9
            })
            .await;
            let got = dialect.ask(false).send(agent.address).await;
            assert!(retry_after(&got) <= 39, "{got:?}");
        }
    }
}

/// Field report B13: an excluded member, one that is dead and one without budget promise nothing.
#[tokio::test]
async fn only_members_the_request_may_use_shorten_the_wait() {
    let (a, b, c, d) = (
        Upstream::start(answer(503, &[("retry-after", "60")], "")).await,
        Upstream::start(answer(503, &[("retry-after", "5")], "")).await,
        Upstream::start(completion("c")).await,
        Upstream::start(completion("d")).await,
    );
    let document = |pool: &str| {
        Document::new()
            .lane("a", &a)
            .lane("b", &b)
            .lane_at("c", c.address, 1, "max_requests: 1")
            .lane("d", &d)
            .breaker(&trips(1.0, 2.0))
            .pool(pool)
            .yaml()
            .replace(
                &format!("http://{}\", api_key: null", d.address),
                &format!(
                    "http://{}\", api_key: {{file: /nonexistent/key}}",
                    d.address
                ),
            )
    };
    let agent = Agent::start(&document("")).await;
    // It benches a and b and spends the budget of c.
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), retry_after(&got)), (503, 5));
    agent.apply(&document("failover: {exclusions: [b]}"));
    assert!(cooldown(&agent, "b") > 0.0, "the cell is the one it was");
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), retry_after(&got)), (503, 60));
    assert_eq!((c.hits(), d.hits()), (1, 0));
}

/// Field report B13: a member too small for the request promises nothing; a larger one that is
/// benched does, and the lane's "too long" is not the last word while it may come back.
#[tokio::test]
async fn request_too_long_for_a_lane_waits_for_a_larger_one() {
    let words = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let (a, b, c) = (
        Upstream::start(completion("hello")).await,
        Upstream::start(answer(503, &[("retry-after", "5")], "")).await,
        Upstream::start(answer(503, &[("retry-after", "60")], "")).await,
    );
    let document = Document::new()
        .lane_at("b", b.address, 1, "context_max: 4096")
        .lane_at("c", c.address, 1, "context_max: 100000")
        .lane_at("a", a.address, 1, "context_max: 8192")
        .breaker(&trips(1.0, 2.0));
    let agent = Agent::start(&document.yaml()).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    a.always(json(400, words));
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(
        (got.status.as_u16(), retry_after(&got)),
        (503, 60),
        "{got:?}"
    );
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 0);
    assert_eq!((b.hits(), c.hits()), (1, 1));
}
