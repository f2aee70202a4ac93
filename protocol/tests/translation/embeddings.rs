//! Embeddings, three dialects by three: R82.

use lanekeeper_protocol::translation::Refusal;
use lanekeeper_protocol::translation::embeddings::{Embedder, TranslatedEmbeddings, embeddings};
use lanekeeper_protocol::{Protocol, vendor};
use serde_json::{Value, json};

const DIALECTS: [Protocol; 3] = [Protocol::Openai, Protocol::Gemini, Protocol::Cohere];

fn embedder(protocol: Protocol) -> &'static dyn Embedder {
    vendor(protocol).embedder().expect("it embeds")
}

fn translate(
    caller: Protocol,
    lane: Protocol,
    request: &Value,
) -> Result<TranslatedEmbeddings, Refusal> {
    let body = request.to_string();
    let (caller, lane) = (embedder(caller), embedder(lane));
    let (model, unique) = ("asked".to_owned(), "u1".to_owned());
    embeddings(caller, lane, body.as_bytes(), model, unique, "lane-model")
}

fn sent(caller: Protocol, lane: Protocol, request: &Value) -> Value {
    let translated = translate(caller, lane, request).expect("it can be said");
    serde_json::from_slice(&translated.body).expect("JSON")
}

fn three(protocol: Protocol) -> Value {
    match protocol {
        Protocol::Gemini => {
            let one = |text| {
                json!({"model": "models/asked", "content": {"parts": [{"text": text}]},
                    "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 256})
            };
            json!({"requests": [one("a"), one("b"), one("c")]})
        }
        Protocol::Cohere => json!({"model": "asked", "texts": ["a", "b", "c"],
            "input_type": "search_query", "output_dimension": 256}),
        _ => json!({"model": "asked", "input": ["a", "b", "c"], "dimensions": 256}),
    }
}

fn answer(lane: Protocol, vectors: usize) -> Value {
    let vector = |place: usize| json!([place, 0.5, -1]);
    let all: Vec<Value> = (0..vectors).map(vector).collect();
    match lane {
        Protocol::Gemini => {
            let all: Vec<_> = { all.iter() }
                .map(|values| json!({ "values": values }))
                .collect();
            json!({"embeddings": all, "usageMetadata": {"promptTokenCount": 5}})
        }
        Protocol::Cohere => json!({"id": "e", "embeddings": {"float": all}, "texts": [],
            "meta": {"billed_units": {"input_tokens": 5}}}),
        _ => {
            // In any order: the index counts.
            let data: Vec<_> = { all.iter().enumerate().rev() }
                .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
                .collect();
            json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 5, "total_tokens": 5}})
        }
    }
}

/// The vectors that a caller reads.
fn vectors(caller: Protocol, answer: &Value) -> Value {
    match caller {
        Protocol::Gemini => { answer["embeddings"].as_array().expect("a list").iter() }
            .map(|item| item["values"].clone())
            .collect(),
        Protocol::Cohere => answer["embeddings"]["float"].clone(),
        _ => {
            let data = answer["data"].as_array().expect("a list");
            for (index, item) in data.iter().enumerate() {
                assert_eq!(item["index"], index);
            }
            data.iter().map(|item| item["embedding"].clone()).collect()
        }
    }
}

#[test]
fn each_text_gets_its_own_vector_in_every_pair() {
    for caller in DIALECTS {
        for lane in DIALECTS {
            let sent = sent(caller, lane, &three(caller));
            let (texts, dimensions, purpose) = match lane {
                Protocol::Gemini => {
                    let all = sent["requests"].as_array().expect("a list");
                    assert!(all.iter().all(|one| one["model"] == "models/lane-model"));
                    let texts: Value = { all.iter() }
                        .map(|one| one["content"]["parts"][0]["text"].clone())
                        .collect();
                    (
                        texts,
                        all[2]["outputDimensionality"].clone(),
                        all[0]["taskType"].clone(),
                    )
                }
                Protocol::Cohere => {
                    assert_eq!(sent["embedding_types"], json!(["float"]));
                    (
                        sent["texts"].clone(),
                        sent["output_dimension"].clone(),
                        sent["input_type"].clone(),
                    )
                }
                _ => (
                    sent["input"].clone(),
                    sent["dimensions"].clone(),
                    Value::Null,
                ),
            };
            assert_eq!(
                (texts, dimensions),
                (json!(["a", "b", "c"]), json!(256)),
                "{caller:?} {lane:?}"
            );
            let wanted = match (caller, lane) {
                (_, Protocol::Openai) | (Protocol::Openai, Protocol::Gemini) => Value::Null,
                // Cohere demands that something is said.
                (Protocol::Openai, _) => json!("search_document"),
                (_, Protocol::Gemini) => json!("RETRIEVAL_QUERY"),
                (_, _) => json!("search_query"),
            };
            assert_eq!(purpose, wanted, "{caller:?} {lane:?}");
            let translated = translate(caller, lane, &three(caller)).expect("it can be said");
            let answered = |vectors| {
                translated
                    .exchange
                    .answer(answer(lane, vectors).to_string().as_bytes())
            };
            let seen: Value =
                serde_json::from_slice(&answered(3).expect("an answer")).expect("JSON");
            let wanted = json!([[0, 0.5, -1], [1, 0.5, -1], [2, 0.5, -1]]);
            assert_eq!(vectors(caller, &seen), wanted, "{caller:?} {lane:?}");
            // A count that differs pairs texts with vectors of others.
            assert!(answered(2).is_none() && answered(4).is_none() && answered(0).is_none());
            assert!(translated.exchange.answer(b"{}").is_none());
        }
    }
}

