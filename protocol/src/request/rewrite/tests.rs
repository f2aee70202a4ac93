//! The rewritten body is the caller's body with one token changed.

use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::locate::locate;

fn sent(chain: BodyChain) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async { chain.collect().await.unwrap().to_bytes().to_vec() })
}

fn rewritten(body: &[u8], name: &str) -> (u64, Vec<u8>) {
    let body = Bytes::copy_from_slice(body);
    let range = locate(&body).unwrap().model;
    let chain = BodyChain::with_model(&body, range, name);
    (chain.len(), sent(chain))
}

#[test]
fn only_the_name_changes() {
    let body = br#"{ "stream":true, "model" : "chat","x":[1, 2] }"#;
    let (len, bytes) = rewritten(body, "claude-sonnet-4-5");
    assert_eq!(
        bytes,
        br#"{ "stream":true, "model" : "claude-sonnet-4-5","x":[1, 2] }"#
    );
    assert_eq!(len, bytes.len() as u64);
}

#[test]
fn names_are_escaped() {
    let (_, bytes) = rewritten(br#"{"model":"chat"}"#, "a\"b\\c\n");
    assert_eq!(bytes, br#"{"model":"a\"b\\c\n"}"#);
}

#[test]
fn an_unchanged_name_sends_the_callers_own_bytes() {
    let body = Bytes::from_static(br#"{"model":"chat"}"#);
    let range = locate(&body).unwrap().model;
    let chain = BodyChain::with_model(&body, range, "chat");
    assert_eq!(chain.segments[0].as_ptr(), body.as_ptr());
}

#[test]
fn large_bodies_are_not_copied() {
    let text = "x".repeat(JOIN_MAX_BYTES);
    let body = Bytes::from(json!({"model": "chat", "t": text}).to_string());
    let range = locate(&body).unwrap().model;
    let chain = BodyChain::with_model(&body, range.clone(), "other");
    assert_eq!(chain.segments[0].as_ptr(), body.as_ptr());
    assert_eq!(chain.segments[2].as_ptr(), body[range.end..].as_ptr());
    assert_eq!(chain.size_hint().exact(), Some(body.len() as u64 + 1));
    let again = chain.clone();
    assert_eq!(sent(chain), sent(again));
}

proptest! {
    #[test]
    fn the_result_means_the_same_but_for_the_model(
        name in "\\PC{1,40}",
        other in "\\PC{1,40}",
        text in prop_oneof!["\\PC{0,40}", Just("long ".repeat(4000))],
    ) {
        let mut value = json!({"a": text, "model": name, "z": [1, {"model": "inner"}]});
        let (len, bytes) = rewritten(value.to_string().as_bytes(), &other);
        prop_assert_eq!(len, bytes.len() as u64);
        value["model"] = Value::from(other);
        prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value);
    }
}

#[test]
fn every_place_that_names_the_model_is_changed() {
    let body = br#"{"requests":[{"model":"models/chat","x":"chat"},{"model":"chat"}],"y":1}"#;
    let body = Bytes::from_static(body);
    let places = ModelPlaces::Both(
        crate::locate::model_names(crate::Dialect::GEMINI_GENERATE.vendor(), &body).unwrap(),
    );
    for name in ["gem-2", "models/gem-2"] {
        let bytes = sent(BodyChain::with_model_at(&body, &places, name));
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            r#"{"requests":[{"model":"models/gem-2","x":"chat"},{"model":"gem-2"}],"y":1}"#
        );
    }
    let chain = BodyChain::with_model_at(&body, &ModelPlaces::Path, "gem-2");
    assert_eq!(sent(chain), body);
}
