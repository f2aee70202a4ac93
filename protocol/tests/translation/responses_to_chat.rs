//! Callers of Responses on lanes of OpenAI's chat, such as Codex CLI on any server.

use lanekeeper_model::gateway::{Accepts, TokenField};
use lanekeeper_protocol::Protocol;
use serde_json::{Value, json};

use crate::harness::{Pair, lane_facts, plain};

const PAIR: Pair = Pair {
    caller: Protocol::Responses,
    lane: Protocol::Openai,
};
const PATCH: &str = "*** Begin Patch\n+\"größe\"\\\n*** End Patch\n";

fn with(name: &str, value: Value) -> Value {
    let mut request = plain(Protocol::Responses);
    request[name] = value;
    request
}

fn apply_patch() -> Value {
    json!([{"type": "custom", "name": "apply_patch", "description": "edits files",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"}},
        {"type": "web_search"},
        {"type": "function", "name": "shell", "strict": false,
            "parameters": {"type": "object", "properties": {"c": {"type": "string"}}}}])
}

/// R31.
#[test]
fn a_foreign_encrypted_thought_leaves_no_message_behind() {
    let request = with(
        "input",
        json!([
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"}]),
    );
    assert_eq!(
        PAIR.sent(&request)["messages"],
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "content": "1", "tool_call_id": "c1"},
        ])
    );
}

/// R18.
#[test]
fn a_tool_of_free_text_is_a_function_on_the_way_and_free_text_for_its_caller() {
    let mut request = with("tools", apply_patch());
    let sent = PAIR.sent(&request);
    assert_eq!(
        sent["tools"][0],
        json!({"type": "function", "function": {"name": "apply_patch", "description": "edits files",
            "parameters": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}}})
    );
    assert_eq!(sent["tools"].as_array().map(Vec::len), Some(2));
    assert_eq!(PAIR.lost(&request), "tools.format, tools.web_search");
    let arguments = json!({ "input": PATCH }).to_string();
    let call = |name: &str, arguments: &str| json!({"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}});
    let answer = json!({"id": "x", "model": "m", "choices": [{"finish_reason": "tool_calls", "message":
        {"content": null, "tool_calls": [call("apply_patch", &arguments), call("shell", "{}")]}}]});
    let seen = PAIR.answered(&request, &answer);
    assert_eq!(seen["output"][0]["type"], "custom_tool_call");
    assert_eq!(seen["output"][0]["input"], PATCH);
    assert_eq!(seen["output"][1]["type"], "function_call");
    // The history of it goes the same way.
    request["input"] = json!([{"role": "user", "content": "hi"}, seen["output"][0],
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}]);
    let messages = &PAIR.sent(&request)["messages"];
    assert_eq!(
        messages[1]["tool_calls"][0]["function"]["arguments"],
        arguments.as_str()
    );
    assert_eq!(
        messages[2],
        json!({"role": "tool", "content": "ok", "tool_call_id": "c1"})
    );
}

