use super::*;

fn read(dialect: Dialect, body: &Value) -> Result<Call, String> {
    dialect.read_call(body.to_string().as_bytes(), 8)
}

#[test]
fn a_dialect_is_known_by_the_end_of_the_path() {
    assert_eq!(
        Dialect::of_path("/east/v1/chat/completions"),
        Some(Dialect::OpenAi)
    );
    assert_eq!(Dialect::of_path("/v1/messages"), Some(Dialect::Anthropic));
    assert_eq!(Dialect::of_path("/v1/messages/count_tokens"), None);
}

#[test]
fn max_tokens_is_the_length_for_openai_and_a_bound_for_anthropic() {
    let body = serde_json::json!({"model": "m", "messages": [{}], "max_tokens": 64});
    assert_eq!(read(Dialect::OpenAi, &body).unwrap().words, 64);
    assert_eq!(read(Dialect::Anthropic, &body).unwrap().words, 8);
}

#[test]
fn a_call_without_model_or_messages_names_what_is_missing() {
    let no_model = serde_json::json!({"messages": [{}]});
    assert!(
        read(Dialect::OpenAi, &no_model)
            .unwrap_err()
            .starts_with("model")
    );
    let no_messages = serde_json::json!({"model": "m", "messages": []});
    assert!(
        read(Dialect::Anthropic, &no_messages)
            .unwrap_err()
            .starts_with("messages")
    );
}

#[test]
fn a_stream_carries_the_same_text_as_the_whole_answer() {
    let body = serde_json::json!({"model": "m", "stream": true, "messages": [{}]});
    let call = read(Dialect::OpenAi, &body).unwrap();
    let streamed: String = (0..call.words)
        .map(|index| call.content(index))
        .filter_map(|frame| {
            let data: Value = serde_json::from_str(frame.trim().strip_prefix("data: ")?).ok()?;
            Some(
                data.pointer("/choices/0/delta/content")?
                    .as_str()?
                    .to_owned(),
            )
        })
        .collect();
    let whole = call.answer(call.words);
    assert_eq!(
        whole.pointer("/choices/0/message/content").unwrap(),
        &streamed
    );
}
