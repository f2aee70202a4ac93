//! The page in a real Chromium over real processes. The stories are in `web/e2e/stories`.

use lanekeeper_tests::{Fleet, Options, play};
use serde_json::json;

/// Breakers that open at the third failure in a row.
fn quick() -> Options {
    Options {
        breaker: json!({"trip": {"mode": "consecutive", "consecutive_n": 3}}),
        ..Options::default()
    }
}

async fn holds(story: &str) {
    let mut fleet = Fleet::start(quick()).await.unwrap();
    play(story, &mut fleet).await.unwrap();
}

#[tokio::test]
async fn an_outage_is_seen_understood_and_overridden_on_the_page() {
    holds("incident").await;
}

#[tokio::test]
async fn a_document_is_edited_reviewed_rolled_out_and_back_on_the_page() {
    holds("config").await;
}

#[tokio::test]
async fn the_page_claims_nothing_that_it_cannot_know() {
    holds("lost").await;
}

#[tokio::test]
async fn the_page_serves_viewers_keyboards_phones_and_screen_readers() {
    holds("readers").await;
}
