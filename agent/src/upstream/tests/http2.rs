//! HTTP/2 over TLS on real sockets: what shares a connection, what is sent again and what is not,
//! and that nobody's slowness reaches another. Peers are the `h2` crate's server, or frames written
//! by hand where a well-behaved server would not send them.

use std::sync::Mutex;

use h2::Reason;
use h2::server::{Connection, SendResponse};
use tokio::sync::{Barrier, Semaphore};
use tokio_rustls::server::TlsStream;

use super::tls::{Authority, https};
use super::*;

type Socket = TlsStream<TcpStream>;
type Server = Connection<Socket, Bytes>;
type Asked = (Request<h2::RecvStream>, SendResponse<Bytes>);

/// A peer that agrees on `protocols` and hands each connection to `script`.
async fn tls_peer<F, S>(authority: &Authority, protocols: &[&str], script: F) -> Peer
where
    F: Fn(usize, Socket) -> S + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let acceptor = authority.speaking(protocols, "localhost", |_| {});
    let script = Arc::new(script);
    Peer::start(move |number, stream| {
        let (acceptor, script) = (acceptor.clone(), Arc::clone(&script));
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                script(number, stream).await;
            }
        }
    })
    .await
}

/// A peer that handles each request on its own: `script(connection, request)`.
async fn h2_peer<F, S>(authority: &Authority, builder: h2::server::Builder, script: F) -> Peer
where
    F: Fn(usize, Asked) -> S + Clone + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    tls_peer(authority, &["h2"], move |number, stream| {
        let (builder, script) = (builder.clone(), script.clone());
        async move {
            let Ok(mut server): Result<Server, _> = builder.handshake(stream).await else {
                return;
            };
            while let Some(Ok(asked)) = server.accept().await {
                tokio::spawn(script(number, asked));
            }
        }
    })
    .await
}

fn answer(respond: &mut SendResponse<Bytes>, text: &'static str) {
    let mut body = respond.send_response(Response::new(()), false).unwrap();
    body.send_data(Bytes::from_static(text.as_bytes()), true)
        .unwrap();
}

