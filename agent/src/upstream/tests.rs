//! Over real sockets: what is kept, what is closed, what is tried again, and what failures are
//! called. Peers are small scripts on loopback listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use lanekeeper_model::gateway::{AddressGuard, BaseUrl, HttpVersion, Scheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use lanekeeper_protocol::rewrite::BodyChain;

mod http2;
mod proxy;
mod tls;
mod version;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

fn guard() -> AddressGuard {
    AddressGuard {
        host_allowed: false,
        loopback_allowed: true,
        networks: Vec::new(),
    }
}

fn target_at(scheme: Scheme, host: &str, port: u16, guard: AddressGuard) -> Target {
    let base_url = BaseUrl {
        scheme,
        host: host.to_owned(),
        port,
        path_prefix: String::new(),
    };
    speaking(&base_url, guard, HttpVersion::Auto)
}

fn speaking(base_url: &BaseUrl, guard: AddressGuard, version: HttpVersion) -> Target {
    Target::new(base_url, guard, Duration::from_secs(5), version).unwrap()
}

fn client() -> Client {
    Client::new(Tls::with_authorities(None).unwrap())
}

fn request() -> Request<BodyChain> {
    Request::post("/v1/messages")
        .header("host", "peer.test")
        .body(BodyChain::whole(Bytes::from_static(b"{\"model\":\"m\"}")))
        .unwrap()
}

fn soon() -> Instant {
    crate::clock::now() + Duration::from_secs(5)
}

