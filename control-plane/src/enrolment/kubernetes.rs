//! Lets pods in by the token of their service account that Kubernetes projects into them: signed by
//! the cluster, made for this audience, bound to the pod, short-lived.
//!
//! The cluster's public keys come from a file, or from its API server and are kept (`keys`), so
//! that joining does not wait for that server.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::enrolment::settings::Kubernetes;
use crate::metrics::Metrics;

mod keys;
mod signatures;

use keys::Keys;

/// What clusters sign with. Symmetric algorithms are not among them: the keys here are public.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::ES384];
/// How far the cluster's clock may be from this one's, in seconds.
const LEEWAY_SECS: u64 = 60;

/// Verifies pods' tokens.
pub(crate) struct Pods {
    settings: Kubernetes,
    keys: Keys,
}

/// Why a pod's token does not let in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not genuine, or nothing it says opens a gateway; the reason is in the log only.
    Token,
    /// The cluster's keys are not known, so that nothing can be said of it.
    NoKeys,
}

/// A pod whose token is genuine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// The gateway it may serve.
    pub(crate) gateway: String,
    /// `NAMESPACE/SERVICE_ACCOUNT`.
    pub(crate) subject: String,
    /// The pod's own id.
    pub(crate) uid: String,
}

#[derive(Deserialize)]
struct Claims {
    #[serde(rename = "kubernetes.io")]
    kubernetes: Bound,
}

#[derive(Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: ServiceAccount,
    pod: BoundPod,
}

#[derive(Deserialize)]
struct ServiceAccount {
    name: String,
}

#[derive(Deserialize)]
struct BoundPod {
    uid: String,
}

impl Pods {
    pub(crate) fn new(settings: Kubernetes) -> Self {
        signatures::install();
        Self {
            keys: Keys::new(settings.jwks.clone()),
            settings,
        }
    }

    /// Keeps the cluster's keys current until told to stop.
    pub(crate) async fn follow(&self, metrics: &Metrics, shutdown: CancellationToken) {
        self.keys.follow(metrics, shutdown).await;
    }

    /// Whose token this is.
    pub(crate) async fn verify(&self, token: &str) -> Result<Pod, Refusal> {
        let refused = |reason: String| {
            tracing::info!(reason, "a token of a pod was refused");
            Refusal::Token
        };
        let (header, name) = head(token).map_err(|reason| refused(reason.to_owned()))?;
        let key = self.keys.named(&name).await.map_err(|error| {
            tracing::error!(
                reason = keys::chain(&error),
                "the cluster's keys cannot be used"
            );
            Refusal::NoKeys
        })?;
        let unknown = || refused("signed with a key that is not in the key set".to_owned());
        self.check(token, &header, &key.ok_or_else(unknown)?)
            .map_err(refused)
    }

    fn check(&self, token: &str, header: &Header, key: &Jwk) -> Result<Pod, String> {
        let key = DecodingKey::from_jwk(key).map_err(|error| error.to_string())?;
        let mut rules = Validation::new(header.alg);
        rules.set_issuer(&[&self.settings.issuer]);
        rules.set_audience(&[&self.settings.audience]);
        rules.set_required_spec_claims(&["exp", "iss", "aud"]);
        rules.validate_nbf = true;
        rules.leeway = LEEWAY_SECS;
        let claims: Claims = jsonwebtoken::decode(token, &key, &rules)
            .map_err(|error| error.to_string())?
            .claims;
        let bound = claims.kubernetes;
        let subject = format!("{}/{}", bound.namespace, bound.serviceaccount.name);
        let gateway = self.settings.gateways.get(&subject);
        Ok(Pod {
            gateway: gateway
                .ok_or_else(|| format!("{subject} may serve no gateway"))?
                .clone(),
            subject,
            uid: bound.pod.uid,
        })
    }
}

/// What a token says of its signature: all of it, and the name of the key.
fn head(token: &str) -> Result<(Header, String), &'static str> {
    let mut header = jsonwebtoken::decode_header(token).map_err(|_| "no JSON Web Token")?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err("an algorithm that clusters do not use");
    }
    let name = header.kid.take().ok_or("the key is not named")?;
    Ok((header, name))
}
