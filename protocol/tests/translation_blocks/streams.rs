//! Streams, event by event.

use serde_json::{Value, json};

use crate::support::{ANTHROPIC, Asked, GEMINI, all, ask, events, translator};
use lanekeeper_protocol::ir::{Event, Finish, PartStart, Usage};
use lanekeeper_protocol::translation::{HELD_MAX_BYTES, HeldTooMuch, StreamError};

fn from_gemini() -> Asked {
    let body = json!({"max_tokens": 9, "messages": [{"role": "user", "content": "go"}]});
    ask(ANTHROPIC, GEMINI, &body)
}

fn from_anthropic() -> Asked {
    ask(
        GEMINI,
        ANTHROPIC,
        &json!({"contents": {"parts": {"text": "go"}}}),
    )
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

/// Reports R04, R05, R22, R57, R61 and R86.
#[test]
fn a_stream_of_geminis_is_one_of_anthropics() {
    let frames = [
        json!({"candidates": [{"content": {"parts": [{"text": "plan", "thought": true}]}}],
               "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2},
               "responseId": "r1", "modelVersion": "m"}),
        json!({"candidates": [{"content": {"parts": [
            {"text": "I "},
            {"functionCall": {"name": "read", "args": {"p": "a"}}},
            {"functionCall": {"name": "read", "args": {"p": "b"}}}]}}]}),
        json!({"candidates": [{"content": {"parts": [
            {"functionCall": {"name": "read", "args": {"p": "a"}}}]}}],
               "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5}}),
        json!({"candidates": [{"finishReason": "STOP"}]}),
        json!({"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 9}}),
    ];
    let (out, error) = from_gemini().try_stream(&frames);
    assert_eq!(error, None);
    let events = events(&out);
    assert!({ events.iter() }.all(|(name, data)| name.as_deref() == data["type"].as_str()));
    let data: Vec<Value> = events.into_iter().map(|(_, data)| data).collect();
    assert_eq!(data[0]["message"]["id"], "msg_r1");
    assert_eq!(data[0]["message"]["usage"]["input_tokens"], 7);
    assert_eq!(data[0]["message"]["stop_reason"], Value::Null);
    let kinds = all(&data, "/content_block/type");
    assert_eq!(
        kinds,
        ["thinking", "text", "tool_use", "tool_use", "tool_use"]
    );
    let arguments = all(&data, "/delta/partial_json");
    assert_eq!(arguments, [r#"{"p":"a"}"#, r#"{"p":"b"}"#, r#"{"p":"a"}"#]);
    let ids: std::collections::BTreeSet<_> = { all(&data, "/content_block/id").into_iter() }
        .map(|id| id.to_string())
        .collect();
    assert_eq!(ids.len(), 3);
    let end = &data[data.len() - 2];
    assert_eq!(
        end["delta"],
        json!({"stop_reason": "tool_use", "stop_sequence": null})
    );
    assert_eq!(end["usage"]["input_tokens"], 7);
    assert_eq!(end["usage"]["output_tokens"], 9);
    assert_eq!(data[data.len() - 1], json!({"type": "message_stop"}));
}

/// Reports R61, R70 and R81.
#[test]
fn a_stream_of_anthropics_is_one_of_geminis_with_whole_calls() {
    let tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let json = |index, text: &str| {
        delta(
            index,
            json!({"type": "input_json_delta", "partial_json": text}),
        )
    };
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let frames = [
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage":
            {"input_tokens": 2230, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        start(
            0,
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "w", "input": {}}),
        ),
        json(0, "{\"q\""),
        stop(0),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "I look."})),
        delta(1, json!({"type": "citations_delta", "citation": {}})),
        stop(1),
        start(2, tool("toolu_1")),
        json(2, ""),
        json(2, "{\"a\""),
        json(2, ":1"),
        json(2, "}"),
        stop(2),
        start(3, tool("toolu_2")),
        stop(3),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
               "usage": {"input_tokens": 12_284, "output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ];
    let (out, error) = from_anthropic().try_stream(&frames);
    assert_eq!(error, None);
    let events = events(&out);
    assert!(events.iter().all(|(name, _)| name.is_none()));
    let data: Vec<Value> = events.into_iter().map(|(_, data)| data).collect();
    assert_eq!(
        all(&data, "/candidates/0/content/parts/0"),
        [
            json!({"text": "I look."}),
            json!({"functionCall": {"id": "toolu_1", "name": "f", "args": {"a": 1}},
                   "thoughtSignature": "skip_thought_signature_validator"}),
            json!({"functionCall": {"id": "toolu_2", "name": "f", "args": {}}}),
            json!({"text": ""}),
        ]
    );
    let last = data.last().expect("one");
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["promptTokenCount"], 12_284);
    assert_eq!(last["usageMetadata"]["candidatesTokenCount"], 9);
    assert_eq!(all(&data, "/usageMetadata").len(), 1);

    let (out, _) = from_anthropic().try_stream(&frames[..12]);
    let text = String::from_utf8(out).expect("text");
    let mut stream = from_anthropic().exchange.stream();
    let mut cut = Vec::new();
    for frame in &frames[..12] {
        { stream.frame(None, frame.to_string().as_bytes(), &mut cut) }.expect("a frame");
    }
    assert!(
        !String::from_utf8(cut)
            .expect("text")
            .contains("functionCall"),
        "{text}"
    );
}

/// The events of a stream as Anthropic's caller gets them.
fn written(all: Vec<Event<'_>>) -> Vec<(Option<String>, Value)> {
    let mut writer = translator(ANTHROPIC).stream_writer(&crate::support::caller());
    let mut out = Vec::new();
    for event in all {
        writer.write(event, &mut out).expect("room");
    }
    events(&out)
}

fn begin() -> Event<'static> {
    Event::Start {
        id: "x".into(),
        model: "m".into(),
    }
}

fn part(part: usize, start: PartStart<'static>) -> Event<'static> {
    Event::PartStart { part, start }
}

fn piece(part: usize, text: &'static str) -> Event<'static> {
    Event::Piece {
        part,
        text: text.into(),
    }
}

fn call(id: &'static str) -> PartStart<'static> {
    PartStart::ToolCall {
        id: id.into(),
        name: "f".into(),
        proof: None,
    }
}

/// Reports R26, R27 and R05: as readers of chat completions give them, whose parts end late.
#[test]
fn one_block_is_open_at_a_time_whatever_parts_are() {
    let events = written(vec![
        begin(),
        part(0, PartStart::Text),
        part(1, PartStart::Reasoning),
        piece(1, "a"),
        piece(1, "b"),
        piece(0, "4"),
        piece(0, "2"),
        part(2, call("c1")),
        piece(2, "{\"a\""),
        part(3, call("c2")),
        piece(3, "{\"b\":"),
        piece(0, "."),
        piece(2, ":1}"),
        piece(3, "2}"),
        Event::PartEnd { part: 0 },
        Event::PartEnd { part: 1 },
        Event::PartEnd { part: 2 },
        Event::PartEnd { part: 3 },
        Event::Finish(Finish::ToolCalls),
        Event::Usage(Usage {
            input: 100,
            output: 4,
            cache_read: Some(75),
            ..Usage::default()
        }),
        Event::End,
    ]);
    let data: Vec<Value> = events.into_iter().map(|(_, data)| data).collect();
    let mut open = None;
    let mut blocks: Vec<(String, String)> = Vec::new();
    for event in &data {
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(open, None);
                assert_eq!(event["index"], blocks.len());
                open = event["index"].as_u64();
                let block = &event["content_block"];
                let kind = block["type"].as_str().expect("a kind");
                blocks.push((kind.to_owned(), String::new()));
            }
            "content_block_delta" => {
                assert_eq!(event["index"].as_u64(), open);
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
            "content_block_stop" => {
                assert_eq!(event["index"].as_u64(), open);
                open = None;
            }
            _ => {}
        }
    }
    let blocks: Vec<_> = { blocks.iter() }
        .map(|(kind, text)| (kind.as_str(), text.as_str()))
        .collect();
    assert_eq!(
        blocks,
        [
            ("thinking", "ab"),
            ("text", "42"),
            ("tool_use", r#"{"a":1}"#),
            ("text", "."),
            ("tool_use", r#"{"b":2}"#),
        ]
    );
    assert_eq!(all(&data, "/message").len(), 1);
    let end = &data[data.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(end["usage"]["input_tokens"], 25);
    assert_eq!(end["usage"]["cache_read_input_tokens"], 75);
}

/// Report R62.
#[test]
fn a_ping_is_an_event_behind_the_beginning() {
    let events = written(vec![begin(), Event::Ping, Event::End]);
    let names: Vec<_> = { events.iter() }
        .filter_map(|(name, _)| name.as_deref())
        .collect();
    assert_eq!(
        names,
        ["message_start", "ping", "message_delta", "message_stop"]
    );
    let frames = [
        json!({"type": "message_start", "message": {"id": "msg_1"}}),
        json!({"type": "ping"}),
    ];
    let mut stream = from_anthropic().exchange.stream();
    let mut out = Vec::new();
    for frame in &frames {
        { stream.frame(None, frame.to_string().as_bytes(), &mut out) }.expect("a frame");
    }
    assert_eq!(String::from_utf8(out).expect("text"), "");
}

#[test]
fn what_is_held_back_is_bounded() {
    let half = "x".repeat(HELD_MAX_BYTES / 2 + 1);
    for protocol in [ANTHROPIC, GEMINI] {
        let mut writer = translator(protocol).stream_writer(&crate::support::caller());
        let mut out = Vec::new();
        for event in [begin(), part(0, call("c0")), part(1, call("c1"))] {
            writer.write(event, &mut out).expect("room");
        }
        let mut more = || {
            let text = half.as_str().into();
            writer.write(Event::Piece { part: 1, text }, &mut out)
        };
        assert_eq!(more(), Ok(()));
        assert_eq!(more(), Err(HeldTooMuch));
    }
    let half = "x".repeat(HELD_MAX_BYTES / 2 + 1);
    let frames: Vec<_> = std::iter::once(start(
        0,
        json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
    ))
    .chain((0..2).map(|_| delta(0, json!({"type": "input_json_delta", "partial_json": half}))))
    .collect();
    let (_, error) = from_anthropic().try_stream(&frames);
    assert_eq!(error, Some(StreamError::HeldTooMuch(HeldTooMuch)));
}

/// Report R76.
#[test]
fn half_characters_and_rare_ones_pass() {
    let frames = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,
            "delta":{"type":"text_delta","text":"a\ud83d"}}"#,
        r#"{"type":"content_block_delta","index":0,
            "delta":{"type":"text_delta","text":"\u0000\u2028\/\ud83d\ude00"}}"#,
    ];
    let mut stream = from_anthropic().exchange.stream();
    let mut out = Vec::new();
    for frame in frames {
        { stream.frame(None, frame.as_bytes(), &mut out) }.expect("a frame");
    }
    let data: Vec<Value> = events(&out).into_iter().map(|(_, data)| data).collect();
    assert_eq!(
        all(&data, "/candidates/0/content/parts/0/text"),
        ["a\u{fffd}", "\0\u{2028}/😀"]
    );
}

/// Report R45, in pieces.
#[test]
fn the_made_up_tool_streams_as_text() {
    let body = json!({
        "contents": {"parts": {"text": "go"}},
        "generationConfig": {"responseMimeType": "application/json"},
    });
    let tool = json!({"type": "tool_use", "id": "t", "name": "json_answer", "input": {}});
    let frames = [
        start(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "Here:"})),
        start(1, tool),
        delta(
            1,
            json!({"type": "input_json_delta", "partial_json": "{\"a\""}),
        ),
        delta(
            1,
            json!({"type": "input_json_delta", "partial_json": ":1}"}),
        ),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let data = ask(GEMINI, ANTHROPIC, &body).stream(&frames);
    let texts = all(&data, "/candidates/0/content/parts/0/text");
    assert_eq!(texts, ["{\"a\"", ":1}", ""]);
    assert_eq!(
        data.last().expect("one")["candidates"][0]["finishReason"],
        "STOP"
    );
}

#[test]
fn thoughts_of_anthropics_come_back_through_a_caller_of_geminis() {
    let frames = [
        start(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(
            0,
            json!({"type": "signature_delta", "signature": "EqQB+/=="}),
        ),
        json!({"type": "content_block_stop", "index": 0}),
        start(1, json!({"type": "redacted_thinking", "data": "EmwK=="})),
        json!({"type": "content_block_stop", "index": 1}),
        start(
            2,
            json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
        ),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let data = from_anthropic().stream(&frames);
    let mut parts = all(&data, "/candidates/0/content/parts/0");
    parts.pop();
    let next = json!({"contents": [
        {"parts": [{"text": "go"}]},
        {"role": "model", "parts": parts},
        {"parts": [{"functionResponse": {"name": "f", "response": {"output": "ok"}}}]},
    ]});
    let blocks = ask(GEMINI, ANTHROPIC, &next).body["messages"][1]["content"].clone();
    let kinds: Vec<_> = { blocks.as_array().expect("blocks").iter() }
        .map(|block| block["type"].clone())
        .collect();
    assert!(kinds.contains(&json!("redacted_thinking")), "{blocks}");
    let signed = { blocks.as_array().expect("blocks").iter() }
        .find(|block| block["signature"] == "EqQB+/==");
    assert!(signed.is_some(), "{blocks}");
}
