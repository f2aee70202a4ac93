//! The agent's own identity: joins with a token once, keeps key and certificate, and renews them
//! long before they end, while the session goes on.
//!
//! Nothing here is on a request's way. An agent that cannot prove who it is serves on with what it
//! has and goes on trying.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::enrolment::JoinToken;
use lanekeeper_proto::limits::JOIN_TOKEN_BYTES_MAX;
use lanekeeper_proto::message::{EnrollRequest, IssuedCertificate, RenewCertRequest};
use lanekeeper_proto::{FleetClient, WireError, wire};
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status as GrpcStatus};

use super::endpoint::{ConnectError, Endpoint};
use super::tls::{Credentials, Trust};
use crate::clock;
use crate::config::Join;
use crate::status::{Status, Topic};

mod keep;

use keep::{Keep, Kept, Pending, State};

/// How long a certificate's issue may take.
const ISSUE_TIMEOUT: Duration = Duration::from_secs(10);
/// A certificate is renewed once this share of its life has passed, so that a control plane may be
/// away for the rest of it...
const RENEW_AT: f64 = 0.6;
/// ...and up to this much later, at random, so that a fleet does not renew at one moment.
const RENEW_SPREAD: f64 = 0.1;
/// Least time between two attempts to renew, as a share of the certificate's life, and its bounds...
const RETRY_SHARE: f64 = 0.02;
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// ...and up to this share of it longer, at random, so that a fleet whose renewals failed at one
/// moment does not try again at one moment.
const RETRY_SPREAD: f64 = 1.0;
/// Longest sleep before the wall clock is looked at again: it may be set meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// The token file cannot be read.
    #[error("cannot read the join token in {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// There is nothing to trust the control plane by.
    #[error(
        "the join token names no authority: give --tls-ca, or a join token of this control plane"
    )]
    NoTrust,
    /// The control plane refused.
    #[error("the control plane gave no certificate: {}", .0.message())]
    Refused(#[source] GrpcStatus),
    /// It took too long.
    #[error("the control plane gave no certificate in time")]
    Slow,
    /// The answer is no certificate.
    #[error("the control plane's answer cannot be used")]
    Answer(#[from] WireError),
    /// A key cannot be made.
    #[error("a key cannot be made")]
    Key(#[from] rcgen::Error),
    /// The control plane is not reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// The agent's identity.
pub(crate) struct Identity {
    join: Join,
    gateway: String,
    name: String,
    keep: Keep,
    status: Arc<Status>,
    state: Mutex<State>,
    /// A new certificate came.
    renewed: Notify,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("gateway", &self.gateway)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// What was kept from an earlier start, if anything.
    pub(crate) fn load(
        join: Join,
        gateway: &str,
        name: &str,
        cache_dir: Option<PathBuf>,
        status: Arc<Status>,
    ) -> Self {
        if cache_dir.is_none() {
            tracing::warn!("without --cache-dir every start needs the join token again");
        }
        let keep = Keep::new(cache_dir, status.instance());
        let mut state = keep.load();
        state.kept = state.kept.filter(|kept| kept.gateway == gateway);
        if let Some(kept) = &state.kept {
            status.set_certificate_end(kept.expires_ms);
        }
        Self {
            join,
            gateway: gateway.to_owned(),
            name: name.to_owned(),
            keep,
            status,
            state: Mutex::new(state),
            renewed: Notify::new(),
        }
    }

    /// What to prove oneself with: the kept certificate while it lasts, else a new one for the
    /// token. `troubled` says that the last attempt with it led to no session; a token that was not
    /// used yet then gets its chance.
    pub(super) async fn credentials(
        &self,
        endpoint: &Endpoint,
        troubled: bool,
    ) -> Result<Credentials, IdentityError> {
        let kept = self.state.lock().kept.clone();
        let now_ms = unix_ms();
        let lasting = kept.filter(|kept| kept.expires_ms > now_ms);
        let Some(kept) = lasting else {
            return self.join(endpoint).await.map(|kept| kept.credentials());
        };
        if troubled && self.has_new_token(&kept).await {
            match self.join(endpoint).await {
                Ok(kept) => return Ok(kept.credentials()),
                Err(error) => tracing::info!(%error, "the new join token brought no certificate"),
            }
        }
        Ok(kept.credentials())
    }

    /// Renews the certificate in time, again and again, until `stop`.
    pub(super) async fn renew(&self, endpoint: Endpoint, stop: CancellationToken) {
        let work = async {
            let mut random = clock::jitter();
            loop {
                let renewed = self.renewed.notified();
                let Some(kept) = self.state.lock().kept.clone() else {
                    renewed.await;
                    continue;
                };
                let now_ms = unix_ms();
                let due_in = kept.due_in(now_ms, RENEW_AT + RENEW_SPREAD * random);
                if !due_in.is_zero() || kept.expires_ms <= now_ms {
                    let sleep = if due_in.is_zero() { LOOK_MAX } else { due_in };
                    // An ended certificate is for the next dial to replace.
                    let _ = tokio::time::timeout(sleep.min(LOOK_MAX), renewed).await;
                    continue;
                }
                match self.renew_once(&endpoint, &kept).await {
                    Ok(()) => random = clock::jitter(),
                    Err(error) => {
                        self.raise(&error);
                        tokio::time::sleep(retry_wait(kept.life(), clock::jitter())).await;
                    }
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    async fn join(&self, endpoint: &Endpoint) -> Result<Arc<Kept>, IdentityError> {
        let joined = self.join_once(endpoint).await;
        if let Err(error) = &joined {
            self.raise(error);
        }
        joined
    }

    async fn join_once(&self, endpoint: &Endpoint) -> Result<Arc<Kept>, IdentityError> {
        let token = self.read_token().await?;
        let digest = digest(&token);
        let trust = self.first_trust(&token).await?;
        let key = self.pending_key(&digest).await?;
        let channel = endpoint.connect(&Credentials::anonymous(trust)).await?;
        let request = EnrollRequest {
            join_token: token,
            gateway: self.gateway.clone(),
            name: self.name.clone(),
            csr: request(&key)?,
        };
        let mut client = FleetClient::new(channel);
        let issued = issue(client.enroll(wire::EnrollRequest::from(request))).await?;
        let kept = self.take(issued, &key, digest).await;
        tracing::info!(identity = %kept.agent_id, "joined; the certificate is kept");
        Ok(kept)
    }

    async fn renew_once(&self, endpoint: &Endpoint, kept: &Kept) -> Result<(), IdentityError> {
        let key = KeyPair::generate()?;
        let request = RenewCertRequest {
            csr: request(&key)?,
        };
        let channel = endpoint.connect(&kept.credentials()).await?;
        let mut client = FleetClient::new(channel);
        let issued = issue(client.renew_cert(wire::RenewCertRequest::from(request))).await?;
        let kept = self.take(issued, &key, kept.token.clone()).await;
        tracing::info!(identity = %kept.agent_id, "the certificate is renewed");
        Ok(())
    }

    /// Keeps an issued certificate, in memory in any case.
    async fn take(&self, issued: IssuedCertificate, key: &KeyPair, token: String) -> Arc<Kept> {
        let now_ms = unix_ms();
        let life_ms = u64::try_from(issued.valid_for.as_millis()).unwrap_or(u64::MAX);
        let kept = Arc::new(Kept {
            gateway: self.gateway.clone(),
            agent_id: issued.agent_id,
            key: key.serialize_pem(),
            certificate: issued.certificate,
            authorities: issued.authorities,
            obtained_ms: now_ms,
            // By this machine's clock from beginning to end, whatever the server's says.
            expires_ms: now_ms.saturating_add(life_ms),
            token,
        });
        let state = {
            let mut state = self.state.lock();
            state.kept = Some(Arc::clone(&kept));
            state.pending = None;
            state.clone()
        };
        self.store(state).await;
        self.status.set_certificate_end(kept.expires_ms);
        self.status.clear(Topic::Identity);
        self.renewed.notify_waiters();
        kept
    }

    /// The key of an attempt whose answer may have been lost: with it the same token lets the same
    /// agent in once more.
    async fn pending_key(&self, digest: &str) -> Result<KeyPair, IdentityError> {
        let pending = self.state.lock().pending.clone();
        if let Some(pending) = pending
            && pending.token == digest
            && let Ok(key) = KeyPair::from_pem(&pending.key)
        {
            return Ok(key);
        }
        let key = KeyPair::generate()?;
        let state = {
            let mut state = self.state.lock();
            state.pending = Some(Pending {
                key: key.serialize_pem(),
                token: digest.to_owned(),
            });
            state.clone()
        };
        self.store(state).await;
        Ok(key)
    }

    async fn store(&self, state: State) {
        let keep = self.keep.clone();
        let stored = tokio::task::spawn_blocking(move || keep.store(&state)).await;
        match stored {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "the certificate cannot be kept for the next start");
            }
            Err(error) => tracing::error!(%error, "the certificate is not kept"),
        }
    }

    async fn has_new_token(&self, kept: &Kept) -> bool {
        let token = self.read_token().await;
        token.is_ok_and(|token| digest(&token) != kept.token)
    }

    async fn read_token(&self) -> Result<String, IdentityError> {
        let path = &self.join.token_file;
        let failed = |source| IdentityError::TokenFile {
            path: path.clone(),
            source,
        };
        let length = tokio::fs::metadata(path).await.map_err(failed)?.len();
        if length > JOIN_TOKEN_BYTES_MAX as u64 {
            return Err(failed(std::io::Error::other("the file is too large")));
        }
        let text = tokio::fs::read_to_string(path).await.map_err(failed)?;
        Ok(text.trim().to_owned())
    }

    /// What the first connection is trusted by: the token's pins, or a file.
    async fn first_trust(&self, token: &str) -> Result<Trust, IdentityError> {
        if let Some(JoinToken { pins, .. }) = JoinToken::parse(token)
            && !pins.is_empty()
        {
            return Ok(Trust::Pins(pins.into_iter().map(str::to_owned).collect()));
        }
        match &self.join.ca {
            Some(path) => Ok(Trust::from_file(path).await.map_err(ConnectError::from)?),
            None => Err(IdentityError::NoTrust),
        }
    }

    fn raise(&self, error: &IdentityError) {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(error) = source {
            text.push_str(": ");
            text.push_str(&error.to_string());
            source = error.source();
        }
        if self.status.raise(Topic::Identity, text.clone()) {
            tracing::warn!(reason = %text, "no certificate");
        }
    }
}

/// The wait after a renewal that failed, for a certificate of this life and `random` in `[0, 1)`.
fn retry_wait(life: Duration, random: f64) -> Duration {
    let least = life.mul_f64(RETRY_SHARE).clamp(RETRY_MIN, RETRY_MAX);
    least.mul_f64(1.0 + RETRY_SPREAD * random)
}

async fn issue(
    call: impl Future<Output = Result<Response<wire::IssuedCertificate>, GrpcStatus>>,
) -> Result<IssuedCertificate, IdentityError> {
    let answer = tokio::time::timeout(ISSUE_TIMEOUT, call)
        .await
        .map_err(|_| IdentityError::Slow)?
        .map_err(IdentityError::Refused)?;
    Ok(IssuedCertificate::try_from(answer.into_inner())?)
}

fn request(key: &KeyPair) -> Result<Vec<u8>, IdentityError> {
    let request = CertificateParams::new(Vec::new())?.serialize_request(key)?;
    Ok(request.der().to_vec())
}

/// Identifies a token without keeping it.
fn digest(token: &str) -> String {
    let digest = Sha256::digest(token);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unix_ms() -> u64 {
    u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_renewals_are_tried_again_within_bounds_and_not_in_step() {
        let day = Duration::from_secs(24 * 60 * 60);
        for (life, random, wait_secs) in [
            (Duration::from_secs(6), 0.0, 0.25),
            (Duration::from_secs(100), 0.0, 2.0),
            (Duration::from_secs(100), 0.5, 3.0),
            (day, 0.0, 300.0),
            (365 * day, 0.5, 450.0),
        ] {
            let wait = retry_wait(life, random).as_secs_f64();
            assert!((wait - wait_secs).abs() < 1e-6, "{life:?}: {wait}");
        }
    }
}
