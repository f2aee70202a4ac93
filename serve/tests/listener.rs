//! The bounds of a listener, over real sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use lanekeeper_serve::{ConflictingLength, Limits, UnreadHead, Unreadable, bind, serve};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const BOUND: Duration = Duration::from_secs(10);
/// What the answer of `/later` takes.
const LATER: Duration = Duration::from_millis(400);
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
        match request.uri().path() {
            "/hang" => std::future::pending::<()>().await,
            "/later" => tokio::time::sleep(LATER).await,
            _ => {}
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

/// Sends while it reads: who is refused need not have sent everything.
async fn exchange_both(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut read, mut write) = stream.split();
    let sent = async { _ = write.write_all(request).await };
    let mut answer = Vec::new();
    let received = async {
        let read = tokio::time::timeout(BOUND, read.read_to_end(&mut answer));
        read.await.unwrap().unwrap();
    };
    tokio::join!(sent, received);
    String::from_utf8(answer).unwrap()
}

/// A request whose head has exactly this size.
fn head_of(bytes: usize) -> Vec<u8> {
    let mut request = b"GET /sized HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-huge: ".to_vec();
    request.resize(bytes - 4, b'a');
    request.extend_from_slice(b"\r\n\r\n");
    request
}

fn head_of_lines(lines: usize) -> Vec<u8> {
    let more = "x-line: a\r\n".repeat(lines - 2);
    format!("GET /lines HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{more}\r\n").into_bytes()
}

#[tokio::test]
async fn heads_are_served_up_to_their_bounds_and_not_beyond() {
    let server = start(Limits::default(), Duration::ZERO);
    let bound = 64 * 1024;
    for (head, status) in [
        (head_of(bound), "200"),
        (head_of(bound + 1), "431"),
        (head_of(100 * 1024), "431"),
        (head_of(300 * 1024), "431"),
        (head_of_lines(100), "200"),
        (head_of_lines(101), "431"),
    ] {
        let answer = exchange_both(server.address, &head).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{}: {answer}", head.len());
    }
}

#[tokio::test]
async fn unreadable_heads_get_the_answer_that_was_asked_for() {
    let unreadable = Unreadable::new(|head: UnreadHead<'_>| {
        let mut answer = Response::new(Bytes::from(format!("told of {}", head.path)));
        *answer.status_mut() = head.status;
        answer.headers_mut().insert("x-told", "1".parse().unwrap());
        answer
    });
    let limits = Limits {
        tell_conflicting_length: true,
        unreadable: Some(unreadable),
        ..Limits::default()
    };
    let server = start(limits, Duration::ZERO);
    let long_target = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(70_000));
    let long_path = format!("/{}", "x".repeat(251));
    for (head, status, path) in [
        (head_of(100 * 1024), "431", "/sized"),
        (head_of(3 * 1024 * 1024), "431", "/sized"),
        (head_of_lines(101), "431", "/lines"),
        (long_target.into_bytes(), "431", long_path.as_str()),
        (b"GET /a?key=s HTTP/7.1\r\n\r\n".to_vec(), "400", "/a"),
        (
            b"GET /b HTTP/1.1\r\nno header\r\n\r\n".to_vec(),
            "400",
            "/b",
        ),
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n".to_vec(),
            "400",
            "",
        ),
    ] {
        let answer = exchange_both(server.address, &head).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("\r\nx-told: 1\r\n") && head.contains("\r\ndate: "),
            "{head}"
        );
        assert!(head.ends_with("\r\nconnection: close"), "{head}");
        assert_eq!(body, format!("told of {path}"));
    }
    // Behind good requests of the same connection, in one piece and after their answers.
    let good = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let bad = b"GET /c HTTP/1.1\r\nno header\r\n\r\n";
    let answers = exchange_both(server.address, &[&good[..], good, bad].concat()).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    assert_eq!(answers.matches("hello").count(), 2, "{answers}");
    assert!(answers.ends_with("told of /c"), "{answers}");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(good).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"hello") {
        let mut some = [0; 256];
        let read = stream.read(&mut some).await.unwrap();
        seen.extend_from_slice(&some[..read]);
    }
    stream.write_all(bad).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("told of /c"), "{answer}");
}

#[tokio::test]
async fn refused_peer_that_never_ends_is_left_in_time() {
    let limits = Limits {
        unreadable: Some(Unreadable::new(|_| Response::new(Bytes::new()))),
        ..Limits::default()
    };
    let server = start(limits, Duration::MAX);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"no HTTP at all\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    // It has its answer and stays; the listener does not wait for it for ever.
    server.shutdown.cancel();
    let ended = tokio::time::timeout(BOUND, server.task).await;
    ended.expect("an end").unwrap().unwrap();
    drop(stream);
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

/// One request on a kept connection, and the head of its answer.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        let read = tokio::time::timeout(BOUND, stream.read_buf(&mut answer)).await;
        assert!(read.unwrap().unwrap() > 0, "the connection ended");
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn idle_connection_outlives_the_bound_on_heads_and_ends_by_its_own() {
    let limits = Limits {
        header_read_timeout: Duration::from_millis(100),
        idle_timeout: Duration::from_secs(4),
        ..Limits::default()
    };
    let server = start(limits, Duration::ZERO);
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ask(&mut kept, "/").await;
    }
    let ended = tokio::time::timeout(BOUND, kept.read(&mut [0])).await;
    assert_eq!(ended.unwrap().unwrap_or(0), 0);
}

#[tokio::test]
async fn answer_that_takes_longer_than_the_idle_bound_is_delivered() {
    let limits = Limits {
        header_read_timeout: LATER / 8,
        idle_timeout: LATER / 4,
        ..Limits::default()
    };
    let server = start(limits, Duration::ZERO);
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    ask(&mut kept, "/later").await;
    ask(&mut kept, "/later").await;
}

#[tokio::test]
async fn head_that_trickles_is_cut_although_bytes_keep_coming() {
    let limits = Limits {
        header_read_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = start(limits, Duration::ZERO);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    ask(&mut stream, "/").await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    let (mut read, mut write) = stream.split();
    let trickle = async {
        while write.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut byte = [0];
    let ended = tokio::time::timeout(BOUND, async {
        tokio::select! {
            () = trickle => {}
            _ = read.read(&mut byte) => {}
        }
    });
    ended.await.expect("the connection ends");
}

#[tokio::test]
async fn retiring_listener_serves_and_ends_each_connection_with_its_answer() {
    let listener = bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let service = service_fn(|_| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    let limits = Limits::default();
    let (waits, retiring) = (limits.waits(), CancellationToken::new());
    let end = lanekeeper_serve::End {
        retiring: retiring.clone(),
        shutdown: CancellationToken::new(),
        nudge: CancellationToken::new(),
        grace: Duration::ZERO,
    };
    tokio::spawn(lanekeeper_serve::serve_adjusted(
        listener,
        limits,
        move || waits,
        service,
        end,
    ));
    let mut kept = TcpStream::connect(address).await.unwrap();
    assert!(!ask(&mut kept, "/").await.contains("connection: close"));
    retiring.cancel();
    // The listener hears of it when it next runs.
    let told = async {
        loop {
            let mut newcomer = TcpStream::connect(address).await.unwrap();
            if ask(&mut newcomer, "/").await.contains("connection: close") {
                break;
            }
        }
    };
    tokio::time::timeout(BOUND, told).await.unwrap();
    assert!(ask(&mut kept, "/").await.contains("connection: close"));
    let ended = tokio::time::timeout(BOUND, kept.read(&mut [0])).await;
    assert_eq!(ended.unwrap().unwrap_or(0), 0);
}
