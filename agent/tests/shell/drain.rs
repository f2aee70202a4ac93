//! The end of an agent while an answer streams.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lanekeeper_agent::Source;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::agent::{Agent, config, eventually};
use crate::scripted::PATIENCE;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const FIRST: &str = "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\
    \"delta\":{\"content\":\"one\"}}]}\n\n";
const LAST: &str = "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\
    \"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A provider that streams one frame and the rest when told to, or never.
async fn provider(rest: oneshot::Receiver<()>) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        stream.write_all(FIRST.as_bytes()).await.unwrap();
        match rest.await {
            Ok(()) => stream.write_all(LAST.as_bytes()).await.unwrap(),
            Err(_) => std::future::pending().await,
        }
    });
    (port, task)
}

struct Running {
    agent: Agent,
    caller: TcpStream,
    _dir: tempfile::TempDir,
    provider: JoinHandle<()>,
}

/// An agent that relays an answer of which the caller has the first frame.
async fn running(rest: oneshot::Receiver<()>, grace: Duration) -> Running {
    let (port, provider) = provider(rest).await;
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("edge.json");
    let document = json!({
        "gateway": "edge",
        "providers": {"p": {
            "protocol": "openai", "base_url": format!("http://127.0.0.1:{port}"), "api_key": null
        }},
        "models": {"m": {"provider": "p"}},
        "pools": {"chat": {"members": [{"target": "m"}]}}
    });
    std::fs::write(&file, document.to_string()).unwrap();
    let mut config = config(Source::Standalone { file });
    config.drain_grace = grace;
    let agent = Agent::start(config).await;
    let mut caller = TcpStream::connect(agent.addresses.proxy).await.unwrap();
    let body = json!({
        "model": "chat", "stream": true, "messages": [{"role": "user", "content": "hi"}]
    })
    .to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    caller.write_all(request.as_bytes()).await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\"one\"") {
        let mut chunk = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, caller.read(&mut chunk));
        let length = read.await.unwrap().unwrap();
        assert!(length > 0, "the answer ended early: {seen}");
        seen.push_str(&String::from_utf8_lossy(&chunk[..length]));
    }
    Running {
        agent,
        caller,
        _dir: dir,
        provider,
    }
}

async fn closed(agent: &Agent) {
    let proxy = agent.addresses.proxy;
    eventually(async || TcpStream::connect(proxy).await.is_err()).await;
}

async fn rest_of(mut caller: TcpStream) -> String {
    let mut text = Vec::new();
    // A cut connection may end with a reset; what came before is kept.
    let _ = tokio::time::timeout(PATIENCE, caller.read_to_end(&mut text))
        .await
        .unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_running_answer_is_finished_after_the_listeners_closed() {
    let (finish, rest) = oneshot::channel();
    let running = running(rest, PATIENCE).await;
    running.agent.shutdown.drain.cancel();
    closed(&running.agent).await;
    finish.send(()).unwrap();
    let text = rest_of(running.caller).await;
    assert!(text.contains("[DONE]"), "{text}");
    let begun = Instant::now();
    running.agent.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "nothing was left to wait for"
    );
}

#[tokio::test]
async fn an_answer_that_outlives_the_grace_ends_with_an_error_event() {
    let (_never, rest) = oneshot::channel();
    let running = running(rest, Duration::from_millis(300)).await;
    running.agent.shutdown.drain.cancel();
    let text = rest_of(running.caller).await;
    assert!(text.contains("\"error\""), "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    running.agent.stop().await;
    running.provider.abort();
}

#[tokio::test]
async fn a_second_order_to_stop_waits_for_nothing() {
    let (_never, rest) = oneshot::channel();
    let running = running(rest, Duration::from_secs(600)).await;
    running.agent.shutdown.drain.cancel();
    closed(&running.agent).await;
    let begun = Instant::now();
    running.agent.shutdown.immediate.cancel();
    running.agent.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(3));
    running.provider.abort();
}

/// Traffic finding T11: the calls of the drain pause are told to go elsewhere.
#[tokio::test]
async fn every_answer_of_the_drain_pause_ends_its_connection() {
    let (_rest, rest) = oneshot::channel();
    let (port, _provider) = provider(rest).await;
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("edge.json");
    let document = json!({
        "gateway": "edge",
        "providers": {"p": {
            "protocol": "openai", "base_url": format!("http://127.0.0.1:{port}"), "api_key": null
        }},
        "models": {"m": {"provider": "p"}},
        "pools": {"chat": {"members": [{"target": "m"}]}}
    });
    std::fs::write(&file, document.to_string()).unwrap();
    let mut config = config(Source::Standalone { file });
    config.drain_pause = PATIENCE;
    let agent = Agent::start(config).await;
    let mut kept = TcpStream::connect(agent.addresses.proxy).await.unwrap();
    assert!(!list_models(&mut kept).await.contains("connection: close"));
    agent.shutdown.drain.cancel();
    eventually(async || {
        let mut newcomer = TcpStream::connect(agent.addresses.proxy).await.unwrap();
        list_models(&mut newcomer)
            .await
            .contains("connection: close")
    })
    .await;
    assert!(list_models(&mut kept).await.contains("connection: close"));
    let ended = tokio::time::timeout(PATIENCE, kept.read(&mut [0])).await;
    assert_eq!(
        ended.unwrap().unwrap_or(0),
        0,
        "it is closed with its answer"
    );
    agent.shutdown.immediate.cancel();
    agent.stop().await;
}

/// One small call on a kept connection; its answer.
async fn list_models(stream: &mut TcpStream) -> String {
    stream
        .write_all(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    while !answer.contains("\"data\"") || !answer.ends_with('}') {
        let mut chunk = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut chunk));
        let length = read.await.unwrap().unwrap();
        assert!(length > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
    }
    answer
}
