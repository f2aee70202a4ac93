use serde_json::{Value, json};

use super::*;
use crate::gateway::{OnExhausted, Scheme};
use crate::ids::{LaneName, PoolName, ProviderName};
use crate::spec::SecretRef;

mod fields;

/// A small document that passes: one provider `p`, lanes `a` and `b`, pools `chat` and `spare`.
fn base() -> Value {
    json!({
        "gateway": "edge",
        "providers": {"p": {"protocol": "openai", "base_url": "https://api.example.com/v1"}},
        "models": {"a": {"provider": "p"}, "b": {"provider": "p"}},
        "pools": {
            "chat": {"members": [{"target": "a"}, {"target": "b"}]},
            "spare": {"members": [{"target": "b"}]},
        },
        "allow_private_hosts": ["llm.internal", "10.1.0.0/16", "fd12::7"],
    })
}

/// The base with one value set; keys on the way are made.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = base();
    set(&mut document, pointer, value);
    document
}

fn set(document: &mut Value, pointer: &str, value: Value) {
    let mut at = document;
    for key in pointer.split('/').skip(1) {
        at = match at {
            Value::Array(entries) => &mut entries[key.parse::<usize>().unwrap()],
            other => &mut other[key.replace("~1", "/")],
        };
    }
    *at = value;
}

fn problems(document: &Value) -> Vec<Problem> {
    match check_json(document) {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    }
}

/// Asserts that setting a value is refused at a place with a code, and nothing else is.
#[track_caller]
fn refused(set_at: &str, value: Value, pointer: &str, code: &str) -> String {
    let found = problems(&with(set_at, value.clone()));
    let short: Vec<(&str, &str)> = found
        .iter()
        .map(|problem| (problem.pointer.as_str(), problem.code.as_str()))
        .collect();
    assert_eq!(short, [(pointer, code)], "{set_at} = {value}: {found:#?}");
    found[0].message.clone()
}

#[track_caller]
fn accepted(set_at: &str, value: Value) -> Gateway {
    match check_json(&with(set_at, value.clone())) {
        Ok(checked) => checked.gateway,
        Err(problems) => panic!("{set_at} = {value} refused: {problems:#?}"),
    }
}

#[test]
fn the_base_passes() {
    let gateway = check_json(&base()).unwrap().gateway;
    assert_eq!(gateway.name, "edge");
    let cells: Vec<String> = gateway
        .cells()
        .iter()
        .map(|cell| format!("{}/{}", cell.pool, cell.lane))
        .collect();
    assert_eq!(cells, ["/a", "/b", "chat/a", "chat/b", "spare/b"]);
}

#[test]
fn wrong_shapes_are_refused_at_their_place() {
    let cases: &[(&str, Value, &str, &str)] = &[
        ("/colour", json!(1), "/colour", "unknown_key"),
        (
            "/pools/chat/stratgy",
            json!("weighted"),
            "/pools/chat/stratgy",
            "unknown_key",
        ),
        (
            "/pools/chat/strategy",
            json!("wieghted"),
            "/pools/chat/strategy",
            "unknown_value",
        ),
        (
            "/pools/chat/strategy",
            json!(null),
            "/pools/chat/strategy",
            "wrong_type",
        ),
        (
            "/pools/chat/breaker",
            json!("default"),
            "/pools/chat/breaker",
            "wrong_type",
        ),
        (
            "/pools/chat/members",
            json!([]),
            "/pools/chat/members",
            "too_few",
        ),
        (
            "/pools/chat/members/0",
            json!({}),
            "/pools/chat/members/0",
            "missing_key",
        ),
        (
            "/pools/chat/members/0/weight",
            json!(-1),
            "/pools/chat/members/0/weight",
            "out_of_range",
        ),
        (
            "/pools/chat/members/0/weight",
            json!(1.5),
            "/pools/chat/members/0/weight",
            "wrong_type",
        ),
        (
            "/pools/chat/on_exhausted",
            json!("rejct"),
            "/pools/chat/on_exhausted",
            "unknown_value",
        ),
        (
            "/pools/chat/on_exhausted",
            json!({}),
            "/pools/chat/on_exhausted",
            "wrong_type",
        ),
        (
            "/pools/chat/on_exhausted",
            json!({"queue": {"max": 5}}),
            "/pools/chat/on_exhausted/queue",
            "missing_key",
        ),
        (
            "/pools/chat/fleet",
            json!({"quorum": 0}),
            "/pools/chat/fleet/quorum",
            "out_of_range",
        ),
        ("/models/a", json!({}), "/models/a", "missing_key"),
        (
            "/models/a/max_concurrent",
            json!(0),
            "/models/a/max_concurrent",
            "out_of_range",
        ),
        (
            "/models/a/max_concurrent",
            json!(5e9),
            "/models/a/max_concurrent",
            "out_of_range",
        ),
        (
            "/models/a/max_requests",
            json!(1e300),
            "/models/a/max_requests",
            "out_of_range",
        ),
        (
            "/models/a/upstream_model",
            json!(""),
            "/models/a/upstream_model",
            "empty",
        ),
        (
            "/providers/p/protocol",
            json!("antropic"),
            "/providers/p/protocol",
            "unknown_value",
        ),
        (
            "/providers/p/health",
            json!({"interval_secs": 0.09}),
            "/providers/p/health/interval_secs",
            "out_of_range",
        ),
        (
            "/providers/p/health",
            json!({"timeout_secs": 0}),
            "/providers/p/health/timeout_secs",
            "out_of_range",
        ),
        (
            "/limits",
            json!({"body_max_bytes": 0}),
            "/limits/body_max_bytes",
            "out_of_range",
        ),
        ("/labels", json!({"team": 7}), "/labels/team", "wrong_type"),
        ("/clients", json!([5]), "/clients/0", "wrong_type"),
        ("/gateway", json!(5), "/gateway", "wrong_type"),
    ];
    for (set_at, value, pointer, code) in cases {
        if *code == "missing_key" && value.get("queue").is_some() {
            let found = problems(&with(set_at, value.clone()));
            assert!(
                found
                    .iter()
                    .any(|it| it.pointer == *pointer && it.code == *code)
            );
        } else {
            refused(set_at, value.clone(), pointer, code);
        }
    }
}

