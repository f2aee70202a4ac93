//! Lets pods in by the token of their service account that Kubernetes projects into them: signed by
//! the cluster, made for this audience, bound to the pod, short-lived.
//!
//! The cluster's public keys are read from a file, so that joining needs no call to its API server.

use std::path::Path;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::config::Kubernetes;

mod signatures;

/// What clusters sign with. Symmetric algorithms are not among them: the keys here are public.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::ES384];
/// Largest key set that is read, in bytes.
const JWKS_BYTES_MAX: u64 = 256 * 1024;
/// How far the cluster's clock may be from this one's, in seconds.
const LEEWAY_SECS: u64 = 60;

/// Verifies pods' tokens.
pub(crate) struct Pods {
    settings: Kubernetes,
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
        Self { settings }
    }

    /// Whose token this is; `None` for any that does not let in, with the reason in the log only.
    pub(crate) async fn verify(&self, token: &str) -> Option<Pod> {
        let keys = match read(&self.settings.jwks).await {
            Ok(keys) => keys,
            Err(error) => {
                tracing::error!(error, "the cluster's keys cannot be used");
                return None;
            }
        };
        match self.check(token, &keys) {
            Ok(pod) => Some(pod),
            Err(reason) => {
                tracing::info!(reason, "a token of a pod was refused");
                None
            }
        }
    }

    fn check(&self, token: &str, keys: &JwkSet) -> Result<Pod, String> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| "no JSON Web Token")?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err("an algorithm that clusters do not use".to_owned());
        }
        let named = header.kid.and_then(|kid| keys.find(&kid));
        let key = named.ok_or("signed with a key that is not in the key set")?;
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

async fn read(path: &Path) -> Result<JwkSet, String> {
    let shown = path.display();
    let length = tokio::fs::metadata(path)
        .await
        .map_err(|error| format!("{shown}: {error}"))?
        .len();
    if length > JWKS_BYTES_MAX {
        return Err(format!("{shown} is too large"));
    }
    let bytes = tokio::fs::read(path)
        .await
        .map_err(|error| format!("{shown}: {error}"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{shown}: {error}"))
}
