//! Embeddings on lanes of other protocols.

use crate::caller::{Ask, chat};
use crate::gateway::{Agent, Document};
use crate::upstream::{Upstream, json};

async fn agent(document: &Document, protocol: &str) -> Agent {
    let protocol = format!("protocol: {protocol}");
    Agent::start(&document.yaml().replace("protocol: openai", &protocol)).await
}

fn ask(path: &str, body: &'static str) -> Ask {
    chat("chat", false).at(path).body(body)
}

const OPENAI: &str = r#"{"model":"chat","input":["a","b"],"encoding_format":"base64","user":"u"}"#;

#[tokio::test]
async fn openais_callers_get_vectors_of_gemini() {
    let answer = r#"{"embeddings":[{"values":[1.5]},{"values":[-2]}]}"#;
    let a = Upstream::start(json(200, answer)).await;
    let agent = agent(&Document::new().lane("a", &a), "gemini").await;
    let got = ask("/v1/embeddings", OPENAI).send(agent.address).await;
    assert_eq!(got.status.as_u16(), 200, "{got:?}");
    assert_eq!(got.header("x-lanekeeper-dropped"), Some("user"));
    let body: serde_json::Value = serde_json::from_str(&got.body).expect("JSON");
    assert_eq!(body["data"][0]["embedding"], "AADAPw==");
    assert_eq!(body["data"][1]["embedding"], "AAAAwA==");
    let seen = &a.seen()[0];
    assert!(
        seen.path.ends_with("/models/up-a:batchEmbedContents"),
        "{}",
        seen.path
    );
    assert!(
        seen.body.contains(r#""content":{"parts":[{"text":"b"}]}"#),
        "{}",
        seen.body
    );
}

#[tokio::test]
async fn a_lane_that_counts_wrongly_has_failed_and_the_next_one_is_asked() {
    let short = r#"{"id":"e","embeddings":{"float":[[1.5]]}}"#;
    let whole = r#"{"id":"e","embeddings":{"float":[[1.5],[-2]]}}"#;
    let a = Upstream::start(json(200, short)).await;
    let b = Upstream::start(json(200, whole)).await;
    let document = Document::new()
        .lane_at("a", a.address, 1000, "")
        .lane("b", &b);
    let agent = agent(&document, "cohere").await;
    let got = ask("/v1/embeddings", OPENAI).send(agent.address).await;
    assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
    assert_eq!(a.seen()[0].path, "/v2/embed");
    agent.settles().await;
    assert_eq!(agent.lane("a")["ok"], 0);
}

#[tokio::test]
async fn a_lane_whose_vendor_embeds_nothing_is_not_asked() {
    let a = Upstream::start(json(200, "{}")).await;
    let agent = agent(&Document::new().lane("a", &a), "anthropic").await;
    let got = ask("/v1/embeddings", OPENAI).send(agent.address).await;
    assert_eq!(got.status.as_u16(), 400, "{got:?}");
    assert!(a.seen().is_empty());
}