#[test]
fn messages_name_what_would_be_right() {
    let cases = [
        (
            refused(
                "/pools/chat/stratgy",
                json!(1),
                "/pools/chat/stratgy",
                "unknown_key",
            ),
            "unknown key `stratgy` in /pools/chat; the nearest known key is `strategy`",
        ),
        (
            refused(
                "/pools/chat/strategy",
                json!("fast"),
                "/pools/chat/strategy",
                "unknown_value",
            ),
            "must be weighted, least_loaded or fastest; the nearest is `fastest`",
        ),
        (
            refused(
                "/pools/chat/on_exhausted",
                json!(7),
                "/pools/chat/on_exhausted",
                "wrong_type",
            ),
            "must be reject, least_bad, fail_open, {fallback_pool: …} or {queue: …}, \
             is an integer",
        ),
        (
            refused(
                "/models/a/provider",
                json!("pp"),
                "/models/a/provider",
                "unknown_reference",
            ),
            "there is no provider named `pp`; the nearest is `p`",
        ),
        (
            refused(
                "/limits",
                json!({"inbound_max": "9"}),
                "/limits/inbound_max",
                "wrong_type",
            ),
            "must be an integer, is a string",
        ),
    ];
    for (message, expected) in cases {
        assert_eq!(message, expected);
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let breaker = |field: &str, value: Value| {
        let set_at = format!("/pools/chat/breaker/{field}");
        refused(&set_at, value, &set_at, "out_of_range");
    };
    breaker("trip/threshold", json!(0));
    breaker("trip/threshold", json!(1.01));
    breaker("trip/min_requests", json!(0));
    breaker("trip/consecutive_n", json!(0));
    breaker("trip/failure_count", json!(0));
    breaker("trip/window_secs", json!(0));
    breaker("jitter_ratio", json!(-0.1));
    breaker("jitter_ratio", json!(1.1));
    breaker("base_cooldown_secs", json!(0));
    breaker("park_secs", json!(-1));
    breaker("half_open/successes_to_close", json!(0));
    refused(
        "/pools/chat/breaker",
        json!({"failure_status_codes": [503, 99]}),
        "/pools/chat/breaker/failure_status_codes/1",
        "out_of_range",
    );
}

#[test]
fn a_breaker_block_must_make_sense_as_a_whole() {
    let at = "/pools/chat/breaker";
    let message = refused(
        at,
        json!({"base_cooldown_secs": 300}),
        "/pools/chat/breaker/base_cooldown_secs",
        "base_over_max",
    );
    assert!(
        message.contains("(300)") && message.contains("(120)"),
        "{message}"
    );
    refused(
        at,
        json!({"base_cooldown_secs": 30, "max_cooldown_secs": 20}),
        "/pools/chat/breaker/max_cooldown_secs",
        "base_over_max",
    );
    refused(
        at,
        json!({"trip": {"mode": "any"}}),
        "/pools/chat/breaker/trip/mode",
        "nothing_trips",
    );
    refused(
        "/providers/p/breaker",
        json!({"base_cooldown_secs": 300}),
        "/providers/p/breaker/base_cooldown_secs",
        "base_over_max",
    );
    refused(
        "/defaults",
        json!({"breaker": {"base_cooldown_secs": 300}}),
        "/defaults/breaker/base_cooldown_secs",
        "base_over_max",
    );
    accepted(at, json!({"trip": {"mode": "any", "consecutive_n": 2}}));
    accepted(
        at,
        json!({"jitter_ratio": 0, "jitter_floor_secs": 0, "park_secs": 0}),
    );
}

#[test]
fn references_must_exist() {
    let unknown = "unknown_reference";
    refused(
        "/models/a/provider",
        json!("q"),
        "/models/a/provider",
        unknown,
    );
    refused(
        "/pools/chat/members/1/target",
        json!("x"),
        "/pools/chat/members/1/target",
        unknown,
    );
    refused(
        "/pools/chat/on_exhausted",
        json!({"fallback_pool": "spar"}),
        "/pools/chat/on_exhausted/fallback_pool",
        unknown,
    );
    refused(
        "/pools/spare/failover",
        json!({"exclusions": ["a"]}),
        "/pools/spare/failover/exclusions/0",
        "not_a_member",
    );
    let key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    refused(
        "/clients",
        json!([{"name": "c", "key_sha256": key, "pools": ["chat", "chatt"]}]),
        "/clients/0/pools/1",
        unknown,
    );
}

#[test]
fn pools_must_be_able_to_serve() {
    refused(
        "/pools/chat/members/1/target",
        json!("a"),
        "/pools/chat/members/1/target",
        "duplicate",
    );
    refused(
        "/pools/a",
        json!({"members": [{"target": "a"}]}),
        "/pools/a",
        "name_taken",
    );
    refused(
        "/pools/chat/members",
        json!([{"target": "a", "weight": 0}, {"target": "b", "weight": 0}]),
        "/pools/chat/members",
        "no_usable_member",
    );
    refused(
        "/pools/chat/failover",
        json!({"exclusions": ["a", "b"]}),
        "/pools/chat/failover/exclusions",
        "no_usable_member",
    );
    refused(
        "/pools/chat/failover",
        json!({"exclusions": ["a", "a"]}),
        "/pools/chat/failover/exclusions/1",
        "duplicate",
    );
    refused(
        "/pools/chat/on_exhausted",
        json!({"queue": {"max_ms": 600_001}}),
        "/pools/chat/on_exhausted/queue/max_ms",
        "over_budget",
    );
    accepted(
        "/pools/chat/on_exhausted",
        json!({"queue": {"max_ms": 600_000}}),
    );
    refused(
        "/pools/chat/failover",
        json!({"timeout_secs": 1, "hold_ms": 1001}),
        "/pools/chat/failover/hold_ms",
        "over_budget",
    );
    let affinity = |name: &str| json!({"mode": "session", "header_name": name});
    let at = "/pools/chat/affinity/header_name";
    refused(
        "/pools/chat/affinity",
        affinity("a b"),
        at,
        "invalid_header",
    );
    refused(
        "/pools/chat/affinity",
        affinity("Connection"),
        at,
        "invalid_header",
    );
    let gateway = accepted("/pools/chat/affinity", affinity("X-Session"));
    let affinity = gateway.pools["chat"].affinity.as_ref().unwrap();
    assert_eq!(affinity.header_name, "x-session");
}

#[test]
fn fallback_cycles_are_refused_once_and_printed() {
    let mut document = base();
    for (pool, next) in [("x", "z"), ("y", "x"), ("z", "y"), ("tail", "x")] {
        set(
            &mut document,
            &format!("/pools/{pool}"),
            json!({"members": [{"target": "a"}], "on_exhausted": {"fallback_pool": next}}),
        );
    }
    let found = problems(&document);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].pointer, "/pools/x/on_exhausted/fallback_pool");
    assert_eq!(found[0].code, "fallback_cycle");
    assert_eq!(
        found[0].message,
        "pools fall back in a circle: x -> z -> y -> x"
    );

    let message = refused(
        "/pools/chat/on_exhausted",
        json!({"fallback_pool": "chat"}),
        "/pools/chat/on_exhausted/fallback_pool",
        "fallback_cycle",
    );
    assert!(message.ends_with("chat -> chat"), "{message}");

    let gateway = accepted(
        "/pools/chat/on_exhausted",
        json!({"fallback_pool": "spare"}),
    );
    let expected = OnExhausted::FallbackPool(PoolName::from("spare"));
    assert_eq!(gateway.pools["chat"].on_exhausted, expected);
}

