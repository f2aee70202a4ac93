//! Callers of OpenAI's chat on lanes of Responses.

use lanekeeper_model::gateway::{Accepts, Samplers};
use lanekeeper_protocol::Protocol;
use serde_json::{Value, json};

use crate::harness::{Pair, lane_facts, plain};

const PAIR: Pair = Pair {
    caller: Protocol::Openai,
    lane: Protocol::Responses,
};

fn with(name: &str, value: Value) -> Value {
    let mut request = plain(Protocol::Openai);
    request[name] = value;
    request
}

fn history(id_of_first: &str, id_of_second: &str) -> Value {
    json!({"model": "asked", "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": id_of_first, "type": "function", "function": {"name": "f", "arguments": "{\"n\":1.10}"}},
            {"id": id_of_second, "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"role": "tool", "tool_call_id": id_of_first, "content": "one"},
        {"role": "tool", "tool_call_id": id_of_second, "content": [{"type": "text", "text": "two"}]},
    ]})
}

#[test]
fn a_conversation_becomes_instructions_and_items_in_order() {
    let sent = PAIR.sent(&history("call_a", "call_b"));
    assert_eq!(sent["instructions"], "be brief");
    assert_eq!(
        sent["input"],
        json!([
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "call_a", "name": "f", "arguments": "{\"n\":1.10}"},
            {"type": "function_call", "call_id": "call_b", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_a", "output": "one"},
            {"type": "function_call_output", "call_id": "call_b", "output": "two"},
        ])
    );
    assert_eq!(
        (&sent["model"], &sent["store"]),
        (&json!("lane-model"), &json!(false))
    );
}

/// R07.
#[test]
fn long_ids_become_short_ones_that_stay_apart_and_find_their_results() {
    let (first, second) = (
        format!("{}a", "x".repeat(82)),
        format!("{}b", "x".repeat(82)),
    );
    let sent = PAIR.sent(&history(&first, &second));
    let ids: Vec<&str> = { sent["input"].as_array().expect("items").iter() }
        .filter_map(|item| item["call_id"].as_str())
        .collect();
    assert_eq!(ids[..2], ids[2..]);
    assert_ne!(ids[0], ids[1]);
    assert!(ids.iter().all(|id| id.len() <= 64), "{ids:?}");
    assert!(sent["input"][1].get("id").is_none());
    let kept = "y".repeat(64);
    let sent = PAIR.sent(&history(&kept, "call_b"));
    assert_eq!(sent["input"][1]["call_id"], kept.as_str());
}

/// R08.
#[test]
fn the_callers_id_is_the_one_that_results_name_and_not_the_items() {
    let frames = [
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "m"}}),
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": {"type": "function_call", "id": "fc_1", "call_id": "call_A", "name": "f", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 0, "delta": "{}"}),
        json!({"type": "response.output_item.done", "output_index": 0,
            "item": {"type": "function_call", "id": "fc_1", "call_id": "call_A", "name": "f", "arguments": "{}"}}),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
            "usage": {"input_tokens": 3, "output_tokens": 2}}}),
    ];
    let chunks = PAIR.streamed(&plain(Protocol::Openai), &frames);
    let calls: Vec<&Value> = { chunks.iter() }
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0))
        .collect();
    assert_eq!(calls[0]["id"], "call_A");
    assert_eq!(calls[0]["function"]["name"], "f");
    assert_eq!(
        calls[1],
        &json!({"index": 0, "function": {"arguments": "{}"}})
    );
    assert_eq!(calls.len(), 2);
    let finish = &chunks[chunks.len() - 2]["choices"][0]["finish_reason"];
    assert_eq!(
        (finish, &chunks[chunks.len() - 1]),
        (&json!("tool_calls"), &json!("[DONE]"))
    );
}

/// R32.
#[test]
fn encrypted_thoughts_ride_in_the_id_of_the_call_and_come_back_before_it() {
    let mut request = plain(Protocol::Openai);
    request["reasoning_effort"] = json!("high");
    let sent = PAIR.sent(&request);
    assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(sent["store"], false);
    let answer = json!({"id": "resp_1", "model": "m", "status": "completed", "output": [
        {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "gAAAB+/="},
        {"type": "function_call", "id": "fc_1", "call_id": "call_A", "name": "f", "arguments": "{}"}]});
    let seen = PAIR.answered(&request, &answer);
    let call = &seen["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(seen["choices"][0]["finish_reason"], "tool_calls");
    let next = json!({"model": "asked", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "1"}]});
    assert_eq!(
        PAIR.sent(&next)["input"],
        json!([
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAAB+/="},
            {"type": "function_call", "call_id": "call_A", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_A", "output": "1"},
        ])
    );
    // The same in pieces.
    let frames = [
        json!({"type": "response.output_item.done", "output_index": 0, "item": answer["output"][0]}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": answer["output"][1]}),
        json!({"type": "response.completed", "response": answer}),
    ];
    let chunks = PAIR.streamed(&request, &frames);
    let start =
        { chunks.iter() }.find_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0));
    assert_eq!(start.expect("a call")["id"], call["id"]);
    // Without a call nothing needs it.
    let quiet =
        json!({"id": "r", "model": "m", "status": "completed", "output": [answer["output"][0]]});
    let seen = PAIR.answered(&request, &quiet);
    assert_eq!(
        seen["choices"][0]["message"],
        json!({"role": "assistant", "content": "", "refusal": null})
    );
}