async fn body_of(mut body: h2::RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.unwrap();
        body.flow_control().release_capacity(chunk.len()).unwrap();
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

async fn eventually(mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(5), async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("it did not come to be");
}

/// Frames written by hand. (RFC 9113, 4.1)
mod raw {
    use super::*;

    const PREFACE_LEN: usize = 24;
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const GOAWAY: u8 = 7;
    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;
    /// `:status: 200` in the static table.
    pub(super) const STATUS_200: &[u8] = &[0x88];

    pub(super) async fn write(socket: &mut Socket, kind: u8, flags: u8, stream: u32, body: &[u8]) {
        let mut frame = (body.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(body);
        socket.write_all(&frame).await.unwrap();
        socket.flush().await.unwrap();
    }

    pub(super) async fn goaway(socket: &mut Socket, last: u32) {
        let body = [last.to_be_bytes(), 0u32.to_be_bytes()].concat();
        write(socket, GOAWAY, 0, 0, &body).await;
    }

    /// Greets and waits for the heads of `streams` requests.
    pub(super) async fn greet(socket: &mut Socket, streams: usize) {
        write(socket, SETTINGS, 0, 0, &[]).await;
        socket.read_exact(&mut [0; PREFACE_LEN]).await.unwrap();
        let mut heads = 0;
        while heads < streams {
            let mut head = [0; 9];
            socket.read_exact(&mut head).await.unwrap();
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            socket.read_exact(&mut vec![0; len]).await.unwrap();
            heads += usize::from(head[3] == HEADERS);
        }
    }

    /// Until the client leaves.
    pub(super) async fn linger(socket: &mut Socket) {
        let _ = socket.read_to_end(&mut Vec::new()).await;
    }
}

/// Runs the connection that follows the first as a server that answers everything.
async fn answer_everything(socket: Socket, text: &'static str) {
    let mut server: Server = h2::server::handshake(socket).await.unwrap();
    while let Some(Ok((_, mut respond))) = server.accept().await {
        answer(&mut respond, text);
    }
}

#[tokio::test]
async fn a_burst_shares_one_connection_and_requests_arrive_as_http2_has_them() {
    let authority = Authority::new();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let peer = h2_peer(&authority, h2::server::Builder::new(), move |_, asked| {
        let seen = Arc::clone(&seen);
        async move {
            let (request, mut respond) = asked;
            let (head, body) = request.into_parts();
            assert_eq!(body_of(body).await, b"{\"model\":\"m\"}");
            seen.lock().unwrap().push(head);
            answer(&mut respond, "hi");
        }
    })
    .await;
    let client = Client::new(authority.trusted());
    let target = https("localhost", &peer);
    let make = || {
        let mut request = request();
        request
            .headers_mut()
            .insert("connection", "keep-alive".parse().unwrap());
        request
    };
    let answers =
        futures_util::future::join_all((0..50).map(|_| client.send(&target, make, soon()))).await;
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(text(answer).await, "hi");
    }
    assert_eq!((peer.connections(), client.shared_connections()), (1, 1));
    for head in heads.lock().unwrap().iter() {
        assert_eq!(head.uri.to_string(), "https://peer.test/v1/messages");
        assert_eq!(head.headers.get("content-length").unwrap(), "13");
        assert!(!head.headers.contains_key("connection") && !head.headers.contains_key("host"));
    }
}

/// The peer's limit is kept, and what is beyond it goes over further connections.
#[tokio::test]
async fn streams_beyond_the_peers_limit_have_further_connections() {
    let authority = Authority::new();
    let all = Arc::new(Barrier::new(6));
    let most = Arc::new(Mutex::new([0_usize; 8]));
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(2);
    let (barrier, counted) = (Arc::clone(&all), Arc::clone(&most));
    let peer = h2_peer(&authority, builder, move |number, (_, mut respond)| {
        let (barrier, counted) = (Arc::clone(&barrier), Arc::clone(&counted));
        async move {
            counted.lock().unwrap()[number] += 1;
            // Nobody is answered before all six are here.
            barrier.wait().await;
            answer(&mut respond, "hi");
        }
    })
    .await;
    let client = Client::new(authority.trusted());
    let target = https("localhost", &peer);
    let answers =
        futures_util::future::join_all((0..6).map(|_| client.send(&target, request, soon()))).await;
    for answer in answers {
        assert_eq!(text(answer.unwrap()).await, "hi");
    }
    assert_eq!(peer.connections(), 3);
    assert_eq!(most.lock().unwrap()[..3], [2, 2, 2]);
}

/// Field report B38.
#[tokio::test]
async fn a_refused_stream_is_sent_again_once_on_a_new_connection() {
    for refusals in [1, usize::MAX] {
        let authority = Authority::new();
        let hits = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&hits);
        let peer = h2_peer(
            &authority,
            h2::server::Builder::new(),
            move |number, (_, mut respond)| {
                let counter = Arc::clone(&counter);
                async move {
                    counter.fetch_add(1, Ordering::SeqCst);
                    if number < refusals {
                        respond.send_reset(Reason::REFUSED_STREAM);
                    } else {
                        answer(&mut respond, "hi");
                    }
                }
            },
        )
        .await;
        let client = Client::new(authority.trusted());
        let sent = client
            .send(&https("localhost", &peer), request, soon())
            .await;
        if refusals == 1 {
            assert_eq!(text(sent.unwrap()).await, "hi");
        } else {
            assert_eq!(sent.unwrap_err().kind(), ErrorKind::Refused);
        }
        assert_eq!(hits.load(Ordering::SeqCst), 2);
        assert_eq!(peer.connections(), 2);
    }
}

/// Field report B38: of two requests in flight the peer works on the first one only.
#[tokio::test]
async fn requests_above_the_last_stream_of_a_goaway_are_sent_again() {
    for last in [0, 1] {
        let authority = Authority::new();
        let peer = tls_peer(&authority, &["h2"], move |number, mut socket| async move {
            if number > 0 {
                return answer_everything(socket, "again").await;
            }
            raw::greet(&mut socket, 2).await;
            raw::goaway(&mut socket, last).await;
            if last == 1 {
                let flags = raw::END_HEADERS;
                raw::write(&mut socket, raw::HEADERS, flags, 1, raw::STATUS_200).await;
                raw::write(&mut socket, raw::DATA, raw::END_STREAM, 1, b"first").await;
            }
            raw::linger(&mut socket).await;
        })
        .await;
        let client = Client::new(authority.trusted());
        let target = https("localhost", &peer);
        let made = AtomicUsize::new(0);
        let make = || {
            made.fetch_add(1, Ordering::SeqCst);
            request()
        };
        let (first, second) = tokio::join!(
            client.send(&target, make, soon()),
            client.send(&target, make, soon())
        );
        let mut texts = [text(first.unwrap()).await, text(second.unwrap()).await];
        texts.sort();
        let wanted = if last == 1 {
            ["again", "first"]
        } else {
            ["again", "again"]
        };
        assert_eq!(texts, wanted);
        let sent_again = if last == 1 { 1 } else { 2 };
        assert_eq!(made.load(Ordering::SeqCst), 2 + sent_again);
        assert_eq!(peer.connections(), 2, "the new connection is shared");
    }
}