#[test]
fn base_urls_that_lead_astray_are_refused() {
    let cases = [
        ("http://api.example.com", "plain_http"),
        ("http://8.8.8.8/v1", "plain_http"),
        ("https://10.0.0.1", "private_address"),
        ("http://192.168.1.1:8080/v1", "private_address"),
        ("https://172.31.0.1", "private_address"),
        ("https://100.64.0.1", "private_address"),
        ("https://169.254.1.1", "private_address"),
        ("http://169.254.169.254/latest", "private_address"),
        ("http://100.100.100.200", "private_address"),
        ("http://168.63.129.16", "private_address"),
        ("http://metadata.google.internal", "private_address"),
        ("https://0.0.0.0", "private_address"),
        ("https://[fe80::1]", "private_address"),
        ("https://[fd00:ec2::254]", "private_address"),
        ("https://[fc00::1]", "private_address"),
        ("https://[::]", "private_address"),
        ("https://[64:ff9b::a00:1]", "private_address"),
        ("https://[2002:a00:1::]", "private_address"),
        ("https://[::ffff:10.0.0.1]", "invalid_host"),
        ("https://[::ffff:8.8.8.8]", "invalid_host"),
        ("http://2130706433", "invalid_host"),
        ("http://0x7f000001", "invalid_host"),
        ("http://0x7f.0.0.1", "invalid_host"),
        ("http://0177.0.0.1", "invalid_host"),
        ("http://127.1", "invalid_host"),
        ("https://10.0.0.1.", "invalid_host"),
        ("https://api.example.com./v1", "invalid_host"),
        ("https://api_example..com", "invalid_host"),
        ("https://api.example.com/v1?key=x", "invalid_url"),
        ("https://api.example.com/v1#x", "invalid_url"),
        ("https://user:pw@api.example.com", "literal_secret"),
        ("https://user@api.example.com", "literal_secret"),
        ("https://api.example.com:0", "invalid_url"),
        ("https://api.exam\tple.com", "invalid_url"),
        ("https:\\\\api.example.com", "invalid_url"),
        ("ftp://api.example.com", "invalid_url"),
        ("api.example.com", "invalid_url"),
        ("//api.example.com", "invalid_url"),
        ("https://", "invalid_url"),
        ("https://api.example.com:99999", "invalid_url"),
    ];
    for (url, code) in cases {
        let at = "/providers/p/base_url";
        let message = refused(at, json!(url), at, code);
        assert!(!message.contains("pw") && !message.contains("user@"));
    }
}

