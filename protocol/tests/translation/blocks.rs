//! Chat completions and Responses with lanes and callers of Anthropic's and Gemini's.

use lanekeeper_protocol::Protocol;
use serde_json::{Value, json};

use crate::harness::Pair;

const CHAT_ANTHROPIC: Pair = Pair {
    caller: Protocol::Openai,
    lane: Protocol::Anthropic,
};
const CHAT_GEMINI: Pair = Pair {
    caller: Protocol::Openai,
    lane: Protocol::Gemini,
};
const ANTHROPIC_CHAT: Pair = Pair {
    caller: Protocol::Anthropic,
    lane: Protocol::Openai,
};
const RESPONSES_ANTHROPIC: Pair = Pair {
    caller: Protocol::Responses,
    lane: Protocol::Anthropic,
};
const RESPONSES_GEMINI: Pair = Pair {
    caller: Protocol::Responses,
    lane: Protocol::Gemini,
};
const ANTHROPIC_RESPONSES: Pair = Pair {
    caller: Protocol::Anthropic,
    lane: Protocol::Responses,
};

fn user() -> Value {
    json!({"role": "user", "content": "go"})
}

fn chat(messages: Value) -> Value {
    json!({"model": "asked", "messages": messages})
}

fn function(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters":
        {"type": "object", "properties": {"a": {"type": "integer"}}}}})
}

fn called(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{\"a\":1}"}})
}

/// Reports R01 and R12.
#[test]
fn results_of_parallel_calls_are_one_turn_with_legal_ids_that_differ() {
    let request = chat(json!([
        user(),
        {"role": "assistant", "content": null,
         "tool_calls": [called("a.b:1", "f"), called("a_b_1", "g")]},
        {"role": "tool", "tool_call_id": "a_b_1", "content": "two"},
        {"role": "tool", "tool_call_id": "a.b:1", "content": [{"type": "text", "text": "one"}]},
        {"role": "user", "content": "go on"},
    ]));
    let sent = CHAT_ANTHROPIC.sent(&request);
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(3));
    let calls = &sent["messages"][1]["content"];
    let turn = &sent["messages"][2]["content"];
    assert_eq!(calls[1]["id"], "a_b_1");
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    assert_eq!(turn[0]["tool_use_id"], calls[1]["id"]);
    assert_eq!(turn[1]["tool_use_id"], calls[0]["id"]);
    assert_eq!(turn[2]["text"], "go on");

    let sent = CHAT_GEMINI.sent(&request);
    let turn = &sent["contents"][2]["parts"];
    assert_eq!(turn[0]["functionResponse"]["name"], "f");
    assert_eq!(
        turn[0]["functionResponse"]["response"],
        json!({"output": "one"})
    );
    assert_eq!(turn[1]["functionResponse"]["name"], "g");
}

/// Report R34.
#[test]
fn lists_and_strings_mean_the_same_in_every_role() {
    let written = |as_list: bool| {
        let text = |text: &str| {
            if as_list {
                json!([{"type": "text", "text": text}])
            } else {
                json!(text)
            }
        };
        chat(json!([
            {"role": "system", "content": text("S")},
            {"role": "user", "content": text("U")},
            {"role": "assistant", "content": text("A"), "tool_calls": [called("c1", "f")]},
            {"role": "tool", "tool_call_id": "c1", "content": text("R")},
        ]))
    };
    for pair in [CHAT_ANTHROPIC, CHAT_GEMINI] {
        assert_eq!(
            pair.sent(&written(true)),
            pair.sent(&written(false)),
            "{pair:?}"
        );
    }
}

fn anthropic_frames(blocks: &[(Value, Vec<Value>)], reason: &str) -> Vec<Value> {
    let mut frames = vec![json!({"type": "message_start", "message":
        {"id": "msg_1", "model": "m", "usage": {"input_tokens": 10, "cache_read_input_tokens": 75,
         "cache_creation_input_tokens": 15, "output_tokens": 1}}})];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        frames.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in deltas {
            frames.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        frames.push(json!({"type": "content_block_stop", "index": index}));
    }
    frames.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
                       "usage": {"output_tokens": 4}}),
    );
    frames.push(json!({"type": "message_stop"}));
    frames
}

fn tool_use(id: &str) -> (Value, Vec<Value>) {
    let block = json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let delta = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
    (block, vec![delta("{\"a\""), delta(":1}")])
}