#[tokio::test]
async fn goaway_on_every_connection_ends_after_one_repetition() {
    let authority = Authority::new();
    let peer = tls_peer(&authority, &["h2"], |_, mut socket| async move {
        raw::greet(&mut socket, 1).await;
        raw::goaway(&mut socket, 0).await;
        raw::linger(&mut socket).await;
    })
    .await;
    let client = Client::new(authority.trusted());
    let sent = client
        .send(&https("localhost", &peer), request, soon())
        .await;
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(peer.connections(), 2);
}

/// A peer that had begun to answer, or may have, is not asked again.
#[tokio::test]
async fn a_stream_the_peer_worked_on_is_not_sent_again() {
    let authority = Authority::new();
    for reason in [Reason::INTERNAL_ERROR, Reason::CANCEL] {
        let peer = h2_peer(
            &authority,
            h2::server::Builder::new(),
            move |_, (_, mut respond)| async move { respond.send_reset(reason) },
        )
        .await;
        let client = Client::new(authority.trusted());
        let sent = client
            .send(&https("localhost", &peer), request, soon())
            .await;
        assert_eq!(sent.unwrap_err().kind(), ErrorKind::Reset);
        assert_eq!(peer.connections(), 1);
    }
    let peer = tls_peer(&authority, &["h2"], |_, mut socket| async move {
        raw::greet(&mut socket, 1).await;
        let flags = raw::END_HEADERS;
        raw::write(&mut socket, raw::HEADERS, flags, 1, raw::STATUS_200).await;
        raw::write(&mut socket, raw::DATA, 0, 1, b"data: 1\n\n").await;
        raw::goaway(&mut socket, 0).await;
        raw::linger(&mut socket).await;
    })
    .await;
    let client = Client::new(authority.trusted());
    let sent = client
        .send(&https("localhost", &peer), request, soon())
        .await;
    let error = sent.unwrap().into_body().collect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_peer_that_asks_for_http1_gets_it() {
    let authority = Authority::new();
    let peer = tls_peer(
        &authority,
        &["h2", "http/1.1"],
        |_, mut socket| async move {
            if socket.get_ref().1.alpn_protocol() == Some(b"h2") {
                let mut server: Server = h2::server::handshake(socket).await.unwrap();
                while let Some(Ok((_, mut respond))) = server.accept().await {
                    respond.send_reset(Reason::HTTP_1_1_REQUIRED);
                }
                return;
            }
            let mut bytes = vec![0; 4096];
            while let Ok(1..) = socket.read(&mut bytes).await {
                socket.write_all(OK).await.unwrap();
            }
        },
    )
    .await;
    let client = Client::new(authority.trusted());
    for _ in 0..3 {
        let sent = client
            .send(&https("localhost", &peer), request, soon())
            .await;
        assert_eq!(text(sent.unwrap()).await, "hi");
    }
    assert_eq!(peer.connections(), 2, "one of each version");
}

/// Field report B77: the provider learns within a second that nobody listens, and the connection
/// serves the others on.
#[tokio::test]
async fn leaving_resets_the_stream_and_keeps_the_connection() {
    let authority = Authority::new();
    let (seen, mut resets) = mpsc::channel(4);
    let peer = h2_peer(
        &authority,
        h2::server::Builder::new(),
        move |_, (request, mut respond)| {
            let seen = seen.clone();
            async move {
                let reason = match request.headers().get("x-case").map(|v| v.as_bytes()) {
                    Some(b"no head") => {
                        seen.send(None).await.unwrap();
                        std::future::poll_fn(|cx| respond.poll_reset(cx)).await
                    }
                    Some(b"no end") => {
                        let mut body = respond.send_response(Response::new(()), false).unwrap();
                        body.send_data(Bytes::from_static(b"hi"), false).unwrap();
                        std::future::poll_fn(|cx| body.poll_reset(cx)).await
                    }
                    _ => return answer(&mut respond, "hi"),
                };
                seen.send(Some(reason.unwrap())).await.unwrap();
            }
        },
    )
    .await;
    let client = Client::new(authority.trusted());
    let target = https("localhost", &peer);
    let case = |name: &'static str| {
        move || {
            let mut request = request();
            request
                .headers_mut()
                .insert("x-case", name.parse().unwrap());
            request
        }
    };
    let within = Duration::from_secs(1);

    let (other, aimed) = (client.clone(), target.clone());
    let sending =
        tokio::spawn(async move { other.send(&aimed, case("no head"), soon()).await.map(drop) });
    assert_eq!(resets.recv().await, Some(None), "the request arrived");
    sending.abort();
    let reset = tokio::time::timeout(within, resets.recv()).await.unwrap();
    assert_eq!(reset, Some(Some(Reason::CANCEL)));

    let sent = client.send(&target, case("no end"), soon()).await;
    let mut body = sent.unwrap().into_body();
    let frame = body.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "hi");
    drop(body);
    let reset = tokio::time::timeout(within, resets.recv()).await.unwrap();
    assert_eq!(reset, Some(Some(Reason::CANCEL)));

    let sent = client.send(&target, request, soon()).await;
    assert_eq!(text(sent.unwrap()).await, "hi");
    assert_eq!(peer.connections(), 1);
}

