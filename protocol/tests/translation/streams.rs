//! What servers of OpenAI's chat protocol send, and what its callers expect.

use lanekeeper_protocol::Protocol;
use serde_json::{Value, json};

use crate::harness::{Folded, Pair, frames_of, normal, plain, translator};

fn read(frames: &[Value]) -> Vec<String> {
    let mut reader = translator(Protocol::Openai).stream_reader();
    normal(Folded::read(reader.as_mut(), frames.iter().cloned()))
}

fn delta(delta: Value) -> Value {
    json!({"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

/// R68.
#[test]
fn nothing_is_lost_between_pieces_of_different_kinds() {
    let call = json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]);
    let all = json!({"content": "t", "reasoning_content": "r", "tool_calls": call});
    assert_eq!(
        read(&[delta(all)]),
        [
            "thought r Some((Openai, \"m\"))",
            "text t",
            "call c f {}",
            "ToolCalls None"
        ]
    );
    let last = json!({"choices": [{"delta": {"content": "."}, "finish_reason": "stop"}]});
    let late = delta(json!({"content": "!"}));
    assert_eq!(
        read(&[delta(json!({"content": "a"})), last.clone(), late, last]),
        ["text a.!.", "Stop None"]
    );
    let odd = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]});
    let none = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    assert_eq!(read(&[odd, none]), ["text a", "Stop None"]);
}

/// R69.
#[test]
fn null_is_absent_and_chunks_without_choices_are_no_answer() {
    let frames = [
        json!({"id": "", "model": "", "choices": [], "prompt_filter_results": [{}]}),
        delta(json!({"role": "assistant", "content": null, "tool_calls": null})),
        json!(""),
        delta(json!({"role": "assistant", "content": "hi"})),
        json!({"id": "other", "choices": [{"delta": null, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}),
    ];
    let read = read(&frames);
    assert_eq!(read[0], "text hi");
    assert!(
        read[1].starts_with("Stop Some(Usage { input: 7, output: 9"),
        "{read:?}"
    );
    let mut reader = translator(Protocol::Openai).stream_reader();
    let answer = Folded::read(reader.as_mut(), frames.into_iter());
    assert_eq!((answer.id.as_ref(), answer.model.as_ref()), ("x", "m"));
    for broken in ["{", "[]", "7", "\"x\""] {
        let mut reader = translator(Protocol::Openai).stream_reader();
        assert!(
            reader.read(None, broken.as_bytes(), &mut |_| {}).is_err(),
            "{broken}"
        );
    }
}

/// R86.
#[test]
fn usage_in_every_chunk_counts_once_and_the_last_counts() {
    let with = |mut chunk: Value, output: u64| {
        chunk["usage"] = json!({"prompt_tokens": 7, "completion_tokens": output});
        chunk
    };
    let read = read(&[
        with(delta(json!({"content": "a"})), 2),
        with(delta(json!({"content": "b"})), 5),
        delta(json!({"content": "c"})),
        with(json!({"choices": []}), 9),
    ]);
    assert!(read[1].contains("input: 7, output: 9"), "{read:?}");
}

/// R03, R04.
#[test]
fn calls_that_all_have_the_same_number_stay_apart() {
    let call = |index: Value, id: &str, arguments: &str| {
        delta(json!({"tool_calls": [{"index": index, "id": id,
            "function": {"name": "read", "arguments": arguments}}]}))
    };
    let more = |index: Value, arguments: &str| {
        delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    };
    let wanted = [
        "call a read {\"p\":1}",
        "call b read {\"p\":2}",
        "ToolCalls None",
    ];
    for (first, second) in [
        (json!(0), json!(0)),
        (json!(0), json!(1)),
        (json!(3), json!(7)),
        (Value::Null, Value::Null),
    ] {
        let frames = [
            call(first.clone(), "a", "{\"p\""),
            more(first, ":1}"),
            call(second.clone(), "b", "{\"p\":"),
            more(second, "2}"),
        ];
        assert_eq!(read(&frames), wanted);
    }
    // They may also grow side by side.
    let frames = [
        call(json!(0), "a", "{\"p\""),
        call(json!(1), "b", "{\"p\""),
        more(json!(0), ":1}"),
        more(json!(1), ":2}"),
    ];
    assert_eq!(read(&frames), wanted);
    // The name may come late.
    let frames = [
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{\"p\""}}]}),
        ),
        call(json!(0), "a", ":1}"),
    ];
    assert_eq!(read(&frames)[0], "call a read {\"p\":1}");
}

/// R55.
#[test]
fn usage_comes_in_a_chunk_of_its_own_when_it_is_asked_for_and_never_else() {
    let pair = Pair {
        caller: Protocol::Openai,
        lane: Protocol::Responses,
    };
    let frames = [
        json!({"type": "response.created", "response": {"id": "r", "model": "m"}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "hi"}),
        json!({"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 2}}}),
    ];
    let mut request = plain(Protocol::Openai);
    for (options, asked) in [
        (Value::Null, false),
        (json!({"include_usage": false}), false),
        (json!({"include_usage": true}), true),
    ] {
        request["stream_options"] = options;
        let chunks = pair.streamed(&request, &frames);
        let counting: Vec<_> = { chunks.iter() }
            .filter(|chunk| chunk["usage"].is_object())
            .collect();
        assert_eq!(counting.len(), usize::from(asked));
        let (done, chunks) = chunks.split_last().expect("chunks");
        assert_eq!(done, "[DONE]");
        if asked {
            assert_eq!(counting[0]["choices"], json!([]));
            assert_eq!(counting[0]["usage"]["total_tokens"], 5);
            assert_eq!(Some(counting[0]), chunks.last());
            assert!({ chunks.iter() }.all(|chunk| chunk.get("usage").is_some()));
        } else {
            assert!({ chunks.iter() }.all(|chunk| chunk.get("usage").is_none()));
        }
        let finishes =
            { chunks.iter() }.filter(|chunk| chunk["choices"][0]["finish_reason"] == "stop");
        assert_eq!(finishes.count(), 1);
        let roles =
            { chunks.iter() }.filter(|chunk| chunk["choices"][0]["delta"]["role"] == "assistant");
        assert_eq!(roles.count(), 1);
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    }
    let text = pair.streamed_text(&plain(Protocol::Openai), &frames);
    assert!(frames_of(&text).all(|(name, _)| name.is_none()));
}

/// R62.
#[test]
fn a_lanes_ping_is_a_comment_for_callers_that_know_none() {
    let pair = Pair {
        caller: Protocol::Openai,
        lane: Protocol::Responses,
    };
    let frames = [json!({"type": "keepalive"})];
    let text = pair.streamed_text(&plain(Protocol::Openai), &frames);
    assert!(text.starts_with(": ping\n\n"), "{text}");
}