/// Reports R03 and R55.
#[test]
fn tool_calls_of_a_stream_are_counted_from_0_and_usage_comes_once_where_it_is_asked_for() {
    let frames = anthropic_frames(
        &[
            (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                vec![json!({"type": "thinking_delta", "thinking": "hm"})],
            ),
            (
                json!({"type": "text", "text": ""}),
                vec![json!({"type": "text_delta", "text": "I look."})],
            ),
            tool_use("toolu_1"),
            tool_use("toolu_2"),
        ],
        "tool_use",
    );
    let mut request = chat(json!([user()]));
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    let chunks = CHAT_ANTHROPIC.streamed(&request, &frames);
    let mut arguments = vec![String::new(); 2];
    let mut ids = Vec::new();
    for chunk in &chunks {
        for call in chunk["choices"][0]["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let index = usize::try_from(call["index"].as_u64().expect("an index")).expect("small");
            if let Some(id) = call["id"].as_str() {
                assert_eq!(index, ids.len());
                ids.push(id.to_owned());
            }
            arguments[index].push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        }
    }
    assert_eq!(ids, ["toolu_1", "toolu_2"]);
    assert_eq!(arguments, ["{\"a\":1}", "{\"a\":1}"]);
    let usage: Vec<_> = chunks
        .iter()
        .filter(|chunk| chunk["usage"].is_object())
        .collect();
    assert_eq!(usage.len(), 1);
    assert_eq!(usage[0]["choices"], json!([]));
    assert_eq!(usage[0]["usage"]["prompt_tokens"], 100);
    assert_eq!(
        usage[0]["usage"]["prompt_tokens_details"]["cached_tokens"],
        75
    );
    assert_eq!(usage[0]["usage"]["total_tokens"], 104);
    assert_eq!(chunks.last(), Some(&json!("[DONE]")));

    request["stream_options"] = json!({"include_usage": false});
    let chunks = CHAT_ANTHROPIC.streamed(&request, &frames);
    assert!(!chunks.iter().any(|chunk| chunk["usage"].is_object()));
}

fn chunk(delta: Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m",
           "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finished(reason: &str) -> Value {
    json!({"id": "chatcmpl-1", "model": "m",
           "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// Each block of a message in Anthropic's stream: its kind and its text.
fn blocks(events: &[Value]) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    for event in events {
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(event["index"], blocks.len());
                let kind = event["content_block"]["type"].as_str().expect("a kind");
                blocks.push((kind.to_owned(), String::new()));
            }
            "content_block_delta" => {
                assert_eq!(event["index"], blocks.len() - 1);
                let delta = &event["delta"];
                let text = ["text", "thinking", "partial_json"]
                    .iter()
                    .find_map(|name| delta[*name].as_str());
                blocks
                    .last_mut()
                    .expect("one")
                    .1
                    .push_str(text.unwrap_or_default());
            }
            _ => {}
        }
    }
    blocks
}