async fn text(answer: Response<Body>) -> String {
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A listener whose n-th connection is handled by `script(n, stream)`.
struct Peer {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Peer {
    async fn start<F, S>(script: F) -> Self
    where
        F: Fn(usize, TcpStream) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(script(counter.fetch_add(1, Ordering::SeqCst), stream));
            }
        });
        Self { port, connections }
    }

    fn target(&self) -> Target {
        target_at(Scheme::Http, "127.0.0.1", self.port, guard())
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one request: its head, and a body of the length it declares.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec())
                .unwrap()
                .to_ascii_lowercase();
            let len: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |len| len.parse().unwrap());
            if bytes.len() >= end + 4 + len {
                return Some(String::from_utf8(bytes).unwrap());
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

/// Answers every request of a connection with the same bytes.
async fn answer_all(mut stream: TcpStream, answer: &[u8]) {
    while read_request(&mut stream).await.is_some() {
        stream.write_all(answer).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_used_again_after_its_answer_was_read() {
    let peer = Peer::start(|_, stream| answer_all(stream, OK)).await;
    let client = client();
    for _ in 0..20 {
        let answer = client.send(&peer.target(), request, soon()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(text(answer).await, "hi");
    }
    assert_eq!(peer.connections(), 1);
    assert_eq!(client.idle_connections(), 1);
}

#[tokio::test]
async fn chunked_and_empty_answers_give_the_connection_back() {
    let peer = Peer::start(|_, mut stream| async move {
        let answers: [&[u8]; 3] = [
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\n",
            b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
        ];
        for answer in answers {
            read_request(&mut stream).await.unwrap();
            stream.write_all(answer).await.unwrap();
        }
        answer_all(stream, OK).await;
    })
    .await;
    let client = client();
    for wanted in ["hi!", "", "", "hi"] {
        let answer = client.send(&peer.target(), request, soon()).await.unwrap();
        assert_eq!(text(answer).await, wanted);
    }
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn the_request_arrives_whole_with_its_length() {
    let (sender, mut received) = mpsc::channel(1);
    let peer = Peer::start(move |_, mut stream| {
        let sender = sender.clone();
        async move {
            sender
                .send(read_request(&mut stream).await.unwrap())
                .await
                .unwrap();
            stream.write_all(OK).await.unwrap();
        }
    })
    .await;
    let padding = "x".repeat(200_000);
    let body = Bytes::from(format!("{{\"model\":\"a\",\"t\":\"{padding}\"}}"));
    let make = || {
        let located = lanekeeper_protocol::locate::locate(&body).unwrap();
        let body = BodyChain::with_model(&body, located.model, "another");
        Request::post("/p?q=1")
            .header("host", "h")
            .body(body)
            .unwrap()
    };
    text(client().send(&peer.target(), make, soon()).await.unwrap()).await;
    let arrived = received.recv().await.unwrap();
    let wanted = format!("{{\"model\":\"another\",\"t\":\"{padding}\"}}");
    let (head, sent) = arrived.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /p?q=1 HTTP/1.1\r\n"));
    assert!(head.contains(&format!("content-length: {}", wanted.len())));
    assert!(!head.contains("transfer-encoding"));
    assert_eq!(sent, wanted);
}

/// A connection that breaks later than a refusal takes was closed by a peer that had begun to work.
#[tokio::test]
async fn a_peer_that_thinks_before_it_hangs_up_is_asked_once() {
    let peer = Peer::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(OK).await.unwrap();
        read_request(&mut stream).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
    let client = client();
    text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
    let error = client
        .send(&peer.target(), request, soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(peer.connections(), 1);
}

/// Field report B37.
#[tokio::test]
async fn a_stale_connection_costs_one_silent_retry() {
    // Each connection answers once, reads the next request, and closes without a byte.
    let peer = Peer::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(OK).await.unwrap();
        read_request(&mut stream).await;
    })
    .await;
    let client = client();
    for sent in 1..=10 {
        let mut made = 0;
        let make = || {
            made += 1;
            request()
        };
        let answer = client.send(&peer.target(), make, soon()).await.unwrap();
        assert_eq!(text(answer).await, "hi");
        assert_eq!(made, if sent == 1 { 1 } else { 2 });
        assert_eq!(peer.connections(), sent);
    }
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced() {
    let (closed, mut was_closed) = mpsc::channel(1);
    let peer = Peer::start(move |_, mut stream| {
        let closed = closed.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(OK).await.unwrap();
            drop(stream);
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let client = client();
    for _ in 0..3 {
        let answer = client.send(&peer.target(), request, soon()).await.unwrap();
        assert_eq!(text(answer).await, "hi");
        was_closed.recv().await.unwrap();
    }
    assert_eq!(peer.connections(), 3);
}

#[tokio::test]
async fn a_request_is_never_sent_a_third_time() {
    let peer = Peer::start(|number, mut stream| async move {
        read_request(&mut stream).await;
        if number == 0 {
            stream.write_all(OK).await.unwrap();
            read_request(&mut stream).await;
        }
    })
    .await;
    let client = client();
    text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
    let error = client
        .send(&peer.target(), request, soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(peer.connections(), 2);
}

/// A peer that reads the request and works on it must not get it twice, however it ends.
#[tokio::test]
async fn a_kept_connection_that_breaks_late_is_a_failure_and_not_stale() {
    for (reset, kind) in [(false, ErrorKind::Closed), (true, ErrorKind::Reset)] {
        let peer = Peer::start(move |_, mut stream| async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(OK).await.unwrap();
            read_request(&mut stream).await.unwrap();
            tokio::time::sleep(Duration::from_millis(400)).await;
            if reset {
                stream.set_zero_linger().unwrap();
            }
        })
        .await;
        let client = client();
        text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
        let error = client
            .send(&peer.target(), request, soon())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(peer.connections(), 1);
    }
}

/// Nobody works on half a request: one whose upload did not end is sent again however long it took.
#[tokio::test]
async fn a_kept_connection_that_breaks_in_a_slow_upload_is_replaced() {
    let peer = Peer::start(|number, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(OK).await.unwrap();
        if number == 0 {
            // Takes what is sent only after a while, and then is gone.
            tokio::time::sleep(Duration::from_millis(400)).await;
            stream.read_exact(&mut vec![0; 1024 * 1024]).await.unwrap();
        }
    })
    .await;
    let client = client();
    text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
    // More than the kernel takes of it.
    let body = Bytes::from(vec![b'x'; 64 * 1024 * 1024]);
    let large = || {
        Request::post("/")
            .header("host", "h")
            .body(BodyChain::whole(body.clone()))
            .unwrap()
    };
    let answer = client.send(&peer.target(), large, soon()).await.unwrap();
    assert_eq!(text(answer).await, "hi");
    assert_eq!(peer.connections(), 2);
}

#[tokio::test]
async fn a_fresh_connection_that_closes_is_a_failure_at_once() {
    let peer = Peer::start(|_, mut stream| async move {
        read_request(&mut stream).await;
    })
    .await;
    let error = client()
        .send(&peer.target(), request, soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn half_an_answer_on_a_kept_connection_is_not_retried() {
    let peer = Peer::start(|_, mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(OK).await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200").await.unwrap();
    })
    .await;
    let client = client();
    text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
    let error = client
        .send(&peer.target(), request, soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_peer_that_asks_to_close_is_not_used_again() {
    let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi";
    let peer = Peer::start(move |_, stream| answer_all(stream, answer)).await;
    let client = client();
    for sent in 1..=3 {
        text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
        assert_eq!(peer.connections(), sent);
        assert_eq!(client.idle_connections(), 0);
    }
}

/// Field report B77: the provider learns within a second that nobody listens.
#[tokio::test]
async fn a_dropped_body_closes_the_socket() {
    let (seen, mut closed) = mpsc::channel(1);
    let peer = Peer::start(move |_, mut stream| {
        let seen = seen.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n";
            stream.write_all(head).await.unwrap();
            let ended = matches!(stream.read(&mut [0; 16]).await, Ok(0) | Err(_));
            seen.send(ended).await.unwrap();
        }
    })
    .await;
    let client = client();
    let mut body = client
        .send(&peer.target(), request, soon())
        .await
        .unwrap()
        .into_body();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "hi"
    );
    drop(body);
    let ended = tokio::time::timeout(Duration::from_secs(1), closed.recv()).await;
    assert_eq!(ended, Ok(Some(true)));
    assert_eq!(client.idle_connections(), 0);
}

#[tokio::test]
async fn a_dropped_request_closes_the_socket() {
    let (seen, mut closed) = mpsc::channel(2);
    let peer = Peer::start(move |_, mut stream| {
        let seen = seen.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            seen.send(false).await.unwrap();
            let ended = matches!(stream.read(&mut [0; 16]).await, Ok(0) | Err(_));
            seen.send(ended).await.unwrap();
        }
    })
    .await;
    let client = client();
    let target = peer.target();
    let sending =
        tokio::spawn(async move { client.send(&target, request, soon()).await.map(drop) });
    assert_eq!(closed.recv().await, Some(false), "the request arrived");
    sending.abort();
    let ended = tokio::time::timeout(Duration::from_secs(1), closed.recv()).await;
    assert_eq!(ended, Ok(Some(true)));
}

/// Field report B55.
#[tokio::test]
async fn slow_headers_end_at_the_deadline() {
    let peer = Peer::start(|_, mut stream| async move {
        read_request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nx-slow")
            .await
            .unwrap();
        read_request(&mut stream).await;
    })
    .await;
    let started = crate::clock::now();
    let deadline = started + Duration::from_millis(100);
    let error = client()
        .send(&peer.target(), request, deadline)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_body_cut_short_is_an_error_in_every_framing() {
    let heads: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ];
    for head in heads {
        let peer = Peer::start(move |_, mut stream| async move {
            read_request(&mut stream).await;
            stream.write_all(head).await.unwrap();
        })
        .await;
        let client = client();
        let answer = client.send(&peer.target(), request, soon()).await.unwrap();
        let error = answer.into_body().collect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert_eq!(client.idle_connections(), 0);
    }
}

#[tokio::test]
async fn failures_have_names() {
    let free_port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let not_http = Peer::start(|_, mut stream| async move {
        stream
            .write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
            .await
            .unwrap();
        read_request(&mut stream).await;
    })
    .await;
    let open = AddressGuard {
        host_allowed: true,
        ..guard()
    };
    let rows = [
        (
            target_at(Scheme::Http, "127.0.0.1", free_port, guard()),
            ErrorKind::Refused,
        ),
        (
            target_at(Scheme::Http, "does-not-exist.invalid", 80, open),
            ErrorKind::Dns,
        ),
        (not_http.target(), ErrorKind::Protocol),
        (
            target_at(Scheme::Https, "127.0.0.1", not_http.port, guard()),
            ErrorKind::Tls,
        ),
    ];
    for (target, kind) in rows {
        let error = client().send(&target, request, soon()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

/// Field report B36 (v): TCP is accepted and the handshake never comes.
#[tokio::test]
async fn a_silent_tls_peer_is_cut_by_the_deadline() {
    let peer = Peer::start(|_, mut stream| async move {
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink).await;
    })
    .await;
    let target = target_at(Scheme::Https, "127.0.0.1", peer.port, guard());
    let deadline = crate::clock::now() + Duration::from_millis(100);
    let error = client().send(&target, request, deadline).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_name_at_a_forbidden_address_is_never_connected_to() {
    let peer = Peer::start(|_, stream| answer_all(stream, OK)).await;
    let closed = AddressGuard {
        loopback_allowed: false,
        ..guard()
    };
    for host in [
        "localhost",
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
    ] {
        let target = target_at(Scheme::Http, host, peer.port, closed.clone());
        let error = client().send(&target, request, soon()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Blocked, "{host}");
    }
    assert_eq!(peer.connections(), 0);
    let allowed = target_at(Scheme::Http, "localhost", peer.port, guard());
    assert_eq!(
        text(client().send(&allowed, request, soon()).await.unwrap()).await,
        "hi"
    );
}

/// A connection from before a rule changed must not serve after it.
#[tokio::test]
async fn idle_connections_do_not_outlive_the_address_rule() {
    let peer = Peer::start(|_, stream| answer_all(stream, OK)).await;
    let client = client();
    text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
    assert_eq!(client.idle_connections(), 1);
    let closed = AddressGuard {
        loopback_allowed: false,
        ..guard()
    };
    let target = target_at(Scheme::Http, "127.0.0.1", peer.port, closed);
    let error = client.send(&target, request, soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Blocked);
}

#[tokio::test]
async fn concurrent_requests_have_connections_of_their_own_and_share_them_later() {
    let peer = Peer::start(|_, stream| answer_all(stream, OK)).await;
    let client = client();
    let target = peer.target();
    let answers =
        futures_util::future::join_all((0..16).map(|_| client.send(&target, request, soon())))
            .await;
    assert_eq!(peer.connections(), 16);
    for answer in answers {
        assert_eq!(text(answer.unwrap()).await, "hi");
    }
    assert_eq!(client.idle_connections(), 16);
    for _ in 0..50 {
        text(client.send(&target, request, soon()).await.unwrap()).await;
    }
    assert_eq!(peer.connections(), 16);
}

/// Field report B39.
#[tokio::test]
async fn redirects_are_answers() {
    let answer =
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::start(move |_, stream| answer_all(stream, answer)).await;
    let answer = client()
        .send(&peer.target(), request, soon())
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::FOUND);
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn an_early_answer_to_an_unread_body_does_not_poison_the_pool() {
    let peer = Peer::start(|number, mut stream| async move {
        if number == 0 {
            // Answers without reading the megabytes that come.
            let mut first = [0; 1024];
            stream.read_exact(&mut first).await.unwrap();
            let answer = b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 2\r\n\r\nno";
            stream.write_all(answer).await.unwrap();
            std::future::pending::<()>().await;
        }
        answer_all(stream, OK).await;
    })
    .await;
    let client = client();
    let body = Bytes::from(vec![b'x'; 16 * 1024 * 1024]);
    let large = || {
        Request::post("/")
            .header("host", "h")
            .body(BodyChain::whole(body.clone()))
            .unwrap()
    };
    let answer = client.send(&peer.target(), large, soon()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(text(answer).await, "no");
    assert_eq!(
        text(client.send(&peer.target(), request, soon()).await.unwrap()).await,
        "hi"
    );
    assert_eq!(peer.connections(), 2);
}

#[tokio::test]
async fn old_idle_connections_are_closed() {
    let (seen, mut closed) = mpsc::channel(1);
    let peer = Peer::start(move |_, mut stream| {
        let seen = seen.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
            seen.send(()).await.unwrap();
        }
    })
    .await;
    let client = client();
    text(client.send(&peer.target(), request, soon()).await.unwrap()).await;
    for _ in 0..4 {
        client.sweep_idle();
        assert_eq!(client.idle_connections(), 1, "not old enough");
    }
    client.sweep_idle();
    assert_eq!(client.idle_connections(), 0);
    closed.recv().await.unwrap();
}

#[tokio::test]
async fn the_newest_idle_connection_goes_first_and_the_oldest_ages() {
    let peer = Peer::start(|number, stream| async move {
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}");
        answer_all(stream, answer.as_bytes()).await;
    })
    .await;
    let client = client();
    let target = peer.target();
    let first = client.send(&target, request, soon()).await.unwrap();
    let second = client.send(&target, request, soon()).await.unwrap();
    assert_eq!(
        (text(first).await, text(second).await),
        ("0".to_owned(), "1".to_owned())
    );
    for _ in 0..5 {
        assert_eq!(
            text(client.send(&target, request, soon()).await.unwrap()).await,
            "1"
        );
        client.sweep_idle();
    }
    assert_eq!(client.idle_connections(), 1, "the unused one is gone");
}

#[test]
fn an_authority_file_without_certificates_is_refused() {
    let error = Tls::with_authorities(Some(std::path::Path::new("/dev/null"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setup);
    let missing = Tls::with_authorities(Some(std::path::Path::new("/does/not/exist.pem")));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Setup);
}
