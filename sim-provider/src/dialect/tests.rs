use super::*;

fn route(path: &str) -> Route {
    Route::of(path, "").unwrap()
}

fn read(path: &str, body: &Value) -> Result<Call, String> {
    route(path).read_call(body.to_string().as_bytes(), 8)
}

const OPENAI: &str = "/v1/chat/completions";
const ANTHROPIC: &str = "/v1/messages";
const GEMINI: &str = "/v1beta/models/m:streamGenerateContent";

#[test]
fn what_is_asked_is_known_by_the_end_of_the_path() {
    for (path, expected) in [
        (
            "/east/v1/chat/completions",
            Some((Dialect::OpenAi, Operation::Chat)),
        ),
        (
            "/v1/completions",
            Some((Dialect::OpenAi, Operation::Completion)),
        ),
        ("/v1/embeddings", Some((Dialect::OpenAi, Operation::Embed))),
        ("/v1/responses", Some((Dialect::Responses, Operation::Chat))),
        ("/v1/messages", Some((Dialect::Anthropic, Operation::Chat))),
        (
            "/v1/messages/count_tokens",
            Some((Dialect::Anthropic, Operation::CountTokens)),
        ),
        (
            "/x/v1/models/m:countTokens",
            Some((Dialect::Gemini, Operation::CountTokens)),
        ),
        (
            "/v1beta/models/m:batchEmbedContents",
            Some((Dialect::Gemini, Operation::EmbedEach)),
        ),
        ("/v2/chat", Some((Dialect::Cohere, Operation::Chat))),
        ("/v1beta/models/m:bake", None),
        ("/v1/audio", None),
    ] {
        let found = Route::of(path, "").map(|route| (route.dialect, route.operation));
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn gemini_names_model_and_framing_outside_the_body() {
    let body = json!({"contents": [{}]});
    let call = read(GEMINI, &body).unwrap();
    assert_eq!((call.model.as_str(), call.stream), ("m", true));
    assert_eq!(call.framing, Framing::Array);
    let events = Route::of(GEMINI, "key=x&alt=sse").unwrap();
    assert_eq!(events.framing, Framing::Events);
}

#[test]
fn gemini_refuses_a_body_that_names_another_model() {
    let batch = "/v1beta/models/m:batchEmbedContents";
    let asking = |name: &str| json!({"requests": [{"model": name, "content": {}}]});
    assert_eq!(read(batch, &asking("models/m")).unwrap().inputs, 1);
    assert!(read(batch, &asking("models/n")).is_err());
}

#[test]
fn max_tokens_is_the_length_for_openai_and_a_bound_for_anthropic() {
    let body = json!({"model": "m", "messages": [{}], "max_tokens": 64});
    assert_eq!(read(OPENAI, &body).unwrap().words, 64);
    assert_eq!(read(ANTHROPIC, &body).unwrap().words, 8);
}

#[test]
fn a_call_without_model_or_messages_names_what_is_missing() {
    let no_model = json!({"messages": [{}]});
    assert!(read(OPENAI, &no_model).unwrap_err().starts_with("model"));
    let no_messages = json!({"model": "m", "messages": []});
    let told = read(ANTHROPIC, &no_messages).unwrap_err();
    assert!(told.starts_with("messages"));
}

/// What the content frames of a stream say.
fn streamed(call: &Call, pointer: &str) -> String {
    let frames: String = (0..call.words).map(|index| call.content(index)).collect();
    { frames.lines() }
        .filter_map(|line| {
            let data: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
            Some(data.pointer(pointer)?.as_str()?.to_owned())
        })
        .collect()
}

#[test]
fn a_stream_carries_the_same_text_as_the_whole_answer() {
    let body = json!({
        "model": "m", "stream": true, "messages": [{}], "input": "x", "contents": [{}],
        "prompt": "x",
    });
    for (path, whole, piece) in [
        (
            OPENAI,
            "/choices/0/message/content",
            "/choices/0/delta/content",
        ),
        ("/v1/completions", "/choices/0/text", "/choices/0/text"),
        ("/v1/responses", "/output/0/content/0/text", "/delta"),
        (ANTHROPIC, "/content/0/text", "/delta/text"),
        (
            GEMINI,
            "/candidates/0/content/parts/0/text",
            "/candidates/0/content/parts/0/text",
        ),
        (
            "/v2/chat",
            "/message/content/0/text",
            "/delta/message/content/text",
        ),
    ] {
        let route = Route::of(path, "alt=sse").unwrap();
        let call = route.read_call(body.to_string().as_bytes(), 8).unwrap();
        let answer = call.answer(call.words);
        let whole = answer.pointer(whole).and_then(Value::as_str);
        assert_eq!(whole, Some(streamed(&call, piece).as_str()), "{path}");
    }
}

#[test]
fn a_growing_array_is_json_at_its_end() {
    let call = read(GEMINI, &json!({"contents": [{}]})).unwrap();
    for words in [0, 1, 3] {
        let mut text: String = (0..words).map(|index| call.content(index)).collect();
        text += &call.closing(words);
        let documents: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(documents.len(), words + 1, "{text}");
    }
}
