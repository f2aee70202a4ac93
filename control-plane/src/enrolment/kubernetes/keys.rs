//! The cluster's public keys: read from a file at each join, or fetched from the cluster's own
//! server and kept, so that joining goes on while that server is away.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use reqwest::{Client, StatusCode, redirect};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::enrolment::settings::{KeySource, KeyUrl};
use crate::metrics::Metrics;

/// Largest key set, token or authority file that is read, in bytes.
const BYTES_MAX: u64 = 256 * 1024;
/// How long fetching the keys may take, connecting included.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Least time between two fetches, however many tokens name keys that are not known.
const FETCH_GAP: Duration = Duration::from_secs(2);
/// Time to the next attempt after one that failed.
const RETRY: Duration = Duration::from_secs(10);
/// How far a fetch may be from its time, as a share, so that replicas do not fetch in step.
const FETCH_JITTER: f64 = 0.2;
/// How long a token waits for a fetch on its behalf; agents give the whole call ten seconds.
const PATIENCE: Duration = Duration::from_secs(8);

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    #[error("cannot read {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is larger than {BYTES_MAX} bytes", .0.display())]
    LargeFile(PathBuf),
    #[error("the authority of the cluster's server cannot be used")]
    Authority(#[from] rustls::Error),
    #[error("the cluster's server cannot be asked")]
    Call(#[from] reqwest::Error),
    #[error("the cluster's server answered {0}")]
    Status(StatusCode),
    #[error("the cluster's server did not answer in time")]
    Slow,
    #[error("the key set is larger than {BYTES_MAX} bytes")]
    Large,
    #[error("this is no key set")]
    Form(#[from] serde_json::Error),
    #[error("the key set has no key that can be used")]
    Empty,
    #[error("the cluster's keys have not been had yet")]
    NotYet,
}

/// Where keys are looked up.
pub(super) enum Keys {
    File(PathBuf),
    Kept(Kept),
}

impl Keys {
    pub(super) fn new(source: KeySource) -> Self {
        match source {
            KeySource::File(path) => Self::File(path),
            KeySource::Url(source) => Self::Kept(Kept::new(source)),
        }
    }

    /// The key of that name; `None` when the cluster has no such key.
    pub(super) async fn named(&self, name: &str) -> Result<Option<Jwk>, KeysError> {
        match self {
            Self::File(path) => Ok(parse(&read(path).await?)?.find(name).cloned()),
            Self::Kept(kept) => kept.named(name).await,
        }
    }

    /// Keeps fetched keys current until told to stop; a file needs none of it.
    pub(super) async fn follow(&self, metrics: &Metrics, shutdown: CancellationToken) {
        if let Self::Kept(kept) = self {
            kept.follow(metrics, shutdown).await;
        }
    }
}

/// Keys that were fetched.
pub(super) struct Kept {
    source: KeyUrl,
    known: watch::Sender<Known>,
    /// Somebody showed a token that none of the known keys signed.
    wanted: Notify,
}

#[derive(Default)]
struct Known {
    /// The last good ones; `None` before the first.
    keys: Option<JwkSet>,
    /// Fetches that have ended, well or not.
    fetches: u64,
}

impl Known {
    fn named(&self, name: &str) -> Option<Jwk> {
        self.keys.as_ref()?.find(name).cloned()
    }
}

impl Kept {
    fn new(source: KeyUrl) -> Self {
        Self {
            source,
            known: watch::Sender::default(),
            wanted: Notify::new(),
        }
    }

    async fn named(&self, name: &str) -> Result<Option<Jwk>, KeysError> {
        let mut news = self.known.subscribe();
        let seen = {
            let known = news.borrow();
            if let Some(key) = known.named(name) {
                return Ok(Some(key));
            }
            known.fetches
        };
        // The cluster may have begun to sign with a new key.
        self.wanted.notify_one();
        let fetched = news.wait_for(|known| known.fetches > seen);
        drop(tokio::time::timeout(PATIENCE, fetched).await);
        let known = self.known.borrow();
        match &known.keys {
            Some(_) => Ok(known.named(name)),
            None => Err(KeysError::NotYet),
        }
    }

    async fn follow(&self, metrics: &Metrics, shutdown: CancellationToken) {
        let work = async {
            let mut told = None;
            loop {
                let fetched = fetch(&self.source).await;
                metrics.enrolment.keys_fetched(fetched.is_ok());
                let wait = self.take(fetched, &mut told);
                tokio::time::sleep(FETCH_GAP).await;
                let rest = clock::jittered(wait, FETCH_JITTER).saturating_sub(FETCH_GAP);
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    () = self.wanted.notified() => {}
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = work => {}
        }
    }

    /// Takes fetched keys over, or keeps what is known; the value is the wait to the next fetch.
    fn take(&self, fetched: Result<JwkSet, KeysError>, told: &mut Option<String>) -> Duration {
        let wait = match &fetched {
            Ok(keys) => {
                if told.take().is_some() {
                    let keys = keys.keys.len();
                    tracing::info!(keys, "the cluster's keys are fetched again");
                }
                self.source.interval
            }
            Err(error) => {
                let reason = chain(error);
                if told.as_ref() != Some(&reason) {
                    tracing::warn!(
                        reason,
                        "the cluster's keys cannot be fetched; the last ones go on counting"
                    );
                    *told = Some(reason);
                }
                RETRY.min(self.source.interval)
            }
        };
        self.known.send_modify(|known| {
            known.fetches += 1;
            if let Ok(keys) = fetched {
                known.keys = Some(keys);
            }
        });
        wait
    }
}

async fn fetch(source: &KeyUrl) -> Result<JwkSet, KeysError> {
    tokio::time::timeout(FETCH_TIMEOUT, fetch_patiently(source))
        .await
        .map_err(|_| KeysError::Slow)?
}

/// Authority and token are read anew each time: Kubernetes replaces both while this process runs.
async fn fetch_patiently(source: &KeyUrl) -> Result<JwkSet, KeysError> {
    let client = Client::builder()
        .tls_backend_preconfigured(tls(source.ca.as_deref()).await?)
        .https_only(true)
        .http1_only()
        .redirect(redirect::Policy::none())
        .no_proxy()
        .build()?;
    let mut request = client.get(&source.url);
    if let Some(path) = &source.token_file {
        let token = read(path).await?;
        request = request.bearer_auth(String::from_utf8_lossy(&token).trim());
    }
    let mut answer = request.send().await.map_err(reqwest::Error::without_url)?;
    if answer.status() != StatusCode::OK {
        return Err(KeysError::Status(answer.status()));
    }
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await? {
        let length = body.len().saturating_add(part.len());
        if length as u64 > BYTES_MAX {
            return Err(KeysError::Large);
        }
        body.extend_from_slice(&part);
    }
    let keys = parse(&body)?;
    if keys.keys.is_empty() {
        return Err(KeysError::Empty);
    }
    Ok(keys)
}

async fn tls(ca: Option<&Path>) -> Result<ClientConfig, KeysError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let pem = read(path).await?;
            for authority in CertificateDer::pem_slice_iter(&pem) {
                let authority = authority
                    .map_err(|_| rustls::Error::General(format!("{} is no PEM", path.display())))?;
                roots.add(authority)?;
            }
            if roots.is_empty() {
                let text = format!("{} has no certificate", path.display());
                return Err(rustls::Error::General(text).into());
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// A cluster may publish keys of kinds that are not known here; those are passed over.
fn parse(bytes: &[u8]) -> Result<JwkSet, KeysError> {
    #[derive(Deserialize)]
    struct Published {
        keys: Vec<serde_json::Value>,
    }
    let published: Published = serde_json::from_slice(bytes)?;
    let keys = published.keys.into_iter();
    Ok(JwkSet {
        keys: keys
            .filter_map(|key| serde_json::from_value(key).ok())
            .collect(),
    })
}

async fn read(path: &Path) -> Result<Vec<u8>, KeysError> {
    let failed = |source| KeysError::File {
        path: path.to_owned(),
        source,
    };
    if tokio::fs::metadata(path).await.map_err(failed)?.len() > BYTES_MAX {
        return Err(KeysError::LargeFile(path.to_owned()));
    }
    tokio::fs::read(path).await.map_err(failed)
}

/// An error with its causes, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_read_do_not_spoil_the_others() {
        let keys = parse(
            br#"{"keys": [
                17, {"kty": "EC", "kid": ["strange"]}, {"kty": "XYZ", "kid": "strange"},
                {"kty": "EC", "use": "sig", "alg": "ES256", "kid": "ec", "crv": "P-256",
                 "x": "AA", "y": "AA"}]}"#,
        )
        .unwrap();
        assert!(keys.find("ec").is_some(), "{keys:?}");
        assert!(matches!(parse(b"{ torn"), Err(KeysError::Form(_))));
        assert!(matches!(parse(b"[]"), Err(KeysError::Form(_))));
    }
}
