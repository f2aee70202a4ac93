//! What a dialect says comes back as it was, through the representation.

use serde_json::json;

use crate::support::{ANTHROPIC, GEMINI, round_trip};

/// As Claude Code asks, in the middle of a task.
#[test]
fn a_request_of_a_coding_agent_in_anthropics_dialect_stays_itself() {
    let body = json!({
        "model": "lane-model",
        "max_tokens": 32_000,
        "system": [
            {"type": "text", "text": "You are an agent.",
             "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Be brief.",
             "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "List the files."}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "ls will do", "signature": "EqQB+/=="},
                {"type": "redacted_thinking", "data": "EmwK=="},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "Bash",
                 "input": {"z": 1.50, "a": 12_345_678_901_234_567_890_u64}},
                {"type": "tool_use", "id": "toolu_2", "name": "Look", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true,
                 "content": [{"type": "text", "text": "no"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": [
                    {"type": "image", "source":
                        {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                ]},
                {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "url", "url": "https://img.example/a.png"}},
                {"type": "document", "title": "a", "source":
                    {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
                {"type": "document", "source":
                    {"type": "text", "media_type": "text/plain", "data": "plain"}},
            ]},
        ],
        "tools": [
            {"name": "Bash", "description": "Runs it.", "cache_control": {"type": "ephemeral"},
             "input_schema": {"type": "object", "properties": {"z": {"type": "number"}}}},
            {"name": "Look", "input_schema": {"type": "object", "properties": {}}},
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 16_000},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "user_1"},
        "stream": true,
    });
    assert_eq!(round_trip(ANTHROPIC, &body), body);
}

#[test]
fn samplers_and_choices_of_anthropics_dialect_stay_themselves() {
    for choice in [
        json!({"type": "any"}),
        json!({"type": "none"}),
        json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true}),
    ] {
        let body = json!({
            "model": "lane-model",
            "max_tokens": 1,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {}}}}],
            "tool_choice": choice,
            "temperature": 0.0,
            "top_p": 0.5,
            "top_k": 3,
            "thinking": {"type": "disabled"},
        });
        assert_eq!(round_trip(ANTHROPIC, &body), body);
    }
}

/// As Gemini CLI asks, in the middle of a task.
#[test]
fn a_request_of_a_coding_agent_in_geminis_dialect_stays_itself() {
    let body = json!({
        "systemInstruction": {"parts": [{"text": "You are an agent."}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "List the files."},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
                {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
            ]},
            {"role": "model", "parts": [
                {"text": "plan", "thought": true, "thoughtSignature": "dGhvdWdodA=="},
                {"functionCall": {"name": "bash", "args": {"c": "ls"}},
                 "thoughtSignature": "c2lnLTE="},
                {"functionCall": {"name": "bash", "args": {"c": "pwd"}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "bash", "response": {"output": "a.txt"}}},
                {"functionResponse": {"name": "bash", "response": {"error": "no"}}},
                {"text": "Go on."},
            ]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "bash", "description": "Runs it.", "parametersJsonSchema":
                {"type": "object", "properties": {"c": {"type": "string"}}}},
            {"name": "now"},
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["bash"]}},
        "generationConfig": {
            "temperature": 1.5,
            "topP": 0.9,
            "topK": 40,
            "frequencyPenalty": 0.5,
            "presencePenalty": -0.5,
            "seed": 7,
            "stopSequences": ["END"],
            "maxOutputTokens": 1000,
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 2048},
        },
    });
    assert_eq!(round_trip(GEMINI, &body), body);
}

#[test]
fn modes_and_budgets_of_geminis_dialect_stay_themselves() {
    for (mode, budget) in [("AUTO", 0), ("NONE", -1), ("ANY", 512)] {
        let body = json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
            "toolConfig": {"functionCallingConfig": {"mode": mode}},
            "generationConfig": {
                "responseMimeType": "application/json",
                "thinkingConfig": {"thinkingBudget": budget},
            },
        });
        assert_eq!(round_trip(GEMINI, &body), body);
    }
}