/// A caller that does not read costs its window and no more, and holds up nobody else.
#[tokio::test]
async fn an_unread_answer_is_bounded_and_does_not_hold_up_the_others() {
    let authority = Authority::new();
    let sent_bytes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent_bytes);
    let peer = h2_peer(
        &authority,
        h2::server::Builder::new(),
        move |_, (request, mut respond)| {
            let counter = Arc::clone(&counter);
            async move {
                if !request.headers().contains_key("x-case") {
                    return answer(&mut respond, "hi");
                }
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                loop {
                    body.reserve_capacity(16 * 1024);
                    let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
                    let Some(Ok(room)) = room else { return };
                    counter.fetch_add(room, Ordering::SeqCst);
                    if body.send_data(vec![b'x'; room].into(), false).is_err() {
                        return;
                    }
                }
            }
        },
    )
    .await;
    let client = Client::new(authority.trusted());
    let target = https("localhost", &peer);
    let endless = || {
        let mut request = request();
        request.headers_mut().insert("x-case", "1".parse().unwrap());
        request
    };
    let mut unread = Vec::new();
    for _ in 0..MAX_STREAMS - 1 {
        let sent = client.send(&target, endless, soon()).await;
        unread.push(sent.unwrap().into_body());
    }
    let window = STREAM_WINDOW_BYTES as usize;
    let all = window * unread.len();
    eventually(|| sent_bytes.load(Ordering::SeqCst) == all).await;
    let sent = client.send(&target, request, soon()).await;
    assert_eq!(text(sent.unwrap()).await, "hi");
    assert_eq!(sent_bytes.load(Ordering::SeqCst), all);

    // What is read makes room for as much again.
    let mut read = 0;
    let mut body = unread.pop().unwrap();
    while read < 4 * window {
        let frame = body.frame().await.unwrap().unwrap();
        read += frame.into_data().unwrap().len();
    }
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_long_request_goes_out_at_the_peers_pace() {
    let authority = Authority::new();
    let gate = Arc::new(Semaphore::new(0));
    let (told, mut length) = mpsc::channel(1);
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(10_000);
    let opened = Arc::clone(&gate);
    let peer = h2_peer(&authority, builder, move |_, (request, mut respond)| {
        let (opened, told) = (Arc::clone(&opened), told.clone());
        async move {
            opened.acquire().await.unwrap().forget();
            let body = body_of(request.into_body()).await;
            told.send(body.len()).await.unwrap();
            answer(&mut respond, "hi");
        }
    })
    .await;
    let client = Client::new(authority.trusted());
    let target = https("localhost", &peer);
    let body = Bytes::from(vec![b'x'; 300_000]);
    let large = || {
        Request::post("/")
            .header("host", "h")
            .body(BodyChain::whole(body.clone()))
            .unwrap()
    };
    let sending = client.send(&target, large, soon());
    gate.add_permits(1);
    assert_eq!(text(sending.await.unwrap()).await, "hi");
    assert_eq!(length.recv().await, Some(300_000));
}