#[test]
fn free_text_streams_without_its_wrapper_wherever_it_is_cut() {
    let request = with("tools", apply_patch());
    let arguments = json!({ "input": PATCH }).to_string();
    let letters: Vec<char> = arguments.chars().collect();
    for size in [1, 2, 3, 7, letters.len()] {
        let mut frames = vec![
            json!({"id": "x", "model": "m", "choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "c1", "type": "function", "function": {"name": "apply_patch", "arguments": ""}}]}}]}),
        ];
        for piece in letters.chunks(size) {
            let piece: String = piece.iter().collect();
            frames.push(json!({"choices": [{"delta": {"tool_calls": [
                {"index": 0, "function": {"arguments": piece}}]}}]}));
        }
        let events = PAIR.streamed(&request, &frames);
        let of = |kind: &str| -> Vec<&Value> {
            { events.iter() }
                .filter(|event| event["type"] == kind)
                .collect()
        };
        let deltas = of("response.custom_tool_call_input.delta");
        let deltas: String = { deltas.iter() }
            .filter_map(|event| event["delta"].as_str())
            .collect();
        assert_eq!(deltas, PATCH, "in pieces of {size}");
        assert_eq!(
            of("response.custom_tool_call_input.done")[0]["input"],
            PATCH
        );
        let done = of("response.completed")[0];
        assert_eq!(done["response"]["output"][0]["input"], PATCH);
    }
}

/// R09, R63.
#[test]
fn a_stream_has_every_event_that_clients_wait_for_with_one_id_an_item() {
    let frames = [
        json!({"id": "x", "model": "m", "choices": [{"delta": {"role": "assistant", "reasoning_content": "why"}}]}),
        json!({"choices": [{"delta": {"content": "hel"}}]}),
        json!({"choices": [{"delta": {"content": "lo"}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
            "function": {"name": "f", "arguments": "{\"a\""}}]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6,
            "prompt_tokens_details": {"cached_tokens": 4}}}),
        json!("[DONE]"),
    ];
    let mut frames = frames.to_vec();
    frames.pop();
    let text = PAIR.streamed_text(&plain(Protocol::Responses), &frames);
    let events: Vec<_> = crate::harness::frames_of(&text).collect();
    let kinds: Vec<&str> = { events.iter() }
        .filter_map(|(_, data)| data["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let whole = &events.last().expect("an end").1["response"];
    let mut ids = std::collections::BTreeMap::new();
    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], number);
        assert_eq!(name.as_deref(), data["type"].as_str());
        if let Some(index) = data["output_index"].as_u64() {
            let id = data.get("item_id").unwrap_or(&data["item"]["id"]).clone();
            assert_eq!(ids.entry(index).or_insert_with(|| id.clone()), &id);
            let place = usize::try_from(index).expect("small");
            assert_eq!(whole["output"][place]["id"], id);
        }
        if let Some(response) = data.get("response") {
            assert_eq!(response["id"], whole["id"]);
        }
    }
    assert_eq!(events[0].1["response"]["output"], json!([]));
    assert_eq!(events[10].1["logprobs"], json!([]));
    assert_eq!(whole["status"], "completed");
    assert_eq!(whole["usage"]["input_tokens_details"]["cached_tokens"], 4);
    assert_eq!(whole["output"][2]["call_id"], "c1");
    assert_eq!(whole["output"][2]["arguments"], "{\"a\":1}");
}

