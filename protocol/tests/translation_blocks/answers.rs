//! Whole answers.

use serde_json::{Value, json};

use crate::support::{ANTHROPIC, GEMINI, ask};

fn from_gemini() -> crate::support::Asked {
    let body = json!({"max_tokens": 9, "messages": [{"role": "user", "content": "go"}]});
    ask(ANTHROPIC, GEMINI, &body)
}

fn from_anthropic() -> crate::support::Asked {
    ask(
        GEMINI,
        ANTHROPIC,
        &json!({"contents": {"parts": {"text": "go"}}}),
    )
}

/// Reports R47, R49 and R50.
#[test]
fn reasons_of_geminis_end_an_answer_though_it_is_empty() {
    for (reason, expected) in [
        ("STOP", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "refusal"),
        ("RECITATION", "refusal"),
        ("SPII", "refusal"),
        ("BLOCKLIST", "refusal"),
        ("LANGUAGE", "refusal"),
        ("IMAGE_SAFETY", "refusal"),
        ("MALFORMED_FUNCTION_CALL", "end_turn"),
        ("UNEXPECTED_TOOL_CALL", "end_turn"),
        ("OTHER", "end_turn"),
        ("A_NEW_ONE", "end_turn"),
    ] {
        for content in [Value::Null, json!({"role": "model"}), json!({"parts": []})] {
            let answer = json!({"candidates": [
                {"content": content, "finishReason": reason, "finishMessage": "m", "index": 0}]});
            let whole = from_gemini().answer(&answer);
            assert_eq!(whole["content"], json!([]));
            assert_eq!(whole["stop_reason"], expected, "{reason}");
            let events = from_gemini().stream(&[answer]);
            let kinds: Vec<_> = events.iter().map(|event| event["type"].clone()).collect();
            assert_eq!(kinds, ["message_start", "message_delta", "message_stop"]);
            assert_eq!(events[1]["delta"]["stop_reason"], expected);
        }
    }
}

/// Report R48.
#[test]
fn a_blocked_prompt_is_an_answer_and_nothing_is_none() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []},
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5}, "modelVersion": "m"});
    let whole = from_gemini().answer(&blocked);
    assert_eq!(whole["stop_reason"], "refusal");
    assert_eq!(whole["usage"]["input_tokens"], 5);
    let events = from_gemini().stream(&[blocked]);
    assert_eq!(events[1]["delta"]["stop_reason"], "refusal");
    for nothing in ["{}", "[]", r#"{"candidates":[]}"#, "null", "text"] {
        assert!(
            from_gemini().exchange.answer(nothing.as_bytes()).is_none(),
            "{nothing}"
        );
        assert!(
            from_anthropic()
                .exchange
                .answer(nothing.as_bytes())
                .is_none(),
            "{nothing}"
        );
    }
}

/// Report R49.
#[test]
fn reasons_of_anthropics_pass_as_the_nearest() {
    for (reason, expected) in [
        ("end_turn", "STOP"),
        ("stop_sequence", "STOP"),
        ("tool_use", "STOP"),
        ("max_tokens", "MAX_TOKENS"),
        ("model_context_window_exceeded", "MAX_TOKENS"),
        ("refusal", "SAFETY"),
        ("pause_turn", "OTHER"),
        ("a_new_one", "OTHER"),
    ] {
        let answer = json!({"type": "message", "content": [], "stop_reason": reason});
        let whole = from_anthropic().answer(&answer);
        assert_eq!(whole["candidates"][0]["finishReason"], expected);
        assert_eq!(
            whole["candidates"][0]["content"]["parts"],
            json!([{"text": ""}])
        );
    }
}

