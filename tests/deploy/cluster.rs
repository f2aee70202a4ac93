//! What a Kubernetes cluster does for its pods: it publishes the keys it signs with, to pods that
//! show a token, and projects tokens into them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What pods show the cluster's API.
pub(crate) const OWN_TOKEN: &str = "a-token-for-the-cluster-itself";

/// A cluster of one API server, on this machine.
pub(crate) struct Cluster {
    /// Where the API is, as `https://localhost:PORT`.
    pub(crate) url: String,
    /// The authority of the API's certificate, PEM.
    pub(crate) authority: String,
    keys: Arc<Mutex<Vec<EcdsaKeyPair>>>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cluster = Self {
            url: format!("https://localhost:{port}"),
            authority: authority.pem(),
            keys: Arc::new(Mutex::new(vec![new_key()])),
        };
        let keys = Arc::clone(&cluster.keys);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let published = publish(&keys.lock().unwrap());
                // A peer that leaves in between is none of the cluster's sorrows.
                tokio::spawn(serve(acceptor.clone(), stream, published));
            }
        });
        cluster
    }

    /// Signs with a new key from now on; the old ones stay published.
    pub(crate) fn rotate(&self) {
        self.keys.lock().unwrap().push(new_key());
    }

    /// The token that is projected into a pod of a service account.
    pub(crate) fn project(&self, account: &str, pod: &str, audience: &str, issuer: &str) -> String {
        let keys = self.keys.lock().unwrap();
        let (name, key) = (keys.len() - 1, keys.last().unwrap());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = since.as_secs();
        let header = json!({"alg": "ES256", "kid": name.to_string()});
        let claims = json!({
            "aud": [audience], "iss": issuer, "iat": now, "nbf": now, "exp": now + 3600,
            "sub": format!("system:serviceaccount:lanekeeper:{account}"),
            "kubernetes.io": {
                "namespace": "lanekeeper",
                "serviceaccount": {"name": account, "uid": account},
                "pod": {"name": pod, "uid": pod},
            },
        });
        let signed = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
        let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", text(signature))
    }
}

fn new_key() -> EcdsaKeyPair {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap()
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn publish(keys: &[EcdsaKeyPair]) -> String {
    let published = keys.iter().enumerate().map(|(name, key)| {
        let point = key.public_key().as_ref();
        json!({"kty": "EC", "use": "sig", "alg": "ES256", "kid": name.to_string(),
            "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..])})
    });
    json!({"keys": published.collect::<Vec<Value>>()}).to_string()
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, keys: String) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let (status, body) = if !head.contains(&format!("authorization: Bearer {OWN_TOKEN}\r\n")) {
        ("401 Unauthorized", String::new())
    } else if head.starts_with("GET /openid/v1/jwks HTTP/1.1\r\n") {
        ("200 OK", keys)
    } else {
        ("404 Not Found", String::new())
    };
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
