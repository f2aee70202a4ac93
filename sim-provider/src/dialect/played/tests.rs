//! A scripted turn in every dialect, whole and as a stream.

use super::super::{Call, Route};
use crate::script::Script;
use serde_json::{Value, json};

const ARGUMENTS: &str = r#"{"place":"the \"old\" löch"}"#;

fn script() -> Script {
    let script = json!({"turns": [
        {"text": "Let me look. ", "tool_calls": [
            {"name": "look", "arguments": serde_json::from_str::<Value>(ARGUMENTS).unwrap()},
        ]},
        {"text": "Done."},
    ]});
    Script::from_json(script.to_string().as_bytes()).unwrap()
}

/// A call that offers the tool in every dialect's way at once.
fn call(path: &str, query: &str, stream: bool) -> Call {
    let body = json!({
        "model": "m", "stream": stream, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi"}], "input": "hi",
        "contents": [{"parts": [{"text": "hi"}]}],
        "tools": [{"name": "look"}],
    });
    let body = body.to_string();
    let route = Route::of(path, query).unwrap();
    let mut call = route.read_call(body.as_bytes(), 8).unwrap();
    call.play(&script(), body.as_bytes());
    call
}

fn streamed(call: &Call) -> String {
    let content: String = (0..call.words).map(|index| call.content(index)).collect();
    call.opening() + &content + &call.closing(call.words)
}

/// The strings of a stream's documents at a place, joined.
fn joined(stream: &str, place: &str) -> String {
    let data = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str::<Value>(data).ok())
        .filter_map(|data| Some(data.pointer(place)?.as_str()?.to_owned()))
        .collect()
}

#[test]
fn the_pieces_of_a_stream_make_the_whole_in_every_dialect() {
    // Path; then where text, arguments and the reason for the end are: in the whole, in the stream.
    let dialects = [
        (
            "/v1/chat/completions",
            ["/choices/0/message/content", "/choices/0/delta/content"],
            [
                "/choices/0/message/tool_calls/0/function/arguments",
                "/choices/0/delta/tool_calls/0/function/arguments",
            ],
            ["/choices/0/finish_reason", "tool_calls"],
        ),
        (
            "/v2/chat",
            ["/message/tool_plan", "/delta/message/tool_plan"],
            [
                "/message/tool_calls/0/function/arguments",
                "/delta/message/tool_calls/function/arguments",
            ],
            ["/finish_reason", "TOOL_CALL"],
        ),
    ];
    for (path, text, arguments, [reason, wanted]) in dialects {
        let whole = call(path, "", false).answer(1);
        assert_eq!(
            whole.pointer(text[0]),
            Some(&json!("Let me look. ")),
            "{path}"
        );
        assert_eq!(
            whole.pointer(arguments[0]),
            Some(&json!(ARGUMENTS)),
            "{path}"
        );
        assert_eq!(whole.pointer(reason), Some(&json!(wanted)), "{path}");
        let stream = streamed(&call(path, "", true));
        // Cohere's opening has an empty plan of its own at the same place.
        assert_eq!(joined(&stream, text[1]), "Let me look. ", "{path}");
        assert_eq!(joined(&stream, arguments[1]), ARGUMENTS, "{path}");
        assert!(stream.contains(wanted), "{path}");
    }
}

#[test]
fn messages_and_responses_end_their_stream_with_what_the_whole_holds() {
    let whole = call("/v1/messages", "", false).answer(1);
    let input = whole.pointer("/content/1/input").unwrap();
    assert_eq!(input.to_string(), ARGUMENTS);
    assert_eq!(whole.pointer("/stop_reason"), Some(&json!("tool_use")));
    let stream = streamed(&call("/v1/messages", "", true));
    assert_eq!(joined(&stream, "/delta/text"), "Let me look. ");
    assert_eq!(joined(&stream, "/delta/partial_json"), ARGUMENTS);

    let whole = call("/v1/responses", "", false).answer(1);
    let arguments = whole.pointer("/output/1/arguments");
    assert_eq!(arguments, Some(&json!(ARGUMENTS)));
    let stream = streamed(&call("/v1/responses", "", true));
    assert_eq!(
        joined(&stream, "/delta"),
        format!("Let me look. {ARGUMENTS}")
    );
    let last = stream.trim_end().rsplit("data: ").next().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last.pointer("/response"), Some(&whole));
    let count = stream.matches("event: ").count();
    assert_eq!(last.pointer("/sequence_number"), Some(&json!(count - 1)));
}

#[test]
fn gemini_streams_whole_documents_as_events_and_as_an_array() {
    let path = "/v1beta/models/m:streamGenerateContent";
    let events = streamed(&call(path, "alt=sse", false));
    assert_eq!(
        joined(&events, "/candidates/0/content/parts/0/text"),
        "Let me look. "
    );
    let array = streamed(&call(path, "", false));
    let documents: Vec<Value> = serde_json::from_str(&array).unwrap();
    let called = { documents.iter() }
        .filter_map(|document| document.pointer("/candidates/0/content/parts/0/functionCall"))
        .collect::<Vec<_>>();
    let place: Value = serde_json::from_str(ARGUMENTS).unwrap();
    assert_eq!(called, [&json!({"name": "look", "args": place})]);
}

#[test]
fn what_is_no_conversation_is_not_scripted() {
    let count = call("/v1/messages/count_tokens", "", false).answer(8);
    assert_eq!(count, json!({"input_tokens": 10}));
}
