//! Field reports B45 to B49: bodies under status 200, and what they prove.

use std::collections::BTreeMap;

use lanekeeper_model::gateway::ErrorMeaning;

use super::*;
use crate::verdict::Disposition;

fn judged(dialect: Dialect, body: &str) -> Answer {
    let error_map: BTreeMap<String, ErrorMeaning> = BTreeMap::new();
    let rules = Rules {
        vendor: dialect.vendor(),
        error_map: &error_map,
        passthrough: false,
    };
    inspect(rules, dialect, body.as_bytes())
}

fn name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Good => "good",
        Answer::Empty => "empty",
        Answer::Error(_) => "error",
        Answer::Malformed => "malformed",
    }
}

#[test]
fn answers_are_told_from_nothing() {
    use Dialect as D;
    let rows = [
        (
            D::OPENAI_CHAT,
            r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}"#,
            "good",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1"}]},"finish_reason":"tool_calls"}]}"#,
            "good",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"role":"assistant","content":null,"refusal":"no"},"finish_reason":"stop"}]}"#,
            "good",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"length"}]}"#,
            "good",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"content_filter"}]}"#,
            "good",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"error":null,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#,
            "good",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}"#,
            "empty",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"role":"assistant","content":"","tool_calls":[]},"finish_reason":"stop"}]}"#,
            "empty",
        ),
        (D::OPENAI_CHAT, "", "malformed"),
        (D::OPENAI_CHAT, "null", "malformed"),
        (D::OPENAI_CHAT, "[]", "malformed"),
        (D::OPENAI_CHAT, "\"x\"", "malformed"),
        (D::OPENAI_CHAT, "{}", "malformed"),
        (D::OPENAI_CHAT, r#"{"choices":null}"#, "malformed"),
        (D::OPENAI_CHAT, r#"{"choices":[]}"#, "malformed"),
        (
            D::OPENAI_CHAT,
            "<html><body>Login</body></html>",
            "malformed",
        ),
        (D::OPENAI_CHAT, "upstream busy", "malformed"),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"content":"cut"#,
            "malformed",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"error":{"message":"x","code":"rate_limit_exceeded"}}"#,
            "error",
        ),
        (D::OPENAI_CHAT, r#"{"error":"busy"}"#, "error"),
        (
            D::OPENAI_CHAT,
            r#"{"object":"error","message":"busy","code":50300}"#,
            "error",
        ),
        (
            D::OPENAI_COMPLETIONS,
            r#"{"choices":[{"text":"x","finish_reason":"stop"}]}"#,
            "good",
        ),
        (
            D::OPENAI_COMPLETIONS,
            r#"{"choices":[{"text":"","finish_reason":"stop"}]}"#,
            "empty",
        ),
        (
            D::OPENAI_EMBEDDINGS,
            r#"{"object":"list","data":[{"embedding":[0.1]}]}"#,
            "good",
        ),
        (D::OPENAI_EMBEDDINGS, r#"{"data":[]}"#, "malformed"),
        (D::OPENAI_MODELS, r#"{"object":"list","data":[]}"#, "good"),
        (
            D::ANTHROPIC,
            r#"{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}"#,
            "good",
        ),
        (
            D::ANTHROPIC,
            r#"{"type":"message","content":[{"type":"tool_use","id":"t","name":"f","input":{}}],"stop_reason":"tool_use"}"#,
            "good",
        ),
        (
            D::ANTHROPIC,
            r#"{"type":"message","content":[],"stop_reason":"refusal"}"#,
            "good",
        ),
        (
            D::ANTHROPIC,
            r#"{"type":"message","content":[],"stop_reason":"max_tokens"}"#,
            "good",
        ),
        (
            D::ANTHROPIC,
            r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#,
            "empty",
        ),
        (
            D::ANTHROPIC,
            r#"{"type":"message","content":[{"type":"text","text":""}],"stop_reason":"end_turn"}"#,
            "empty",
        ),
        (
            D::ANTHROPIC,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            "error",
        ),
        (D::ANTHROPIC, r#"{"type":"message"}"#, "malformed"),
        (D::ANTHROPIC_COUNT_TOKENS, r#"{"input_tokens":12}"#, "good"),
        (D::ANTHROPIC_COUNT_TOKENS, "{}", "malformed"),
        (
            D::RESPONSES,
            r#"{"status":"completed","error":null,"output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":"Hi"}]}]}"#,
            "good",
        ),
        (
            D::RESPONSES,
            r#"{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}"#,
            "good",
        ),
        (
            D::RESPONSES,
            r#"{"status":"completed","output":[{"type":"function_call","name":"f","arguments":"{}"}]}"#,
            "good",
        ),
        (
            D::RESPONSES,
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"reasoning"}]}"#,
            "good",
        ),
        (
            D::RESPONSES,
            r#"{"status":"completed","output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":""}]}]}"#,
            "empty",
        ),
        (
            D::RESPONSES,
            r#"{"status":"completed","output":null}"#,
            "malformed",
        ),
        (
            D::RESPONSES,
            r#"{"status":"completed","error":null,"output":[]}"#,
            "empty",
        ),
        (
            D::RESPONSES,
            r#"{"status":"failed","error":{"code":"server_error","message":"m"},"output":[]}"#,
            "error",
        ),
        (
            D::GEMINI_GENERATE,
            r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#,
            "good",
        ),
        (
            D::GEMINI_GENERATE,
            r#"{"candidates":[{"finishReason":"MAX_TOKENS"}]}"#,
            "good",
        ),
        (
            D::GEMINI_GENERATE,
            r#"{"candidates":[{"finishReason":"STOP"}]}"#,
            "empty",
        ),
        (
            D::GEMINI_GENERATE,
            r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
            "good",
        ),
        (D::GEMINI_GENERATE, "{}", "malformed"),
        (D::GEMINI_COUNT_TOKENS, r#"{"totalTokens":3}"#, "good"),
        (D::GEMINI_EMBED, r#"{"embedding":{"values":[1]}}"#, "good"),
        (
            D::COHERE,
            r#"{"id":"1","message":{"role":"assistant","content":[{"type":"text","text":"Hi"}]},"finish_reason":"COMPLETE"}"#,
            "good",
        ),
        (
            D::COHERE,
            r#"{"id":"1","message":{"role":"assistant"},"finish_reason":"COMPLETE"}"#,
            "empty",
        ),
        (
            D::COHERE,
            r#"{"id":"1","message":{"role":"assistant"},"finish_reason":"MAX_TOKENS"}"#,
            "good",
        ),
        (
            D::COHERE,
            r#"{"id":"1","message":{"role":"assistant"},"finish_reason":"STOP_SEQUENCE"}"#,
            "empty",
        ),
        (
            D::COHERE,
            r#"{"id":"1","message":{"role":"assistant","content":[{"type":"text","text":"Hi"}]},"finish_reason":"ERROR"}"#,
            "error",
        ),
        (
            D::OPENAI_CHAT,
            r#"{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"error","error":{"code":502}}]}"#,
            "error",
        ),
        (D::COHERE, r#"{"message":"internal"}"#, "malformed"),
    ];
    for (dialect, body, wanted) in rows {
        assert_eq!(name(&judged(dialect, body)), wanted, "{dialect:?} {body}");
    }
}

#[test]
fn an_error_in_disguise_is_judged_as_what_it_is() {
    let rows = [
        (
            Dialect::OPENAI_CHAT,
            r#"{"error":{"code":"rate_limit_exceeded"}}"#,
            Disposition::Transient,
        ),
        (
            Dialect::OPENAI_CHAT,
            r#"{"error":{"code":"insufficient_quota"}}"#,
            Disposition::HardDownBilling,
        ),
        (
            Dialect::OPENAI_CHAT,
            r#"{"error":{"type":"invalid_request_error"}}"#,
            Disposition::ClientFault,
        ),
        (
            Dialect::ANTHROPIC,
            r#"{"type":"error","error":{"type":"authentication_error"}}"#,
            Disposition::HardDownAuth,
        ),
    ];
    for (dialect, body, disposition) in rows {
        match judged(dialect, body) {
            Answer::Error(verdict) => assert_eq!(verdict.disposition, disposition, "{body}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

/// Documents whose parts are each as they should be or slightly off, cut up and mended at random.
fn odd_document() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    use proptest::sample::select;
    let value = select(vec![
        "null",
        "\"\"",
        "[]",
        "{}",
        "false",
        "true",
        "\"a\"",
        "\"\\ud800\"",
        "\"\u{e9}\\n\"",
        "-0.5e+3",
        "01",
        "1.",
        "[1,{\"a\":null}]",
        "{\"error\":1}",
        "\"error\"",
        "\"stop\"",
        "\"length\"",
        "\"failed\"",
        "\"st\\u006fp\"",
        " null ",
        "\"\u{1}\"",
        "[null,]",
    ]);
    let key = |names: Vec<&'static str>| select(names);
    let object = move |names: Vec<&'static str>, value: BoxedStrategy<String>| {
        prop::collection::vec((key(names), value), 0..4).prop_map(|members| {
            let members = members
                .iter()
                .map(|(key, value)| format!("\"{key}\":{value}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        })
    };
    let any_value = value.prop_map(str::to_owned).boxed();
    let message = prop_oneof![
        4 => object(vec!["role", "content", "refusal", "r\\u006fle", "tool_calls"], any_value.clone()),
        1 => any_value.clone(),
    ];
    let member = prop_oneof![message.clone().boxed(), any_value.clone()].boxed();
    let choice = object(
        vec![
            "index",
            "message",
            "text",
            "finish_reason",
            "finish_reason",
            "message",
            "m\\u0065ssage",
        ],
        member,
    );
    let choices = prop::collection::vec(choice, 0..3)
        .prop_map(|choices| format!("[{}]", choices.join(", ")))
        .boxed();
    let part = prop_oneof![3 => choices, 1 => any_value].boxed();
    let names = vec![
        "id",
        "choices",
        "choices",
        "error",
        "type",
        "status",
        "code",
        "message",
        "finish_reason",
    ];
    (
        object(names, part),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
        select(vec!["", " \n", "x", "{}"]),
    )
        .prop_map(|(document, edits, tail)| {
            let mut bytes = document.into_bytes();
            for (place, byte) in edits {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes.extend_from_slice(tail.as_bytes());
            bytes
        })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(8192))]

    #[test]
    fn what_a_glance_calls_good_the_reader_calls_good(body in odd_document()) {
        let error_map: BTreeMap<String, ErrorMeaning> = BTreeMap::new();
        for dialect in [Dialect::OPENAI_CHAT, Dialect::OPENAI_COMPLETIONS] {
            let rules = Rules { vendor: dialect.vendor(), error_map: &error_map, passthrough: false };
            if dialect.vendor().is_definitely_good(dialect.operation(), &body) {
                proptest::prop_assert_eq!(
                    read(rules, dialect, &body), Answer::Good, "{}", String::from_utf8_lossy(&body)
                );
            }
        }
    }
}

fn is_definitely_good(body: &str) -> bool {
    let dialect = Dialect::OPENAI_CHAT;
    let vendor = dialect.vendor();
    vendor.is_definitely_good(dialect.operation(), body.as_bytes())
}

#[test]
fn usual_answers_are_told_at_a_glance() {
    for body in [
        r#"{"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi", "refusal": null, "annotations": []}, "logprobs": null, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "details": {"cached": 0}}}"#,
        r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c1"}]},"finish_reason":"tool_calls"}],"error":null}"#,
        "{\"choices\":[{\"text\":\"a\\n\",\"finish_reason\":null}]}\n",
    ] {
        assert!(is_definitely_good(body), "{body}");
    }
    for body in [
        r#"{"choices":[]}"#,
        r#"{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}"#,
        r#"{"error":{"message":"x"},"choices":[{"text":"a"}]}"#,
    ] {
        assert!(!is_definitely_good(body), "{body}");
    }
}
