//! Clouds: parameters of the provider's own, the model in the path, the key in another header.

use crate::caller::chat;
use crate::dialects::{GEMINI, OPENAI, RESPONSES};
use crate::gateway::Agent;
use crate::upstream::{Upstream, completion, json};

/// A provider with these fields below `path`, its lane `gpt` and the pool `chat`.
fn document(upstream: &Upstream, path: &str, fields: &str) -> String {
    let address = upstream.address;
    format!(
        "gateway: edge\nproviders:\n  cloud: {{base_url: \"http://{address}{path}\", {fields}}}\n\
         models:\n  gpt: {{provider: cloud, upstream_model: my gpt/4}}\n\
         pools:\n  chat: {{members: [{{target: gpt}}]}}\n"
    )
}

/// A file with a key, and the reference to it.
fn key() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "azure-key\n").unwrap();
    let reference = format!("api_key: {{file: \"{}\"}}", path.display());
    (folder, reference)
}

#[tokio::test]
async fn classic_deployment_has_its_path_its_version_and_its_key() {
    let upstream = Upstream::start(completion("hello")).await;
    let (_folder, key) = key();
    let fields = format!(
        "protocol: openai, query: {{api-version: 2025-04-01-preview}}, {key}, \
         auth: {{kind: header, name: api-key, scheme: null}}"
    );
    let yaml = document(&upstream, "/openai/deployments/{model}", &fields);
    let agent = Agent::start(&yaml).await;
    let got = chat("chat", false)
        .with("authorization", "Bearer callers")
        .with("api-key", "callers")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 200, "{got:?}");
    let seen = &upstream.seen()[0];
    assert_eq!(
        seen.path,
        "/openai/deployments/my%20gpt%2F4/chat/completions?api-version=2025-04-01-preview"
    );
    assert_eq!(seen.header("api-key"), Some("azure-key"));
    assert_eq!(seen.header("authorization"), None);
    assert!(
        !seen
            .headers
            .iter()
            .any(|(_, value)| value.contains("callers"))
    );
    assert!(seen.body.contains(r#""model":"my gpt/4""#), "{}", seen.body);
}

#[tokio::test]
async fn key_may_stand_behind_a_scheme_in_another_header() {
    let upstream = Upstream::start(completion("hello")).await;
    let (_folder, key) = key();
    let fields =
        format!("protocol: openai, {key}, auth: {{kind: header, name: X-Gate, scheme: Token}}");
    let agent = Agent::start(&document(&upstream, "", &fields)).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    let seen = &upstream.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.header("x-gate"), Some("Token azure-key"));
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn paths_that_hold_a_version_get_no_second_one() {
    for (path, expected) in [
        ("/openai/v1", "/openai/v1/chat/completions"),
        ("/openai/v1/", "/openai/v1/chat/completions"),
        ("", "/v1/chat/completions"),
        ("/tenant", "/tenant/v1/chat/completions"),
        (
            "/v1/projects/p/locations/l/publishers/x",
            "/v1/projects/p/locations/l/publishers/x/chat/completions",
        ),
    ] {
        let upstream = Upstream::start(completion("hello")).await;
        let yaml = document(&upstream, path, "protocol: openai, api_key: null");
        let agent = Agent::start(&yaml).await;
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
        assert_eq!(upstream.seen()[0].path, expected);
    }
}

#[tokio::test]
async fn parameters_of_the_provider_are_encoded_and_not_the_callers_to_change() {
    let upstream = Upstream::start(OPENAI.answer(false)).await;
    let fields = "protocol: openai, api_key: null, query: {api-version: \"a b&c\"}";
    let agent = Agent::start(&document(&upstream, "", fields)).await;
    let ask = |path| chat("chat", false).at(path).send(agent.address);
    assert_eq!(ask("/v1/chat/completions").await.status, 200);
    assert_eq!(
        ask("/v1/chat/completions?api%2Dversion=other").await.status,
        200
    );
    for seen in upstream.seen() {
        assert_eq!(seen.path, "/v1/chat/completions?api-version=a%20b%26c");
    }
}

#[tokio::test]
async fn parameters_of_the_provider_join_those_of_an_endpoint() {
    let upstream = GEMINI.good_stream().await;
    let fields = "protocol: gemini, api_key: null, query: {region: eu}";
    let path = "/v1/projects/p/locations/l/publishers/google";
    let agent = Agent::start(&document(&upstream, path, fields)).await;
    let got = GEMINI.ask(true).send(agent.address).await;
    assert!(got.whole, "{got:?}");
    assert_eq!(
        upstream.seen()[0].path,
        format!("{path}/models/my%20gpt%2F4:streamGenerateContent?alt=sse&region=eu")
    );
}

#[tokio::test]
async fn probes_go_where_requests_go() {
    let upstream = Upstream::start(RESPONSES.answer(false)).await;
    let fields = "protocol: responses, api_key: null, query: {api-version: preview}, \
                  health: {mode: active, interval_secs: 0.1}";
    let agent = Agent::start(&document(&upstream, "/openai/{model}", fields)).await;
    crate::gateway::eventually("a probe was sent", || upstream.hits() > 0).await;
    assert_eq!(
        upstream.seen()[0].path,
        "/openai/my%20gpt%2F4/responses?api-version=preview"
    );
    drop(agent);
}

#[tokio::test]
async fn callers_key_may_come_in_the_header_of_azures_packages() {
    let upstream = Upstream::start(json(200, OPENAI.whole)).await;
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let clients = format!("clients: [{{name: team, key_sha256: {digest}}}]\n");
    let yaml = document(&upstream, "", "protocol: openai, api_key: null") + &clients;
    let agent = Agent::start(&yaml).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 401);
    let got = chat("chat", false)
        .with("api-key", "secret")
        .send(agent.address);
    assert_eq!(got.await.status, 200);
    assert_eq!(upstream.seen()[0].header("api-key"), None);
}
