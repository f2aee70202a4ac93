//! Requests of Anthropic's callers for Gemini's lanes.

use serde_json::{Value, json};

use crate::support::{ANTHROPIC, GEMINI, ask, refused, try_text};

fn asked(body: Value) -> crate::support::Asked {
    ask(ANTHROPIC, GEMINI, &body)
}

fn messages(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 9, "messages": messages})
}

/// Reports R13, R14, R15, R16 and R85.
#[test]
fn results_follow_their_calls_in_order_with_text_as_one_string() {
    let given = r##"{"schema":{"$ref":"#/$defs/Node","$defs":{"Node":{"type":"string"}}}}"##;
    let body = messages(json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
            {"type": "tool_use", "id": "c3", "name": "f", "input": {"a": 2}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c3", "is_error": true, "content": "no"},
            {"type": "tool_result", "tool_use_id": "c2", "content": [
                {"type": "text", "text": "shot"},
                {"type": "image", "source":
                    {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            ]},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1",
             "content": [{"type": "text", "text": given}]},
            {"type": "text", "text": "Stop after this one"},
        ]},
    ]));
    let asked = asked(body);
    assert_eq!(asked.losses, "");
    assert_eq!(
        asked.body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"text": "I look."},
                {"functionCall": {"name": "f", "args": {"a": 1}},
                 "thoughtSignature": "skip_thought_signature_validator"},
                {"functionCall": {"name": "g", "args": {}}},
                {"functionCall": {"name": "f", "args": {"a": 2}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"output": given}}},
                {"functionResponse": {"name": "g", "response": {"output": "shot"}}},
                {"functionResponse": {"name": "f", "response": {"error": "no"}}},
                {"text": "From call 2 (g):"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                {"text": "Stop after this one"},
            ]},
        ])
    );
    let orphan = messages(json!([
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c9"}]},
    ]));
    let refusal = refused(ANTHROPIC, GEMINI, &orphan);
    assert!(refusal.contains("c9"), "{refusal}");
}

/// Reports R23, R24 and R85, with a client that keeps nothing but id, name and arguments.
#[test]
fn signatures_come_back_inside_the_ids_of_calls() {
    let first = asked(messages(json!([{"role": "user", "content": "go"}])));
    let signature = "c2ln+/A=".repeat(150);
    let answer = first.answer(&json!({"candidates": [{"content": {"parts": [
        {"thought": true, "text": "plan", "thoughtSignature": "dGhvdWdodA=="},
        {"functionCall": {"name": "bash", "args": {"c": "ls"}}, "thoughtSignature": signature},
        {"functionCall": {"name": "bash", "args": {"c": "pwd"}}},
    ]}, "finishReason": "STOP"}]}));
    assert_eq!(answer["stop_reason"], "tool_use");
    let blocks = answer["content"].as_array().expect("blocks").clone();
    assert_eq!(blocks[0]["type"], "thinking");
    let echo = |blocks: &[Value]| {
        let results: Vec<_> = { blocks.iter() }
            .filter(|block| block["type"] == "tool_use")
            .map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "ok"}))
            .collect();
        messages(json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": results},
        ]))
    };
    let next = asked(echo(&blocks));
    assert_eq!(
        next.body["contents"][1]["parts"],
        json!([
            {"text": "plan", "thought": true, "thoughtSignature": "dGhvdWdodA=="},
            {"functionCall": {"name": "bash", "args": {"c": "ls"}}, "thoughtSignature": signature},
            {"functionCall": {"name": "bash", "args": {"c": "pwd"}}},
        ])
    );
    let without_thoughts = asked(echo(&blocks[1..]));
    assert_eq!(
        without_thoughts.body["contents"][1]["parts"][0]["thoughtSignature"],
        signature
    );
}

/// Report R01: the next turn may go to a lane of the caller's own protocol as it stands.
#[test]
fn an_id_of_another_alphabet_is_legal_for_the_callers_own_lanes_and_comes_back() {
    let first = asked(messages(json!([{"role": "user", "content": "go"}])));
    let part = json!({"functionCall": {"id": "functions.bash:0", "name": "bash", "args": {}}});
    let answer = json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]});
    let shown = first.answer(&answer)["content"][0]["id"].clone();
    assert_eq!(first.stream(&[answer])[1]["content_block"]["id"], shown);
    let id = shown.as_str().expect("an id");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    assert!(id.bytes().all(is_plain), "{id}");
    let echo = messages(json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": "bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id}]},
    ]));
    let next = asked(echo).body["contents"][2]["parts"][0]["functionResponse"].clone();
    assert_eq!(next, json!({"name": "bash", "response": {"output": ""}}));
}

