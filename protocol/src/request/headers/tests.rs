//! Field reports B97, B106, B110, B113: what crosses the agent and what does not.

use lanekeeper_model::gateway::Scheme;

use super::*;
use crate::dialect::Protocol;

fn base_url() -> BaseUrl {
    BaseUrl {
        scheme: Scheme::Https,
        host: "api.example.com".to_owned(),
        port: 8443,
        path_prefix: String::new(),
    }
}

fn provider(protocol: Protocol, extra: &[(&str, &str)], key: Option<&str>) -> ProviderHeaders {
    let extra: Vec<(String, String)> = extra
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    ProviderHeaders::new(crate::vendor(protocol), &base_url(), &extra, key).unwrap()
}

fn map(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

#[test]
fn nothing_of_this_hop_or_of_the_caller_goes_upstream() {
    let kept = [
        ("content-type", "application/json"),
        ("user-agent", "sdk"),
        ("accept", "text/event-stream"),
        ("x-stainless-lang", "python"),
        ("idempotency-key", "7"),
    ];
    let dropped = [
        ("connection", "x-foo, Keep-Alive, X-Bar"),
        ("x-foo", "1"),
        ("x-bar", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("upgrade", "h2c"),
        ("http2-settings", "x"),
        ("transfer-encoding", "chunked"),
        ("content-length", "12"),
        ("expect", "100-continue"),
        ("host", "agent.local"),
        ("proxy-authorization", "z"),
        ("proxy-connection", "keep-alive"),
        ("authorization", "Bearer caller"),
        ("x-api-key", "caller"),
        ("api-key", "caller"),
        ("x-goog-api-key", "caller"),
        ("cookie", "session=1"),
        ("x-lanekeeper-lane", "forged"),
        ("forwarded", "for=1.2.3.4"),
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-host", "h"),
        ("x-real-ip", "1.2.3.4"),
        ("via", "1.1 x"),
        ("x-unheard-of", "1"),
        ("x-goog-fieldmask", "error"),
        ("accept-language", "de"),
        ("accept-encoding", "gzip, br"),
        ("x-session-id", "s"),
    ];
    let caller = map(&[kept.as_slice(), dropped.as_slice()].concat());
    for protocol in [
        Protocol::Openai,
        Protocol::Anthropic,
        Protocol::Gemini,
        Protocol::Cohere,
    ] {
        let sent = upstream_request(&caller, &provider(protocol, &[], None), Credential::Own);
        for (name, value) in kept {
            assert_eq!(sent.get(name).unwrap(), value, "{name} passes");
        }
        for (name, value) in dropped {
            assert!(
                !sent.get_all(name).iter().any(|sent| sent == value),
                "{name} stays"
            );
        }
        assert_eq!(sent.get("host").unwrap(), "api.example.com:8443");
        assert_eq!(sent.get("accept-encoding").unwrap(), "identity");
    }
}

#[test]
fn each_protocol_gets_its_own_credential_header() {
    let cases = [
        (Protocol::Openai, "authorization", "Bearer k1"),
        (Protocol::Responses, "authorization", "Bearer k1"),
        (Protocol::Cohere, "authorization", "Bearer k1"),
        (Protocol::Anthropic, "x-api-key", "k1"),
        (Protocol::Gemini, "x-goog-api-key", "k1"),
    ];
    let caller = map(&[
        ("authorization", "Bearer caller"),
        ("x-api-key", "caller"),
        ("x-goog-api-key", "caller"),
    ]);
    for (protocol, name, value) in cases {
        let headers = provider(protocol, &[], Some("k1\n"));
        let sent = upstream_request(&caller, &headers, Credential::Own);
        assert_eq!(
            sent.get_all(name).iter().collect::<Vec<_>>(),
            [value],
            "{protocol:?}"
        );
        assert!(
            !sent
                .values()
                .any(|value| value.as_bytes().ends_with(b"caller"))
        );
        assert!(
            !format!("{headers:?}{sent:?}").contains("k1"),
            "secrets never print"
        );
    }
}

#[test]
fn passthrough_forwards_the_callers_key_of_that_dialect_only() {
    let caller = map(&[
        ("authorization", "Bearer caller"),
        ("x-api-key", "caller-x"),
        ("x-goog-api-key", "caller-g"),
        ("cookie", "c=1"),
        ("proxy-authorization", "p"),
    ]);
    let names = [
        "authorization",
        "x-api-key",
        "x-goog-api-key",
        "cookie",
        "proxy-authorization",
    ];
    let cases: &[(Protocol, &[&str])] = &[
        (Protocol::Openai, &["authorization"]),
        (Protocol::Anthropic, &["authorization", "x-api-key"]),
        (Protocol::Gemini, &["authorization", "x-goog-api-key"]),
        (Protocol::Cohere, &["authorization"]),
    ];
    for (protocol, passed) in cases {
        let headers = provider(*protocol, &[], Some("own"));
        let sent = upstream_request(&caller, &headers, Credential::Passthrough);
        for name in names {
            assert_eq!(
                sent.contains_key(name),
                passed.contains(&name),
                "{protocol:?} {name}"
            );
        }
        assert!(
            !sent
                .values()
                .any(|value| value.as_bytes().ends_with(b"own"))
        );
    }
}

#[test]
fn account_of_a_request_is_chosen_by_the_operator_unless_the_key_is_the_callers() {
    let caller = map(&[
        ("openai-organization", "caller"),
        ("openai-project", "caller"),
        ("anthropic-workspace-id", "caller"),
        ("x-goog-user-project", "caller"),
        ("x-auth-token", "caller"),
    ]);
    let cases: &[(Protocol, &[&str])] = &[
        (Protocol::Openai, &["openai-organization", "openai-project"]),
        (
            Protocol::Responses,
            &["openai-organization", "openai-project"],
        ),
        (Protocol::Anthropic, &["anthropic-workspace-id"]),
        (Protocol::Gemini, &["x-goog-user-project"]),
        (Protocol::Cohere, &[]),
    ];
    for (protocol, own) in cases {
        let headers = provider(*protocol, &[("openai-organization", "operator")], None);
        let sent = upstream_request(&caller, &headers, Credential::Own);
        assert!(!sent.values().any(|value| value == "caller"), "{sent:?}");
        assert_eq!(sent.get("openai-organization").unwrap(), "operator");

        let headers = provider(*protocol, &[], None);
        let sent = upstream_request(&caller, &headers, Credential::Passthrough);
        let passed: Vec<&str> = sent
            .iter()
            .filter(|(_, value)| *value == "caller")
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(passed, *own, "{protocol:?}");
    }
}

#[test]
fn configured_headers_win_over_the_callers() {
    let caller = map(&[("anthropic-version", "2020-01-01"), ("x-app", "caller")]);
    let plain = upstream_request(
        &caller,
        &provider(Protocol::Anthropic, &[], None),
        Credential::Own,
    );
    assert_eq!(plain.get("anthropic-version").unwrap(), "2020-01-01");
    let headers = provider(Protocol::Anthropic, &[("x-app", "search")], None);
    assert_eq!(
        upstream_request(&caller, &headers, Credential::Own)
            .get("x-app")
            .unwrap(),
        "search"
    );
    let none = upstream_request(&HeaderMap::new(), &headers, Credential::Own);
    assert_eq!(none.get("anthropic-version").unwrap(), "2023-06-01");
    assert_eq!(none.get("content-type").unwrap(), "application/json");
}

#[test]
fn lists_of_caller_and_operator_are_joined_and_all_else_is_replaced() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&[], "op", "op"),
        (&["a,b", "c"], "op", "a, b, c, op"),
        (&["a, op", " b ,a,,"], "op,d , a", "a, op, b, d"),
        (&[""], "op", "op"),
    ];
    for (protocol, name) in [
        (Protocol::Anthropic, "anthropic-beta"),
        (Protocol::Openai, "openai-beta"),
        (Protocol::Responses, "openai-beta"),
    ] {
        for (lines, operator, expected) in cases {
            let caller: Vec<_> = lines.iter().map(|line| (name, *line)).collect();
            let headers = provider(protocol, &[(name, operator)], None);
            let sent = upstream_request(&map(&caller), &headers, Credential::Own);
            let sent: Vec<_> = sent.get_all(name).iter().collect();
            assert_eq!(sent, [expected], "{lines:?}");
        }
    }
    // A list of another vendor is nothing to this one's lanes.
    let caller = map(&[("anthropic-beta", "a"), ("user-agent", "caller")]);
    let extra = [("user-agent", "operator"), ("via", "1.1 operator")];
    let headers = provider(Protocol::Openai, &extra, None);
    let sent = upstream_request(&caller, &headers, Credential::Own);
    assert!(!sent.contains_key("anthropic-beta"));
    assert_eq!(sent["user-agent"], "operator");
    assert_eq!(sent["via"], "1.1 lanekeeper");
}

