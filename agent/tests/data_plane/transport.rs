//! What lies below HTTP: names, addresses, certificates, and connections that providers share out
//! and take back. Providers here are real TLS servers, with HTTP/2 as the `h2` crate serves it.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually, timed};
use crate::upstream::{Upstream, completion, completion_body, delta};
use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::Response;
use lanekeeper_agent::plane::Plane;
use lanekeeper_agent::upstream::Tls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A plane that trusts `issuer`.
fn plane(issuer: &Issuer) -> Plane {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), issuer.pem()).unwrap();
    Plane::trusting(Tls::with_authorities(Some(file.path())).unwrap())
}

fn acceptor(
    issuer: &Issuer,
    name: &str,
    change: impl FnOnce(&mut CertificateParams),
) -> TlsAcceptor {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// What a provider has seen.
#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    resets: AtomicUsize,
}

/// A provider over HTTP/2; `script` gets the number of the connection, from 0.
async fn provider<F, S>(acceptor: TlsAcceptor, script: F) -> (SocketAddr, Arc<Counts>)
where
    F: Fn(usize, SendResponse<Bytes>, Arc<Counts>) -> S + Clone + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::new(Counts::default());
    let counted = Arc::clone(&counts);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let number = counted.connections.fetch_add(1, Ordering::SeqCst);
            let (acceptor, script) = (acceptor.clone(), script.clone());
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let Ok(mut server) = h2::server::handshake(stream).await else {
                    return;
                };
                while let Some(Ok((_, respond))) = server.accept().await {
                    counted.requests.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(script(number, respond, Arc::clone(&counted)));
                }
            });
        }
    });
    (address, counts)
}

fn answer(mut respond: SendResponse<Bytes>, text: &str) {
    let head = Response::builder().header("content-type", "application/json");
    let mut body = respond
        .send_response(head.body(()).unwrap(), false)
        .unwrap();
    body.send_data(completion_body(text).into(), true).unwrap();
}

fn stream_head() -> Response<()> {
    let head = Response::builder().header("content-type", "text/event-stream");
    head.body(()).unwrap()
}

/// One lane named `a` at a TLS provider, and `b` beside it.
fn document(address: SocketAddr, b: &Upstream) -> String {
    Document::new()
        .lane_at("a", address, 100, "")
        .lane("b", b)
        .yaml()
        .replace(
            &format!("http://{address}"),
            &format!("https://localhost:{}", address.port()),
        )
}

fn books(agent: &Agent) -> (u64, u64) {
    let window = &agent.cell("chat", "a")["window"];
    (
        window["ok"].as_u64().unwrap(),
        window["failed"].as_u64().unwrap(),
    )
}

/// Field report B36: each is a failure at once, by its name, and the sibling answers.
#[tokio::test]
async fn certificates_that_do_not_fit_are_named_in_the_books() {
    let ours = authority();
    let theirs = authority();
    let rows = [
        ("another name", acceptor(&ours, "elsewhere.test", |_| {})),
        (
            "expired",
            acceptor(&ours, "localhost", |params| {
                params.not_before = date_time_ymd(2001, 1, 1);
                params.not_after = date_time_ymd(2002, 1, 1);
            }),
        ),
        ("unknown authority", acceptor(&theirs, "localhost", |_| {})),
    ];
    for (case, acceptor) in rows {
        let (address, counts) = provider(acceptor, |_, _, _| async {}).await;
        let b = Upstream::start(completion("b")).await;
        let agent = Agent::start_on(plane(&ours), &document(address, &b)).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(
            got.header("x-lanekeeper-lane"),
            Some("b"),
            "{case}: {got:?}"
        );
        let cell = agent.cell("chat", "a");
        assert_eq!(cell["cause"]["kind"], "tls", "{case}: {cell}");
        assert_eq!(books(&agent), (0, 1), "{case}");
        assert_eq!(counts.connections.load(Ordering::SeqCst), 1, "{case}");
        assert_eq!(counts.requests.load(Ordering::SeqCst), 0, "{case}");
    }
}

/// A name that looks public is judged by the address it has when it is connected to.
#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_never_connected_to() {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let b = Upstream::start(completion("b")).await;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let document = document(address, &b).replace("localhost", name.trim());
    let agent = Agent::start(&document).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
    let cell = agent.cell("chat", "a");
    assert_eq!(cell["cause"]["kind"], "blocked", "{cell}");
    let none = tokio::time::timeout(Duration::from_millis(50), listener.accept());
    assert!(none.await.is_err(), "somebody connected");
}

#[tokio::test]
async fn requests_to_a_provider_that_speaks_http2_share_a_connection() {
    let issuer = authority();
    let (address, counts) = provider(
        acceptor(&issuer, "localhost", |_| {}),
        |_, respond, _| async {
            answer(respond, "a");
        },
    )
    .await;
    let b = Upstream::start(completion("b")).await;
    let agent = Agent::start_on(plane(&issuer), &document(address, &b)).await;
    let asked = (0..20).map(|_| chat("chat", false).send(agent.address));
    let answered = futures_util::future::join_all(asked).await;
    let from_a = answered
        .iter()
        .filter(|got| got.header("x-lanekeeper-lane") == Some("a"))
        .count();
    for got in &answered {
        assert_eq!((got.status.as_u16(), got.whole), (200, true), "{got:?}");
    }
    assert!(from_a > 1, "{from_a}");
    assert_eq!(counts.requests.load(Ordering::SeqCst), from_a);
    assert_eq!(counts.connections.load(Ordering::SeqCst), 1);
    agent.settles().await;
    assert_eq!(books(&agent), (from_a as u64, 0));
}