#[test]
fn digits_and_the_order_of_keys_survive() {
    let body = r#"{"max_tokens":9,"messages":[
        {"role":"user","content":"go"},
        {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f",
            "input":{"z":1.50,"a":123456789012345678901234567890,"m":1e-7,"é":"\u00e9"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}],
        "tools":[{"name":"f","input_schema":{"type":"object","properties":
            {"z":{"maximum":1.50},"a":{}}}}]}"#;
    let asked = try_text(ANTHROPIC, GEMINI, body);
    let text = asked.unwrap_or_else(|refusal| panic!("{refusal}")).text;
    for kept in [
        r#"{"z":1.50,"a":123456789012345678901234567890,"m":1e-7,"é":"\u00e9"}"#,
        r#"{"z":{"maximum":1.50},"a":{}}"#,
    ] {
        assert!(text.contains(kept), "{text}");
    }
}

/// Report R33, as Claude Code writes instructions among its messages.
#[test]
fn instructions_among_the_messages_stay_at_their_place() {
    let mut body = messages(json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "system", "content": "B"},
        {"role": "user", "content": "two"},
    ]));
    body["system"] = json!("A");
    let body = asked(body).body;
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "A"}]}));
    assert_eq!(
        body["contents"][2]["parts"],
        json!([{"text": "B"}, {"text": "two"}])
    );
}

/// Reports R19 and R20.
#[test]
fn choices_are_said_and_built_in_tools_are_named_or_refused() {
    for (choice, expected, losses) in [
        (json!({"type": "auto"}), json!({"mode": "AUTO"}), ""),
        (json!({"type": "none"}), json!({"mode": "NONE"}), ""),
        (json!({"type": "any"}), json!({"mode": "ANY"}), ""),
        (
            json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true}),
            json!({"mode": "ANY", "allowedFunctionNames": ["f"]}),
            "parallel_tool_calls",
        ),
    ] {
        let mut body = messages(json!([{"role": "user", "content": "go"}]));
        body["tools"] = json!([{"name": "f", "input_schema": {"type": "object"}},
                               {"name": "g", "input_schema": {"type": "object"}}]);
        body["tool_choice"] = choice;
        let asked = asked(body);
        assert_eq!(asked.body["toolConfig"]["functionCallingConfig"], expected);
        assert_eq!(asked.losses, losses);
        let declared = &asked.body["tools"][0]["functionDeclarations"];
        assert_eq!(*declared, json!([{"name": "f"}, {"name": "g"}]));
    }
    let search = json!({"type": "web_search_20250305", "name": "web_search"});
    let mut body = messages(json!([{"role": "user", "content": "go"}]));
    body["tools"] = json!([search]);
    assert!(refused(ANTHROPIC, GEMINI, &body).starts_with("tools[0].type"));
    body["tools"] = json!([search, {"name": "f", "input_schema": {}}]);
    assert_eq!(asked(body).losses, "tools.web_search_20250305");
}

/// Report R10: MCP names beyond the limit, and back.
#[test]
fn long_names_differ_everywhere_and_come_back_whole() {
    let head = "mcp__server__".to_owned() + &"x".repeat(60);
    let (first, second) = (format!("{head}1"), format!("{head}2"));
    let mut body = messages(json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": first, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]},
    ]));
    body["tools"] = json!([{"name": first, "input_schema": {}},
                           {"name": second, "input_schema": {}}]);
    body["tool_choice"] = json!({"type": "tool", "name": second});
    let asked = asked(body);
    let declared = &asked.body["tools"][0]["functionDeclarations"];
    let names = [&declared[0]["name"], &declared[1]["name"]];
    assert!(names[0] != names[1] && names.iter().all(|name| name.as_str().unwrap().len() <= 64));
    let contents = &asked.body["contents"];
    assert_eq!(contents[1]["parts"][0]["functionCall"]["name"], *names[0]);
    assert_eq!(
        contents[2]["parts"][0]["functionResponse"]["name"],
        *names[0]
    );
    let chosen = &asked.body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"][0];
    assert_eq!(chosen, names[1]);
    let call = json!({"candidates": [{"content": {"parts": [
        {"functionCall": {"name": names[1], "args": {}}}]}, "finishReason": "STOP"}]});
    assert_eq!(asked.answer(&call)["content"][0]["name"], second.as_str());
    let events = asked.stream(&[call]);
    assert_eq!(events[1]["content_block"]["name"], second.as_str());
}