/// Reports R05, R26, R27, R57 and R62.
#[test]
fn a_stream_of_chat_completions_is_one_of_anthropics() {
    let request = json!({"model": "asked", "max_tokens": 9, "messages": [user()], "stream": true});
    let frames = [
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"reasoning_content": "a"})),
        chunk(json!({"reasoning_content": "b", "content": "4"})),
        chunk(json!({"content": "2"})),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
            "function": {"name": "add", "arguments": "{\"a\":17,"}}]}),
        ),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"b\":25}"}}]})),
        chunk(
            json!({"tool_calls": [{"index": 1, "id": "call_2", "type": "function",
            "function": {"name": "now", "arguments": ""}}]}),
        ),
        finished("tool_calls"),
        json!({"id": "chatcmpl-1", "model": "m", "choices": [], "usage": {"prompt_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 75}, "completion_tokens": 4}}),
        json!("[DONE]"),
    ];
    let text = ANTHROPIC_CHAT.streamed_text(&request, &as_data(&frames));
    let events: Vec<Value> = crate::harness::frames_of(&text)
        .map(|(_, data)| data)
        .collect();
    let found = blocks(&events);
    let found: Vec<_> = { found.iter() }
        .map(|(kind, text)| (kind.as_str(), text.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("thinking", "ab"),
            ("text", "42"),
            ("tool_use", "{\"a\":17,\"b\":25}"),
            ("tool_use", "{}"),
        ]
    );
    let starts = events
        .iter()
        .filter(|event| event["type"] == "message_start")
        .count();
    assert_eq!(starts, 1);
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(end["usage"]["input_tokens"], 25);
    assert_eq!(end["usage"]["cache_read_input_tokens"], 75);
    assert_eq!(end["usage"]["output_tokens"], 4);
}

/// The end of a chat stream is no JSON string.
fn as_data(frames: &[Value]) -> Vec<Value> {
    { frames.iter() }
        .filter(|frame| frame.is_object())
        .cloned()
        .collect()
}

/// Report R23, through a client that keeps id, name and arguments.
#[test]
fn signatures_of_geminis_come_back_through_chat_and_reach_nobody_else() {
    let signature = "c2ln+/A=".repeat(150);
    let answer = json!({"candidates": [{"content": {"parts": [
        {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": signature},
        {"functionCall": {"name": "g", "args": {}}},
    ]}, "finishReason": "STOP"}]});
    let request = chat(json!([user()]));
    let message = CHAT_GEMINI.answered(&request, &answer)["choices"][0].clone();
    assert_eq!(message["finish_reason"], "tool_calls");
    let calls = message["message"]["tool_calls"].clone();
    let next = chat(json!([
        user(),
        {"role": "assistant", "content": null, "tool_calls": calls},
        {"role": "tool", "tool_call_id": calls[0]["id"], "content": "1"},
        {"role": "tool", "tool_call_id": calls[1]["id"], "content": "2"},
    ]));
    let parts = CHAT_GEMINI.sent(&next)["contents"][1]["parts"].clone();
    assert_eq!(parts[0]["thoughtSignature"], signature);
    assert_eq!(parts[1]["thoughtSignature"], Value::Null);
    let elsewhere = CHAT_ANTHROPIC.sent(&next);
    let id = elsewhere["messages"][1]["content"][0]["id"]
        .as_str()
        .expect("an id");
    assert!(id.len() <= 64, "{id}");
    assert_eq!(elsewhere["messages"][2]["content"][0]["tool_use_id"], id);
    assert!(!elsewhere.to_string().contains("lkproof"), "{elsewhere}");
}

/// Report R28, the genuine block.
#[test]
fn hidden_thoughts_of_anthropics_come_back_through_chat() {
    let request = chat(json!([user()]));
    for (thought, expected) in [
        (
            json!({"type": "redacted_thinking", "data": "EmwK=="}),
            json!({"type": "redacted_thinking", "data": "EmwK=="}),
        ),
        (
            json!({"type": "thinking", "thinking": "hm", "signature": "EqQB+/=="}),
            json!({"type": "thinking", "thinking": "", "signature": "EqQB+/=="}),
        ),
    ] {
        let answer = json!({"id": "msg_1", "type": "message", "content": [
            thought, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        ], "stop_reason": "tool_use"});
        let calls =
            CHAT_ANTHROPIC.answered(&request, &answer)["choices"][0]["message"]["tool_calls"]
                .clone();
        let mut next = chat(json!([
            user(),
            {"role": "assistant", "content": "I look.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": calls[0]["id"], "content": "1"},
        ]));
        next["reasoning_effort"] = json!("high");
        next["max_completion_tokens"] = json!(20_000);
        let sent = CHAT_ANTHROPIC.sent(&next);
        assert_eq!(sent["messages"][1]["content"][0], expected);
        assert_eq!(sent["messages"][1]["content"][2]["id"], "toolu_1");
        assert_eq!(sent["thinking"]["type"], "enabled");
        next["messages"][1]["tool_calls"][0]["id"] = json!("call_9");
        next["messages"][2]["tool_call_id"] = json!("call_9");
        assert_eq!(CHAT_ANTHROPIC.sent(&next)["thinking"]["type"], "disabled");
        assert_eq!(CHAT_ANTHROPIC.lost(&next), "reasoning");
    }
}

/// Reports R29, R33, R59, R83 and R89.
#[test]
fn settings_of_chat_completions_reach_an_anthropic_lane() {
    let mut request = chat(json!([
        {"role": "system", "content": "A"}, user(), {"role": "developer", "content": "B"}]));
    request["temperature"] = json!(0.7);
    request["top_p"] = json!(1);
    request["frequency_penalty"] = json!(0.5);
    request["seed"] = json!(7);
    request["user"] = json!("u1");
    request["metadata"] = json!({"team": "a"});
    request["prompt_cache_key"] = json!("k");
    request["service_tier"] = json!("flex");
    request["n"] = json!(1);
    request["stop"] = json!("\n");
    request["parallel_tool_calls"] = json!(false);
    request["tools"] = json!([function("f")]);
    request["tool_choice"] = json!("required");
    request["reasoning_effort"] = json!("medium");
    let sent = CHAT_ANTHROPIC.sent(&request);
    assert_eq!(
        CHAT_ANTHROPIC.lost(&request),
        "frequency_penalty, metadata, prompt_cache_key, reasoning, seed, service_tier, stop"
    );
    assert_eq!(sent["system"], json!([{"type": "text", "text": "A"}]));
    assert_eq!(sent["messages"][0]["content"][1]["text"], "B");
    assert_eq!(sent["temperature"], 0.7);
    assert_eq!(sent["top_p"], Value::Null);
    assert_eq!(sent["metadata"], json!({"user_id": "u1"}));
    assert_eq!(sent["max_tokens"], 4096);
    assert_eq!(
        sent["tool_choice"],
        json!({"type": "any", "disable_parallel_tool_use": true})
    );
    request["n"] = json!(2);
    assert_eq!(CHAT_ANTHROPIC.refused(&request), "n");
    assert_eq!(CHAT_GEMINI.refused(&request), "n");
}

/// Report R45.
#[test]
fn structured_output_of_chat_completions_is_text_from_an_anthropic_lane() {
    let mut request = chat(json!([user()]));
    request["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "n",
        "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}});
    request["tools"] = json!([function("f")]);
    assert_eq!(
        CHAT_ANTHROPIC.sent(&request)["tool_choice"],
        json!({"type": "any"})
    );
    let (mut block, deltas) = tool_use("toolu_1");
    block["name"] = json!("json_answer");
    let frames = anthropic_frames(&[(block.clone(), deltas)], "tool_use");
    let chunks = CHAT_ANTHROPIC.streamed(&request, &frames);
    let text: String = { chunks.iter() }
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "{\"a\":1}");
    let reasons: Vec<_> = { chunks.iter() }
        .filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str())
        .collect();
    assert_eq!(reasons, ["stop"]);
    block["input"] = json!({"a": 1});
    let answer = json!({"id": "msg_1", "type": "message", "content": [block],
                        "stop_reason": "tool_use"});
    let choice = CHAT_ANTHROPIC.answered(&request, &answer)["choices"][0].clone();
    assert_eq!(choice["message"]["content"], "{\"a\":1}");
    assert_eq!(choice["finish_reason"], "stop");
}

/// Report R49.
#[test]
fn reasons_of_both_vendors_pass_as_the_nearest() {
    let request = chat(json!([user()]));
    for (reason, expected) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "stop"),
        ("a_new_one", "stop"),
    ] {
        let answer = json!({"id": "msg_1", "type": "message", "stop_reason": reason,
                            "content": [{"type": "text", "text": "x"}]});
        let choice = CHAT_ANTHROPIC.answered(&request, &answer)["choices"][0].clone();
        assert_eq!(choice["finish_reason"], expected, "{reason}");
    }
    let request = json!({"model": "asked", "max_tokens": 9, "messages": [user()]});
    for (reason, expected) in [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "end_turn"),
    ] {
        let answer = json!({"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": "x"}, "finish_reason": reason}]});
        let message = ANTHROPIC_CHAT.answered(&request, &answer);
        assert_eq!(message["stop_reason"], expected, "{reason}");
    }
}