#[tokio::test]
async fn an_early_answer_ends_the_upload() {
    let authority = Authority::new();
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(10_000);
    let peer = h2_peer(&authority, builder, |_, (_, mut respond)| async move {
        answer(&mut respond, "no");
    })
    .await;
    let client = Client::new(authority.trusted());
    let target = https("localhost", &peer);
    let body = Bytes::from(vec![b'x'; 300_000]);
    let large = || {
        Request::post("/")
            .header("host", "h")
            .body(BodyChain::whole(body.clone()))
            .unwrap()
    };
    for _ in 0..3 {
        let sent = client.send(&target, large, soon()).await;
        assert_eq!(text(sent.unwrap()).await, "no");
    }
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn an_unused_connection_is_closed_and_a_used_one_is_not() {
    let authority = Authority::new();
    let (ended, mut closed) = mpsc::channel(1);
    let peer = tls_peer(&authority, &["h2"], move |_, socket| {
        let ended = ended.clone();
        async move {
            answer_everything(socket, "hi").await;
            ended.send(()).await.unwrap();
        }
    })
    .await;
    let beat = Duration::from_millis(20);
    let client = Client::with_beat(authority.trusted(), beat);
    let target = https("localhost", &peer);
    for _ in 0..10 {
        let sent = client.send(&target, request, soon()).await;
        assert_eq!(text(sent.unwrap()).await, "hi");
        tokio::time::sleep(beat).await;
    }
    assert_eq!((peer.connections(), client.shared_connections()), (1, 1));
    let closed = tokio::time::timeout(Duration::from_secs(5), closed.recv()).await;
    assert_eq!(closed, Ok(Some(())));
    assert_eq!(client.shared_connections(), 0);
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_given_up() {
    let authority = Authority::new();
    let peer = tls_peer(&authority, &["h2"], |_, mut socket| async move {
        raw::greet(&mut socket, 1).await;
        std::future::pending::<()>().await;
    })
    .await;
    let client = Client::with_beat(authority.trusted(), Duration::from_millis(100));
    let sent = client
        .send(&https("localhost", &peer), request, soon())
        .await;
    assert_eq!(sent.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(peer.connections(), 1);
    assert_eq!(client.shared_connections(), 0);
}

/// A connection the peer has just closed costs one silent repetition, as over HTTP/1.1.
#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced() {
    let authority = Authority::new();
    let (gone, mut was_closed) = mpsc::channel(1);
    let peer = tls_peer(&authority, &["h2"], move |_, socket| {
        let gone = gone.clone();
        async move {
            let mut server: Server = h2::server::handshake(socket).await.unwrap();
            let (_, mut respond) = server.accept().await.unwrap().unwrap();
            answer(&mut respond, "hi");
            server.graceful_shutdown();
            while let Some(Ok(_)) = server.accept().await {}
            drop(server);
            gone.send(()).await.unwrap();
        }
    })
    .await;
    let client = Client::new(authority.trusted());
    for _ in 0..3 {
        let sent = client
            .send(&https("localhost", &peer), request, soon())
            .await;
        assert_eq!(text(sent.unwrap()).await, "hi");
        was_closed.recv().await.unwrap();
    }
    assert_eq!(peer.connections(), 3);
}

/// Everyone who waits for a connection learns at once that there is none.
#[tokio::test]
async fn a_failed_handshake_fails_all_who_wait_for_it_and_is_tried_anew() {
    let peer = Peer::start(|_, mut stream| async move {
        stream.write_all(b"no tls here").await.unwrap();
        read_request(&mut stream).await;
    })
    .await;
    let client = client();
    let target = https("localhost", &peer);
    for round in 1..=2 {
        let sent =
            futures_util::future::join_all((0..20).map(|_| client.send(&target, request, soon())))
                .await;
        for error in sent.into_iter().map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
        }
        assert_eq!(peer.connections(), round);
    }
}
