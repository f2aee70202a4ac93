//! Answers are compressed for who asks, and mean the same.

use super::*;
use std::io::Read as _;

async fn get(server: &Server, path: &str, coding: &str) -> Response {
    let request = server.request(Method::GET, path);
    request
        .header("accept-encoding", coding)
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn long_answers_are_compressed_for_who_asks_and_short_ones_and_streams_are_not() {
    let server = Server::start().await;
    server.create_edge().await;
    let plain = get(&server, "/openapi.json", "identity").await;
    assert!(plain.headers().get("content-encoding").is_none());
    let plain = plain.bytes().await.unwrap();
    let packed = get(&server, "/openapi.json", "gzip").await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert!(
        packed.headers()["vary"]
            .to_str()
            .unwrap()
            .contains("accept-encoding")
    );
    assert_eq!(packed.headers()["content-type"], "application/json");
    let packed = packed.bytes().await.unwrap();
    assert!(
        packed.len() * 4 < plain.len(),
        "{} of {}",
        packed.len(),
        plain.len()
    );
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain);

    let short = get(&server, "/livez", "gzip").await;
    assert!(short.headers().get("content-encoding").is_none());
    // An event comes when it happens, not when a block is full.
    let stream = get(&server, "/api/v1/breaker-state/stream", "gzip").await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    assert!(stream.headers().get("content-encoding").is_none());
    drop(stream);
    server.stop().await;
}

#[tokio::test]
async fn an_etag_of_a_compressed_answer_is_good_for_a_write() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut document = edge();
    // Long enough to be compressed.
    document["labels"] = (0..60)
        .map(|n| (format!("label-{n}"), json!("some value of it")))
        .collect();
    let path = "/admin/v1/gateways/edge/config";
    let write = async |tag: &str, document: &Value| {
        let request = server.request(Method::PUT, path).header("if-match", tag);
        request.json(document).send().await.unwrap().status()
    };
    assert_eq!(write("*", &document).await, 200);
    let packed = get(&server, path, "gzip").await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let tag = packed.headers()["etag"].to_str().unwrap().to_owned();
    document["labels"]["label-0"] = json!("another");
    assert_eq!(write(&tag, &document).await, 200);
    assert_eq!(write(&tag, &edge()).await, 412);
    server.stop().await;
}