/// R77.
#[test]
fn thoughts_go_back_to_the_model_that_thought_them_and_to_no_other() {
    let answer = |model: &str| {
        json!({"id": "x", "model": model, "choices": [{"finish_reason": "tool_calls", "message": {
            "reasoning_content": "r1", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}]})
    };
    for (model, wanted) in [
        ("lane-model", json!("r1")),
        ("lane-model-0731", json!("r1")),
        ("other", Value::Null),
    ] {
        let seen = PAIR.answered(&plain(Protocol::Responses), &answer(model));
        let mut input = vec![json!({"role": "user", "content": "hi"})];
        input.extend(seen["output"].as_array().expect("items").clone());
        input.push(json!({"type": "function_call_output", "call_id": "c1", "output": "1"}));
        let sent = PAIR.sent(&with("input", json!(input)));
        assert_eq!(sent["messages"][1]["reasoning_content"], wanted);
        assert!(!sent.to_string().contains("lkproof"));
    }
}

/// R14.
#[test]
fn pictures_of_results_follow_all_results_in_one_message_of_the_user() {
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="});
    let request = with(
        "input",
        json!([
            {"role": "user", "content": "look"},
            {"type": "function_call", "call_id": "a", "name": "shot", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "shot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a",
                "output": [{"type": "input_text", "text": "shot"}, picture]},
            {"type": "function_call_output", "call_id": "b", "output": [picture]},
            {"role": "user", "content": "well?"}]),
    );
    let messages = PAIR.sent(&request)["messages"].clone();
    assert_eq!(
        messages[2],
        json!({"role": "tool", "content": "shot", "tool_call_id": "a"})
    );
    assert_eq!(
        (&messages[3]["role"], &messages[3]["tool_call_id"]),
        (&json!("tool"), &json!("b"))
    );
    assert!(messages[3]["content"].is_string());
    let image =
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    assert_eq!(
        messages[4]["content"],
        json!([
            {"type": "text", "text": "From the result of a:"}, image,
            {"type": "text", "text": "From the result of b:"}, image,
            {"type": "text", "text": "well?"}])
    );
    assert_eq!(messages.as_array().map(Vec::len), Some(5));
}

/// R74.
#[test]
fn what_only_one_account_knows_is_refused_by_name() {
    for (name, value, field) in [
        (
            "previous_response_id",
            json!("resp_1"),
            "previous_response_id",
        ),
        ("conversation", json!({"id": "conv_1"}), "conversation"),
        ("background", json!(true), "background"),
        ("prompt", json!({"id": "pmpt_1"}), "prompt"),
        ("top_logprobs", json!(2), "top_logprobs"),
        (
            "include",
            json!(["message.output_text.logprobs"]),
            "include",
        ),
        (
            "input",
            json!([{"type": "item_reference", "id": "rs_1"}]),
            "input[0]",
        ),
        (
            "input",
            json!([{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]),
            "input[0].content[0].file_id",
        ),
        (
            "input",
            json!([{"type": "computer_call", "id": "c"}]),
            "input[0].type",
        ),
        (
            "input",
            json!([{"role": "user", "content": [
            {"type": "input_file", "file_url": "https://x.example/a.pdf"}]}]),
            "input[0].content[0].type",
        ),
        ("tools", json!([{"type": "web_search"}]), "tools[0].type"),
    ] {
        assert_eq!(PAIR.refused(&with(name, value)), field);
    }
    let mut request = plain(Protocol::Responses);
    for (name, value) in [
        ("background", json!(false)),
        ("previous_response_id", Value::Null),
        ("include", json!(["reasoning.encrypted_content"])),
        ("truncation", json!("disabled")),
        ("reasoning", json!({"effort": "medium", "summary": "auto"})),
        ("store", json!(false)),
        ("metadata", json!({})),
        ("text", json!({"format": {"type": "text"}})),
    ] {
        request[name] = value;
    }
    assert_eq!(PAIR.lost(&request), "");
    request["text"]["verbosity"] = json!("low");
    request["truncation"] = json!("auto");
    request["max_tool_calls"] = json!(3);
    request["store"] = json!(true);
    assert_eq!(
        PAIR.lost(&request),
        "max_tool_calls, store, text.verbosity, truncation"
    );
}

/// R33, R34.
#[test]
fn instructions_stay_where_they_are_said() {
    let request = json!({"model": "asked", "instructions": "A", "input": [
        {"role": "user", "content": "1"},
        {"role": "developer", "content": [{"type": "input_text", "text": "B"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "x"}, {"type": "output_text", "text": "y"}]},
        {"role": "user", "content": "2"}]});
    assert_eq!(
        PAIR.sent(&request)["messages"],
        json!([
            {"role": "system", "content": "A"},
            {"role": "user", "content": "1"},
            {"role": "system", "content": "B"},
            {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
            {"role": "user", "content": "2"}])
    );
}

/// R36.
#[test]
fn a_beginning_of_the_answer_is_refused_where_it_would_be_answered_anew() {
    let request = with(
        "input",
        json!([{"role": "user", "content": "1"}, {"role": "assistant", "content": "{\"name\": "}]),
    );
    assert_eq!(PAIR.refused(&request), "prefill");
}

/// R58.
#[test]
fn the_limit_goes_into_the_one_field_that_the_lane_takes() {
    let request = with("max_output_tokens", json!(1000));
    for (field, older, newer) in [
        (None, Value::Null, json!(1000)),
        (Some(TokenField::MaxTokens), json!(1000), Value::Null),
        (
            Some(TokenField::MaxCompletionTokens),
            Value::Null,
            json!(1000),
        ),
    ] {
        let mut lane = lane_facts();
        lane.accepts = Accepts {
            token_field: field,
            ..Accepts::default()
        };
        let translated = PAIR.translate_for(&request, &lane).expect("it can be said");
        let sent: Value = serde_json::from_slice(&translated.body).expect("JSON");
        assert_eq!(
            (&sent["max_tokens"], &sent["max_completion_tokens"]),
            (&older, &newer)
        );
    }
}

/// R55.
#[test]
fn a_stream_is_asked_to_count_on_behalf_of_its_caller() {
    let sent = PAIR.sent(&with("stream", json!(true)));
    assert_eq!(sent["stream_options"], json!({"include_usage": true}));
    assert!(
        PAIR.sent(&plain(Protocol::Responses))
            .get("stream_options")
            .is_none()
    );
}

/// Codex says nothing about strictness of some tools, and OpenAI then keeps to what it can.
#[test]
fn a_function_is_strict_where_it_says_so_or_its_schema_allows_it() {
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for (strict, parameters, wanted) in [
        (Value::Null, &closed, json!(true)),
        (Value::Null, &open, Value::Null),
        (json!(false), &closed, Value::Null),
        (json!(true), &open, json!(true)),
    ] {
        let tools =
            json!([{"type": "function", "name": "f", "strict": strict, "parameters": parameters}]);
        let sent = PAIR.sent(&with("tools", tools));
        assert_eq!(sent["tools"][0]["function"]["strict"], wanted);
    }
}

/// R76.
#[test]
fn text_that_only_escapes_can_spell_passes() {
    let body = br#"{"model":"m","input":"a\ud83d \ud83d\ude00 \u0000\u2028\/"}"#;
    let (caller, lane) = (PAIR.caller, PAIR.lane);
    let translated = lanekeeper_protocol::translation::request(
        crate::harness::translator(caller),
        crate::harness::translator(lane),
        body,
        false,
        crate::harness::facts(),
        &lane_facts(),
    )
    .expect("it can be said");
    let sent: Value = serde_json::from_slice(&translated.body).expect("JSON");
    assert_eq!(
        sent["messages"][0]["content"],
        "a\u{FFFD} \u{1F600} \0\u{2028}/"
    );
}

/// R49.
#[test]
fn every_reason_for_an_end_has_its_nearest() {
    for (reason, status, detail) in [
        ("stop", "completed", Value::Null),
        ("length", "incomplete", json!("max_output_tokens")),
        ("content_filter", "incomplete", json!("content_filter")),
        ("something_new", "completed", Value::Null),
    ] {
        let answer = json!({"id": "x", "model": "m", "choices": [
            {"finish_reason": reason, "message": {"content": "a"}}]});
        let seen = PAIR.answered(&plain(Protocol::Responses), &answer);
        assert_eq!(seen["status"], status);
        assert_eq!(seen["incomplete_details"]["reason"], detail);
    }
}

/// R63, R65: the error is numbered on, and is about the response that has begun.
#[test]
fn a_stream_that_fails_ends_with_the_next_number_and_the_same_response() {
    let translated = PAIR
        .translate(&plain(Protocol::Responses))
        .expect("it can be said");
    let mut stream = translated.exchange.stream();
    let mut out = Vec::new();
    let frame =
        json!({"id": "x", "model": "m", "choices": [{"delta": {"content": "Par"}}]}).to_string();
    stream
        .frame(None, frame.as_bytes(), &mut out)
        .expect("a frame");
    let text = String::from_utf8(out).expect("text");
    let begun: Vec<_> = crate::harness::frames_of(&text)
        .map(|(_, data)| data)
        .collect();
    let vendor = lanekeeper_protocol::vendor(Protocol::Responses);
    let kind = lanekeeper_protocol::error_body::ErrorKind::BadGateway;
    let event = vendor.error_event(&kind, "request-1");
    let event = stream.failure(event.as_bytes()).expect("another one");
    let event = String::from_utf8(event).expect("text");
    let (name, data) = crate::harness::frames_of(&event).next().expect("an event");
    assert_eq!(name.as_deref(), Some("response.failed"));
    assert_eq!(data["sequence_number"], begun.len());
    assert_eq!(data["response"]["id"], begun[0]["response"]["id"]);
    assert_eq!(data["response"]["status"], "failed");
    assert_eq!(data["response"]["model"], "m");
    assert!(data["response"]["error"]["message"].is_string());
    let chat = Pair {
        caller: Protocol::Openai,
        lane: Protocol::Responses,
    };
    let translated = chat
        .translate(&plain(Protocol::Openai))
        .expect("it can be said");
    assert_eq!(translated.exchange.stream().failure(b"data: {}"), None);
}