#[test]
fn base_urls_that_are_meant_are_accepted() {
    let cases = [
        (
            "https://API.Example.com/v1/",
            Scheme::Https,
            "api.example.com",
            443,
            "/v1",
        ),
        (
            "https://api.example.com:8443",
            Scheme::Https,
            "api.example.com",
            8443,
            "",
        ),
        ("http://localhost:7500", Scheme::Http, "localhost", 7500, ""),
        (
            "http://sim.localhost",
            Scheme::Http,
            "sim.localhost",
            80,
            "",
        ),
        (
            "http://127.0.0.1:7500/v1",
            Scheme::Http,
            "127.0.0.1",
            7500,
            "/v1",
        ),
        ("http://127.8.8.8", Scheme::Http, "127.8.8.8", 80, ""),
        ("http://[::1]:7500", Scheme::Http, "::1", 7500, ""),
        (
            "http://llm.internal:8000/v1",
            Scheme::Http,
            "llm.internal",
            8000,
            "/v1",
        ),
        ("http://10.1.2.3", Scheme::Http, "10.1.2.3", 80, ""),
        ("http://[fd12::7]", Scheme::Http, "fd12::7", 80, ""),
        ("https://1.1.1.1", Scheme::Https, "1.1.1.1", 443, ""),
        (
            "https://xn--bcher-kva.example",
            Scheme::Https,
            "xn--bcher-kva.example",
            443,
            "",
        ),
    ];
    for (url, scheme, host, port, path_prefix) in cases {
        let gateway = accepted("/providers/p/base_url", json!(url));
        let parsed = &gateway.providers["p"].base_url;
        assert_eq!(
            (
                parsed.scheme,
                parsed.host.as_str(),
                parsed.port,
                parsed.path_prefix.as_str()
            ),
            (scheme, host, port, path_prefix),
            "{url}"
        );
    }
}

#[test]
fn the_guard_judges_what_a_name_resolves_to() {
    let guard = |url: &str| {
        let gateway = accepted("/providers/p/base_url", json!(url));
        gateway.providers["p"].address_guard.clone()
    };
    let permits = |url: &str, address: &str| guard(url).permit(address.parse().unwrap()).is_ok();
    assert!(permits("https://api.example.com", "1.1.1.1"));
    assert!(!permits("https://api.example.com", "127.0.0.1"));
    assert!(!permits("https://api.example.com", "10.0.0.1"));
    assert!(!permits("https://api.example.com", "::ffff:10.0.0.1"));
    assert!(!permits("https://api.example.com", "169.254.169.254"));
    assert!(
        permits("https://api.example.com", "10.1.0.9"),
        "a listed network"
    );
    assert!(permits("https://api.example.com", "::ffff:10.1.0.9"));
    assert!(permits("http://localhost", "::1"));
    assert!(!permits("http://localhost", "10.0.0.1"));
    assert!(permits("http://llm.internal", "192.168.0.1"));
}

#[test]
fn private_hosts_are_names_addresses_or_networks() {
    for entry in [
        "http://x",
        "x:80",
        "*.x",
        "x/y",
        "",
        "x.",
        "0.0.0.0/0",
        "::/0",
        "0x7f.1",
        "1.2",
    ] {
        let at = "/allow_private_hosts/0";
        refused(
            "/allow_private_hosts",
            json!([entry, "llm.internal"]),
            at,
            "invalid_host",
        );
    }
}

