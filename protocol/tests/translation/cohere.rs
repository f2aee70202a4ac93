//! Cohere's chat, as lane and as caller.

use lanekeeper_protocol::Protocol;
use serde_json::{Value, json};

use crate::harness::{Folded, Pair, frames_of, normal, plain, translator};

const TO: Pair = Pair {
    caller: Protocol::Openai,
    lane: Protocol::Cohere,
};
const FROM: Pair = Pair {
    caller: Protocol::Cohere,
    lane: Protocol::Openai,
};

fn chat(name: &str, value: Value) -> Value {
    let mut request = plain(Protocol::Openai);
    request[name] = value;
    request
}

fn functions(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"type": "function", "function": {"name": name}});
    names.iter().map(tool).collect()
}

/// R78.
#[test]
fn only_members_that_it_knows_are_written_and_never_null() {
    let request = json!({"model": "asked", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I will", "refusal": null, "audio": null, "function_call": null,
            "annotations": [], "tool_calls": [
            {"index": 0, "id": "x_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "x_1", "content": "12:00"}]});
    assert_eq!(
        TO.sent(&request),
        json!({"model": "lane-model", "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "tool_plan": "I will", "tool_calls": [
                {"id": "x_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
            {"role": "tool", "content": "12:00", "tool_call_id": "x_1"}]})
    );
    assert_eq!(TO.lost(&request), "");
}

/// R79.
#[test]
fn a_stream_with_a_plan_and_a_call_arrives_whole() {
    let call = |call: Value| json!({"message": {"tool_calls": call}});
    let frames = [
        json!({"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}}),
        json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "I will"}}}),
        json!({"type": "tool-call-start", "index": 0, "delta": call(json!({"id": "f_1", "type": "function",
            "function": {"name": "f", "arguments": ""}}))}),
        json!({"type": "tool-call-delta", "index": 0, "delta": call(json!({"function": {"arguments": "{\"a\""}}))}),
        json!({"type": "tool-call-delta", "index": 0, "delta": call(json!({"function": {"arguments": ":1}"}}))}),
        json!({"type": "tool-call-end", "index": 0}),
        json!({"type": "citation-start", "index": 0, "delta": {"message": {"citations": {}}}}),
        json!({"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": {
            "billed_units": {"input_tokens": 3, "output_tokens": 2},
            "tokens": {"input_tokens": 40.0, "output_tokens": 12}}}}),
    ];
    let mut reader = translator(Protocol::Cohere).stream_reader();
    let read = normal(Folded::read(reader.as_mut(), frames.iter().cloned()));
    assert_eq!(&read[..2], ["text I will", "call f_1 f {\"a\":1}"]);
    assert!(
        read[2].starts_with("ToolCalls Some(Usage { input: 40, output: 12"),
        "{read:?}"
    );
    let chunks = TO.streamed(&plain(Protocol::Openai), &frames);
    let starts: Vec<_> = { chunks.iter() }
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].get("id"))
        .collect();
    assert_eq!(starts, [&json!("f_1")]);
    // The whole answer says the same.
    let answer = json!({"id": "c1", "finish_reason": "TOOL_CALL", "message": {"role": "assistant",
        "tool_plan": "I will", "tool_calls": [
            {"id": "f_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
        "usage": {"billed_units": {"input_tokens": 3, "output_tokens": 2},
            "tokens": {"input_tokens": 40, "output_tokens": 12}}});
    let whole = answer.to_string();
    let whole = translator(Protocol::Cohere).read_answer(whole.as_bytes());
    assert_eq!(normal(whole.expect("an answer")), read);
    let seen = TO.answered(&plain(Protocol::Openai), &answer);
    assert_eq!(seen["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(seen["choices"][0]["message"]["content"], "I will");
    assert_eq!(seen["model"], "asked");
}

/// R20.
#[test]
fn a_choice_of_tools_is_said_or_the_lane_is_skipped() {
    let with = |choice: Value| {
        let mut request = chat("tools", functions(&["f", "g"]));
        request["tool_choice"] = choice;
        request
    };
    for (choice, wanted, tools) in [
        (json!("auto"), Value::Null, 2),
        (json!("none"), json!("NONE"), 2),
        (json!("required"), json!("REQUIRED"), 2),
        (
            json!({"type": "function", "function": {"name": "g"}}),
            json!("REQUIRED"),
            1,
        ),
    ] {
        let sent = TO.sent(&with(choice));
        assert_eq!(sent["tool_choice"], wanted);
        assert_eq!(sent["tools"].as_array().map(Vec::len), Some(tools));
    }
    let mut request = with(json!("auto"));
    request["parallel_tool_calls"] = json!(false);
    assert_eq!(TO.lost(&request), "parallel_tool_calls");
}

/// R46, R52, R59, R83, R87, R90.
#[test]
fn what_it_lacks_is_cut_dropped_or_refused_by_name() {
    for (name, value, field) in [
        ("n", json!(2), "n"),
        ("stop", json!(["1", "2", "3", "4", "5", "6"]), "stop"),
        (
            "messages",
            json!([{"role": "user", "content": [
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]}]),
            "messages[0].content[0].type",
        ),
        (
            "messages",
            json!([{"role": "user", "content": [
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}]}]),
            "messages[0].content[0].type",
        ),
    ] {
        assert_eq!(TO.refused(&chat(name, value)), field);
    }
    let mut request = chat("tools", functions(&["f"]));
    request["response_format"] = json!({"type": "json_object"});
    assert_eq!(TO.refused(&request), "response_format");
    let mut request = plain(Protocol::Openai);
    for (name, value) in [
        ("temperature", json!(2)),
        ("frequency_penalty", json!(-0.5)),
        ("presence_penalty", json!(0.5)),
        ("user", json!("u")),
        ("service_tier", json!("flex")),
        ("stop", json!("\n")),
        ("seed", json!(7)),
        ("max_completion_tokens", json!(100)),
        ("reasoning_effort", json!("high")),
        (
            "response_format",
            json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}),
        ),
    ] {
        request[name] = value;
    }
    assert_eq!(
        TO.lost(&request),
        "frequency_penalty, service_tier, temperature, user"
    );
    assert_eq!(
        TO.sent(&request),
        json!({"model": "lane-model", "messages": [{"role": "user", "content": "hi"}],
            "temperature": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.5,
            "stop_sequences": ["\n"], "seed": 7, "max_tokens": 100,
            "thinking": {"type": "enabled", "token_budget": 50},
            "response_format": {"type": "json_object", "json_schema": {"type": "object"}}})
    );
}

#[test]
fn its_own_thoughts_come_back_to_it_and_others_do_not() {
    let answer = json!({"id": "c1", "finish_reason": "TOOL_CALL", "message": {"content": [
        {"type": "thinking", "thinking": "why"}], "tool_calls": [
        {"id": "f_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}});
    let seen = TO.answered(&plain(Protocol::Openai), &answer);
    let message = &seen["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "why");
    let next = json!({"model": "asked", "messages": [{"role": "user", "content": "hi"}, message,
        {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "1"}]});
    let sent = TO.sent(&next);
    assert_eq!(
        sent["messages"][1]["content"],
        json!([{"type": "thinking", "thinking": "why"}])
    );
    assert_eq!(sent["messages"][1]["tool_calls"][0]["id"], "f_1");
    let elsewhere = Pair {
        caller: Protocol::Openai,
        lane: Protocol::Responses,
    };
    assert!(!elsewhere.sent(&next).to_string().contains("why"));
}

#[test]
fn its_callers_are_served_by_other_lanes() {
    let request = json!({"model": "asked", "temperature": 0, "k": 0, "p": 0.9, "stop_sequences": ["a"],
        "strict_tools": true, "tool_choice": "REQUIRED", "safety_mode": "STRICT",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://img.example/a.png", "detail": "low"}}]},
            {"role": "assistant", "tool_plan": "I will", "tool_calls": [
                {"id": "f_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "f_1", "content": [
                {"type": "document", "document": {"data": {"t": 1.10}, "id": "d"}}, {"type": "text", "text": "x"}]}]});
    let translated = FROM.translate(&request).expect("it can be said");
    assert_eq!(translated.losses.header(), "safety_mode");
    assert_eq!(
        FROM.sent(&request),
        json!({"model": "lane-model", "temperature": 0.0, "top_p": 0.9, "stop": ["a"], "tool_choice": "required",
            "tools": [{"type": "function", "function": {"name": "f", "strict": true}}],
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "https://img.example/a.png", "detail": "low"}}]},
                {"role": "assistant", "content": "I will", "tool_calls": [
                    {"id": "f_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "f_1", "content": [
                    {"type": "text", "text": "{\"t\":1.1}"}, {"type": "text", "text": "x"}]}]})
    );
    for (name, value) in [("documents", json!(["d"])), ("logprobs", json!(true))] {
        let mut request = plain(Protocol::Cohere);
        request[name] = value;
        assert_eq!(FROM.refused(&request), name);
    }
    let answer = json!({"id": "x", "model": "m", "choices": [{"finish_reason": "length", "message": {"content": "a"}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 4}}});
    assert_eq!(
        FROM.answered(&plain(Protocol::Cohere), &answer),
        json!({"id": "x", "finish_reason": "MAX_TOKENS", "message": {"role": "assistant",
            "content": [{"type": "text", "text": "a"}]},
            "usage": {"billed_units": {"input_tokens": 5, "output_tokens": 6},
                "tokens": {"input_tokens": 5, "output_tokens": 6}, "cached_tokens": 4}})
    );
    let frames = [
        json!({"id": "x", "model": "m", "choices": [{"delta": {"content": "a"}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ];
    let text = FROM.streamed_text(&plain(Protocol::Cohere), &frames);
    let kinds: Vec<_> = { frames_of(&text) }
        .map(|(name, data)| {
            assert_eq!(name.as_deref(), data["type"].as_str());
            name.unwrap_or_default()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "message-start",
            "content-start",
            "content-delta",
            "content-end",
            "message-end"
        ]
    );
}
