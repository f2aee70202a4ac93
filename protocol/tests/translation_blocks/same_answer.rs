//! A stream says what the whole answer says, whichever way it is cut into pieces.

use lanekeeper_model::gateway::Protocol;
use lanekeeper_protocol::ir::{
    Answer, Arguments, Event, Part, PartBody, PartStart, Proof, Reasoning, ToolCall,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{ANTHROPIC, GEMINI, ask, events, translator};

/// An answer, part by part.
#[derive(Clone, Debug)]
enum Said {
    Text(String),
    Thought(String, String),
    Call(String, String),
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let text = "[a-zé\"\\\\😀\n ]{1,12}";
    let part = prop_oneof![
        text.prop_map(Said::Text),
        (text, "[A-Za-z0-9+/]{4}").prop_map(|(text, proof)| Said::Thought(text, proof)),
        ("[a-z]{1,6}", text).prop_map(|(name, text)| Said::Call(name, text)),
    ];
    // Two texts, or two thoughts, side by side are one in a stream of Gemini's.
    prop::collection::vec(part, 0..6).prop_map(|mut parts: Vec<Said>| {
        parts.dedup_by(|next, last| {
            !matches!(next, Said::Call(..))
                && std::mem::discriminant(next) == std::mem::discriminant(last)
        });
        parts
    })
}

/// Cuts `text` behind each of its first characters that `cuts` names.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for (at, letter) in text.chars().enumerate() {
        if cuts.contains(&at) {
            pieces.push(String::new());
        }
        pieces.last_mut().expect("one").push(letter);
    }
    pieces
}

fn anthropic(parts: &[Said], cuts: &[usize]) -> (Value, Vec<Value>) {
    let mut content = Vec::new();
    let mut frames = vec![json!({"type": "message_start", "message": {
        "id": "msg_1", "model": "m",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}}})];
    let has_calls = parts.iter().any(|part| matches!(part, Said::Call(..)));
    for (index, part) in parts.iter().enumerate() {
        let (block, start, deltas) = match part {
            Said::Text(text) => (
                json!({"type": "text", "text": text}),
                json!({"type": "text", "text": ""}),
                pieces(text, cuts)
                    .into_iter()
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect::<Vec<_>>(),
            ),
            Said::Thought(text, proof) => {
                let mut deltas: Vec<Value> = pieces(text, cuts)
                    .into_iter()
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .collect();
                deltas.push(json!({"type": "signature_delta", "signature": proof}));
                (
                    json!({"type": "thinking", "thinking": text, "signature": proof}),
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    deltas,
                )
            }
            Said::Call(name, text) => {
                let id = format!("toolu_{index}");
                let input = json!({ "a": text });
                (
                    json!({"type": "tool_use", "id": id, "name": name, "input": input}),
                    json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                    pieces(&input.to_string(), cuts)
                        .into_iter()
                        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                        .collect(),
                )
            }
        };
        content.push(block);
        frames.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        frames.extend(
            { deltas.into_iter() }.map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        frames.push(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = if has_calls { "tool_use" } else { "end_turn" };
    frames.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason},
                       "usage": {"output_tokens": 9}}),
    );
    frames.push(json!({"type": "message_stop"}));
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": reason,
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 9},
    });
    (whole, frames)
}

fn gemini(parts: &[Said], cuts: &[usize]) -> (Value, Vec<Value>) {
    let chunk = |part: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": [part]}}],
        "usageMetadata": {"promptTokenCount": 7}, "modelVersion": "m", "responseId": "r1"})
    };
    let (mut content, mut frames) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Said::Text(text) => {
                content.push(json!({ "text": text }));
                frames.extend(
                    pieces(text, cuts)
                        .into_iter()
                        .map(|text| chunk(json!({"text": text}))),
                );
            }
            Said::Thought(text, proof) => {
                content.push(json!({"text": text, "thought": true, "thoughtSignature": proof}));
                frames.extend(
                    pieces(text, cuts)
                        .into_iter()
                        .map(|text| chunk(json!({"text": text, "thought": true}))),
                );
                frames.push(chunk(
                    json!({"text": "", "thought": true, "thoughtSignature": proof}),
                ));
            }
            Said::Call(name, text) => {
                let call = json!({"functionCall": {"id": format!("c{}", content.len()),
                    "name": name, "args": {"a": text}}, "thoughtSignature": "c2ln"});
                content.push(call.clone());
                frames.push(chunk(call));
            }
        }
    }
    let usage = json!({"promptTokenCount": 7, "candidatesTokenCount": 9, "thoughtsTokenCount": 2});
    frames.push(
        json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage,
                       "modelVersion": "m", "responseId": "r1"}),
    );
    let whole = json!({
        "candidates": [{"content": {"role": "model", "parts": content}, "finishReason": "STOP"}],
        "usageMetadata": usage, "modelVersion": "m", "responseId": "r1",
    });
    (whole, frames)
}

