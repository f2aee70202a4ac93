//! Each field's own rules: what is refused, where and why, and what is made of the rest.

use std::time::Duration;

use serde_json::json;

use super::{accepted, problems, refused, with};
use crate::Gateway;
use crate::document::check_json;
use crate::gateway::{Auth, Cors, Protocol, Proxy};
use crate::spec::{HeaderValue, SecretRef};

#[test]
fn limits_have_their_defaults_and_fit_together() {
    let limits = accepted("/limits", json!({})).limits;
    assert_eq!(limits.idle_timeout, Duration::from_secs(75));
    assert_eq!(limits.body_timeout, Duration::from_secs(30));
    assert_eq!(limits.body_total, Duration::from_secs(600));
    assert_eq!(limits.bodies_max_bytes, 256 * 1024 * 1024);
    assert_eq!(limits.hops_max, 2);
    let over = json!({"body_max_bytes": 11, "bodies_max_bytes": 10});
    refused("/limits", over, "/limits/body_max_bytes", "over_budget");
    let over = json!({"body_timeout_secs": 11, "body_total_secs": 10});
    refused("/limits", over, "/limits/body_timeout_secs", "over_budget");
}

#[test]
fn several_protocols_are_native_and_the_first_is_primary() {
    let gateway = accepted("/providers/p/protocol", json!(["responses", "openai"]));
    let protocols = &gateway.providers["p"].protocols;
    assert_eq!(protocols.primary(), Protocol::Responses);
    assert!(protocols.speaks(Protocol::Openai) && !protocols.speaks(Protocol::Gemini));
    let at = "/providers/p/protocol";
    refused(
        at,
        json!(["openai", "openai"]),
        "/providers/p/protocol/1",
        "duplicate",
    );
}

#[test]
fn base_url_may_name_the_model_and_is_no_endpoint() {
    let at = "/providers/p/base_url";
    let url = "https://a.example.com/openai/deployments/{model}";
    let gateway = accepted(at, json!(url));
    assert_eq!(gateway.providers["p"].base_url.to_string(), url);
    assert!(gateway.providers["p"].base_url.names_model());
    refused(at, json!("https://a.example.com/{name}"), at, "invalid_url");
    let endpoint = json!("https://a.example.com/v1/chat/completions");
    refused(at, endpoint, at, "whole_endpoint");
}

#[test]
fn authentication_has_the_fields_of_its_kind() {
    let at = "/providers/p/auth";
    let header = json!({"kind": "header", "name": "Api-Key"});
    let expected = Auth::Header {
        name: "api-key".to_owned(),
        scheme: None,
    };
    assert_eq!(accepted(at, header).providers["p"].auth, expected);
    let kind = |kind: &str| json!({ "kind": kind });
    refused(at, kind("header"), at, "missing_key");
    // Both kinds are refused as not served besides what is wrong with them.
    let codes = |value| {
        let found = problems(&with(at, value)).into_iter();
        found.map(|it| (it.pointer, it.code)).collect::<Vec<_>>()
    };
    let owned = |pointer: &str, code: &str| (pointer.to_owned(), code.to_owned());
    let not_served = owned("/providers/p/auth/kind", "not_served");
    assert_eq!(
        codes(kind("aws")),
        [owned(at, "missing_key"), not_served.clone()]
    );
    let useless = json!({"kind": "google", "region": "eu"});
    let without_effect = owned("/providers/p/auth/region", "without_effect");
    assert_eq!(codes(useless), [not_served, without_effect]);
}

#[test]
fn fields_without_effect_yet_are_refused_by_name() {
    for (at, value) in [
        ("/providers/p/auth/kind", json!("google")),
        ("/pools/chat/failover/retry_budget/scope", json!("fleet")),
    ] {
        let (parent, field) = at.rsplit_once('/').unwrap();
        refused(parent, json!({ field: value }), at, "not_served");
    }
    let at = "/providers/p/auth";
    let aws = json!({"kind": "aws", "region": "eu-central-1"});
    refused(at, aws, "/providers/p/auth/kind", "not_served");
    accepted("/models/a/max_output_tokens", json!(100));
    let accepts = json!({"token_field": "max_tokens", "samplers": "none", "stop": false,
                         "reasoning": "effort"});
    accepted("/models/a/accepts", accepts);
    accepted(
        "/pools/chat/fleet",
        json!({"mode": "act", "probe": "coordinated"}),
    );
    accepted(
        "/pools/chat/failover/retry_budget",
        json!({"ratio": 0.2, "min_per_sec": 0}),
    );
}

