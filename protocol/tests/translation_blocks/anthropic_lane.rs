//! Requests of Gemini's callers for Anthropic's lanes.

use serde_json::{Value, json};

use crate::support::{ANTHROPIC, GEMINI, LANE, ask, at, refused, translator};
use lanekeeper_protocol::ir::{
    Arguments, Effort, Format, Message, Part, PartBody, Proof, Reasoning, ReasoningBudget, Request,
    Role, SchemaFormat, Tool, ToolCall, ToolChoice, ToolResult, raw,
};
use lanekeeper_protocol::translation::Losses;

fn asked(body: Value) -> crate::support::Asked {
    ask(GEMINI, ANTHROPIC, &body)
}

/// Report R80.
#[test]
fn both_spellings_and_single_objects_are_read_alike() {
    let snake = json!({
        "system_instruction": {"parts": {"text": "be brief"}},
        "contents": {"parts": [{"text": "hi"}]},
        "generation_config": {"max_output_tokens": "5", "top_k": 40.0, "stop_sequences": "END"},
        "tools": {"function_declarations": {"name": "f", "parameters_json_schema":
            {"type": "object", "properties": {"snake_case": {"type": "string"}}}}},
        "made_up": true,
    });
    let camel = json!({
        "systemInstruction": {"role": "system", "parts": [{"text": "be brief"}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 5, "topK": 40, "stopSequences": ["END"]},
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema":
            {"type": "object", "properties": {"snake_case": {"type": "string"}}}}]}],
    });
    let (snake, camel) = (asked(snake), asked(camel));
    assert_eq!(snake.body, camel.body);
    assert_eq!(snake.losses, "madeUp");
    assert_eq!(camel.losses, "");
    assert_eq!(
        camel.body,
        json!({
            "model": "lane-model",
            "max_tokens": 5,
            "system": [{"type": "text", "text": "be brief"}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "tools": [{"name": "f", "input_schema":
                {"type": "object", "properties": {"snake_case": {"type": "string"}}}}],
            "stop_sequences": ["END"],
            "top_k": 40,
        })
    );
}

