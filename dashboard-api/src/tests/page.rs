//! The page's document and files, whether or not the page was built before this test.

use super::*;
use crate::page::ADDRESSES;

#[tokio::test]
async fn every_address_of_the_page_serves_its_document_to_anyone() {
    let server = Server::start().await;
    for address in ADDRESSES {
        let path = address.replace(['{', '}'], "x");
        let answer = server.bare(Method::GET, &path).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let headers = answer.headers().clone();
        assert_eq!(headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(headers["cache-control"], "no-store");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("script-src 'self';"), "{policy}");
        let text = answer.text().await.unwrap();
        assert!(text.contains("<title>Lanekeeper"), "{text}");
        assert!(!text.contains("STYLE-NONCE"), "{text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_files_that_the_document_names_never_change_and_come_compressed() {
    let server = Server::start().await;
    let document = server.bare(Method::GET, "/").send().await.unwrap();
    let text = document.text().await.unwrap();
    let files: Vec<&str> = text
        .split('"')
        .filter(|part| part.starts_with("/assets/"))
        .collect();
    assert_eq!(files.is_empty(), text.contains("make web"), "{text}");
    for file in files {
        let request = server.bare(Method::GET, file);
        let answer = request.header("accept-encoding", "gzip").send().await;
        let headers = answer.unwrap().headers().clone();
        assert_eq!(headers["content-encoding"], "gzip", "{file}");
        assert_eq!(headers["vary"], "accept-encoding", "{file}");
        let kept = headers["cache-control"].to_str().unwrap();
        assert!(kept.contains("immutable"), "{file}: {kept}");
    }
    server.stop().await;
}

#[tokio::test]
async fn each_document_carries_styles_of_its_own() {
    let server = Server::start().await;
    let mut policies = std::collections::BTreeSet::new();
    let mut built = false;
    for _ in 0..2 {
        let answer = server.bare(Method::GET, "/").send().await.unwrap();
        let policy = answer.headers()["content-security-policy"].clone();
        policies.insert(policy.to_str().unwrap().to_owned());
        built = !answer.text().await.unwrap().contains("make web");
    }
    assert_eq!(policies.len(), if built { 2 } else { 1 }, "{policies:?}");
    server.stop().await;
}