fn owned(proof: Proof<'_>) -> Proof<'static> {
    Proof {
        protocol: proof.protocol,
        text: proof.text.into_owned().into(),
        is_redacted: proof.is_redacted,
    }
}

/// The answer that a stream makes up, with the grammar of events checked.
fn folded(protocol: Protocol, frames: &[Value]) -> Answer<'static> {
    let mut reader = translator(protocol).stream_reader();
    let mut answer = Answer::default();
    let (mut open, mut has_started, mut has_finished, mut is_over) =
        (Vec::new(), false, false, false);
    let mut sink = |event: Event<'_>| {
        assert!(!is_over, "{event:?} behind the end");
        assert_eq!(
            has_started,
            !matches!(event, Event::Start { .. }),
            "{event:?}"
        );
        has_started = true;
        match event {
            Event::Start { id, model } => {
                answer.id = id.into_owned().into();
                answer.model = model.into_owned().into();
            }
            Event::PartStart { part, start } => {
                assert_eq!(part, answer.parts.len());
                assert!(!has_finished);
                open.push(part);
                answer.parts.push(Part::unplaced(match start {
                    PartStart::Text => PartBody::Text("".into()),
                    PartStart::Reasoning => PartBody::Reasoning(Reasoning::default()),
                    PartStart::Refusal => PartBody::Refusal("".into()),
                    PartStart::ToolCall { id, name, proof } => PartBody::ToolCall(ToolCall {
                        id: id.into_owned().into(),
                        name: name.into_owned().into(),
                        arguments: Arguments("".into()),
                        proof: proof.map(owned),
                        is_custom: false,
                    }),
                }));
            }
            Event::Piece { part, text } => {
                assert!(open.contains(&part));
                match &mut answer.parts[part].body {
                    PartBody::Text(all) | PartBody::Refusal(all) => all.to_mut().push_str(&text),
                    PartBody::Reasoning(thought) => thought.text.to_mut().push_str(&text),
                    PartBody::ToolCall(call) => call.arguments.0.to_mut().push_str(&text),
                    other => panic!("{other:?} has no pieces"),
                }
            }
            Event::Proof { part, proof } => {
                assert!(open.contains(&part));
                match &mut answer.parts[part].body {
                    PartBody::Reasoning(thought) => thought.proof = Some(owned(proof)),
                    other => panic!("{other:?} has no proof"),
                }
            }
            Event::PartEnd { part } => {
                let at = open.iter().position(|open| *open == part);
                open.remove(at.expect("an open part"));
            }
            Event::Usage(usage) => answer.usage = Some(usage),
            Event::Finish(finish) => {
                assert!(!has_finished);
                has_finished = true;
                answer.finish = finish.into_owned();
            }
            Event::Ping => {}
            Event::End => {
                assert!(open.is_empty());
                is_over = true;
            }
        }
    };
    for frame in frames {
        let frame = frame.to_string();
        { reader.read(None, frame.as_bytes(), &mut sink) }.expect("a frame");
    }
    reader.end(&mut sink);
    assert!(is_over);
    answer
}

/// What Anthropic's clients put together from a stream.
fn message_of(events: &[(Option<String>, Value)]) -> Value {
    let mut message = Value::Null;
    let mut arguments = String::new();
    for (name, data) in events {
        assert_eq!(name.as_deref(), data["type"].as_str());
        match data["type"].as_str().expect("a type") {
            "message_start" => {
                assert!(message.is_null());
                message = data["message"].clone();
            }
            "content_block_start" => {
                let content = message["content"].as_array_mut().expect("content");
                assert_eq!(data["index"], content.len());
                content.push(data["content_block"].clone());
                arguments.clear();
            }
            "content_block_delta" => {
                let blocks = message["content"].as_array_mut().expect("content");
                assert_eq!(data["index"], blocks.len() - 1);
                let block = blocks.last_mut().expect("a block");
                let delta = &data["delta"];
                let mut push = |block_kind: &str, name: &str| {
                    assert_eq!(block["type"], block_kind);
                    let all = block[name].as_str().expect("text").to_owned();
                    block[name] = Value::from(all + delta[name].as_str().expect("text"));
                };
                match delta["type"].as_str().expect("a type") {
                    "text_delta" => push("text", "text"),
                    "thinking_delta" => push("thinking", "thinking"),
                    "signature_delta" => push("thinking", "signature"),
                    "input_json_delta" => {
                        arguments.push_str(delta["partial_json"].as_str().expect("text"));
                    }
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                let blocks = message["content"].as_array_mut().expect("content");
                let block = blocks.last_mut().expect("a block");
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&arguments).expect("arguments");
                }
            }
            "message_delta" => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["stop_sequence"] = data["delta"]["stop_sequence"].clone();
                message["usage"] = data["usage"].clone();
            }
            "message_stop" | "ping" => {}
            other => panic!("{other}"),
        }
    }
    message
}

