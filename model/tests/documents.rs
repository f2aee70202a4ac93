//! Whole documents: the reference example passes, a bad one lists everything, and nothing panics.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

use lanekeeper_model::{check_json, check_yaml};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const EXAMPLE: &str = include_str!("fixtures/example.yaml");
const WRONG: &str = include_str!("fixtures/wrong.yaml");

#[test]
fn the_reference_example_passes() {
    let checked = check_yaml(EXAMPLE).unwrap();
    let gateway = checked.gateway;
    assert_eq!(gateway.pools.len(), 3);
    // Six of lanes, and the own one of a provider.
    assert_eq!(gateway.cells().len(), 7);
    let chat = &gateway.pools["chat"];
    assert_eq!(*chat.breaker, lanekeeper_breaker::presets::default());
    assert_eq!(*gateway.pools["patient"].breaker, *chat.breaker);
    let local = gateway.providers["local-openai"].breaker.as_ref().unwrap();
    assert_eq!(local.trip.failure_count, 3);
}

#[test]
fn the_reference_example_names_every_key_of_the_schema() {
    let schema = lanekeeper_model::json_schema();
    for definition in schema["$defs"].as_object().unwrap().values() {
        for key in definition["properties"].as_object().into_iter().flatten() {
            let named = format!("{}:", key.0);
            assert!(EXAMPLE.contains(&named), "the example lacks {named}");
        }
    }
}

#[test]
fn everything_wrong_is_listed_at_once() {
    let problems = check_yaml(WRONG).unwrap_err();
    let listed: String = problems
        .iter()
        .map(|problem| format!("{problem}\n"))
        .collect();
    assert!(!listed.contains("SECRET"), "{listed}");
    insta::assert_snapshot!(listed);
}

/// Any JSON, with the document's own keys and words among it.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "gateway",
        "labels",
        "providers",
        "models",
        "pools",
        "defaults",
        "clients",
        "limits",
        "allow_private_hosts",
        "protocol",
        "base_url",
        "api_key",
        "env",
        "file",
        "members",
        "target",
        "weight",
        "breaker",
        "trip",
        "on_exhausted",
        "fallback_pool",
        "queue",
        "max_ms",
        "failover",
        "exclusions",
        "openai",
        "sonnet",
        "chat",
        "http://10.0.0.1",
        "https://[::1",
        "a/b~c",
        "",
        "\u{0}",
        "ü",
    ]);
    let key = prop_oneof![4 => words.clone().prop_map(str::to_owned), 1 => ".{0,8}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..10_i64).prop_map(Value::from),
        words.prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Places of a document: every value in it.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                places(entry, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                places(entry, &format!("{at}/{key}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn assert_sensible(document: &Value) {
    match check_json(document) {
        Ok(checked) => assert_eq!(checked.document, *document),
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in &problems {
                // Whatever the schema admits can be read, and whatever is refused has a reason.
                assert!(
                    !["invalid", "internal"].contains(&problem.code.as_str()),
                    "{problem} in {document}"
                );
                assert!(problem.pointer.is_empty() || problem.pointer.starts_with('/'));
                assert!(!problem.message.is_empty());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_json_is_judged_without_a_panic(document in any_json()) {
        assert_sensible(&document);
    }

    #[test]
    fn a_good_document_with_anything_put_anywhere_is_judged(
        at in any::<prop::sample::Index>(),
        again in any::<prop::sample::Index>(),
        first in any_json(),
        second in any_json(),
    ) {
        let mut document = check_yaml(EXAMPLE).unwrap().document;
        for (index, value) in [(at, first), (again, second)] {
            let mut all = Vec::new();
            places(&document, "", &mut all);
            if let Some(place) = document.pointer_mut(index.get(all.as_slice()).as_str()) {
                *place = value;
            }
        }
        assert_sensible(&document);
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text in ".{0,200}") {
        let _ = check_yaml(&text);
    }

    #[test]
    fn a_literal_key_never_comes_back(at in prop::sample::select(vec![
        "/providers/anthropic-main/api_key",
        "/providers/anthropic-main/api_key/env",
        "/providers/anthropic-main/base_url",
        "/providers/anthropic-main/headers/anthropic-version",
        "/providers/anthropic-main/protocol",
        "/providers/anthropic-main/health",
        "/clients/0/key_sha256",
        "/pools/chat/on_exhausted",
        "/pools/chat/strategy",
    ]), tail in "[a-zA-Z0-9]{20,40}") {
        let mut document = check_yaml(EXAMPLE).unwrap().document;
        let key = format!("sk-{tail}");
        *document.pointer_mut(at).unwrap() = json!(key);
        let problems = check_json(&document).unwrap_err();
        let all = serde_json::to_string(&problems).unwrap();
        prop_assert!(!all.contains(&tail), "{all}");
    }
}