#[test]
fn secrets_are_references_and_never_come_back() {
    const SECRET: &str = "sk-live-0123456789";
    let literal = json!({ SECRET: null });
    let cases = [
        (
            "/providers/p/api_key",
            json!(SECRET),
            "/providers/p/api_key",
            "literal_secret",
        ),
        (
            "/providers/p/api_key",
            literal,
            "/providers/p/api_key",
            "invalid_secret_ref",
        ),
        (
            "/providers/p/api_key",
            json!([SECRET]),
            "/providers/p/api_key",
            "invalid_secret_ref",
        ),
        (
            "/providers/p/api_key",
            json!({}),
            "/providers/p/api_key",
            "invalid_secret_ref",
        ),
        (
            "/providers/p/api_key",
            json!({"value": SECRET}),
            "/providers/p/api_key",
            "invalid_secret_ref",
        ),
        (
            "/providers/p/api_key",
            json!({"env": "A", "file": "/a"}),
            "/providers/p/api_key",
            "invalid_secret_ref",
        ),
        (
            "/providers/p/api_key",
            json!({"env": SECRET}),
            "/providers/p/api_key/env",
            "invalid_secret_ref",
        ),
        (
            "/providers/p/api_key",
            json!({"file": SECRET}),
            "/providers/p/api_key/file",
            "invalid_secret_ref",
        ),
        (
            "/providers/p/headers",
            json!({"Authorization": SECRET}),
            "/providers/p/headers/Authorization",
            "literal_secret",
        ),
        (
            "/providers/p/headers",
            json!({"x-custom": SECRET}),
            "/providers/p/headers/x-custom",
            "literal_secret",
        ),
        (
            "/providers/p/base_url",
            json!("https://sk-live-0123456789@api.example.com"),
            "/providers/p/base_url",
            "literal_secret",
        ),
        (
            "/clients",
            json!([{"name": "c", "key_sha256": SECRET}]),
            "/clients/0/key_sha256",
            "invalid_sha256",
        ),
    ];
    for (set_at, value, pointer, code) in cases {
        refused(set_at, value.clone(), pointer, code);
        let all = serde_json::to_string(&problems(&with(set_at, value))).unwrap();
        assert!(!all.contains(SECRET), "{all}");
    }

    let key = |value: Value| {
        let gateway = accepted("/providers/p/api_key", value);
        gateway.providers["p"].api_keys.clone()
    };
    assert_eq!(key(Value::Null), []);
    assert_eq!(key(json!({"env": "KEY"})), [SecretRef::Env("KEY".into())]);
    assert_eq!(
        key(json!({"file": "/run/k"})),
        [SecretRef::File("/run/k".into())]
    );
    assert_eq!(key(json!([{"env": "A"}])), [SecretRef::Env("A".into())]);
    let several = json!([{"env": "A"}, {"env": "B"}]);
    refused(
        "/providers/p/api_key",
        several,
        "/providers/p/api_key",
        "not_served",
    );
    let twice = json!([{"env": "A"}, {"env": "A"}]);
    let found = problems(&with("/providers/p/api_key", twice));
    let is_duplicate =
        |it: &Problem| it.pointer == "/providers/p/api_key/1" && it.code == "duplicate";
    assert!(found.iter().any(is_duplicate), "{found:?}");
}

#[test]
fn headers_must_be_harmless() {
    let cases = [
        ("bad name", "x", "invalid_header"),
        ("", "x", "invalid_header"),
        ("x-a", "line\r\nbreak", "invalid_header"),
        ("x-a", "ü", "invalid_header"),
        ("Transfer-Encoding", "chunked", "invalid_header"),
        ("content-length", "1", "invalid_header"),
        ("host", "x", "invalid_header"),
        ("connection", "x-a", "invalid_header"),
        ("cookie", "a=b", "literal_secret"),
        ("X-Api-Key", "abc", "literal_secret"),
    ];
    for (name, value, code) in cases {
        let at = format!("/providers/p/headers/{name}");
        refused("/providers/p/headers", json!({ name: value }), &at, code);
    }
    refused(
        "/providers/p/headers",
        json!({"X-A": "1", "x-a": "2"}),
        "/providers/p/headers/x-a",
        "duplicate",
    );
    let gateway = accepted(
        "/providers/p/headers",
        json!({"Anthropic-Version": "2023-06-01"}),
    );
    let text = crate::spec::HeaderValue::Text("2023-06-01".to_owned());
    let expected = [("anthropic-version".to_owned(), text)];
    assert_eq!(gateway.providers["p"].headers, expected);
}

#[test]
fn names_are_bounded_and_plain() {
    let long = "n".repeat(64);
    refused("/gateway", json!(long), "/gateway", "too_long");
    refused("/gateway", json!(""), "/gateway", "empty");
    refused("/gateway", json!("Edge"), "/gateway", "invalid_name");
    refused("/gateway", json!("edge_1"), "/gateway", "invalid_name");
    let model = json!({"provider": "p"});
    refused(
        &format!("/models/{long}"),
        model.clone(),
        &format!("/models/{long}"),
        "too_long",
    );
    refused("/models/a b", model.clone(), "/models/a b", "invalid_name");
    refused("/models/", model.clone(), "/models/", "empty");
    refused("/models/-x", model.clone(), "/models/-x", "invalid_name");
    let pool = json!({"members": [{"target": "a"}]});
    refused(
        &format!("/pools/{long}"),
        pool.clone(),
        &format!("/pools/{long}"),
        "too_long",
    );
    let provider = json!({"protocol": "openai", "base_url": "https://x.example"});
    refused(
        &format!("/providers/{long}"),
        provider,
        &format!("/providers/{long}"),
        "too_long",
    );
    refused(
        "/labels",
        json!({"a": "x\ny"}),
        "/labels/a",
        "invalid_label",
    );
    let gateway = accepted("/models/meta-llama~1Llama-3.1:70B@x", model);
    assert!(gateway.lanes.contains_key("meta-llama/Llama-3.1:70B@x"));
    accepted(&format!("/pools/{}", "n".repeat(63)), pool);
}

