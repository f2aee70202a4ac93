//! The vendors' packages from npm, each through scripted turns with tool calls, two at once.

use crate::turns::{TROUBLES, Trouble};
use futures_util::future::join_all;
use lanekeeper_tests::{ScriptedLanes, run_npm_package};
use serde_json::{Value, json};

/// Conversations of `tests/node/packages.mjs` with the protocol of their lanes.
const CONVERSATIONS: [(&str, &str); 6] = [
    ("openai-chat", "openai"),
    ("openai-chat-stream", "openai"),
    ("openai-responses", "responses"),
    ("openai-responses-stream", "responses"),
    ("anthropic", "anthropic"),
    ("anthropic-stream", "anthropic"),
];

async fn finishes(conversation: &str, protocols: [&str; 2], trouble: Trouble) {
    let folder = tempfile::tempdir().unwrap();
    let script = json!({"turns": [
        {
            "text": "Let me look. ",
            "tool_calls": [{"name": "look_up", "arguments": {"place": "the \"old\" löch"}}],
        },
        {"tool_calls": [
            {"name": "look_up", "arguments": {"place": "the lake"}},
            {"name": "look_up", "arguments": {"place": "the river"}},
        ]},
        {"text": "The word is heron."},
    ]});
    let lanes = ScriptedLanes::start(folder.path(), protocols, &script, trouble.fault())
        .await
        .unwrap();
    let output = run_npm_package(conversation, &lanes.url()).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{conversation} {trouble:?}: {errors}"
    );
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let called = ["the \"old\" löch", "the lake", "the river"];
    let wanted = json!({"called": called, "text": "The word is heron."});
    assert_eq!(said, wanted, "{conversation} {trouble:?}");
    trouble.check(conversation, &lanes.calls().await.unwrap());
}

async fn all_finish(trouble: Trouble) {
    let conversations = CONVERSATIONS.iter();
    join_all(conversations.map(|(name, protocol)| finishes(name, [protocol; 2], trouble))).await;
}

#[tokio::test]
async fn every_package_from_npm_finishes_its_turns_with_tool_calls() {
    for trouble in TROUBLES {
        all_finish(trouble).await;
    }
}

#[tokio::test]
async fn every_package_from_npm_finishes_its_turns_at_every_other_vendor() {
    for other in ["openai", "responses", "anthropic", "gemini", "cohere"] {
        let conversations = CONVERSATIONS.iter().filter(|(_, own)| *own != other);
        let finish = |(name, own): &(&'static str, &'static str)| {
            finishes(name, [*own, other], Trouble::Dies)
        };
        join_all(conversations.map(finish)).await;
    }
}
