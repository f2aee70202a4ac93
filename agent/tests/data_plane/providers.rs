//! What hangs on the provider: its protocol, its own cell, its account.

use crate::caller::{Ask, chat};
use crate::gateway::{Agent, Document};
use crate::upstream::{Script, Step, Upstream, chunk, completion, json, stream_end, stream_head};

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"x\",\"usage\":{\"input_tokens\":1,\"output_tokens\":0}}}\n\n";
const BLOCK: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
const TEXT: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n";
const STOP: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const OVERLOADED: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";

fn frames(frames: &[&str]) -> Script {
    let mut script = vec![stream_head()];
    script.extend(frames.iter().map(|frame| chunk(frame)));
    script.push(stream_end());
    script
}

async fn anthropic(a: &Upstream, b: &Upstream) -> Agent {
    let document = Document::new().lane("a", a).lane("b", b).yaml();
    Agent::start(&document.replace("protocol: openai", "protocol: anthropic")).await
}

fn messages() -> Ask {
    chat("chat", true)
        .at("/v1/messages?beta=true")
        .with("anthropic-version", "2023-06-01")
        .with("anthropic-beta", "tools-2024")
        .with("x-api-key", "callers-key")
}

/// Field reports B40, B52.
#[tokio::test]
async fn anthropic_stream_fails_over_before_content_without_a_second_message_start() {
    let a = Upstream::start(frames(&[START, PING, BLOCK, OVERLOADED])).await;
    let b = Upstream::start(frames(&[START, BLOCK, PING, TEXT, STOP])).await;
    let agent = anthropic(&a, &b).await;
    let got = messages().send(agent.address).await;
    assert_eq!((got.status.as_u16(), got.whole), (200, true), "{got:?}");
    assert_eq!(got.body, [START, BLOCK, PING, TEXT, STOP].concat());
    agent.settles().await;
    assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "overloaded");
    assert_eq!(agent.lane("b")["ok"], 1);
    let seen = &b.seen()[0];
    assert_eq!(seen.path, "/v1/messages?beta=true");
    assert_eq!(seen.header("anthropic-beta"), Some("tools-2024"));
    assert_eq!(seen.header("x-api-key"), None);
}

/// Field report B52.
#[tokio::test]
async fn anthropic_stream_that_fails_everywhere_before_content_has_a_real_status() {
    let a = Upstream::start(frames(&[START, OVERLOADED])).await;
    let agent = anthropic(&a, &a).await;
    let got = messages().send(agent.address).await;
    assert_eq!(got.status, 503, "{got:?}");
    assert_eq!(got.json()["error"]["type"], "overloaded_error");
    assert!(got.header("retry-after").is_some());
}

#[tokio::test]
async fn anthropic_stream_that_dies_after_content_ends_in_its_own_error_event() {
    let mut script = frames(&[START, BLOCK, TEXT]);
    script.pop();
    script.push(Step::Close);
    let a = Upstream::start(script).await;
    let agent = anthropic(&a, &a).await;
    let got = messages().send(agent.address).await;
    assert!(
        !got.whole && got.body.starts_with(&[START, BLOCK, TEXT].concat()),
        "{got:?}"
    );
    let event = &got.body[START.len() + BLOCK.len() + TEXT.len()..];
    assert!(event.starts_with("event: error\ndata: {"), "{event}");
    assert!(!got.body.contains("message_stop"));
}

/// One provider with two lanes in two pools.
fn shared_provider(address: std::net::SocketAddr, provider: &str, breaker: &str) -> String {
    format!(
        "gateway: edge\nproviders:\n  p: {{protocol: openai, base_url: \"http://{address}\", api_key: null, {provider}}}\n\
         models:\n  a: {{provider: p}}\n  b: {{provider: p}}\n\
         pools:\n  one: {{members: [{{target: a}}], breaker: {breaker}}}\n  two: {{members: [{{target: b}}, {{target: a}}], breaker: {breaker}}}\n"
    )
}

#[tokio::test]
async fn cell_of_the_provider_stops_all_its_lanes() {
    let upstream = Upstream::start(json(500, "")).await;
    let own =
        "breaker: {trip: {mode: count, failure_count: 2, window_secs: 30}, base_cooldown_secs: 30}";
    let agent = Agent::start(&shared_provider(
        upstream.address,
        own,
        "{mode: observe, poison_guard: false}",
    ))
    .await;
    for _ in 0..2 {
        chat("one", false).send(agent.address).await;
    }
    assert_eq!(upstream.hits(), 2);
    let got = chat("two", false).send(agent.address).await;
    assert_eq!((got.status.as_u16(), upstream.hits()), (503, 2), "{got:?}");
    let wait: u64 = got.header("retry-after").unwrap().parse().unwrap();
    assert!((25..=34).contains(&wait), "{wait}");
    assert!(!agent.plane.any_lane_usable());
}

