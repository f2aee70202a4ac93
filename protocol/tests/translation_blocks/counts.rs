//! How many tokens a request has, by the lane's own measure. Report R72.

use lanekeeper_model::gateway::Protocol;
use lanekeeper_protocol::translation::{self, Translated};
use serde_json::{Value, json};

use crate::support::{ANTHROPIC, GEMINI, LANE, translator};

fn counted(from: Protocol, to: Protocol, body: &Value) -> Translated {
    let body = body.to_string();
    let (from, to) = (translator(from), translator(to));
    translation::count_tokens(from, to, body.as_bytes(), &LANE).expect("a count")
}

fn document(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

#[test]
fn instructions_and_tools_are_counted_and_nothing_else_is_asked_for() {
    let body = json!({
        "model": "pool",
        "system": "be brief",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    });
    let asked = counted(ANTHROPIC, GEMINI, &body);
    assert_eq!(
        document(&asked.body),
        json!({"generateContentRequest": {
            "model": "models/lane-model",
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
        }})
    );
    let answer = asked
        .exchange
        .answer(br#"{"totalTokens": 728, "cachedContentTokenCount": 1}"#);
    assert_eq!(
        document(&answer.expect("a count")),
        json!({"input_tokens": 728})
    );
    assert!(asked.exchange.answer(b"{}").is_none());
}

#[test]
fn responses_count_and_are_counted() {
    let body = json!({
        "model": "pool",
        "system": "be brief",
        "max_tokens": 9,
        "temperature": 0.5,
        "messages": [{"role": "user", "content": "hi"}],
    });
    let asked = counted(ANTHROPIC, Protocol::Responses, &body);
    let sent = document(&asked.body);
    for field in [
        "max_output_tokens",
        "temperature",
        "store",
        "stream",
        "include",
    ] {
        assert_eq!(sent[field], Value::Null, "{sent}");
    }
    assert_eq!(sent["model"], "lane-model");
    assert!(sent.to_string().contains("be brief"), "{sent}");
    let answer = br#"{"object": "response.input_tokens", "input_tokens": 11}"#;
    let answer = asked.exchange.answer(answer).expect("a count");
    assert_eq!(document(&answer), json!({"input_tokens": 11}));

    let body = json!({"model": "pool", "instructions": "be brief", "input": "hi"});
    let asked = counted(Protocol::Responses, GEMINI, &body);
    let request = &document(&asked.body)["generateContentRequest"];
    assert_eq!(
        request["systemInstruction"],
        json!({"parts": [{"text": "be brief"}]})
    );
    let answer = asked
        .exchange
        .answer(br#"{"totalTokens": 7}"#)
        .expect("a count");
    let expected = json!({"object": "response.input_tokens", "input_tokens": 7});
    assert_eq!(document(&answer), expected);
}

#[test]
fn a_protocol_that_cannot_count_is_not_asked() {
    let body = json!({"messages": [{"role": "user", "content": "hi"}]}).to_string();
    for lane in [Protocol::Openai, Protocol::Cohere] {
        let Some(to) = lanekeeper_protocol::vendor(lane).translator() else {
            continue;
        };
        let counted = translation::count_tokens(translator(ANTHROPIC), to, body.as_bytes(), &LANE);
        let refusal = counted.expect_err("no count").to_string();
        assert_eq!(
            refusal,
            "model: is served by lanes that cannot count tokens"
        );
    }
}

#[test]
fn both_forms_of_geminis_requests_are_counted() {
    let inner = json!({
        "contents": {"parts": {"text": "hi"}},
        "system_instruction": {"parts": {"text": "be brief"}},
        "generationConfig": {"temperature": 0.5, "stopSequences": ["X"]},
    });
    for body in [inner.clone(), json!({"generate_content_request": inner})] {
        let asked = counted(GEMINI, ANTHROPIC, &body);
        assert_eq!(
            document(&asked.body),
            json!({
                "model": "lane-model",
                "system": [{"type": "text", "text": "be brief"}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            })
        );
        let answer = asked.exchange.answer(br#"{"input_tokens": 48}"#);
        assert_eq!(
            document(&answer.expect("a count")),
            json!({"totalTokens": 48})
        );
    }
}
