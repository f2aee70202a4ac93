//! Callers that send large bodies and then wait: they take from a fixed sum, and others go on.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a stalled body has sent, bytes: nearly the largest document.
const SENT: usize = 15_000_000;

/// Sends most of a body and then nothing; gives the answer, or the connection when none came
/// before `until` was cancelled.
async fn stall(
    server: &Server,
    path: &str,
    token: &str,
    until: CancellationToken,
) -> Result<String, TcpStream> {
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        SENT + 100
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = socket.split();
    let sending = async {
        let piece = vec![b' '; SENT / 100];
        for _ in 0..100 {
            if writer.write_all(&piece).await.is_err() {
                break;
            }
        }
        until.cancelled().await;
    };
    let reading = async {
        let mut answer = Vec::new();
        let _ = reader.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    tokio::select! {
        answer = reading => return Ok(answer),
        () = sending => {}
    }
    Err(socket)
}

/// Lets `count` bodies stall at once; gives those that are still held when all others were refused.
async fn stalled(server: &Server, path: &str, token: &str, count: usize) -> Vec<TcpStream> {
    let until = CancellationToken::new();
    let left = std::sync::atomic::AtomicUsize::new(count);
    let all = (0..count).map(|_| async {
        let end = stall(server, path, token, until.clone()).await;
        if let Ok(answer) = &end {
            assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
            assert!(answer.contains("\r\nretry-after: 2\r\n"), "{answer}");
            assert!(answer.contains("\"code\":\"busy\""), "{answer}");
            if left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 2 {
                until.cancel();
            }
        }
        end
    });
    let ended = tokio::time::timeout(PATIENCE * 2, futures_util::future::join_all(all));
    let ended = ended.await.expect("too many bodies are held");
    ended.into_iter().filter_map(Result::err).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_token_holds_one_large_body_and_keeps_nobody_out() {
    let server = Server::start().await;
    server.create_edge().await;
    let (_, viewer) = server.token(Role::Viewer, None).await;
    let validate = "/admin/v1/gateways/edge/config/validate";
    let held = stalled(&server, validate, &viewer, 12).await;
    assert_eq!(held.len(), 1, "a quarter of the budget is one such body");

    let (_, careless) = server.token(Role::Admin, None).await;
    let held_too = stalled(&server, "/admin/v1/gateways", &careless, 3).await;
    assert_eq!(held_too.len(), 1);

    let written = server
        .send_json(Method::POST, "/admin/v1/gateways", &named("other"))
        .await;
    assert_eq!(written.status(), 201);

    // What a connection held is free again when it ends.
    drop(held);
    let again = async {
        let large = format!("{}{}", " ".repeat(SENT), edge());
        loop {
            let request = server
                .bare(Method::POST, validate)
                .bearer_auth(&viewer)
                .header("content-type", "application/json")
                .body(large.clone());
            match request.send().await {
                Ok(answer) if answer.status() == 200 => return,
                Ok(answer) => assert_eq!(answer.status(), 503),
                // The answer overtakes the body, and the connection ends under it.
                Err(error) => assert!(error.is_request(), "{error:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, again).await.unwrap();
    drop(held_too);
    server.stop().await;
}
