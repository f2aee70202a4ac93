//! The keys of a cluster, fetched from a server as a cluster has one.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_control_plane::{
    Config, Enrolment, Error, KeySource, KeyUrl, Kubernetes, Transport,
};
use lanekeeper_store::testing::eventually;
use lanekeeper_store::{ConfigStore, MemoryLive};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::enrolment::Joinable;
use crate::kubernetes::{Cluster, claims, joinable_by};
use crate::tls::{Authority, authority, issue};

/// What a pod of the control plane shows its cluster.
const TOKEN: &str = "the-pod's-own-token";
/// Longest wait for a few fetches.
const PATIENCE: Duration = Duration::from_secs(20);
/// So long that no fetch of a test comes by it.
const NEVER: Duration = Duration::from_secs(60 * 60);

#[derive(Clone)]
enum Answer {
    Keys(String),
    Status(&'static str),
    /// More bytes than anyone wants, without an end.
    Endless,
    Silence,
}

/// The server of a cluster that publishes its keys.
struct KeyServer {
    url: String,
    answer: Arc<Mutex<Answer>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl KeyServer {
    async fn start(authority: &Authority, answer: Answer) -> Self {
        let (certificate, key) = issue(authority, "localhost");
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self {
            url: format!("https://localhost:{port}/openid/v1/jwks"),
            answer: Arc::new(Mutex::new(answer)),
            heads: Arc::default(),
        };
        let (answer, heads) = (Arc::clone(&server.answer), Arc::clone(&server.heads));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, heads) = (acceptor.clone(), Arc::clone(&heads));
                let answer = answer.lock().clone();
                // A caller that trusts somebody else ends the connection.
                tokio::spawn(async move { serve(acceptor, stream, answer, heads).await.ok() });
            }
        });
        server
    }

    fn say(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    fn fetches(&self) -> usize {
        self.heads.lock().len()
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    answer: Answer,
    heads: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    heads
        .lock()
        .push(String::from_utf8_lossy(&head).into_owned());
    let (status, body) = match answer {
        Answer::Keys(keys) => ("200 OK", keys),
        Answer::Status(status) => (status, String::new()),
        Answer::Silence => std::future::pending().await,
        Answer::Endless => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
            loop {
                stream.write_all(chunk.as_bytes()).await?;
            }
        }
    };
    let elsewhere = "location: https://localhost:1/\r\n";
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{elsewhere}content-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

fn source(server: &KeyServer, trusted: &Authority, dir: &Path) -> KeyUrl {
    let (ca, token) = (dir.join("cluster.crt"), dir.join("token"));
    std::fs::write(&ca, trusted.pem()).unwrap();
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    KeyUrl {
        ca: Some(ca),
        token_file: Some(token),
        interval: NEVER,
        ..KeyUrl::new(server.url.clone())
    }
}

fn signed(cluster: &Cluster, key: &str, pod: &str) -> String {
    cluster.sign(&json!({"alg": "ES256", "kid": key}), &claims(pod))
}

async fn code(joinable: &Joinable, token: &str) -> Option<Code> {
    let joined = joinable.enroll(token, "edge").await;
    joined.err().map(|status| status.code())
}

#[tokio::test]
async fn pods_join_by_published_keys_and_a_new_key_counts_at_once() {
    let (ours, dir) = (authority(), tempfile::tempdir().unwrap());
    let (old, new) = (Cluster::new(), Cluster::new());
    let server = KeyServer::start(&ours, Answer::Keys(old.keys("old"))).await;
    let joinable = joinable_by(KeySource::Url(source(&server, &ours, dir.path()))).await;
    assert_eq!(code(&joinable, &signed(&old, "old", "one")).await, None);
    let head = server.heads.lock()[0].clone();
    assert!(
        head.starts_with("GET /openid/v1/jwks HTTP/1.1\r\n"),
        "{head}"
    );
    let shown = format!("authorization: Bearer {TOKEN}\r\n");
    assert!(head.contains(&shown), "{head}");
    assert_eq!(code(&joinable, &signed(&old, "old", "two")).await, None);
    assert_eq!(server.fetches(), 1, "known keys ask nobody");

    server.say(Answer::Keys(new.keys("new")));
    assert_eq!(code(&joinable, &signed(&new, "new", "three")).await, None);
    let refused = code(&joinable, &signed(&old, "old", "four")).await;
    assert_eq!(refused, Some(Code::Unauthenticated), "its key is gone");
    joinable.plane.stop().await;
}

#[tokio::test]
async fn the_last_good_keys_count_while_the_cluster_does_not_answer_well() {
    let (ours, dir) = (authority(), tempfile::tempdir().unwrap());
    let cluster = Cluster::new();
    let server = KeyServer::start(&ours, Answer::Keys(cluster.keys("ec"))).await;
    let url = KeyUrl {
        interval: Duration::from_secs(1),
        ..source(&server, &ours, dir.path())
    };
    let joinable = joinable_by(KeySource::Url(url)).await;
    assert_eq!(code(&joinable, &signed(&cluster, "ec", "one")).await, None);
    for answer in [
        Answer::Status("500 Internal Server Error"),
        Answer::Keys(r#"{"keys": []}"#.to_owned()),
        Answer::Endless,
    ] {
        server.say(answer);
        let before = server.fetches();
        let what = "the answer has been read and another is asked for";
        eventually(what, PATIENCE, async || server.fetches() > before + 1).await;
        assert_eq!(code(&joinable, &signed(&cluster, "ec", "one")).await, None);
    }
    joinable.plane.stop().await;
}

#[tokio::test]
async fn strangers_keys_cost_the_cluster_few_fetches() {
    let (ours, dir) = (authority(), tempfile::tempdir().unwrap());
    let (cluster, stranger) = (Cluster::new(), Cluster::new());
    let server = KeyServer::start(&ours, Answer::Keys(cluster.keys("ec"))).await;
    let joinable = joinable_by(KeySource::Url(source(&server, &ours, dir.path()))).await;
    assert_eq!(code(&joinable, &signed(&cluster, "ec", "one")).await, None);
    let begun = Instant::now();
    let names: Vec<_> = (0..8).map(|number| format!("key-{number}")).collect();
    let tokens = names.iter().map(|name| signed(&stranger, name, "x"));
    let tokens: Vec<_> = tokens.collect();
    let asked = tokens.iter().map(|token| code(&joinable, token));
    for refused in futures_util::future::join_all(asked).await {
        assert_eq!(refused, Some(Code::Unauthenticated));
    }
    // One every two seconds at most, and the one at the start.
    let most = 2 + usize::try_from(begun.elapsed().as_secs()).unwrap() / 2;
    assert!(server.fetches() <= most, "{} > {most}", server.fetches());
    joinable.plane.stop().await;
}

#[tokio::test]
async fn nobody_joins_by_keys_that_could_not_be_had_and_join_tokens_go_on() {
    let (ours, theirs) = (authority(), authority());
    let (cluster, dir) = (Cluster::new(), tempfile::tempdir().unwrap());
    let keys = || Answer::Keys(cluster.keys("ec"));
    let good = KeyServer::start(&ours, keys()).await;
    let silent = KeyServer::start(&ours, Answer::Silence).await;
    let elsewhere = KeyServer::start(&ours, Answer::Status("302 Found")).await;
    let distrusted = source(&good, &theirs, dir.path());
    let mut planes = Vec::new();
    for (what, url) in [
        ("a certificate of another authority", distrusted),
        (
            "silence",
            source(&silent, &ours, &subfolder(dir.path(), "silent")),
        ),
        (
            "another place",
            source(&elsewhere, &ours, &subfolder(dir.path(), "elsewhere")),
        ),
    ] {
        let joinable = joinable_by(KeySource::Url(url)).await;
        let refused = code(&joinable, &signed(&cluster, "ec", "one")).await;
        assert_eq!(refused, Some(Code::Unavailable), "{what}");
        let joined = joinable.joined("edge").await;
        joinable.session(&joined, "edge").await.unwrap();
        planes.push(joinable);
    }
    for joinable in planes {
        joinable.plane.stop().await;
    }
}

fn subfolder(dir: &Path, name: &str) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::create_dir(&path).unwrap();
    path
}

#[tokio::test]
async fn keys_that_would_come_in_the_clear_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let files = lanekeeper_control_plane::AuthorityFiles {
        cert: dir.path().join("ca.crt"),
        key: dir.path().join("ca.key"),
        create: true,
    };
    for url in ["http://localhost/keys", "ftp://localhost/keys", "https://"] {
        let mut enrolment = Enrolment::new(files.clone(), vec!["localhost".to_owned()]);
        enrolment.kubernetes = Some(Kubernetes {
            jwks: KeySource::Url(KeyUrl::new(url.to_owned())),
            issuer: "i".to_owned(),
            audience: "a".to_owned(),
            gateways: [("n/s".to_owned(), "edge".to_owned())].into(),
        });
        let config = Config {
            grpc_listen: "127.0.0.1:0".parse().unwrap(),
            ops_listen: "127.0.0.1:0".parse().unwrap(),
            transport: Transport::Enrolment(enrolment),
            ..Config::default()
        };
        let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
        let live = Arc::new(MemoryLive::new());
        let ran =
            lanekeeper_control_plane::run(config, store, live, CancellationToken::new(), drop);
        let error = ran.await.unwrap_err();
        let refused = matches!(&error, Error::Config { field, .. } if field.ends_with("jwks"));
        assert!(refused, "{url}: {error:?}");
    }
}