/// Reports R12, R16 and R23: parts without ids find each other by order and name.
#[test]
fn results_without_ids_find_their_calls_and_come_first() {
    let body = json!({
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "read", "args": {"p": "a"}}},
                {"functionCall": {"name": "read", "args": {"p": "b"}}},
                {"functionCall": {"id": "own", "name": "write"}},
            ]},
            {"role": "user", "parts": [
                {"text": "and then"},
                {"functionResponse": {"id": "own", "name": "write", "response": {"output": "w"}}},
                {"functionResponse": {"name": "read", "response": {"result": "ra"}}},
            ]},
            {"role": "function", "parts":
                {"functionResponse": {"name": "read", "response": {"x": 1.0, "a": [2]}}}},
        ],
    });
    let first = asked(body.clone());
    let calls = at(&first.body, "/messages/1/content").into_owned();
    let ids: Vec<_> = (0..3).map(|call| calls[call]["id"].clone()).collect();
    assert!(ids[0] != ids[1] && ids[2] == "own", "{ids:?}");
    assert_eq!(calls[2]["input"], json!({}));
    let turn = at(&first.body, "/messages/2/content").into_owned();
    let shown: Vec<_> = { turn.as_array().expect("blocks").iter() }
        .map(|block| {
            (
                block["tool_use_id"].clone(),
                block.pointer("/content/0/text").cloned(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (ids[2].clone(), Some(json!("w"))),
            (ids[0].clone(), Some(json!("ra"))),
            (ids[1].clone(), Some(json!(r#"{"a":[2],"x":1.0}"#))),
            (Value::Null, None),
        ]
    );
    assert_eq!(first.text, asked(body).text, "any agent makes the same");
}

#[test]
fn a_result_that_answers_nothing_is_refused_by_name() {
    let body = json!({"contents": [
        {"parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"parts": [{"functionResponse": {"name": "g", "response": {}}}]},
    ]});
    let refusal = refused(GEMINI, ANTHROPIC, &body);
    assert!(
        refusal.starts_with("contents[2].parts[0].functionResponse: ") && refusal.contains("\"g\""),
        "{refusal}"
    );
}

/// Report R20.
#[test]
fn every_choice_of_tools_is_said() {
    for (config, expected) in [
        (json!({"mode": "auto"}), json!({"type": "auto"})),
        (json!({"mode": "NONE"}), json!({"type": "none"})),
        (json!({"mode": "ANY"}), json!({"type": "any"})),
        (
            json!({"mode": "ANY", "allowedFunctionNames": ["f"]}),
            json!({"type": "tool", "name": "f"}),
        ),
    ] {
        let body = json!({
            "contents": {"parts": {"text": "go"}},
            "tools": {"functionDeclarations": [{"name": "f"}, {"name": "g"}, {"name": "h"}]},
            "toolConfig": {"functionCallingConfig": config},
        });
        assert_eq!(asked(body).body["tool_choice"], expected);
    }
    let some = json!({
        "contents": {"parts": {"text": "go"}},
        "tools": {"functionDeclarations": [{"name": "f"}, {"name": "g"}, {"name": "h"}]},
        "toolConfig": {"functionCallingConfig":
            {"mode": "ANY", "allowedFunctionNames": ["f", "h"]}},
    });
    let some = asked(some).body;
    assert_eq!(some["tool_choice"], json!({"type": "any"}));
    assert_eq!(some["tools"][1]["name"], "h");
    assert_eq!(some["tools"][2], Value::Null);
}

/// Report R88.
#[test]
fn functions_without_parameters_get_an_empty_object() {
    let empty = json!({"type": "object", "properties": {}});
    for parameters in [
        Value::Null,
        json!({}),
        json!({"type": "OBJECT"}),
        json!({"type": "OBJECT", "properties": {}}),
    ] {
        let body = json!({
            "contents": {"parts": {"text": "go"}},
            "tools": {"functionDeclarations":
                {"name": "f", "description": "", "parameters": parameters}},
        });
        let tool = asked(body).body["tools"][0].clone();
        assert_eq!(tool, json!({"name": "f", "input_schema": empty}));
    }
    let untyped = json!({
        "contents": {"parts": {"text": "go"}},
        "tools": {"functionDeclarations":
            {"name": "f", "parametersJsonSchema": {"properties": {"a": {}}}}},
    });
    assert_eq!(
        asked(untyped).body["tools"][0]["input_schema"],
        json!({"type": "object", "properties": {"a": {}}})
    );
}

/// Google's own form of schemas, in the direction that reports R42 to R44 do not name.
#[test]
fn googles_schemas_become_json_schemas() {
    let body = json!({
        "contents": {"parts": {"text": "go"}},
        "tools": {"functionDeclarations": {"name": "f", "parameters": {
            "type": "OBJECT",
            "property_ordering": ["b"],
            "properties": {
                "type": {"type": "STRING", "nullable": true, "enum": ["x"], "format": "enum"},
                "any_of": {"any_of": [{"type": "INTEGER"}, {"type": "ARRAY", "min_items": "1",
                    "items": {"type": "NUMBER"}}]},
            },
            "required": ["type"],
        }}},
    });
    assert_eq!(
        asked(body).body["tools"][0]["input_schema"],
        json!({
            "type": "object",
            "properties": {
                "type": {"type": ["string", "null"], "enum": ["x", null]},
                "any_of": {"anyOf": [{"type": "integer"},
                    {"type": "array", "minItems": 1, "items": {"type": "number"}}]},
            },
            "required": ["type"],
        })
    );
    let mut deep = json!({"type": "STRING"});
    for _ in 0..100 {
        deep = json!({"type": "ARRAY", "items": deep});
    }
    let body = json!({
        "contents": {"parts": {"text": "go"}},
        "tools": {"functionDeclarations": {"name": "f", "parameters": deep}},
    });
    let refusal = refused(GEMINI, ANTHROPIC, &body);
    assert!(
        refusal.starts_with("tools[0].functionDeclarations[0].parameters"),
        "{refusal}"
    );
}

/// Report R19.
#[test]
fn a_tool_of_googles_own_is_named_beside_functions_and_refused_alone() {
    let tools = json!([{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {}}]);
    let beside = asked(json!({"contents": {"parts": {"text": "go"}}, "tools": tools}));
    assert_eq!(beside.losses, "tools.googleSearch");
    let alone = json!({"contents": {"parts": {"text": "go"}}, "tools": {"google_search": {}}});
    assert!(refused(GEMINI, ANTHROPIC, &alone).starts_with("tools[0].type"));
    let forced = json!({
        "contents": {"parts": {"text": "go"}}, "tools": tools,
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    });
    assert!(refused(GEMINI, ANTHROPIC, &forced).starts_with("tools[1].type"));
}

/// Reports R38, R39, R41, R83 and R87.
#[test]
fn what_cannot_be_said_is_refused_and_named() {
    let part = |part: Value| json!({"contents": {"parts": [{"text": "see"}, part]}});
    let with =
        |config: Value| json!({"contents": {"parts": {"text": "go"}}, "generationConfig": config});
    for (body, field) in [
        (
            part(json!({"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}})),
            "contents[0].parts[1]",
        ),
        (
            part(json!({"inlineData": {"mimeType": "video/mp4", "data": "AA=="}})),
            "contents[0].parts[1].type",
        ),
        (
            part(json!({"inlineData": {"mimeType": "IMAGE/SVG+XML", "data": "AA=="}})),
            "image: is of type \"image/svg+xml\"",
        ),
        (
            part(json!({"executableCode": {"code": "1"}})),
            "contents[0].parts[1].type: \"executableCode\"",
        ),
        (
            part(json!({"fileData": {"fileUri": "gs://b/a.png", "mimeType": "image/png"}})),
            "contents[0].parts[1].fileData.fileUri",
        ),
        (with(json!({"candidateCount": 2})), "n: "),
        (
            with(json!({"responseLogprobs": true})),
            "generationConfig.responseLogprobs",
        ),
        (
            with(json!({"responseModalities": ["TEXT", "AUDIO"]})),
            "generationConfig.responseModa",
        ),
        (
            with(json!({"temperature": "warm"})),
            "generationConfig.temperature: must be a number",
        ),
        (
            with(json!({"seed": 1.5})),
            "generationConfig.seed: must be a whole number",
        ),
        (json!({"contents": []}), "contents: must not be empty"),
        (json!({}), "contents: is missing"),
        (
            json!({"contents": [{"role": "model", "parts": {"text": "hi"}},
                                {"parts": {"text": "hi"}}]}),
            "messages: begin with the model's turn",
        ),
        (
            json!({"contents": {"parts": {"text": "x"}}, "cachedContent": "cachedContents/1"}),
            "cachedContent",
        ),
    ] {
        let refusal = refused(GEMINI, ANTHROPIC, &body);
        assert!(refusal.starts_with(field), "{refusal} for {body}");
    }
    let fine = asked(with(json!({
        "candidateCount": 1, "responseLogprobs": false, "responseModalities": ["text"],
        "seed": 7, "frequencyPenalty": 0.5, "temperature": 2, "topP": 1,
    })));
    assert_eq!(fine.losses, "frequency_penalty, seed, temperature");
    assert_eq!(fine.body["temperature"], 1.0);
    assert_eq!(fine.body["top_p"], Value::Null);
    let picture = asked(part(
        json!({"inlineData": {"mimeType": "image/jpg", "data": "/9j/"}}),
    ));
    assert_eq!(
        picture.body["messages"][0]["content"][1]["source"]["media_type"],
        "image/jpeg"
    );
}

fn write(request: &Request<'_>) -> (Value, String) {
    let mut losses = Losses::default();
    let written = translator(ANTHROPIC).write_request(request, &LANE, &mut losses);
    let body = written.expect("a request").body;
    (
        serde_json::from_slice(&body).expect("JSON"),
        losses.header(),
    )
}

fn user(text: &str) -> Message<'_> {
    Message::new(Role::User, vec![Part::text(text)])
}

fn thinking(effort: Effort, max_tokens: Option<u64>) -> Request<'static> {
    let mut request = Request {
        messages: vec![user("go")],
        max_output_tokens: max_tokens,
        ..Request::default()
    };
    request.reasoning.budget = Some(ReasoningBudget::Effort(effort));
    request
}

/// Report R30.
#[test]
fn a_budget_is_legal_or_thinking_is_off_and_named() {
    for max_tokens in [
        None,
        Some(500),
        Some(1_024),
        Some(1_025),
        Some(2_000),
        Some(100_000),
    ] {
        for effort in [
            Effort::Minimal,
            Effort::Low,
            Effort::Medium,
            Effort::High,
            Effort::XHigh,
        ] {
            let (body, losses) = write(&thinking(effort, max_tokens));
            let max = body["max_tokens"].as_u64().expect("a limit");
            assert_eq!(max, max_tokens.unwrap_or(4096));
            if max <= 1_024 {
                assert_eq!(body["thinking"], json!({"type": "disabled"}));
                assert_eq!(losses, "reasoning");
            } else {
                let budget = body["thinking"]["budget_tokens"]
                    .as_u64()
                    .expect("a budget");
                assert!((1_024..max).contains(&budget), "{budget} of {max}");
                assert_eq!(losses, "");
            }
        }
    }
    let mut off = thinking(Effort::High, None);
    off.reasoning.budget = Some(ReasoningBudget::Off);
    assert_eq!(write(&off), (write(&off).0, String::new()));
    assert_eq!(write(&off).0["thinking"], json!({"type": "disabled"}));
}

/// Report R29: "newer models take effort without a budget".
#[test]
fn lanes_of_newer_models_are_asked_with_an_effort() {
    let mut lane = LANE;
    lane.accepts.reasoning = lanekeeper_model::gateway::ReasoningForm::Effort;
    let written = |protocol, budget: ReasoningBudget, shows: Option<bool>| {
        let mut request = thinking(Effort::Low, Some(100));
        request.reasoning.budget = Some(budget);
        request.reasoning.shows_thoughts = shows;
        let mut losses = Losses::default();
        let written = { translator(protocol).write_request(&request, &lane, &mut losses) };
        let body: Value = serde_json::from_slice(&written.expect("ok").body).expect("JSON");
        (body, losses.header())
    };
    let tokens = ReasoningBudget::Tokens(8_000);
    let (body, losses) = written(ANTHROPIC, tokens, Some(true));
    assert_eq!(
        body["thinking"],
        json!({"type": "adaptive", "display": "summarized"})
    );
    assert_eq!(body["output_config"], json!({"effort": "medium"}));
    assert_eq!(losses, "");
    let (body, _) = written(ANTHROPIC, ReasoningBudget::Dynamic, None);
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"], Value::Null);
    let (body, _) = written(ANTHROPIC, ReasoningBudget::Off, None);
    assert_eq!(body["thinking"], json!({"type": "disabled"}));

    let (body, losses) = written(GEMINI, tokens, Some(true));
    let config = &body["generationConfig"]["thinkingConfig"];
    assert_eq!(
        *config,
        json!({"includeThoughts": true, "thinkingLevel": "MEDIUM"})
    );
    assert_eq!(losses, "");
    let (body, losses) = written(GEMINI, ReasoningBudget::Off, None);
    let config = &body["generationConfig"]["thinkingConfig"];
    assert_eq!(*config, json!({"thinkingLevel": "LOW"}));
    assert_eq!(losses, "reasoning");
    let (body, _) = written(GEMINI, ReasoningBudget::Dynamic, None);
    assert_eq!(body["generationConfig"], json!({"maxOutputTokens": 100}));
}

/// Report R29.
#[test]
fn thinking_gives_way_to_a_forced_tool_and_samplers_give_way_to_thinking() {
    let mut request = thinking(Effort::Medium, Some(20_000));
    request.sampling.temperature = Some(0.2);
    request.sampling.top_k = Some(5);
    request.sampling.top_p = Some(0.5);
    let (body, losses) = write(&request);
    assert_eq!(body["thinking"]["budget_tokens"], 8_192);
    assert_eq!(losses, "temperature, top_k, top_p");
    for sampler in ["temperature", "top_k", "top_p"] {
        assert_eq!(body[sampler], Value::Null);
    }

    let declared = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}],
                          "tools": [{"name": "f", "input_schema": {}}]})
    .to_string();
    let declared = { translator(ANTHROPIC).read_request(declared.as_bytes(), false) }.expect("ok");
    request.tools = declared.tools;
    request.tool_choice = Some(ToolChoice::Required);
    let (body, losses) = write(&request);
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    assert_eq!(body["temperature"], 0.2);
    assert_eq!(losses, "reasoning");
}

fn history(proof: Option<Proof<'static>>, first: Option<Proof<'static>>) -> Request<'static> {
    let mut parts = Vec::new();
    parts.extend(first.map(|proof| {
        Part::unplaced(PartBody::Reasoning(Reasoning {
            text: "hm".into(),
            proof: Some(proof),
        }))
    }));
    parts.push(Part::unplaced(PartBody::ToolCall(ToolCall {
        id: "c1".into(),
        name: "f".into(),
        arguments: Arguments("{}".into()),
        proof,
        is_custom: false,
    })));
    let result = PartBody::ToolResult(ToolResult {
        call_id: "c1".into(),
        name: "f".into(),
        content: vec![Part::text("ok")],
        is_error: false,
        is_custom: false,
    });
    Request {
        messages: vec![
            user("go"),
            Message::new(Role::Assistant, parts),
            Message::new(Role::Tool, vec![Part::unplaced(result)]),
        ],
        ..thinking(Effort::High, Some(30_000))
    }
}

fn own(text: &'static str, is_redacted: bool) -> Proof<'static> {
    Proof {
        protocol: ANTHROPIC,
        text: text.into(),
        is_redacted,
    }
}

/// Report R28.
#[test]
fn thinking_is_off_where_the_running_tool_loop_has_no_thoughts_and_none_are_made_up() {
    let (body, losses) = write(&history(None, None));
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(losses, "reasoning");
    assert_eq!(body["messages"][1]["content"][0]["type"], "tool_use");

    let mut later = history(None, None);
    later
        .messages
        .push(Message::new(Role::Assistant, vec![Part::text("done")]));
    later.messages.push(user("again"));
    assert_eq!(write(&later).0["thinking"]["type"], "enabled");

    for (proof, first, expected) in [
        (
            Some(own("hidden", true)),
            None,
            json!({"type": "redacted_thinking", "data": "hidden"}),
        ),
        (
            Some(own("sig", false)),
            None,
            json!({"type": "thinking", "thinking": "", "signature": "sig"}),
        ),
        (
            Some(own("sig", false)),
            Some(own("sig", false)),
            json!({"type": "thinking", "thinking": "hm", "signature": "sig"}),
        ),
    ] {
        let (body, losses) = write(&history(proof, first));
        assert_eq!(body["thinking"]["type"], "enabled", "{losses}");
        assert_eq!(body["messages"][1]["content"][0], expected);
        assert_eq!(body["messages"][1]["content"][1]["type"], "tool_use");
    }
}

/// Report R33.
#[test]
fn later_instructions_stay_at_their_place_behind_results() {
    let mut request = history(None, None);
    request.reasoning.budget = None;
    request
        .messages
        .insert(0, Message::new(Role::System, vec![Part::text("A")]));
    request
        .messages
        .push(Message::new(Role::Developer, vec![Part::text("B")]));
    request.messages.push(user("two"));
    request
        .messages
        .push(Message::new(Role::System, vec![Part::text("C")]));
    let (body, _) = write(&request);
    assert_eq!(body["system"], json!([{"type": "text", "text": "A"}]));
    let last = &body["messages"][2]["content"];
    assert_eq!(last[0]["type"], "tool_result");
    let texts: Vec<_> = (1..4).map(|block| last[block]["text"].clone()).collect();
    assert_eq!(texts, ["B", "two", "C"]);
}

/// Reports R36 and R37.
#[test]
fn a_prefill_is_trimmed_and_runs_of_a_role_are_merged_in_order() {
    let request = Request {
        messages: vec![
            user("a"),
            user("b"),
            Message::new(Role::Assistant, vec![Part::text("{\"name\": \n")]),
        ],
        ..Request::default()
    };
    let (body, losses) = write(&request);
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "a"},
                                         {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "{\"name\":"}]},
        ])
    );
    assert_eq!(losses, "prefill");
}