/// Report R41: no kind of block vanishes.
#[test]
fn every_block_is_carried_refused_or_named() {
    let base64 = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="});
    let url = json!({"type": "url", "url": "https://example.com/a"});
    for (block, expected) in [
        (
            json!({"type": "document", "source": base64, "citations": {"enabled": true}}),
            Ok("messages.content.citations"),
        ),
        (
            json!({"type": "document", "source": base64, "context": "c"}),
            Ok("messages.content.context"),
        ),
        (
            json!({"type": "document", "source":
            {"type": "text", "media_type": "text/plain", "data": "t"}}),
            Ok(""),
        ),
        (
            json!({"type": "document", "source":
            {"type": "content", "content": [{"type": "text", "text": "t"}]}}),
            Ok(""),
        ),
        (
            json!({"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}),
            Ok("cache_control"),
        ),
        (
            json!({"type": "document", "source": url}),
            Err("messages[0].content[1].type"),
        ),
        (
            json!({"type": "image", "source": url}),
            Err("messages[0].content[1].type"),
        ),
        (
            json!({"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
            Err("messages[0].content[1].source.file_id"),
        ),
        (
            json!({"type": "image", "source":
            {"type": "base64", "media_type": "image/gif", "data": "AA=="}}),
            Err("image"),
        ),
        (
            json!({"type": "search_result", "source": "s", "title": "t", "content": []}),
            Err("messages[0].content[1].type"),
        ),
        (
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "w", "input": {}}),
            Err("messages[0].content[1].type"),
        ),
        (
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
            Err("messages[0].content[1].type"),
        ),
        (
            json!({"type": "container_upload", "file_id": "file_1"}),
            Err("messages[0].content[1].type"),
        ),
        (
            json!({"type": "hologram"}),
            Err("messages[0].content[1].type"),
        ),
        (
            json!({"type": "text"}),
            Err("messages[0].content[1].text: is missing"),
        ),
        (
            json!("text"),
            Err("messages[0].content[1]: must be an object"),
        ),
    ] {
        let body = messages(json!([
            {"role": "user", "content": [{"type": "text", "text": "see"}, block]}]));
        match expected {
            Ok(losses) => {
                let asked = asked(body);
                assert_eq!(asked.losses, losses, "{block}");
                assert_ne!(
                    asked.body["contents"][0]["parts"][1],
                    Value::Null,
                    "{block}"
                );
            }
            Err(field) => {
                let refusal = refused(ANTHROPIC, GEMINI, &body);
                assert!(refusal.starts_with(field), "{refusal} for {block}");
            }
        }
    }
}

#[test]
fn settings_are_carried_named_or_refused() {
    let with = |name: &str, value: Value| {
        let mut body = messages(json!([{"role": "user", "content": "go"}]));
        body[name] = value;
        body
    };
    for (name, value, losses) in [
        (
            "metadata",
            json!({"user_id": "u", "team": "a"}),
            "metadata.team, user",
        ),
        ("service_tier", json!("standard_only"), "service_tier"),
        (
            "context_management",
            json!({"edits": []}),
            "context_management",
        ),
        (
            "thinking",
            json!({"type": "enabled", "budget_tokens": 100_000}),
            "reasoning",
        ),
        (
            "output_config",
            json!({"effort": "high", "task_budget": 1}),
            "output_config.task_budget",
        ),
        ("mcp_servers", json!([]), ""),
        ("container", Value::Null, ""),
    ] {
        assert_eq!(asked(with(name, value)).losses, losses, "{name}");
    }
    for (name, value, field) in [
        ("mcp_servers", json!([{"url": "x"}]), "mcp_servers"),
        ("container", json!("c_1"), "container"),
        (
            "max_tokens",
            json!("many"),
            "max_tokens: must be a whole number",
        ),
        ("max_tokens", Value::Null, "max_tokens: is missing"),
        (
            "stop_sequences",
            json!(["a", "b", "c", "d", "e", "f"]),
            "stop: has more sequences",
        ),
        ("messages", json!([]), "messages: must not be empty"),
        (
            "messages",
            json!([{"role": "robot", "content": "x"}]),
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"role": "user", "content": "x"},
                            {"role": "assistant", "content": "{"}]),
            "prefill",
        ),
    ] {
        let refusal = refused(ANTHROPIC, GEMINI, &with(name, value));
        assert!(refusal.starts_with(field), "{refusal}");
    }
    let config = asked(json!({
        "max_tokens": 9, "messages": [{"role": "user", "content": "go"}], "temperature": 0,
        "top_k": 3, "stop_sequences": ["X"], "thinking": {"type": "adaptive"},
        "output_config": {"effort": "medium", "format":
            {"type": "json_schema", "schema": {"type": "object", "$defs": {}}}},
    }))
    .body["generationConfig"]
        .clone();
    assert_eq!(
        config,
        json!({
            "temperature": 0.0, "topK": 3, "stopSequences": ["X"], "maxOutputTokens": 9,
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object", "$defs": {}},
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 8192},
        })
    );
}
