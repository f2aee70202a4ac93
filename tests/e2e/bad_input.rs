//! Bad input at every door: a clear error in the right shape, and nothing lost.

use lanekeeper_tests::{Fleet, Options};
use reqwest::{Method, Response};
use serde_json::{Value, json};

const OPENAI: &str = "/v1/chat/completions";
const ANTHROPIC: &str = "/v1/messages";

async fn send(fleet: &Fleet, method: Method, path: &str, body: Vec<u8>) -> Response {
    let url = format!("{}{path}", fleet.agents[0].url("proxy"));
    let request = fleet
        .http
        .request(method, url)
        .header("content-type", "application/json");
    request.body(body).send().await.unwrap()
}

/// The message of an error in the caller's dialect; fails when the shape is another.
async fn message(path: &str, answer: Response) -> String {
    assert_eq!(answer.headers()["content-type"], "application/json");
    let body: Value = answer.json().await.unwrap();
    if path.ends_with(ANTHROPIC) {
        assert_eq!(body["type"], "error", "{body}");
        assert!(body["error"]["type"].is_string(), "{body}");
    } else {
        assert!(body["error"]["type"].is_string(), "{body}");
        assert!(body["error"].get("code").is_some(), "{body}");
    }
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_proxy_answers_bad_requests_in_the_callers_dialect() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    for path in [OPENAI, ANTHROPIC] {
        let unknown = json!({"model": "nowhere", "max_tokens": 1, "messages": [{}]});
        let cases: [(&str, Method, Vec<u8>, u16, &str); 5] = [
            (
                "malformed JSON",
                Method::POST,
                b"{\"model\": \"chat\",".to_vec(),
                400,
                "JSON",
            ),
            (
                "no model",
                Method::POST,
                b"{\"messages\": []}".to_vec(),
                400,
                "model",
            ),
            (
                "unknown model",
                Method::POST,
                unknown.to_string().into_bytes(),
                404,
                "nowhere",
            ),
            ("wrong method", Method::GET, Vec::new(), 405, "POST"),
            (
                "too large",
                Method::POST,
                vec![b' '; 33 * 1024 * 1024],
                413,
                "",
            ),
        ];
        for (name, method, body, status, word) in cases {
            let answer = send(&fleet, method, path, body).await;
            assert_eq!(answer.status(), status, "{path}: {name}");
            if status == 405 {
                assert_eq!(answer.headers()["allow"], "POST", "{path}: {name}");
            }
            let message = message(path, answer).await;
            assert!(message.contains(word), "{path}: {name}: {message}");
        }
    }
    for lane in ["gpt-east", "gpt-west", "claude-north", "claude-south"] {
        assert!(
            fleet.arrivals(lane, 0).await.unwrap().is_empty(),
            "{lane} was touched"
        );
    }
    let view = fleet.get("/api/v1/breaker-state").await.unwrap();
    assert_eq!(
        view["cells"],
        json!([]),
        "a bad request counted against a lane"
    );
    assert!(fleet.chat(0).await, "the agent no longer serves");
}

#[tokio::test]
async fn the_api_answers_bad_documents_as_problems_and_keeps_what_it_had() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    let cycle = {
        let mut document = fleet.document(&json!({}));
        document["pools"]["chat"]["on_exhausted"] = json!({"fallback_pool": "claude"});
        document["pools"]["claude"]["on_exhausted"] = json!({"fallback_pool": "chat"});
        document
    };
    let with = |pointer: &str, value: Value| {
        let mut document = fleet.document(&json!({}));
        *document.pointer_mut(pointer).unwrap() = value;
        document
    };
    let mut unknown = fleet.document(&json!({}));
    unknown["poools"] = json!({});
    let cases = [
        ("unknown key", unknown, "pools"),
        (
            "literal key",
            with("/providers/east/api_key", json!("sk-live-123456")),
            "api_key",
        ),
        ("fallback cycle", cycle, "chat"),
        (
            "private address",
            with("/providers/east/base_url", json!("https://10.0.0.1")),
            "base_url",
        ),
        (
            "metadata address",
            with("/providers/east/base_url", json!("http://169.254.169.254")),
            "base_url",
        ),
    ];
    for (name, document, word) in cases {
        let answer = fleet.put_config(&document, 1).await.unwrap();
        assert_eq!(answer.status(), 400, "{name}");
        assert_eq!(
            answer.headers()["content-type"],
            "application/problem+json",
            "{name}"
        );
        let text = answer.text().await.unwrap();
        assert!(text.contains(word), "{name}: {text}");
        assert!(
            !text.contains("sk-live-123456"),
            "{name}: the answer repeats a secret"
        );
    }

    let url = format!("{}/admin/v1/gateways/edge/config", fleet.server.url("http"));
    let raw = |body: Vec<u8>| {
        let request = fleet
            .http
            .put(&url)
            .bearer_auth(&fleet.token)
            .header("if-match", "\"1\"");
        request
            .header("content-type", "application/json")
            .body(body)
            .send()
    };
    let malformed = raw(b"{\"gateway\": \"edge\",".to_vec()).await.unwrap();
    assert_eq!(malformed.status(), 400);
    assert_eq!(
        malformed.headers()["content-type"],
        "application/problem+json"
    );
    let huge = raw(vec![b' '; 33 * 1024 * 1024]).await;
    // The server may close the connection before the body is through; an answer must be a 413.
    if let Ok(huge) = huge {
        assert_eq!(huge.status(), 413);
    }
    let method = fleet
        .http
        .patch(format!("{}/api/v1/agents", fleet.server.url("http")));
    let method = method.bearer_auth(&fleet.token).send().await.unwrap();
    assert_eq!(method.status(), 405);
    assert_eq!(method.headers()["content-type"], "application/problem+json");
    let config = fleet
        .http
        .get(&url)
        .bearer_auth(&fleet.token)
        .send()
        .await
        .unwrap();
    assert_eq!(config.headers()["etag"], "\"1\"");
    assert!(fleet.chat(0).await, "the agent no longer serves");
}