/// Report R18: Codex CLI's tools of free text, on lanes of others.
#[test]
fn tools_of_free_text_come_back_as_such() {
    let patch = "*** Begin Patch\n*** End Patch\n";
    let request = json!({"model": "asked", "input": "go", "tools": [
        {"type": "custom", "name": "apply_patch", "description": "Patches.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"}},
        {"type": "web_search"},
    ]});
    for (pair, answer) in [
        (
            RESPONSES_ANTHROPIC,
            json!({"id": "msg_1", "type": "message", "stop_reason": "tool_use", "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "apply_patch",
                 "input": {"input": patch}}]}),
        ),
        (
            RESPONSES_GEMINI,
            json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [
                {"functionCall": {"name": "apply_patch", "args": {"input": patch}}}]}}]}),
        ),
    ] {
        assert_eq!(pair.lost(&request), "tools.format, tools.web_search");
        let item = pair.answered(&request, &answer)["output"][0].clone();
        assert_eq!(item["type"], "custom_tool_call");
        assert_eq!(item["input"], patch);
        let mut next = request.clone();
        next["input"] = json!([
            {"role": "user", "content": "go"}, item,
            {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "done"},
        ]);
        let sent = pair.sent(&next).to_string();
        assert!(
            sent.contains("Begin Patch") && sent.contains("done"),
            "{sent}"
        );
    }
}

/// Report R13, and what R89 says of long names.
#[test]
fn a_turn_of_claude_codes_reaches_responses_whole() {
    let request = json!({"model": "asked", "max_tokens": 100, "metadata": {"user_id": "u".repeat(150)},
    "messages": [
        user(),
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"},
            {"type": "text", "text": "Stop after this one"},
            {"type": "image", "source":
                {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]},
    ]});
    let sent = ANTHROPIC_RESPONSES.sent(&request);
    let kinds: Vec<_> = { sent["input"].as_array().expect("items").iter() }
        .map(|item| item["type"].as_str().unwrap_or("message"))
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "function_call",
            "function_call_output",
            "message"
        ]
    );
    let text = sent.to_string();
    assert!(
        text.contains("Stop after this one") && text.contains("iVBORw0KGgo="),
        "{text}"
    );
    let user = sent["user"].as_str().or(sent["safety_identifier"].as_str());
    assert!(user.is_none_or(|user| user.len() <= 64), "{text}");
}