/// What Gemini's clients put together from a stream.
fn response_of(events: &[(Option<String>, Value)]) -> Value {
    let mut parts: Vec<Value> = Vec::new();
    let mut last = Value::Null;
    for (_, chunk) in events {
        for part in chunk["candidates"][0]["content"]["parts"]
            .as_array()
            .expect("parts")
        {
            let goes_on = |last: &Value| {
                last.get("text").is_some()
                    && part.get("text").is_some()
                    && last.get("thought") == part.get("thought")
            };
            match parts.last_mut().filter(|last| goes_on(last)) {
                Some(last) => {
                    let all = last["text"].as_str().expect("text").to_owned();
                    last["text"] = Value::from(all + part["text"].as_str().expect("text"));
                    if let Some(signature) = part.get("thoughtSignature") {
                        last["thoughtSignature"] = signature.clone();
                    }
                }
                None => parts.push(part.clone()),
            }
        }
        last = chunk.clone();
    }
    parts.retain(|part| part.get("text").is_none_or(|text| text != ""));
    if parts.is_empty() {
        parts.push(json!({"text": ""}));
    }
    last["candidates"][0]["content"]["parts"] = Value::from(parts);
    last
}

fn minimal(protocol: Protocol) -> Value {
    match protocol {
        ANTHROPIC => json!({"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
        _ => json!({"contents": {"parts": {"text": "hi"}}}),
    }
}

proptest! {
    #[test]
    fn events_of_a_stream_make_up_the_whole_answer(
        parts in said(),
        cuts in prop::collection::vec(0..30_usize, 0..6),
    ) {
        for (protocol, (whole, frames)) in [
            (ANTHROPIC, anthropic(&parts, &cuts)),
            (GEMINI, gemini(&parts, &cuts)),
        ] {
            let whole = whole.to_string();
            let answer = translator(protocol).read_answer(whole.as_bytes());
            prop_assert_eq!(Some(folded(protocol, &frames)), answer);
        }
    }

    #[test]
    fn callers_get_the_same_answer_streamed_and_whole(
        parts in said(),
        cuts in prop::collection::vec(0..30_usize, 0..6),
    ) {
        let asked = ask(GEMINI, ANTHROPIC, &minimal(GEMINI));
        let (whole, frames) = anthropic(&parts, &cuts);
        let (out, error) = asked.try_stream(&frames);
        prop_assert_eq!(error, None);
        prop_assert_eq!(response_of(&events(&out)), asked.answer(&whole));

        let asked = ask(ANTHROPIC, GEMINI, &minimal(ANTHROPIC));
        let (whole, frames) = gemini(&parts, &cuts);
        let (out, error) = asked.try_stream(&frames);
        prop_assert_eq!(error, None);
        prop_assert_eq!(message_of(&events(&out)), asked.answer(&whole));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        data in prop::collection::vec(any::<u8>(), 0..200),
        at in 0..2000_usize,
        parts in said(),
    ) {
        for (protocol, (whole, frames)) in
            [(ANTHROPIC, anthropic(&parts, &[2])), (GEMINI, gemini(&parts, &[2]))]
        {
            let translator = translator(protocol);
            let mut reader = translator.stream_reader();
            let _ = translator.read_request(&data, false);
            let _ = translator.read_answer(&data);
            let _ = reader.read(None, &data, &mut |_| {});
            let cut = |value: &Value| {
                let mut bytes = value.to_string().into_bytes();
                let at = at % bytes.len();
                bytes.splice(at..=at, data.iter().copied().take(3));
                bytes
            };
            let _ = translator.read_answer(&cut(&whole));
            for frame in &frames {
                let _ = reader.read(None, &cut(frame), &mut |_| {});
            }
            reader.end(&mut |_| {});
        }
    }
}
