//! The bounds of a listener, over real sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use lanekeeper_serve::{ConflictingLength, Limits, bind, serve};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const BOUND: Duration = Duration::from_secs(10);
/// More than the kernel keeps for a peer that takes nothing.
const LONG_BYTES: usize = 32 * 1024 * 1024;

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), lanekeeper_serve::Error>>,
}

fn start(limits: Limits, grace: Duration) -> Running {
    let listener = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let shutdown = CancellationToken::new();
    let service = service_fn(|request: Request<Incoming>| async move {
        if request.uri().path() == "/hang" {
            std::future::pending::<()>().await;
        }
        let twice = request.extensions().get::<ConflictingLength>().is_some();
        let body = match request.uri().path() {
            "/long" => Bytes::from(vec![b'x'; LONG_BYTES]),
            _ if twice => Bytes::from_static(b"two lengths"),
            _ => Bytes::from_static(b"hello"),
        };
        Ok::<_, Infallible>(Response::new(Full::new(body)))
    });
    let task = tokio::spawn(serve(listener, limits, service, shutdown.clone(), grace));
    Running {
        address,
        shutdown,
        task,
    }
}

async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(BOUND, stream.read_to_end(&mut answer))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_request_is_answered() {
    let server = start(Limits::default(), Duration::ZERO);
    let answer = exchange(
        server.address,
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn a_request_that_states_its_length_twice_is_told_where_asked_for() {
    let good = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";
    let twice = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\
                 transfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    for told in [true, false] {
        let limits = Limits {
            tell_conflicting_length: told,
            ..Limits::default()
        };
        let server = start(limits, Duration::ZERO);
        let answers = exchange(server.address, format!("{good}{twice}{good}").as_bytes()).await;
        let bodies: Vec<&str> = answers
            .split("HTTP/1.1 200 OK")
            .skip(1)
            .filter_map(|answer| answer.split("\r\n\r\n").nth(1))
            .collect();
        let second = if told { "two lengths" } else { "hello" };
        assert_eq!(bodies, ["hello", second], "{answers}");
    }
}

#[tokio::test]
async fn headers_that_never_end_are_cut_after_the_bound() {
    let limits = Limits {
        header_read_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = start(limits, Duration::ZERO);
    let answer = exchange(server.address, b"GET / HTTP/1.1\r\nhost: a\r\nx-slow: ").await;
    assert!(!answer.contains("hello"), "{answer}");
}

#[tokio::test]
async fn peer_that_takes_nothing_is_dropped_and_one_that_is_slow_is_not() {
    let limits = Limits {
        peer_stall_timeout: Duration::from_millis(400),
        ..Limits::default()
    };
    let ask = async |address| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let request = b"GET /long HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        stream
    };
    let server = start(limits.clone(), Duration::MAX);
    let mut slow = ask(server.address).await;
    let mut taken = 0;
    let mut some = vec![0; 32 * 1024];
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        taken += slow.read(&mut some).await.unwrap();
    }
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    assert!(taken + rest.len() > LONG_BYTES, "it has the whole answer");

    let _stuck = ask(server.address).await;
    let mut other = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    other.write_all(request).await.unwrap();
    other.read_to_end(&mut rest).await.unwrap();
    server.shutdown.cancel();
    let ended = tokio::time::timeout(BOUND, server.task).await;
    ended.expect("no grace is spent on it").unwrap().unwrap();
}

#[tokio::test]
async fn huge_headers_are_refused() {
    let server = start(Limits::default(), Duration::ZERO);
    let mut request = b"GET / HTTP/1.1\r\nhost: a\r\nx-huge: ".to_vec();
    request.resize(request.len() + 80 * 1024, b'a');
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let (mut read, mut write) = stream.split();
    let sent = async { _ = write.write_all(&request).await };
    let mut answer = Vec::new();
    let received = async { _ = tokio::time::timeout(BOUND, read.read_to_end(&mut answer)).await };
    tokio::join!(sent, received);
    assert!(
        String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 431"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_connection_over_the_bound_waits_for_a_place() {
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let server = start(limits, Duration::ZERO);
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0; 1];
    first.read_exact(&mut byte).await.unwrap();

    let (done, mut answered) = oneshot::channel();
    let address = server.address;
    tokio::spawn(async move {
        let answer = exchange(
            address,
            b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        )
        .await;
        _ = done.send(answer);
    });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut answered).await;
    assert!(
        early.is_err(),
        "the second connection was served beside the first"
    );
    drop(first);
    let answer = tokio::time::timeout(BOUND, answered)
        .await
        .unwrap()
        .unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn shutdown_ends_within_the_grace_even_with_a_request_that_hangs() {
    let server = start(Limits::default(), Duration::from_millis(100));
    let mut hung = TcpStream::connect(server.address).await.unwrap();
    hung.write_all(b"GET /hang HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let answer = exchange(
        server.address,
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.ends_with("hello"), "{answer}");
    server.shutdown.cancel();
    tokio::time::timeout(BOUND, server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        TcpStream::connect(server.address).await.is_err(),
        "the socket is still open"
    );
}
