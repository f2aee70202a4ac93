//! Tokens are counted by the lane's own vendor, whoever asks. Field report R72.

use crate::caller::chat;
use crate::gateway::Agent;
use crate::upstream::{Upstream, json};
use serde_json::json as value;

/// A pool of one lane that speaks `protocol`.
fn document(protocol: &str, upstream: &Upstream) -> String {
    let address = upstream.address;
    format!(
        "gateway: edge\nproviders:\n  \
         p: {{protocol: {protocol}, base_url: \"http://{address}\", api_key: null}}\n\
         models:\n  a: {{provider: p, upstream_model: up-a}}\n\
         pools:\n  chat: {{members: [{{target: a}}]}}\n"
    )
}

const QUESTION: &str = r#"{"model":"chat","system":"be brief",
    "messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn claude_codes_count_is_the_lanes_own() {
    for (protocol, path, counted) in [
        (
            "gemini",
            "/v1beta/models/up-a:countTokens",
            r#"{"totalTokens":728}"#,
        ),
        (
            "responses",
            "/v1/responses/input_tokens",
            r#"{"object":"response.input_tokens","input_tokens":728}"#,
        ),
    ] {
        let upstream = Upstream::start(json(200, counted)).await;
        let agent = Agent::start(&document(protocol, &upstream)).await;
        let got = chat("chat", false)
            .at("/v1/messages/count_tokens?beta=true")
            .body(QUESTION)
            .send(agent.address)
            .await;
        assert_eq!(got.status, 200, "{protocol}: {got:?}");
        assert_eq!(got.json(), value!({"input_tokens": 728}), "{protocol}");
        let seen = upstream.seen();
        assert_eq!(seen[0].path, path);
        assert!(seen[0].body.contains("be brief"), "{}", seen[0].body);
    }
}

#[tokio::test]
async fn a_count_of_responses_is_asked_of_an_anthropic_lane() {
    let upstream = Upstream::start(json(200, r#"{"input_tokens":7}"#)).await;
    let agent = Agent::start(&document("anthropic", &upstream)).await;
    let got = chat("chat", false)
        .at("/v1/responses/input_tokens")
        .body(r#"{"model":"chat","input":"hi"}"#)
        .send(agent.address)
        .await;
    assert_eq!(got.status, 200, "{got:?}");
    let expected = value!({"object": "response.input_tokens", "input_tokens": 7});
    assert_eq!(got.json(), expected);
    assert_eq!(upstream.seen()[0].path, "/v1/messages/count_tokens");
}

#[tokio::test]
async fn a_pool_that_cannot_count_says_so_and_no_lane_is_marked() {
    let upstream = Upstream::start(json(200, "{}")).await;
    let agent = Agent::start(&document("openai", &upstream)).await;
    let got = chat("chat", false)
        .at("/v1/messages/count_tokens")
        .body(QUESTION)
        .send(agent.address)
        .await;
    assert_eq!(got.status, 400, "{got:?}");
    let error = got.json();
    assert_eq!(error["type"], "error");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("cannot count tokens"), "{message}");
    assert_eq!(upstream.hits(), 0);
    assert_eq!(agent.cell("chat", "a")["window"]["failed"], 0);
}