/// Models that do not think refuse to hand out encrypted thoughts.
#[test]
fn encrypted_thoughts_are_asked_for_where_the_model_is_known_to_think() {
    assert!(PAIR.sent(&plain(Protocol::Openai)).get("include").is_none());
    assert!(
        PAIR.sent(&with("reasoning_effort", json!("none")))
            .get("include")
            .is_none()
    );
    let mut lane = lane_facts();
    lane.accepts = Accepts {
        samplers: Samplers::None,
        ..Accepts::default()
    };
    let translated = PAIR
        .translate_for(&plain(Protocol::Openai), &lane)
        .expect("it can be said");
    let sent: Value = serde_json::from_slice(&translated.body).expect("JSON");
    assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
}

/// Responses functions are strict unless they say that they are not.
#[test]
fn what_a_function_does_not_say_means_the_same_on_both_sides() {
    let tool = |strict: Value| {
        let mut function = json!({"name": "f", "description": "", "parameters":
            {"type": "object", "properties": {"z": {"const": 1.10}, "a": {}}}});
        if !strict.is_null() {
            function["strict"] = strict;
        }
        with("tools", json!([{"type": "function", "function": function}]))
    };
    for (said, wanted) in [
        (Value::Null, false),
        (json!(false), false),
        (json!(true), true),
    ] {
        let sent = PAIR.sent(&tool(said));
        assert_eq!(sent["tools"][0]["strict"], wanted);
        assert!(sent["tools"][0].get("description").is_none());
    }
    let translated = PAIR.translate(&tool(Value::Null)).expect("it can be said");
    let body = String::from_utf8(translated.body).expect("text");
    let kept = r#"{"properties":{"a":{},"z":{"const":1.1}},"type":"object"}"#;
    assert!(body.contains(kept), "{body}");
}

/// R88.
#[test]
fn a_function_without_parameters_has_none_however_that_is_written() {
    for parameters in [
        Value::Null,
        json!({}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}}),
    ] {
        let tools =
            json!([{"type": "function", "function": {"name": "f", "parameters": parameters}}]);
        let sent = PAIR.sent(&with("tools", tools));
        assert_eq!(
            sent["tools"],
            json!([{"type": "function", "name": "f", "parameters": null, "strict": false}])
        );
    }
}

/// R83.
#[test]
fn what_would_change_the_answer_is_refused_and_what_would_not_is_named() {
    for (name, value, field) in [
        ("n", json!(2), "n"),
        ("logprobs", json!(true), "logprobs"),
        ("top_logprobs", json!(3), "top_logprobs"),
        ("modalities", json!(["text", "audio"]), "modalities"),
        ("web_search_options", json!({}), "web_search_options"),
        ("functions", json!([{"name": "f"}]), "functions"),
        ("stop", json!(["a"]), "stop"),
        (
            "response_format",
            json!({"type": "grammar"}),
            "response_format.type",
        ),
        ("tools", json!([{"type": "web_search"}]), "tools[0].type"),
    ] {
        assert_eq!(PAIR.refused(&with(name, value)), field);
    }
    for (name, value) in [
        ("n", json!(1)),
        ("logprobs", json!(false)),
        ("top_logprobs", json!(0)),
        ("modalities", json!(["text"])),
        ("store", json!(false)),
        ("function_call", json!("auto")),
        ("tools", json!([])),
        ("stop", json!(null)),
        ("stop", json!([])),
        ("parallel_tool_calls", json!(true)),
        ("frequency_penalty", json!(null)),
    ] {
        assert_eq!(PAIR.lost(&with(name, value)), "", "{name}");
    }
    let mut request = plain(Protocol::Openai);
    for (name, value) in [
        ("seed", json!(7)),
        ("logit_bias", json!({"5": 1})),
        ("store", json!(true)),
        (
            "prediction",
            json!({"type": "content", "content": "secret"}),
        ),
        ("frequency_penalty", json!(0.5)),
    ] {
        request[name] = value;
    }
    let named = "frequency_penalty, logit_bias, prediction, seed, store";
    assert_eq!(PAIR.lost(&request), named);
    // What the lane has a place for goes along.
    let mut request = plain(Protocol::Openai);
    request["service_tier"] = json!("flex");
    request["prompt_cache_key"] = json!("k");
    request["metadata"] = json!({"team": "a"});
    request["user"] = json!("u".repeat(65));
    let sent = PAIR.sent(&request);
    assert_eq!(sent["service_tier"], "flex");
    assert_eq!(sent["prompt_cache_key"], "k");
    assert_eq!(sent["metadata"], json!({"team": "a"}));
    assert_eq!(sent["user"].as_str().map(str::len), Some(64));
    assert_eq!(PAIR.lost(&request), "user");
}