#[tokio::test]
async fn series_of_the_providers_cell_tell_its_state_and_vanish_with_it() {
    let upstream = Upstream::start(json(500, "")).await;
    let own = "breaker: {trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 30}";
    let breaker = "{mode: observe}";
    let agent = Agent::start(&shared_provider(upstream.address, own, breaker)).await;
    let closed = "lanekeeper_provider_breaker_state{provider=\"p\"} 0.0\n";
    assert!(agent.metrics().contains(closed), "{}", agent.metrics());
    chat("one", false).send(agent.address).await;
    let metrics = agent.metrics();
    for line in [
        "lanekeeper_provider_breaker_state{provider=\"p\"} 1.0\n",
        "lanekeeper_provider_breaker_trips_total{provider=\"p\"} 1\n",
        "lanekeeper_provider_breaker_transitions_total{provider=\"p\",from=\"closed\",to=\"open\",reason=\"",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    agent.apply(&shared_provider(upstream.address, "", breaker));
    let metrics = agent.metrics();
    assert!(!metrics.contains("provider_breaker_state{"), "{metrics}");
    assert!(!metrics.contains("provider=\"p\""), "{metrics}");

    let own = "breaker: {per_endpoint: true}";
    agent.apply(&shared_provider(upstream.address, own, breaker));
    let line = "lanekeeper_provider_breaker_state{provider=\"p\",endpoint=\"chat\"} 0.0\n";
    assert!(agent.metrics().contains(line), "{}", agent.metrics());
}

#[tokio::test]
async fn statistics_show_the_cell_of_the_provider_and_why_it_stops_all_lanes() {
    let upstream = Upstream::start(json(500, "")).await;
    let own = "breaker: {trip: {mode: count, failure_count: 1}, base_cooldown_secs: 30}";
    let observing = "{mode: observe}";
    let agent = Agent::start(&shared_provider(upstream.address, own, observing)).await;
    assert_eq!(chat("one", false).send(agent.address).await.status, 500);
    let stats = serde_json::to_value(agent.plane.stats()).unwrap();
    let shown = &stats["providers"][0];
    assert_eq!(shown["provider"], "p");
    let cell = &shown["cells"][0];
    assert_eq!(cell["state"], "open");
    assert_eq!(
        cell["why"],
        "1 of 1 answer in 30 s failed, last: status 500"
    );
    assert_eq!(cell.get("pool"), None, "it is in none");

    let plain = Agent::start(&shared_provider(upstream.address, "", observing)).await;
    let stats = serde_json::to_value(plain.plane.stats()).unwrap();
    assert_eq!(stats["providers"], serde_json::json!([]));
}

#[tokio::test]
async fn hard_down_of_a_lane_reaches_its_cells_in_every_pool_when_the_policy_says_so() {
    for (scope, expected) in [("cell", "closed"), ("lane", "open")] {
        let upstream = Upstream::start(json(401, "")).await;
        let breaker = format!("{{hard_down_scope: {scope}}}");
        let agent = Agent::start(&shared_provider(upstream.address, "", &breaker)).await;
        chat("one", false).send(agent.address).await;
        assert_eq!(agent.cell("one", "a")["state"], "open");
        assert_eq!(agent.cell("two", "a")["state"], expected, "{scope}");
        assert_eq!(agent.cell("two", "b")["state"], "closed", "{scope}");
    }
}

#[tokio::test]
async fn listed_statuses_are_the_only_failures() {
    let upstream = Upstream::start(json(500, "")).await;
    let breaker = "{failure_status_codes: [418]}";
    let agent = Agent::start(&shared_provider(upstream.address, "", breaker)).await;
    chat("one", false).send(agent.address).await;
    assert_eq!(agent.cell("one", "a")["window"]["failed"], 0);
    upstream.always(json(418, "{}"));
    let got = chat("one", false).send(agent.address).await;
    assert_eq!(got.status, 418);
    assert_eq!(agent.cell("one", "a")["window"]["failed"], 1);
}

/// Field report B42.
#[tokio::test]
async fn sessions_stay_on_a_member_while_it_can_serve() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("affinity: {mode: session, header_name: x-session-id}");
    let agent = Agent::start(&document.yaml()).await;
    let ask = || {
        chat("chat", false)
            .with("x-session-id", "s-1")
            .send(agent.address)
    };
    let home = ask().await.header("x-lanekeeper-lane").unwrap().to_owned();
    for _ in 0..10 {
        assert_eq!(ask().await.header("x-lanekeeper-lane"), Some(home.as_str()));
    }
    let (pinned, other) = if home == "a" { (&a, &b) } else { (&b, &a) };
    pinned.always(json(503, ""));
    for _ in 0..3 {
        assert_eq!(ask().await.status, 200);
    }
    assert_eq!(
        pinned.hits(),
        12,
        "asked once, then left alone while it is parked"
    );
    assert_eq!(other.hits(), 3);
}

