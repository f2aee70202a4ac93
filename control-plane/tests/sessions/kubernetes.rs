//! Pods join with the token that their cluster projects into them.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lanekeeper_control_plane::{KeySource, Kubernetes};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tonic::Code;

use crate::enrolment::{Joinable, now_ms};
use crate::scripted::by_test;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Some key of these tests and of nothing else.
const RSA_KEY: &[u8] = include_bytes!("cluster_key.pem");

/// What signs the tokens of a cluster.
pub(crate) struct Cluster {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let rsa = PrivatePkcs8KeyDer::from_pem_slice(RSA_KEY).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(rsa.secret_pkcs8_der()).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(algorithm, ec.as_ref(), &random).unwrap(),
        }
    }

    /// The key set, as the cluster's API server shows it, with this name for the elliptic key.
    pub(crate) fn keys(&self, ec_name: &str) -> String {
        let point = self.ec.public_key().as_ref();
        let rsa = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let keys = json!({"keys": [
            {"kty": "EC", "use": "sig", "alg": "ES256", "kid": ec_name, "crv": "P-256",
             "x": text(&point[1..33]), "y": text(&point[33..])},
            {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "rsa",
             "n": text(&rsa.n),
             "e": text(&rsa.e)},
        ]});
        keys.to_string()
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
        let random = SystemRandom::new();
        let signature = if header["alg"] == "ES256" {
            let signature = self.ec.sign(&random, signed.as_bytes()).unwrap();
            signature.as_ref().to_vec()
        } else {
            let mut signature = vec![0; self.rsa.public().modulus_len()];
            let signing = self.rsa.sign(
                &RSA_PKCS1_SHA256,
                &random,
                signed.as_bytes(),
                &mut signature,
            );
            signing.unwrap();
            signature
        };
        format!("{signed}.{}", text(signature))
    }
}

fn rsa() -> Value {
    json!({"alg": "RS256", "kid": "rsa"})
}

/// What Kubernetes says of a pod.
pub(crate) fn claims(pod: &str) -> Value {
    let now = now_ms() / 1000;
    json!({
        "aud": ["lanekeeper"], "iss": ISSUER, "iat": now, "nbf": now, "exp": now + 600,
        "sub": "system:serviceaccount:lanekeeper:agent",
        "kubernetes.io": {
            "namespace": "lanekeeper",
            "serviceaccount": {"name": "agent", "uid": "s"},
            "pod": {"name": "agent-x", "uid": pod},
        },
    })
}

async fn joinable(cluster: &Cluster, dir: &Path) -> Joinable {
    let jwks = dir.join("jwks.json");
    std::fs::write(&jwks, cluster.keys("ec")).unwrap();
    joinable_by(KeySource::File(jwks)).await
}

/// A control plane that lets the agents of a cluster in whose keys are there.
pub(crate) async fn joinable_by(jwks: KeySource) -> Joinable {
    Joinable::start_with(|enrolment| {
        enrolment.kubernetes = Some(Kubernetes {
            jwks,
            issuer: ISSUER.to_owned(),
            audience: "lanekeeper".to_owned(),
            gateways: [("lanekeeper/agent".to_owned(), "edge".to_owned())].into(),
        });
    })
    .await
}

#[tokio::test]
async fn a_pod_joins_with_its_projected_token_and_keeps_one_identity() {
    let (cluster, dir) = (Cluster::new(), tempfile::tempdir().unwrap());
    let joinable = joinable(&cluster, dir.path()).await;
    let token = cluster.sign(&rsa(), &claims("pod-1"));
    let first = joinable.enroll(&token, "edge").await.unwrap();
    joinable.session(&first, "edge").await.unwrap();
    let ec = json!({"alg": "ES256", "kid": "ec"});
    let token = cluster.sign(&ec, &claims("pod-1"));
    let again = joinable.enroll(&token, "edge").await.unwrap();
    assert_eq!(
        again.agent_id(),
        first.agent_id(),
        "its container restarted"
    );
    let token = cluster.sign(&ec, &claims("pod-2"));
    let other = joinable.enroll(&token, "edge").await.unwrap();
    assert_ne!(other.agent_id(), first.agent_id());

    let store = &joinable.plane.store;
    let known = store.identities(None, now_ms()).await.unwrap();
    assert!(
        known
            .iter()
            .all(|it| it.origin == "kubernetes/lanekeeper/agent")
    );
    store
        .revoke_identity(first.agent_id(), &by_test())
        .await
        .unwrap();
    let token = cluster.sign(&rsa(), &claims("pod-1"));
    let refused = joinable.enroll(&token, "edge").await.map(drop);
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    joinable.plane.stop().await;
}

#[tokio::test]
async fn tokens_of_others_and_for_others_let_nobody_in() {
    let (cluster, dir) = (Cluster::new(), tempfile::tempdir().unwrap());
    let joinable = joinable(&cluster, dir.path()).await;
    let with = |pointer: &str, value: Value| {
        let mut claims = claims("pod-1");
        *claims.pointer_mut(pointer).unwrap() = value;
        cluster.sign(&rsa(), &claims)
    };
    let without = |pointer: &str, field: &str| {
        let mut claims = claims("pod-1");
        let object = claims.pointer_mut(pointer).unwrap();
        object.as_object_mut().unwrap().remove(field).unwrap();
        cluster.sign(&rsa(), &claims)
    };
    let past = json!(now_ms() / 1000 - 120);
    let future = json!(now_ms() / 1000 + 120);
    let good = cluster.sign(&rsa(), &claims("pod-1"));
    let (signed, _) = good.rsplit_once('.').unwrap();
    // The public key as a symmetric secret, and no signature at all: the classic forgeries.
    let hmac = cluster.sign(&json!({"alg": "HS256", "kid": "rsa"}), &claims("pod-1"));
    let none = format!("{signed}.");
    for (what, token) in [
        (
            "another cluster",
            Cluster::new().sign(&json!({"alg": "ES256", "kid": "ec"}), &claims("p")),
        ),
        (
            "an unknown key",
            cluster.sign(&json!({"alg": "RS256", "kid": "x"}), &claims("p")),
        ),
        (
            "no key's name",
            cluster.sign(&json!({"alg": "RS256"}), &claims("p")),
        ),
        (
            "a key of another kind",
            cluster.sign(&json!({"alg": "RS256", "kid": "ec"}), &claims("p")),
        ),
        ("hmac", hmac),
        ("unsigned", none),
        ("another audience", with("/aud", json!(["vault"]))),
        ("another issuer", with("/iss", json!("https://elsewhere"))),
        ("ended", with("/exp", past)),
        ("not begun", with("/nbf", future)),
        ("an end of a wrong kind", with("/exp", json!("never"))),
        (
            "another namespace",
            with("/kubernetes.io/namespace", json!("default")),
        ),
        (
            "another account",
            with("/kubernetes.io/serviceaccount/name", json!("default")),
        ),
        ("no audience", without("", "aud")),
        ("no issuer", without("", "iss")),
        ("no end", without("", "exp")),
        ("no pod", without("/kubernetes.io", "pod")),
    ] {
        let refused = joinable.enroll(&token, "edge").await.map(drop);
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated, "{what}");
    }
    let refused = joinable.enroll(&good, "other").await.map(drop);
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    joinable.enroll(&good, "edge").await.unwrap();

    std::fs::write(dir.path().join("jwks.json"), "{ torn").unwrap();
    let refused = joinable.enroll(&good, "edge").await.map(drop);
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    joinable.plane.stop().await;
}
