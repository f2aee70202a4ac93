//! The version of HTTP that a provider's setting asks for, and no other.

use h2::server::{Connection, SendResponse};

use super::tls::Authority;
use super::*;

fn at(peer: &Peer, scheme: Scheme, version: HttpVersion) -> Target {
    let (host, port) = ("localhost".to_owned(), peer.port);
    let base_url = BaseUrl {
        scheme,
        host,
        port,
        path_prefix: String::new(),
    };
    speaking(&base_url, guard(), version)
}

/// A peer in plain text that speaks HTTP/2 from its first byte, and tells of each request.
async fn plain_http2() -> (Peer, mpsc::UnboundedReceiver<String>) {
    let (sender, told) = mpsc::unbounded_channel();
    let peer = Peer::start(move |_, stream| {
        let sender = sender.clone();
        async move {
            let shaken = h2::server::handshake(stream).await;
            let Ok(mut server): Result<Connection<TcpStream, Bytes>, _> = shaken else {
                return;
            };
            while let Some(Ok((request, respond))) = server.accept().await {
                sender.send(request.uri().to_string()).unwrap();
                let mut respond: SendResponse<Bytes> = respond;
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                body.send_data(Bytes::from_static(b"hi"), true).unwrap();
            }
        }
    })
    .await;
    (peer, told)
}

#[tokio::test]
async fn http2_is_spoken_in_plain_text_where_it_is_asked_for() {
    let (peer, mut told) = plain_http2().await;
    let client = client();
    let target = at(&peer, Scheme::Http, HttpVersion::Http2);
    let sends = (0..10).map(|_| client.send(&target, request, soon()));
    for answer in futures_util::future::join_all(sends).await {
        assert_eq!(text(answer.unwrap()).await, "hi");
    }
    assert_eq!((peer.connections(), client.shared_connections()), (1, 1));
    let uri = told.recv().await.unwrap();
    assert_eq!(uri, "http://peer.test/v1/messages");
}

#[tokio::test]
async fn http1_is_spoken_to_a_peer_that_would_choose_http2() {
    let authority = Authority::new();
    let acceptor = authority.speaking(&["h2", "http/1.1"], "localhost", |_| {});
    let (peer, mut received) = super::tls::start(acceptor).await;
    let client = Client::new(authority.trusted());
    let target = at(&peer, Scheme::Https, HttpVersion::Http1);
    for _ in 0..2 {
        let answer = client.send(&target, request, soon()).await.unwrap();
        assert_eq!(text(answer).await, "hi");
    }
    let (agreed, _) = received.recv().await.unwrap();
    assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!((peer.connections(), client.shared_connections()), (1, 0));
}

/// Neither a peer that agrees on something else nor one that agrees on nothing is spoken to.
#[tokio::test]
async fn peer_without_http2_is_a_failure_where_http2_is_asked_for() {
    let authority = Authority::new();
    for (protocols, kind) in [
        (&["http/1.1"][..], ErrorKind::Tls),
        (&[], ErrorKind::Protocol),
    ] {
        let acceptor = authority.speaking(protocols, "localhost", |_| {});
        let (peer, _received) = super::tls::start(acceptor).await;
        let client = Client::new(authority.trusted());
        let target = at(&peer, Scheme::Https, HttpVersion::Http2);
        let error = client.send(&target, request, soon()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(peer.connections(), 1);
    }
    let peer = Peer::start(|_, stream| answer_all(stream, OK)).await;
    let target = at(&peer, Scheme::Http, HttpVersion::Http2);
    let near = crate::clock::now() + Duration::from_millis(500);
    let error = client().send(&target, request, near).await.unwrap_err();
    let kinds = [ErrorKind::Protocol, ErrorKind::Timeout, ErrorKind::Closed];
    assert!(kinds.contains(&error.kind()), "{error}");
}

/// Connections of one version are none of another's.
#[tokio::test]
async fn change_of_the_version_leaves_the_old_connections_alone() {
    let (peer, _told) = plain_http2().await;
    let client = client();
    let target = at(&peer, Scheme::Http, HttpVersion::Http2);
    text(client.send(&target, request, soon()).await.unwrap()).await;
    let target = at(&peer, Scheme::Http, HttpVersion::Http1);
    let error = client.send(&target, request, soon()).await.unwrap_err();
    assert_eq!(peer.connections(), 2, "{error}");
}