/// R58.
#[test]
fn a_limit_below_the_lanes_least_is_raised_and_named() {
    let request = with("max_tokens", json!(5));
    assert_eq!(PAIR.sent(&request)["max_output_tokens"], 16);
    assert_eq!(PAIR.lost(&request), "max_output_tokens");
    let mut request = with("max_tokens", json!(50));
    request["max_completion_tokens"] = json!(60);
    assert_eq!(PAIR.sent(&request)["max_output_tokens"], 60);
}

/// R46.
#[test]
fn the_form_of_the_answer_survives_with_its_name_and_strictness() {
    let schema = json!({"type": "object"});
    for strict in [true, false] {
        let format = json!({"type": "json_schema",
            "json_schema": {"name": "n", "schema": schema, "strict": strict}});
        let sent = PAIR.sent(&with("response_format", format));
        assert_eq!(
            sent["text"]["format"],
            json!({"type": "json_schema", "name": "n", "schema": schema, "strict": strict})
        );
    }
    let sent = PAIR.sent(&with("response_format", json!({"type": "json_object"})));
    assert_eq!(sent["text"]["format"], json!({"type": "json_object"}));
}

/// R34, R38, R39, R87.
#[test]
fn every_part_of_a_message_is_carried_or_refused_by_name() {
    let content = |parts: Value| with("messages", json!([{"role": "user", "content": parts}]));
    let sent = PAIR.sent(&content(json!([
        {"type": "text", "text": "part 1 "},
        {"type": "text", "text": "part 2"},
        {"type": "image_url", "image_url": {"url": "DATA:IMAGE/JPG;BASE64,/9j/4AAQ", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://img.example/a.png"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
    ])));
    assert_eq!(
        sent["input"][0]["content"],
        json!([
            {"type": "input_text", "text": "part 1 "},
            {"type": "input_text", "text": "part 2"},
            {"type": "input_image", "image_url": "data:image/jpeg;base64,/9j/4AAQ", "detail": "low"},
            {"type": "input_image", "image_url": "https://img.example/a.png"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        ])
    );
    for (part, field) in [
        (json!({"type": "hologram"}), "messages[0].content[0].type"),
        (
            json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
            "messages[0].content[0].type",
        ),
        (
            json!({"type": "file", "file": {"file_id": "file-1"}}),
            "messages[0].content[0].file.file_id",
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "data:x"}}),
            "messages[0].content[0].image_url",
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "data:image/svg+xml,x"}}),
            "image",
        ),
    ] {
        assert_eq!(PAIR.refused(&content(json!([part]))), field);
    }
    // A string and a list of one text mean the same in every role.
    for role in ["system", "developer", "user"] {
        let both = ["x".into(), json!([{"type": "text", "text": "x"}])].map(|content: Value| {
            let messages =
                json!([{"role": role, "content": content}, {"role": "user", "content": "hi"}]);
            PAIR.sent(&with("messages", messages))
        });
        assert_eq!(both[0], both[1]);
    }
}

#[test]
fn what_breaks_the_dialect_is_refused_by_the_name_of_the_field() {
    for (name, value, field) in [
        ("messages", json!([]), "messages"),
        ("messages", json!([{"content": "x"}]), "messages[0].role"),
        (
            "messages",
            json!([{"role": "robot", "content": "x"}]),
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"role": "user", "content": 7}]),
            "messages[0].content",
        ),
        ("messages", json!(["x"]), "messages[0]"),
        (
            "messages",
            json!([{"role": "tool", "tool_call_id": "c", "content": "x"}]),
            "messages[0]",
        ),
        (
            "messages",
            json!([{"role": "assistant", "tool_calls": [{"id": "c", "function": {}}]}]),
            "messages[0].tool_calls[0].function.name",
        ),
        ("temperature", json!("hot"), "temperature"),
        ("max_tokens", json!(-1), "max_tokens"),
        ("stop", json!([1]), "stop"),
        ("tools", json!([{"type": "function"}]), "tools[0].function"),
        ("tool_choice", json!("perhaps"), "tool_choice"),
        ("tool_choice", json!("required"), "tool_choice"),
        ("seed", json!(1.5), "seed"),
    ] {
        assert_eq!(PAIR.refused(&with(name, value)), field);
    }
}