/// Reports R52 and R89.
#[test]
fn blank_stop_sequences_and_too_long_users_are_named() {
    let mut request = thinking(Effort::Low, None);
    request.sampling.stop = vec!["\n".into(), "END".into()];
    request.extras.user = Some("u".repeat(257).into());
    let (body, losses) = write(&request);
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(body["metadata"], Value::Null);
    assert_eq!(losses, "stop, user");
}

/// Report R73: of too many marks the last are kept.
#[test]
fn only_so_many_cache_marks_are_sent() {
    let block = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let body = json!({"max_tokens": 1, "messages": [{"role": "user", "content":
        [block, block, block, block, block]}]})
    .to_string();
    let request = { translator(ANTHROPIC).read_request(body.as_bytes(), false) }.expect("ok");
    let (body, losses) = write(&request);
    let marked: Vec<_> = (0..5)
        .map(|block| !body["messages"][0]["content"][block]["cache_control"].is_null())
        .collect();
    assert_eq!(marked, [false, true, true, true, true]);
    assert_eq!(losses, "cache_control");
}

fn schema_format() -> Option<Format<'static>> {
    Some(Format::Schema(SchemaFormat {
        name: Some("n".into()),
        description: None,
        schema: raw(&json!({"type": "object", "properties": {"a": {"type": "integer"}}})),
        is_strict: true,
    }))
}