/// Field report B68.
#[tokio::test]
async fn callers_own_key_goes_upstream_only_where_the_pool_says_so() {
    let a = Upstream::start(json(401, r#"{"error":{"message":"your key"}}"#)).await;
    let document = Document::new()
        .lane("a", &a)
        .pool("upstream_credentials: passthrough");
    let agent = Agent::start(&document.yaml()).await;
    let got = chat("chat", false)
        .with("authorization", "Bearer callers-key")
        .send(agent.address)
        .await;
    assert_eq!(
        (got.status.as_u16(), got.body.as_str()),
        (401, r#"{"error":{"message":"your key"}}"#)
    );
    assert_eq!(
        a.seen()[0].header("authorization"),
        Some("Bearer callers-key")
    );
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
    assert_eq!(agent.lane("a")["client_fault"], 0, "nothing is recorded");
}

/// What a caller may prove itself with, or choose an account by.
const CALLERS: [&str; 9] = [
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
    "anthropic-organization-id",
    "x-auth-token",
    "ocp-apim-subscription-key",
    "x-amzn-oidc-data",
    "x-client-cert",
    "cookie",
];

#[tokio::test]
async fn nothing_a_caller_proves_itself_with_reaches_a_provider() {
    for (pool, passed) in [
        ("", &[] as &[&str]),
        (
            "upstream_credentials: passthrough",
            &["openai-organization", "openai-project"],
        ),
    ] {
        let a = Upstream::start(completion("hello")).await;
        let agent = Agent::start(&Document::new().lane("a", &a).pool(pool).yaml()).await;
        let mut ask = chat("chat", false)
            .at("/v1/chat/completions?api-version=1&token=S&sig=S&Api-Key=S&%6bey=S")
            .with("idempotency-key", "7");
        for name in CALLERS {
            ask = ask.with(name, "caller");
        }
        assert_eq!(ask.send(agent.address).await.status, 200);
        let seen = a.seen().remove(0);
        assert!(
            seen.path.ends_with("/v1/chat/completions?api-version=1"),
            "{}",
            seen.path
        );
        assert_eq!(seen.header("idempotency-key"), Some("7"));
        let crossed: Vec<&str> = CALLERS
            .into_iter()
            .filter(|name| seen.header(name).is_some())
            .collect();
        assert_eq!(crossed, passed, "{pool}");
    }
}

/// The gateway's own key of a caller stays here although the caller's other key goes on.
#[tokio::test]
async fn key_that_let_the_caller_in_never_goes_on() {
    const PLACES: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
    let rest = format!(
        "clients: [{{name: team, key_sha256: \"{}\"}}]",
        crate::refusals::digest("sesame")
    );
    for dialect in crate::dialects::ALL {
        for streams in [false, true] {
            for own in PLACES {
                let a = Upstream::start(dialect.answer(streams)).await;
                let pool = "upstream_credentials: passthrough";
                let document = Document::new().lane("a", &a).pool(pool).rest(&rest);
                let agent = dialect.agent(&document).await;
                let mut ask = dialect.ask(streams);
                ask.path += if ask.path.contains('?') { "&" } else { "?" };
                ask.path += "key=%73esame&beta=sesame&api-version=sesame";
                let value = |key: &str, name| match name {
                    "authorization" => format!("Bearer {key}"),
                    _ => key.to_owned(),
                };
                for name in PLACES {
                    let key = if name == own { "sesame" } else { "callers" };
                    ask = ask.with(name, &value(key, name));
                }
                ask = ask.with("x-request-id", "sesame");
                let got = ask.send(agent.address).await;
                let case = format!("{} {own}: {got:?}", dialect.protocol);
                assert_eq!(got.status, 200, "{case}");
                let seen = a.seen().remove(0);
                let text = format!("{seen:?}");
                assert!(!text.contains("sesame"), "{case} {text}");
                let vendor_key = match dialect.protocol {
                    "anthropic" => "x-api-key",
                    "gemini" => "x-goog-api-key",
                    _ => "authorization",
                };
                let passed = seen.header(vendor_key);
                let expected = (own != vendor_key).then(|| value("callers", vendor_key));
                assert_eq!(passed.map(str::to_owned), expected, "{case}");
            }
        }
    }
}
