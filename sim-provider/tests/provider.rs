//! The simulated provider over real sockets: its answers, its faults, its journal.

#![allow(
    clippy::unwrap_used,
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
            "messages": [{"role": "user", "content": "hi"}],
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