/// A provider that serves HTTP/2 only is reached by it, and by nothing else that the document says.
#[tokio::test]
async fn version_of_http_follows_the_document() {
    let issuer = authority();
    let (address, counts) = provider(
        acceptor(&issuer, "localhost", |_| {}),
        |_, respond, _| async {
            answer(respond, "a");
        },
    )
    .await;
    let b = Upstream::start(completion("b")).await;
    let speaking = |version: &str| {
        let version = format!("api_key: null, http_version: {version}");
        document(address, &b).replacen("api_key: null", &version, 1)
    };
    let agent = Agent::start_on(plane(&issuer), &speaking("http1")).await;
    for (version, lane) in [("http1", "b"), ("http2", "a"), ("auto", "a")] {
        agent.apply(&speaking(version));
        // A fresh cell each time.
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.header("x-lanekeeper-lane"), Some(lane), "{version}");
        agent.apply(&Document::new().lane("b", &b).yaml());
    }
    assert_eq!(counts.requests.load(Ordering::SeqCst), 2);
}

/// Field report B38: the provider swears that it did nothing, so the lane is not blamed; when it
/// refuses once more, that is a failure.
#[tokio::test]
async fn a_refused_stream_is_no_mark_against_the_lane_unless_it_is_refused_again() {
    for refusals in [1, usize::MAX] {
        let issuer = authority();
        let (address, counts) = provider(
            acceptor(&issuer, "localhost", |_| {}),
            move |number, mut respond, _| async move {
                if number < refusals {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    answer(respond, "a");
                }
            },
        )
        .await;
        let b = Upstream::start(completion("b")).await;
        let agent = Agent::start_on(plane(&issuer), &document(address, &b)).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(got.status, 200, "{got:?}");
        agent.settles().await;
        let (lane, expected) = if refusals == 1 {
            ("a", (1, 0))
        } else {
            ("b", (0, 1))
        };
        assert_eq!(got.header("x-lanekeeper-lane"), Some(lane));
        assert_eq!(books(&agent), expected);
        assert_eq!(counts.requests.load(Ordering::SeqCst), 2);
        assert_eq!(counts.connections.load(Ordering::SeqCst), 2);
    }
}

/// Field report B38: what the caller has seen the beginning of cannot be sent again.
#[tokio::test]
async fn a_stream_that_is_reset_after_content_ends_in_an_error_event() {
    let issuer = authority();
    let (address, counts) = provider(
        acceptor(&issuer, "localhost", |_| {}),
        |_, mut respond, _| async move {
            let mut body = respond.send_response(stream_head(), false).unwrap();
            body.send_data(delta("hello").into(), false).unwrap();
            // A reset overtakes what is queued, so the content is given time to leave.
            tokio::time::sleep(Duration::from_millis(100)).await;
            body.send_reset(Reason::REFUSED_STREAM);
        },
    )
    .await;
    let b = Upstream::start(completion("b")).await;
    let agent = Agent::start_on(plane(&issuer), &document(address, &b)).await;
    let got = chat("chat", true).send(agent.address).await;
    assert!(got.body.starts_with(&delta("hello")), "{got:?}");
    assert!(
        got.body.contains("error") && !got.body.contains("[DONE]"),
        "{got:?}"
    );
    assert!(!got.whole);
    agent.settles().await;
    assert_eq!(books(&agent), (0, 1));
    assert_eq!(counts.requests.load(Ordering::SeqCst), 1);
}

/// Field report B77.
#[tokio::test]
async fn a_caller_that_leaves_resets_its_stream_and_no_other() {
    let issuer = authority();
    let (address, counts) = provider(
        acceptor(&issuer, "localhost", |_| {}),
        |_, mut respond, counts| async move {
            let mut body = respond.send_response(stream_head(), false).unwrap();
            body.send_data(delta("hello").into(), false).unwrap();
            let reset = std::future::poll_fn(|cx| body.poll_reset(cx)).await;
            assert_eq!(reset.unwrap(), Reason::CANCEL);
            counts.resets.fetch_add(1, Ordering::SeqCst);
        },
    )
    .await;
    let b = Upstream::start(completion("b")).await;
    let agent = Agent::start_on(plane(&issuer), &document(address, &b)).await;
    let to = agent.address;
    let callers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(async move { chat("chat", true).send(to).await }))
        .collect();
    eventually("both were asked", || {
        counts.requests.load(Ordering::SeqCst) == 2
    })
    .await;
    callers[0].abort();
    let ((), took) = timed(eventually("its stream is reset", || {
        counts.resets.load(Ordering::SeqCst) == 1
    }))
    .await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(counts.connections.load(Ordering::SeqCst), 1);
    assert!(!callers[1].is_finished());
    callers[1].abort();
    agent.settles().await;
}
