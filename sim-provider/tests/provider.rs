//! The simulated provider over real sockets: its answers, its faults, its journal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

use lanekeeper_sim_provider::{Config, run};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Sim {
    url: String,
    http: reqwest::Client,
    _stop: DropGuard,
}

async fn start() -> Sim {
    // A second installation is refused; all tests of this file install the same one.
    _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        ..Config::default()
    };
    let (ready, address) = oneshot::channel();
    let stop = CancellationToken::new();
    tokio::spawn(run(config, stop.clone(), move |address| {
        _ = ready.send(address)
    }));
    let url = format!("http://{}", address.await.unwrap());
    Sim {
        url,
        http: reqwest::Client::new(),
        _stop: stop.drop_guard(),
    }
}

impl Sim {
    async fn fault(&self, fault: Value) -> reqwest::Response {
        self.http
            .post(format!("{}/faults", self.url))
            .json(&fault)
            .send()
            .await
            .unwrap()
    }

    async fn call(&self, path: &str, stream: bool) -> reqwest::Result<reqwest::Response> {
        let call = json!({
            "model": "m", "stream": stream, "max_tokens": 4,
            "max_output_tokens": 4, "generationConfig": {"maxOutputTokens": 4},
            "messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "input": "hi",
            "contents": [{"parts": [{"text": "hi"}]}],
        });
        self.http
            .post(format!("{}{path}", self.url))
            .json(&call)
            .send()
            .await
    }
}

const OPENAI: &str = "/east/v1/chat/completions";
const ANTHROPIC: &str = "/v1/messages";
const GEMINI: &str = "/v1beta/models/m:generateContent";
const GEMINI_STREAM: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const RESPONSES: &str = "/v1/responses";
const COHERE: &str = "/v2/chat";

#[tokio::test]
async fn both_dialects_answer_whole_and_as_a_stream() {
    let sim = start().await;
    let whole: Value = sim.call(OPENAI, false).await.unwrap().json().await.unwrap();
    assert_eq!(
        whole["choices"][0]["message"]["content"],
        "A lane that holds "
    );
    let stream = sim.call(OPENAI, true).await.unwrap().text().await.unwrap();
    assert_eq!(stream.matches("data: ").count(), 7, "{stream}");
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");

    let whole: Value = sim
        .call(ANTHROPIC, false)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(whole["content"][0]["text"], "A lane that holds ");
    let stream = sim
        .call(ANTHROPIC, true)
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_eq!(
        stream.matches("event: content_block_delta").count(),
        4,
        "{stream}"
    );
    assert!(stream.contains("event: message_stop"), "{stream}");
}