#[test]
fn bytes_that_are_no_text_pass_as_they_are() {
    let mut caller = HeaderMap::new();
    caller.insert(
        "user-agent",
        HeaderValue::from_bytes(b"sesi\xc3\xb3n\xff").unwrap(),
    );
    caller.insert("connection", HeaderValue::from_bytes(b"\xff").unwrap());
    let sent = upstream_request(
        &caller,
        &provider(Protocol::Openai, &[], None),
        Credential::Own,
    );
    assert_eq!(
        sent.get("user-agent").unwrap().as_bytes(),
        b"sesi\xc3\xb3n\xff"
    );
}

#[test]
fn answers_lose_what_belongs_to_the_upstream_hop() {
    let answer = map(&[
        ("connection", "close, x-bar"),
        ("x-bar", "1"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("x-lanekeeper-lane", "forged"),
        ("alt-svc", "h3"),
        ("proxy-authenticate", "Basic"),
        ("content-type", "application/json"),
        ("content-length", "12"),
        ("content-encoding", "gzip"),
        ("x-ratelimit-remaining", "3"),
        ("request-id", "req_1"),
        ("retry-after", "3"),
    ]);
    let sent = downstream_response(answer);
    let mut names: Vec<&str> = sent.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "content-encoding",
            "content-length",
            "content-type",
            "request-id",
            "retry-after",
            "x-ratelimit-remaining"
        ]
    );
}