/// Reports R53 and R54.
#[test]
fn tokens_are_counted_as_the_caller_counts_them() {
    let gemini = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {
        "promptTokenCount": 15, "candidatesTokenCount": 6, "thoughtsTokenCount": 190,
        "cachedContentTokenCount": 5, "toolUsePromptTokenCount": 3, "totalTokenCount": 214}});
    let usage = from_gemini().answer(&gemini)["usage"].clone();
    assert_eq!(
        usage,
        json!({"input_tokens": 13, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0,
               "output_tokens": 196, "output_tokens_details": {"thinking_tokens": 190}})
    );
    let anthropic = json!({"type": "message", "content": [], "stop_reason": "end_turn", "usage": {
        "input_tokens": 10, "cache_read_input_tokens": 75, "cache_creation_input_tokens": 15,
        "output_tokens": 4, "service_tier": "standard"}});
    assert_eq!(
        from_anthropic().answer(&anthropic)["usageMetadata"],
        json!({"promptTokenCount": 100, "cachedContentTokenCount": 75, "candidatesTokenCount": 4,
               "totalTokenCount": 104})
    );
    let more_cached_than_read = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {
        "promptTokenCount": 100, "cachedContentTokenCount": 120}});
    assert_eq!(
        from_gemini().answer(&more_cached_than_read)["usage"]["input_tokens"],
        0
    );
}

/// Reports R04, R11, R22 and R26.
#[test]
fn blocks_are_as_clients_of_anthropics_read_them() {
    let answer = json!({
        "candidates": [{"content": {"role": "model", "parts": [
            {"text": "plan", "thought": true},
            {"text": "I look."},
            {"functionCall": {"name": "read", "args": {"p": "a"}}},
            {"functionCall": {"name": "read", "args": {"p": "a"}}},
            {"functionCall": {"name": "now"}},
        ]}, "finishReason": "STOP"}],
        "responseId": "r1", "modelVersion": "m",
    });
    let whole = from_gemini().answer(&answer);
    assert_eq!(whole["id"], "msg_r1");
    assert_eq!(whole["type"], "message");
    assert_eq!(whole["role"], "assistant");
    assert_eq!(whole["model"], "pool");
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["stop_sequence"], Value::Null);
    let blocks = whole["content"].as_array().expect("blocks");
    assert_eq!(blocks[0]["thinking"], "plan");
    assert!(blocks[0]["signature"].is_string());
    assert_eq!(blocks[1], json!({"type": "text", "text": "I look."}));
    assert_eq!(blocks[2]["input"], json!({"p": "a"}));
    assert_eq!(blocks[4]["input"], json!({}));
    let ids: std::collections::BTreeSet<_> = { blocks[2..].iter() }
        .map(|block| block["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids.len(), 3);
}

/// Report R45.
#[test]
fn the_made_up_tool_never_shows() {
    let body = json!({
        "contents": {"parts": {"text": "go"}},
        "tools": {"functionDeclarations": {"name": "f"}},
        "generationConfig": {"responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}},
    });
    let asked = ask(GEMINI, ANTHROPIC, &body);
    let made = json!({"type": "tool_use", "id": "t1", "name": "json_answer", "input": {"a": 1}});
    let other = json!({"type": "tool_use", "id": "t2", "name": "f", "input": {}});
    let text = json!({"type": "text", "text": "Here it is:"});
    for (content, expected) in [
        (json!([made]), json!([{"text": r#"{"a":1}"#}])),
        (json!([text, made]), json!([{"text": r#"{"a":1}"#}])),
        (
            json!([other]),
            json!([{"functionCall": {"id": "t2", "name": "f", "args": {}},
                    "thoughtSignature": "skip_thought_signature_validator"}]),
        ),
    ] {
        let answer = json!({"type": "message", "content": content, "stop_reason": "tool_use"});
        let candidate = asked.answer(&answer)["candidates"][0].clone();
        assert_eq!(candidate["content"]["parts"], expected);
        assert_eq!(candidate["finishReason"], "STOP");
    }
}

/// Report R70.
#[test]
fn what_the_vendors_own_tools_did_is_no_call_of_the_callers() {
    let answer = json!({"type": "message", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "found", "citations": [{"type": "char_location"}]},
        {"type": "a_new_one", "text": 1, "id": {}, "input": []},
    ], "stop_reason": "pause_turn"});
    let candidate = from_anthropic().answer(&answer)["candidates"][0].clone();
    assert_eq!(candidate["content"]["parts"], json!([{"text": "found"}]));
}