#[test]
fn error_codes_are_codes_and_not_prose() {
    let at = "/providers/p/error_map";
    refused(
        at,
        json!({"please retry": "transient"}),
        "/providers/p/error_map/please retry",
        "invalid_error_code",
    );
    refused(
        at,
        json!({"x": "fatal"}),
        "/providers/p/error_map/x",
        "unknown_value",
    );
}

#[test]
fn clients_must_differ() {
    let key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let other = key.replace('9', "A");
    let clients = |second: Value| json!([{"name": "one", "key_sha256": key}, second]);
    refused(
        "/clients",
        clients(json!({"name": "one", "key_sha256": other})),
        "/clients/1/name",
        "duplicate",
    );
    refused(
        "/clients",
        clients(json!({"name": "two", "key_sha256": key.to_uppercase()})),
        "/clients/1/key_sha256",
        "duplicate",
    );
    for bad in [
        "",
        "abc",
        &key[1..],
        &format!("{key}0"),
        &key.replace('9', "g"),
    ] {
        refused(
            "/clients",
            json!([{"name": "one", "key_sha256": bad}]),
            "/clients/0/key_sha256",
            "invalid_sha256",
        );
    }
    let gateway = accepted(
        "/clients",
        clients(json!({"name": "two", "key_sha256": other, "pools": ["chat", "a"]})),
    );
    assert!(gateway.clients[0].may_use("anything"));
    assert!(gateway.clients[1].may_use("chat") && gateway.clients[1].may_use("a"));
    assert!(!gateway.clients[1].may_use("spare"));
    assert_eq!(gateway.clients[0].key_sha256[..3], [0x9f, 0x86, 0xd0]);
}

#[test]
fn too_many_entries_are_refused() {
    let mut document = base();
    for number in 0..=2_000 {
        set(
            &mut document,
            &format!("/pools/p{number}"),
            json!({"members": [{"target": "a"}]}),
        );
    }
    let found = problems(&document);
    assert_eq!(
        (found.len(), found[0].pointer.as_str()),
        (1, "/pools"),
        "{found:#?}"
    );
    assert_eq!(found[0].code, "too_many");

    let mut document = base();
    for number in 0..=10_000 {
        set(
            &mut document,
            &format!("/models/m{number}"),
            json!({"provider": "p"}),
        );
    }
    let found = problems(&document);
    assert_eq!((found.len(), found[0].pointer.as_str()), (1, "/models"));
    assert_eq!(found[0].code, "too_many");
}

/// A document whose pools have `whole` thousands of members, and `more`.
fn with_memberships(whole: usize, more: usize) -> Value {
    let mut document = base();
    for number in 0..1_000 {
        document["models"][format!("m{number}")] = json!({"provider": "p"});
    }
    let members = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|number| json!({"target": format!("m{number}")}))
            .collect()
    };
    document["pools"] = json!({});
    for number in 0..whole {
        document["pools"][format!("p{number}")] = json!({"members": members(1_000)});
    }
    if more > 0 {
        document["pools"]["rest"] = json!({"members": members(more)});
    }
    document
}

#[test]
fn pools_have_a_bound_on_their_members_together() {
    // Each pool, each count is within its own bound: what an agent carries is the sum.
    assert!(check_json(&with_memberships(50, 0)).is_ok());
    let found = problems(&with_memberships(50, 1));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (found[0].pointer.as_str(), found[0].code.as_str()),
        ("/pools", "too_many")
    );
    assert_eq!(
        found[0].message,
        "the pools have 50001 members together; at most 50000 are allowed"
    );
}

#[test]
fn the_list_of_problems_is_bounded() {
    let mut document = base();
    for number in 0..700 {
        set(&mut document, &format!("/x{number}"), json!(1));
    }
    let found = problems(&document);
    assert_eq!(found.len(), PROBLEMS_MAX);
    let last = found.last().unwrap();
    assert_eq!(
        (last.code.as_str(), last.message.as_str()),
        (
            "too_many_problems",
            "the list is cut: there are 700 problems in all, 201 more than are shown"
        )
    );
}

#[test]
fn a_pool_block_replaces_the_default_whole() {
    let mut document = base();
    set(
        &mut document,
        "/defaults",
        json!({"breaker": {"preset": "rolter", "base_cooldown_secs": 7}}),
    );
    set(
        &mut document,
        "/pools/chat/breaker",
        json!({"trip": {"min_requests": 9}}),
    );
    let gateway = check_json(&document).unwrap().gateway;
    let chat = &gateway.pools["chat"];
    let spare = &gateway.pools["spare"];
    let own = lanekeeper_breaker::Policy {
        trip: lanekeeper_breaker::Trip {
            min_requests: 9,
            ..Default::default()
        },
        ..Default::default()
    };
    assert_eq!(*chat.breaker, own);
    assert_eq!(chat.on_exhausted, OnExhausted::Reject);
    assert_eq!(
        spare.breaker.base_cooldown,
        std::time::Duration::from_secs(7)
    );
    assert_eq!(spare.breaker.trip.consecutive_n, 5);
    assert_eq!(
        spare.on_exhausted,
        OnExhausted::FailOpen,
        "the preset's way"
    );
    assert_eq!(*gateway.direct_breaker, *spare.breaker);
}