#[test]
fn query_and_headers_carry_no_literal_credential() {
    let at = "/providers/p/query";
    let gateway = accepted(at, json!({"api-version": "2025-04-01-preview"}));
    let expected = [("api-version".to_owned(), "2025-04-01-preview".to_owned())];
    assert_eq!(gateway.providers["p"].query, expected);
    refused(
        at,
        json!({"key": "x"}),
        "/providers/p/query/key",
        "literal_secret",
    );
    let at = "/providers/p/headers";
    for name in [
        "ocp-apim-subscription-key",
        "x-functions-key",
        "x-secret",
        "helicone-auth",
    ] {
        let place = format!("/providers/p/headers/{name}");
        refused(at, json!({ name: "x" }), &place, "literal_secret");
        let gateway = accepted(at, json!({ name: {"env": "KEY"} }));
        let secret = HeaderValue::Secret(SecretRef::Env("KEY".to_owned()));
        assert_eq!(gateway.providers["p"].headers, [(name.to_owned(), secret)]);
    }
}

#[test]
fn proxy_is_the_environments_none_or_a_url() {
    let at = "/providers/p/proxy";
    let proxy = |value| accepted(at, value).providers["p"].proxy.clone();
    assert_eq!(proxy(json!(null)), Proxy::Environment);
    assert_eq!(proxy(json!("none")), Proxy::Never);
    let through = Proxy::Through {
        host: "proxy".to_owned(),
        port: 8080,
        credentials: Some(SecretRef::Env("P".to_owned())),
    };
    let given = json!({"url": "http://proxy:8080", "credentials": {"env": "P"}});
    assert_eq!(proxy(given), through);
    refused(at, json!("socks5://proxy"), at, "invalid_url");
    refused(at, json!("http://user:pw@proxy"), at, "literal_secret");
}

#[test]
fn routes_name_pools_and_can_be_reached() {
    let routes = json!([{"match": "claude-*", "pool": "chat"}, {"match": "*", "pool": "spare"}]);
    let gateway = accepted("/routes", routes);
    let pool = |name| gateway.route(name).map(|pool| pool.to_string());
    assert_eq!(pool("claude-x").as_deref(), Some("chat"));
    assert_eq!(pool("gpt").as_deref(), Some("spare"));
    let unknown = json!([{"match": "a-*", "pool": "chatt"}]);
    refused("/routes", unknown, "/routes/0/pool", "unknown_reference");
    let hidden = json!([{"match": "*", "pool": "chat"}, {"match": "b", "pool": "chat"}]);
    refused("/routes", hidden, "/routes/1/match", "unreachable");
    let declared = json!([{"match": "chat", "pool": "spare"}]);
    refused("/routes", declared, "/routes/0/match", "unreachable");
}

#[test]
fn origins_are_written_as_browsers_do() {
    let at = "/cors/origins";
    assert_eq!(accepted("/cors", json!({})).cors, Cors::Off);
    assert_eq!(accepted(at, json!(["*"])).cors, Cors::Any);
    assert!(
        accepted(at, json!(["https://a.example"]))
            .cors
            .allows("https://a.example")
    );
    for wrong in ["https://a.example/", "a.example", "https://A.example"] {
        refused(at, json!([wrong]), "/cors/origins/0", "invalid_origin");
    }
}

#[test]
fn empty_key_and_long_silence_are_refused() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let client = json!([{"name": "c", "key_sha256": empty}]);
    refused(
        "/clients",
        client,
        "/clients/0/key_sha256",
        "invalid_sha256",
    );
    let at = "/pools/chat/keepalive_after_secs";
    refused(at, json!(601), at, "over_budget");
    let gateway = accepted(at, json!(20));
    assert_eq!(
        gateway.pools["chat"].keepalive_after,
        Some(Duration::from_secs(20))
    );
}

#[test]
fn last_error_is_relayed_where_there_is_one_lane() {
    let gateway = accepted("/labels", json!({}));
    assert!(gateway.has_usable_pool());
    assert!(!gateway.pools["chat"].relays_last_error);
    assert!(gateway.pools["spare"].relays_last_error, "one member");
    let none = accepted("/pools", json!({}));
    assert!(!none.has_usable_pool());
}

#[test]
fn usable_pools_are_the_same_in_the_document_and_what_it_means() {
    let members = |first: u32, second: u32| {
        json!({"chat": {"members": [{"target": "a", "weight": first},
            {"target": "b", "weight": second}], "failover": {"exclusions": ["b"]}}})
    };
    for (pools, is_usable) in [
        (json!({}), false),
        (json!({"chat": {"members": [{"target": "a"}]}}), true),
        (members(1, 1), true),
        (members(0, 1), false),
    ] {
        assert_eq!(
            Gateway::document_has_usable_pool(&json!({"pools": pools})),
            is_usable,
            "{pools}"
        );
        let document = with("/pools", pools.clone());
        if let Ok(checked) = check_json(&document) {
            assert_eq!(checked.gateway.has_usable_pool(), is_usable, "{pools}");
        }
    }
}