#[test]
fn base64_is_made_from_numbers_and_numbers_from_base64() {
    // 1.5 and -2 as little-endian floats.
    let encoded = "AADAPwAAAMA=";
    let request = json!({"model": "m", "input": "a", "encoding_format": "base64"});
    let translated =
        translate(Protocol::Openai, Protocol::Gemini, &request).expect("it can be said");
    let answer = br#"{"embeddings":[{"values":[1.5,-2]}]}"#;
    let seen = translated.exchange.answer(answer).expect("an answer");
    let seen: Value = serde_json::from_slice(&seen).expect("JSON");
    assert_eq!(seen["data"][0]["embedding"], encoded);
    assert_eq!(
        seen["usage"],
        json!({"prompt_tokens": 0, "total_tokens": 0})
    );
    assert_eq!(seen["model"], "asked");
    let request = json!({"content": {"parts": {"text": "a"}}, "title": "t"});
    let translated =
        translate(Protocol::Gemini, Protocol::Openai, &request).expect("it can be said");
    assert_eq!(translated.losses.header(), "title");
    let answer = json!({"data": [{"index": 0, "embedding": encoded}]}).to_string();
    let seen = translated
        .exchange
        .answer(answer.as_bytes())
        .expect("an answer");
    let seen: Value = serde_json::from_slice(&seen).expect("JSON");
    assert_eq!(seen, json!({"embedding": {"values": [1.5, -2.0]}}));
    for broken in [
        json!("AAAA"),
        json!("!"),
        json!(["x"]),
        json!(7),
        Value::Null,
    ] {
        let answer = json!({"data": [{"index": 0, "embedding": broken}]}).to_string();
        assert!(
            translated.exchange.answer(answer.as_bytes()).is_none(),
            "{answer}"
        );
    }
}

#[test]
fn digits_of_numbers_stay_as_they_are() {
    let request = json!({"model": "m", "texts": ["a"], "input_type": "clustering"});
    let translated =
        translate(Protocol::Cohere, Protocol::Gemini, &request).expect("it can be said");
    let answer = br#"{"embeddings":[{"values":[0.10000000000000000123,1e-3]}]}"#;
    let seen = translated.exchange.answer(answer).expect("an answer");
    let seen = String::from_utf8(seen).expect("text");
    assert!(seen.contains("[0.10000000000000000123,1e-3]"), "{seen}");
}

#[test]
fn what_cannot_be_embedded_elsewhere_is_refused_by_name() {
    let many = |count: usize| -> Value { (0..count).map(|_| json!("x")).collect() };
    for (caller, lane, request, field) in [
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"input": [[1, 2], [3]]}),
            "input",
        ),
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"input": [1, 2]}),
            "input",
        ),
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"input": []}),
            "input",
        ),
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"model": "m"}),
            "input",
        ),
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"input": 7}),
            "input",
        ),
        (
            Protocol::Openai,
            Protocol::Cohere,
            json!({"input": many(97)}),
            "input",
        ),
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"input": many(101)}),
            "input",
        ),
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"input": "a", "encoding_format": "int"}),
            "encoding_format",
        ),
        (
            Protocol::Openai,
            Protocol::Gemini,
            json!({"input": "a", "dimensions": -1}),
            "dimensions",
        ),
        (
            Protocol::Cohere,
            Protocol::Openai,
            json!({"images": ["data:"]}),
            "images",
        ),
        (
            Protocol::Cohere,
            Protocol::Openai,
            json!({"texts": []}),
            "texts",
        ),
        (
            Protocol::Cohere,
            Protocol::Openai,
            json!({"texts": ["a"], "embedding_types": ["int8"]}),
            "embedding_types",
        ),
        (
            Protocol::Gemini,
            Protocol::Openai,
            json!({"content": {"parts": [{"inlineData": {}}]}}),
            "content.parts[0]",
        ),
        (
            Protocol::Gemini,
            Protocol::Openai,
            json!({"requests": []}),
            "requests",
        ),
        (Protocol::Gemini, Protocol::Openai, json!({}), "content"),
        (
            Protocol::Gemini,
            Protocol::Openai,
            json!({"requests": [
            {"content": {"parts": [{"text": "a"}]}, "taskType": "CLUSTERING"},
            {"content": {"parts": [{"text": "b"}]}}]}),
            "requests",
        ),
    ] {
        let refusal = translate(caller, lane, &request).expect_err("it cannot be said");
        assert_eq!(refusal.field, field, "{request}");
    }
    assert!(
        translate(
            Protocol::Openai,
            Protocol::Cohere,
            &json!({"input": many(96)})
        )
        .is_ok()
    );
}