/// Reports R45 and R46.
#[test]
fn structured_output_is_a_tool_that_never_takes_the_callers_place() {
    let mut request = Request {
        messages: vec![user("go")],
        format: schema_format(),
        ..Request::default()
    };
    let (body, _) = write(&request);
    assert_eq!(body["tools"][0]["name"], "json_answer");
    assert_eq!(
        body["tools"][0]["input_schema"]["properties"]["a"]["type"],
        "integer"
    );
    assert_eq!(
        body["tool_choice"],
        json!({"type": "tool", "name": "json_answer", "disable_parallel_tool_use": true})
    );

    request.format = Some(Format::Json);
    assert_eq!(
        write(&request).0["tools"][0]["input_schema"],
        json!({"type": "object"})
    );

    let declared = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}],
                          "tools": [{"name": "json_answer", "input_schema": {}}]})
    .to_string();
    let declared = { translator(ANTHROPIC).read_request(declared.as_bytes(), false) }.expect("ok");
    request.tools = declared.tools;
    let (body, _) = write(&request);
    assert_eq!(body["tools"][1]["name"], "json_answer_");
    assert_eq!(body["tool_choice"], json!({"type": "any"}));

    request.tool_choice = Some(ToolChoice::One("json_answer".into()));
    let (body, _) = write(&request);
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(1));
    assert!(matches!(&request.tools[0], Tool::Function(tool) if tool.name == "json_answer"));

    let list = json!({"contents": {"parts": {"text": "go"}}, "generationConfig": {
        "responseMimeType": "application/json", "responseSchema": {"type": "ARRAY"}}});
    assert!(refused(GEMINI, ANTHROPIC, &list).starts_with("response_format"));
    let words = json!({"contents": {"parts": {"text": "go"}}, "generationConfig": {
        "responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}}});
    assert!(refused(GEMINI, ANTHROPIC, &words).starts_with("generationConfig.responseMimeType"));
}