#[test]
fn tools_are_chosen_as_asked() {
    let tools = json!([{"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "g"}}]);
    let choose = |choice: Value| {
        let mut request = with("tools", tools.clone());
        request["tool_choice"] = choice;
        request["parallel_tool_calls"] = json!(false);
        PAIR.sent(&request)
    };
    for word in ["auto", "none", "required"] {
        assert_eq!(choose(json!(word))["tool_choice"], word);
    }
    let sent = choose(json!({"type": "function", "function": {"name": "f"}}));
    assert_eq!(
        sent["tool_choice"],
        json!({"type": "function", "name": "f"})
    );
    assert_eq!(sent["parallel_tool_calls"], false);
    let sent = choose(
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required",
        "tools": [{"type": "function", "function": {"name": "g"}}]}}),
    );
    assert_eq!(
        (sent["tools"].as_array().map(Vec::len), &sent["tool_choice"]),
        (Some(1), &json!("required"))
    );
}

/// R65 d, R49.
#[test]
fn an_incomplete_answer_ends_as_it_did() {
    for (reason, wanted) in [
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
    ] {
        let answer = json!({"id": "r", "model": "m", "status": "incomplete",
            "incomplete_details": {"reason": reason}, "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Par"}]}]});
        let seen = PAIR.answered(&plain(Protocol::Openai), &answer);
        assert_eq!(seen["choices"][0]["finish_reason"], wanted);
        assert_eq!(seen["choices"][0]["message"]["content"], "Par");
        let frames = [json!({"type": "response.incomplete", "response": answer})];
        let chunks = PAIR.streamed(&plain(Protocol::Openai), &frames);
        assert_eq!(
            chunks[chunks.len() - 2]["choices"][0]["finish_reason"],
            wanted
        );
        assert_eq!(chunks[1]["choices"][0]["delta"]["content"], "Par");
    }
    let refusal = json!({"id": "r", "model": "m", "status": "completed", "output": [
        {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]});
    let seen = PAIR.answered(&plain(Protocol::Openai), &refusal);
    assert_eq!(
        seen["choices"][0]["message"],
        json!({"role": "assistant", "content": null, "refusal": "no"})
    );
    assert_eq!(seen["choices"][0]["finish_reason"], "stop");
}

/// R53.
#[test]
fn cached_and_thought_tokens_are_kept_apart_and_never_more_than_the_whole() {
    let answer = json!({"id": "r", "model": "m", "status": "completed", "output": [],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 75, "cache_write_tokens": 120},
            "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 104}});
    let seen = PAIR.answered(&plain(Protocol::Openai), &answer);
    assert_eq!(
        seen["usage"],
        json!({"prompt_tokens": 100, "completion_tokens": 4, "total_tokens": 104,
            "prompt_tokens_details": {"cached_tokens": 75, "cache_write_tokens": 25},
            "completion_tokens_details": {"reasoning_tokens": 3}})
    );
}

/// R10.
#[test]
fn long_and_odd_names_of_tools_come_back_as_they_were() {
    let names = [
        format!("{}1", "m".repeat(79)),
        format!("{}2", "m".repeat(79)),
        "get_wetter_größe".into(),
    ];
    let tools: Vec<Value> = { names.iter() }
        .map(|name| json!({"type": "function", "function": {"name": name}}))
        .collect();
    let mut request = with("tools", json!(tools));
    request["tool_choice"] = json!({"type": "function", "function": {"name": names[1]}});
    let sent = PAIR.sent(&request);
    assert_eq!(sent["tool_choice"]["name"], sent["tools"][1]["name"]);
    for (place, name) in names.iter().enumerate() {
        let legal = &sent["tools"][place]["name"];
        assert!(
            legal
                .as_str()
                .is_some_and(|legal| legal.len() <= 64 && legal.is_ascii())
        );
        let call =
            json!({"type": "function_call", "call_id": "c", "name": legal, "arguments": "{}"});
        let answer = json!({"id": "r", "model": "m", "status": "completed", "output": [call]});
        let seen = PAIR.answered(&request, &answer);
        let called = &seen["choices"][0]["message"]["tool_calls"][0]["function"]["name"];
        assert_eq!(called, name.as_str());
    }
}