#[test]
fn empty_blocks_mean_the_presets() {
    use lanekeeper_breaker::presets;
    for (name, preset) in [
        ("default", presets::default()),
        ("rolter", presets::rolter()),
        ("myra", presets::myra()),
        ("aibridge", presets::aibridge()),
    ] {
        let gateway = accepted("/pools/chat/breaker", json!({ "preset": name }));
        assert_eq!(*gateway.pools["chat"].breaker, preset, "{name}");
    }
    let gateway = accepted(
        "/pools/chat/breaker",
        json!({"preset": "myra", "trip": {"window": "tumbling"}}),
    );
    assert_eq!(*gateway.pools["chat"].breaker, presets::myra());
    let codes = |value: Value| {
        let gateway = accepted("/pools/chat/breaker", value);
        gateway.pools["chat"].breaker.failure_status_codes.clone()
    };
    assert_eq!(
        codes(json!({"preset": "aibridge"})),
        Some(vec![429, 503, 529])
    );
    assert_eq!(
        codes(json!({"preset": "aibridge", "failure_status_codes": null})),
        None
    );
    assert_eq!(
        codes(json!({"preset": "aibridge", "failure_status_codes": []})),
        Some(vec![])
    );
}

#[test]
fn members_take_the_values_of_their_lane_unless_they_have_their_own() {
    let mut document = base();
    set(
        &mut document,
        "/models/a",
        json!({"provider": "p", "context_max": 1000, "first_content_timeout_ms": 7}),
    );
    set(
        &mut document,
        "/pools/chat/members/0",
        json!({"target": "a", "context_max": 500, "attempt_timeout_ms": 5}),
    );
    set(&mut document, "/models/b/attempt_timeout_ms", Value::Null);
    let gateway = check_json(&document).unwrap().gateway;
    let [a, b] = gateway.pools["chat"].members.as_slice() else {
        panic!("two members");
    };
    let ms = std::time::Duration::from_millis;
    assert_eq!(a.context_max, Some(500));
    assert_eq!(
        (a.timeouts.headers(true), a.timeouts.headers(false)),
        (Some(ms(5)), Some(ms(5)))
    );
    assert_eq!(a.timeouts.first_content, Some(ms(7)));
    assert_eq!((a.weight, b.weight), (1, 1));
    assert_eq!(
        b.timeouts.headers(false),
        None,
        "headers come with the answer"
    );
    assert_eq!(b.timeouts.headers(true), Some(ms(60_000)));
    assert_eq!(a.provider, ProviderName::from("p"));
    assert_eq!(gateway.lanes["b"].name, LaneName::from("b"));
    assert_eq!(gateway.lanes["b"].upstream_model, "b");
}

#[test]
fn one_mistake_does_not_hide_another_in_the_same_part() {
    let mut document = base();
    set(
        &mut document,
        "/providers/p",
        json!({
            "protcol": "openai",
            "base_url": "http://10.0.0.1",
            "api_key": "sk-live",
            "headers": {"host": "x"},
        }),
    );
    set(
        &mut document,
        "/pools/chat",
        json!({
            "colour": 1,
            "members": [{"target": "a", "weight": -1}, {"target": "a"}, {"target": "x"}],
            "failover": {"timeout_secs": "2", "exclusions": ["b"]},
            "on_exhausted": {"queue": {"max_ms": 500_000}},
        }),
    );
    let found = problems(&document);
    let short: Vec<(&str, &str)> = found
        .iter()
        .map(|problem| (problem.pointer.as_str(), problem.code.as_str()))
        .collect();
    assert_eq!(
        short,
        [
            ("/pools/chat/colour", "unknown_key"),
            ("/pools/chat/failover/timeout_secs", "wrong_type"),
            ("/pools/chat/members/0/weight", "out_of_range"),
            ("/pools/chat/members/1/target", "duplicate"),
            ("/pools/chat/members/2/target", "unknown_reference"),
            ("/providers/p", "missing_key"),
            ("/providers/p/api_key", "literal_secret"),
            ("/providers/p/base_url", "private_address"),
            ("/providers/p/headers/host", "invalid_header"),
            ("/providers/p/protcol", "unknown_key"),
        ]
    );
}

#[test]
fn whole_numbers_may_be_written_with_a_fraction() {
    let gateway = accepted("/models/a/max_concurrent", json!(5.0));
    assert_eq!(gateway.lanes["a"].max_concurrent, Some(5));
}

#[test]
fn deep_nesting_is_refused_without_recursing() {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    assert_eq!(problems(&with("/labels", deep))[0].code, "too_deep");
}