#[tokio::test]
async fn every_dialect_streams_its_own_sequence_of_frames() {
    let sim = start().await;
    for (path, frame, last) in [
        (
            RESPONSES,
            "event: response.output_text.delta\n",
            "response.completed",
        ),
        (COHERE, "event: content-delta\n", "message-end"),
        (
            GEMINI_STREAM,
            "data: {\"candidates\"",
            "\"finishReason\":\"STOP\"",
        ),
    ] {
        let answer = sim.call(path, true).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = answer.text().await.unwrap();
        let frames = text.matches(frame).count();
        // Gemini's last frame looks like its others.
        assert_eq!(frames, if path == GEMINI_STREAM { 5 } else { 4 }, "{text}");
        let end = text.trim_end().rsplit("\n").next().unwrap();
        assert!(end.contains(last), "{text}");
    }
    let array = sim.call("/v1/models/m:streamGenerateContent", true).await;
    let documents: Value = array.unwrap().json().await.unwrap();
    assert_eq!(documents.as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn other_operations_answer_in_their_own_shape() {
    let sim = start().await;
    for (path, field) in [
        ("/v1/completions", "/choices/0/text"),
        ("/v1/embeddings", "/data/0/embedding/2"),
        ("/v1/messages/count_tokens", "/input_tokens"),
        ("/v1beta/models/m:countTokens", "/totalTokens"),
    ] {
        let answer = sim.call(path, false).await.unwrap();
        let body: Value = answer.json().await.unwrap();
        assert!(body.pointer(field).is_some(), "{path}: {body}");
    }
    for (path, header, field) in [
        ("/v1/models", "x-none", "/data/0/object"),
        ("/v1/models", "anthropic-version", "/data/0/display_name"),
        ("/v1/models", "x-goog-api-key", "/models/0/name"),
        ("/v1beta/models", "x-none", "/models/0/name"),
    ] {
        let request = sim.http.get(format!("{}{path}", sim.url));
        let answer = request.header(header, "x").send().await.unwrap();
        let body: Value = answer.json().await.unwrap();
        assert!(body.pointer(field).is_some(), "{path} {header}: {body}");
    }
}

#[tokio::test]
async fn faults_speak_the_dialect_they_meet() {
    let sim = start().await;
    sim.fault(json!({"status": 429})).await;
    for (path, field, value) in [
        (OPENAI, "/error/code", "rate_limit_exceeded"),
        (RESPONSES, "/error/code", "rate_limit_exceeded"),
        (ANTHROPIC, "/error/type", "rate_limit_error"),
        (GEMINI, "/error/status", "RESOURCE_EXHAUSTED"),
        (COHERE, "/message", "Simulated failure with status 429."),
    ] {
        let failed = sim.call(path, false).await.unwrap();
        assert_eq!(failed.status(), 429, "{path}");
        let body: Value = failed.json().await.unwrap();
        assert_eq!(body.pointer(field), Some(&json!(value)), "{path}: {body}");
    }
    let faults = format!("{}/faults", sim.url);
    sim.http.delete(&faults).send().await.unwrap();
    sim.fault(json!({"error_after_frames": 1})).await;
    for (path, error) in [
        (OPENAI, "data: {\"error\":"),
        (RESPONSES, "event: error\n"),
        (ANTHROPIC, "event: error\n"),
        (GEMINI_STREAM, "data: {\"error\":"),
        (COHERE, "\"finish_reason\":\"ERROR\""),
    ] {
        let text = sim.call(path, true).await.unwrap().text().await.unwrap();
        let last = text.rfind(error).expect(&text);
        assert!(last > 0, "content comes first: {text}");
    }
}

#[tokio::test]
async fn a_status_fault_answers_with_its_headers_for_its_count() {
    let sim = start().await;
    let set = sim
        .fault(json!({"path": "/east", "status": 429, "headers": {"retry-after": "7"}, "count": 1}))
        .await;
    assert_eq!(set.status(), 201);
    assert_eq!(sim.call(ANTHROPIC, false).await.unwrap().status(), 200);
    let failed = sim.call(OPENAI, false).await.unwrap();
    assert_eq!(failed.status(), 429);
    assert_eq!(failed.headers()["retry-after"], "7");
    let body: Value = failed.json().await.unwrap();
    assert_eq!(body["error"]["code"], "rate_limit_exceeded");
    assert_eq!(sim.call(OPENAI, false).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_stream_is_cut_behind_the_frames_the_fault_says() {
    let sim = start().await;
    sim.fault(json!({"cut_after_frames": 2})).await;
    let mut cut = sim.call(OPENAI, true).await.unwrap();
    let mut text = String::new();
    let ended = loop {
        match cut.chunk().await {
            Ok(Some(bytes)) => text += std::str::from_utf8(&bytes).unwrap(),
            ended => break ended,
        }
    };
    assert!(ended.is_err(), "the stream ended cleanly");
    assert_eq!(text.matches("data: ").count(), 3, "{text}");
    let whole = sim.call(OPENAI, false).await.unwrap();
    assert!(whole.bytes().await.is_err(), "the whole answer arrived");
}

#[tokio::test]
async fn an_error_frame_comes_first_or_behind_content() {
    let sim = start().await;
    sim.fault(json!({"error_after_frames": 0, "count": 1}))
        .await;
    let first = sim
        .call(ANTHROPIC, true)
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(first.starts_with("event: error"), "{first}");
    sim.fault(json!({"error_after_frames": 1, "count": 1}))
        .await;
    let later = sim
        .call(ANTHROPIC, true)
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(later.starts_with("event: message_start"), "{later}");
    assert!(later.contains("event: error"), "{later}");
    assert!(!later.contains("message_stop"), "{later}");
}

#[tokio::test]
async fn an_empty_answer_is_well_formed_without_text() {
    let sim = start().await;
    sim.fault(json!({"empty": true})).await;
    let whole: Value = sim.call(OPENAI, false).await.unwrap().json().await.unwrap();
    assert_eq!(whole["choices"][0]["message"]["content"], "");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let stream = sim.call(OPENAI, true).await.unwrap().text().await.unwrap();
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
}

#[tokio::test]
async fn a_hang_comes_before_or_after_the_headers() {
    let sim = start().await;
    sim.fault(json!({"hang": "before_headers", "count": 1}))
        .await;
    let short = Duration::from_millis(200);
    assert!(
        tokio::time::timeout(short, sim.call(OPENAI, false))
            .await
            .is_err()
    );
    sim.fault(json!({"hang": "after_headers", "count": 1}))
        .await;
    let headers = sim.call(OPENAI, false).await.unwrap();
    assert_eq!(headers.status(), 200);
    assert!(tokio::time::timeout(short, headers.bytes()).await.is_err());
}

#[tokio::test]
async fn the_journal_lists_what_arrived_with_model_and_headers() {
    let sim = start().await;
    sim.call(OPENAI, true).await.unwrap();
    sim.call(ANTHROPIC, false).await.unwrap();
    let list = |query: &'static str| {
        let request = sim.http.get(format!("{}/requests{query}", sim.url));
        async move { request.send().await.unwrap().json::<Value>().await.unwrap() }
    };
    let all = list("").await;
    assert_eq!(all["requests"].as_array().unwrap().len(), 2);
    assert_eq!(all["requests"][0]["path"], OPENAI);
    assert_eq!(all["requests"][0]["stream"], true);
    assert_eq!(
        all["requests"][0]["headers"]["content-type"],
        "application/json"
    );
    assert_eq!(
        list("?after=1").await["requests"].as_array().unwrap().len(),
        1
    );
    assert!(
        list("?model=other").await["requests"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn bad_faults_and_unknown_routes_are_told_what_is_wrong() {
    let sim = start().await;
    let unknown = sim.fault(json!({"stauts": 503})).await;
    assert_eq!(unknown.status(), 400);
    assert!(unknown.text().await.unwrap().contains("stauts"));
    let range = sim.fault(json!({"status": 99})).await;
    assert!(range.text().await.unwrap().contains("status: must be"));
    let missing = sim
        .http
        .get(format!("{}/nowhere", sim.url))
        .send()
        .await
        .unwrap();
    assert_eq!(missing.status(), 404);
    let method = sim
        .http
        .get(format!("{}{OPENAI}", sim.url))
        .send()
        .await
        .unwrap();
    assert_eq!(method.status(), 405);
    assert_eq!(method.headers()["allow"], "POST");
    let gone = sim
        .http
        .delete(format!("{}/faults/9", sim.url))
        .send()
        .await
        .unwrap();
    assert_eq!(gone.status(), 404);
}