#[test]
fn event_streams_have_no_length() {
    let stream = map(&[
        ("content-type", "Text/Event-Stream; charset=utf-8"),
        ("content-length", "9"),
    ]);
    assert!(is_event_stream(&stream));
    assert!(!downstream_response(stream).contains_key("content-length"));
    assert!(!is_event_stream(&map(&[(
        "content-type",
        "application/json"
    )])));
    assert!(!is_event_stream(&HeaderMap::new()));
}

#[test]
fn lengths_that_two_readers_could_see_differently_are_refused() {
    let refused: &[&[(&str, &str)]] = &[
        &[("content-length", "5"), ("transfer-encoding", "chunked")],
        &[("content-length", "5"), ("content-length", "6")],
        &[("content-length", "")],
        &[("content-length", "+5")],
        &[("content-length", "5, 5")],
        &[("content-length", "0x5")],
        &[("transfer-encoding", "gzip, chunked")],
        &[
            ("transfer-encoding", "chunked"),
            ("transfer-encoding", "chunked"),
        ],
        &[("transfer-encoding", "identity")],
    ];
    for headers in refused {
        assert!(conflicting_length(&map(headers)).is_some(), "{headers:?}");
    }
    let accepted: &[&[(&str, &str)]] = &[
        &[],
        &[("content-length", "5")],
        &[("content-length", "5"), ("content-length", "5")],
        &[("transfer-encoding", "Chunked")],
    ];
    for headers in accepted {
        assert_eq!(conflicting_length(&map(headers)), None, "{headers:?}");
    }
}

#[test]
fn unusable_secrets_are_refused_without_being_shown() {
    let error = ProviderHeaders::new(
        crate::vendor(Protocol::Openai),
        &base_url(),
        &[],
        Some("SEC\u{1}RET"),
    )
    .unwrap_err();
    assert_eq!(error, HeaderError::Credential);
    assert!(!error.to_string().contains("SEC"));
}

#[test]
fn detached_values_say_the_same_and_keep_no_buffer() {
    let buffer = bytes::Bytes::copy_from_slice(b"one two \xfe");
    let mut headers = HeaderMap::new();
    for (name, range) in [("a", 0..3), ("b", 4..7), ("b", 8..9), ("c", 0..0)] {
        let value = HeaderValue::from_maybe_shared(buffer.slice(range)).expect("a value");
        headers.append(name, value);
    }
    if let Some(secret) = headers.get_mut("a") {
        secret.set_sensitive(true);
    }
    let before = headers.clone();
    detach(&mut headers);
    assert_eq!(headers, before);
    assert!(headers.get("a").is_some_and(HeaderValue::is_sensitive));
    drop(before);
    assert!(buffer.is_unique());
    detach(&mut HeaderMap::new());
}