#[test]
fn yaml_errors_say_where() {
    let cases = [
        ("gateway: edge\ngateway: edge\n", "line 2, column 1"),
        ("gateway: [edge\n", "line"),
        ("gateway: edge\n---\ngateway: b\n", "line"),
        ("a: &a [*a]\n", "line 1"),
        ("limits: {inbound_max: .inf}\n", "line 1"),
        ("x: *nothing\n", "line 1, column 4"),
        ("gateway: edge\n\tx: y\n", "line "),
    ];
    for (text, place) in cases {
        let found = check_yaml(text).unwrap_err();
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        assert_eq!(found[0].code, "syntax", "{text:?}: {found:?}");
        assert!(
            found[0].message.contains(place),
            "{text:?}: {}",
            found[0].message
        );
    }
    let empty = check_yaml("").unwrap_err();
    assert_eq!(
        (empty[0].pointer.as_str(), empty[0].code.as_str()),
        ("", "wrong_type")
    );
    let huge = check_yaml(&" ".repeat(DOCUMENT_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(huge[0].code, "too_large");
    // However it came in: what is stored and pushed is its JSON text.
    let mut document = base();
    set(
        &mut document,
        "/labels",
        json!({"a": "x".repeat(DOCUMENT_BYTES_MAX)}),
    );
    assert_eq!(problems(&document)[0].code, "too_large");
}

#[test]
fn json_text_is_read_as_strictly_as_yaml() {
    let value = parse_json(br#"{"gateway": "edge", "labels": {"a": "b"}}"#).unwrap();
    assert!(check_json(&value).is_ok());
    let cases: [(&[u8], &str); 5] = [
        (
            br#"{"gateway": "edge", "gateway": "b"}"#,
            "a key is given twice",
        ),
        (b"{\"gateway\":\n tru}", "line 2"),
        (b"{\"a\": 1e999}", "line 1"),
        (b"{} {}", "line 1"),
        (b"\xff", "line 1"),
    ];
    for (text, part) in cases {
        let problem = parse_json(text).unwrap_err();
        assert_eq!(problem.code, "syntax");
        assert!(problem.message.contains(part), "{problem}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(parse_json(deep.as_bytes()).unwrap_err().code, "syntax");
}

#[test]
fn comparisons_are_made_where_nothing_compared_was_refused() {
    let mut document = base();
    set(
        &mut document,
        "/pools/chat",
        json!({
            "colour": 1,
            "members": [{"target": "a"}],
            "breaker": {"base_cooldown_secs": 300},
            "failover": {"exclusions": ["a"], "max_hop": 1},
        }),
    );
    let short: Vec<(String, String)> = problems(&document)
        .into_iter()
        .map(|problem| (problem.pointer, problem.code))
        .collect();
    let expected = [
        ("/pools/chat/breaker/base_cooldown_secs", "base_over_max"),
        ("/pools/chat/colour", "unknown_key"),
        ("/pools/chat/failover/max_hop", "unknown_key"),
    ];
    assert_eq!(
        short,
        expected.map(|(pointer, code)| (pointer.to_owned(), code.to_owned()))
    );
}

#[test]
fn alias_bombs_are_cut() {
    let mut text = String::from("l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let refs = vec![format!("*l{}", level - 1); 10].join(", ");
        text.push_str(&format!("l{level}: &l{level} [{refs}]\n"));
    }
    let found = check_yaml(&text).unwrap_err();
    assert_eq!(
        (found.len(), found[0].code.as_str()),
        (1, "syntax"),
        "{found:?}"
    );
}

#[test]
fn syntax_errors_show_no_text_of_the_document() {
    let text = "providers:\n  p:\n    api_key: \"sk-live-0123456789\n";
    let found = check_yaml(text).unwrap_err();
    assert!(
        !found[0].message.contains("sk-live"),
        "{}",
        found[0].message
    );
}

#[test]
fn words_that_look_like_booleans_stay_words() {
    let checked = check_yaml("gateway: no\nlabels: {a: yes, b: off, c: 2023-06-01}\n").unwrap();
    assert_eq!(checked.gateway.name, "no");
    assert_eq!(checked.document["labels"]["c"], "2023-06-01");
}

#[test]
fn the_hash_ignores_the_order_of_keys_and_nothing_else() {
    let hash = |text: &str| content_hash(&serde_json::from_str(text).unwrap());
    let one = hash(r#"{"b": [1, {"y": null, "x": "é\n"}], "a": 1.5}"#);
    assert_eq!(one, hash(r#"{"a":1.5,"b":[1,{"x":"é\n","y":null}]}"#));
    assert_ne!(one, hash(r#"{"a":1.5,"b":[{"x":"é\n","y":null},1]}"#));
    // sha256 of the text {"a":1}
    assert_eq!(
        hash(r#"{"a": 1}"#),
        "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    );
}

#[test]
fn yaml_and_json_of_one_document_are_one_document() {
    let text = include_str!("../../tests/fixtures/example.yaml");
    let from_yaml = check_yaml(text).unwrap();
    let from_json = check_json(&from_yaml.document).unwrap();
    let as_json_text = serde_json::to_string(&from_yaml.document).unwrap();
    let from_text = check_yaml(&as_json_text).unwrap();
    assert_eq!(from_yaml.document, from_json.document);
    assert_eq!(
        content_hash(&from_yaml.document),
        content_hash(&from_text.document)
    );
}
