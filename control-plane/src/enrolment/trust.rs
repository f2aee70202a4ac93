//! Who is trusted now: follows the authority's files and the database, keeps the listener's
//! certificate fresh, and tells sessions whose certificates no longer count.
//!
//! A new authority takes over in two steps. It signs agents' certificates as soon as it is known,
//! and every answer names all trusted authorities; this server's own certificate goes on coming
//! from the oldest trusted one until that retires, because agents that have not renewed since know
//! no other. When it retires, every certificate it signed has ended.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_store::{Authority, Change, ConfigStore, Hint};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::enrolment::authority::{self, AuthorityError, Contents, Signers, SigningAuthority};
use crate::enrolment::authorization::Revoked;
use crate::enrolment::settings::Enrolment;
use crate::enrolment::tls::{ClientCertificate, Settings, settings};
use crate::metrics::Metrics;

/// How far a look may be from its time, as a share, so that replicas do not look in step.
const POLL_JITTER: f64 = 0.2;
/// Shortest time between two looks, however many hints come.
const POLL_GAP: Duration = Duration::from_millis(20);
/// How long one look may take.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than a certificate of its an authority is trusted once a newer one came: a
/// quarter, for replicas that hear of it late.
const OVERLAP: f64 = 1.25;
/// This server renews its own certificate at this share of its life.
const REISSUE_AT: f64 = 0.5;
/// An authority that ends within this time is warned of once a day: 90 days, in milliseconds.
const ENDS_SOON_MS: u64 = 90 * 24 * 60 * 60 * 1000;
const WARN_INTERVAL_MS: u64 = 24 * 60 * 60 * 1000;
/// Who the audit trail says added an authority.
const ACTOR: &str = "control plane";

/// Why a look did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error("the configuration database does not say who is trusted")]
    Store(#[from] lanekeeper_store::Error),
    #[error("the certificates do not fit together")]
    Tls(#[from] rustls::Error),
    #[error("no trusted authority has its key here")]
    NoKey,
}

/// What certificates are issued with.
#[derive(Clone)]
pub(crate) struct Issuing {
    /// Signs agents' certificates.
    pub(crate) signer: Arc<SigningAuthority>,
    /// Every trusted authority, PEM.
    pub(crate) bundle: Arc<str>,
}

/// What others see of it.
pub(crate) struct Trust {
    issuing: Mutex<Issuing>,
    tls: watch::Sender<Arc<ServerConfig>>,
}

impl Trust {
    pub(crate) fn issuing(&self) -> Issuing {
        self.issuing.lock().clone()
    }

    pub(crate) fn settings(&self) -> Settings {
        self.tls.subscribe()
    }
}

/// Keeps [`Trust`] current.
pub(crate) struct Follower {
    settings: Enrolment,
    store: ConfigStore,
    revoked: watch::Sender<Revoked>,
    metrics: Arc<Metrics>,
    contents: Option<Contents>,
    signers: Signers,
    registered: bool,
    changes: Option<u64>,
    authorities: Vec<Authority>,
    built: Option<Built>,
    warned_ms: u64,
}

/// What the listener's settings were made from.
#[derive(PartialEq, Eq, Clone)]
struct Built {
    trusted: Vec<String>,
    agents: String,
    server: String,
    reissue_ms: u64,
}

/// What a look found that others have to know.
struct News {
    issuing: Issuing,
    tls: Arc<ServerConfig>,
}

impl Follower {
    /// Looks for the first time.
    pub(crate) async fn start(
        settings: &Enrolment,
        store: ConfigStore,
        revoked: watch::Sender<Revoked>,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Arc<Trust>), TrustError> {
        let mut follower = Self {
            settings: settings.clone(),
            store,
            revoked,
            metrics,
            contents: None,
            signers: Signers::new(),
            registered: false,
            changes: None,
            authorities: Vec::new(),
            built: None,
            warned_ms: 0,
        };
        let now_ms = clock::unix_ms();
        let files = settings.authority.clone();
        blocking(move || authority::ensure(&files, now_ms)).await?;
        let (news, failure) = follower.look(now_ms).await;
        let News { issuing, tls } = match (news, failure) {
            (_, Some(failure)) => return Err(failure),
            (Some(news), None) => news,
            (None, None) => return Err(TrustError::NoKey),
        };
        let trust = Arc::new(Trust {
            issuing: Mutex::new(issuing),
            tls: watch::Sender::new(tls),
        });
        Ok((follower, trust))
    }

    /// Looks until told to stop. While something cannot be read, what is known goes on counting.
    pub(crate) async fn follow(
        mut self,
        trust: Arc<Trust>,
        mut hints: broadcast::Receiver<Hint>,
        interval: Duration,
        shutdown: CancellationToken,
    ) {
        let (mut healthy, mut hinting) = (true, true);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(clock::jittered(interval, POLL_JITTER)) => {}
                open = revocation_hint(&mut hints), if hinting => hinting = open,
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL_GAP) => {}
            }
            hints = hints.resubscribe();
            let looked = tokio::time::timeout(POLL_TIMEOUT, self.look(clock::unix_ms())).await;
            let failure = match looked {
                Ok((news, failure)) => {
                    if let Some(News { issuing, tls }) = news {
                        *trust.issuing.lock() = issuing;
                        trust.tls.send_replace(tls);
                    }
                    failure.map(|error| format!("{error:?}"))
                }
                Err(_) => Some("no answer in time".to_owned()),
            };
            match (&failure, healthy) {
                (Some(error), true) => tracing::warn!(
                    error,
                    "cannot tell who is trusted; what is known goes on counting"
                ),
                (None, false) => tracing::info!("who is trusted is known again"),
                (None, true) | (Some(_), false) => {}
            }
            healthy = failure.is_none();
        }
    }

    /// What is news, and what could not be read.
    async fn look(&mut self, now_ms: u64) -> (Option<News>, Option<TrustError>) {
        let files = self.read_files().await;
        let stored = match &files {
            // At the first look nothing is known that could be registered.
            Err(_) if self.contents.is_none() => Ok(()),
            Ok(()) | Err(_) => self.read_store(now_ms).await,
        };
        let (news, built) = match self.build(now_ms) {
            Ok(news) => (news, None),
            Err(error) => (None, Some(error)),
        };
        (news, files.err().or(stored.err()).or(built))
    }

    async fn read_files(&mut self) -> Result<(), TrustError> {
        let files = self.settings.authority.clone();
        let contents = blocking(move || authority::read(&files)).await?;
        if self.contents.as_ref() == Some(&contents) {
            return Ok(());
        }
        self.signers = contents.signers(&self.settings.authority)?;
        self.contents = Some(contents);
        self.registered = false;
        Ok(())
    }

    async fn read_store(&mut self, now_ms: u64) -> Result<(), TrustError> {
        if !self.registered {
            self.register(now_ms).await?;
            self.registered = true;
        }
        // The number first: a change after it is then seen by the next look.
        let changes = self.store.enrolment_changes().await?;
        if self.changes != Some(changes) {
            self.authorities = self.store.authorities(now_ms).await?;
            let revoked: HashSet<_> = self
                .store
                .revoked_identities(now_ms)
                .await?
                .into_iter()
                .collect();
            let count = i64::try_from(revoked.len()).unwrap_or(i64::MAX);
            self.metrics.enrolment.revoked.set(count);
            self.revoked.send_if_modified(|current| {
                let changed = **current != revoked;
                *current = Arc::new(revoked);
                changed
            });
            self.changes = Some(changes);
        }
        Ok(())
    }

    /// Makes the authorities of the files known to all replicas, the oldest first.
    async fn register(&self, now_ms: u64) -> Result<(), TrustError> {
        let overlap = self.settings.certificate_life.mul_f64(OVERLAP);
        let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
        let change = Change {
            actor: ACTOR.to_owned(),
            actor_id: String::new(),
            message: "found in the authority's files".to_owned(),
            now_ms,
            idempotency: None,
        };
        for signer in self.signers.iter().rev() {
            let authority = Authority {
                generation: 0,
                fingerprint: signer.fingerprint.clone(),
                certificate: signer.pem(),
                added_ms: now_ms,
                expires_ms: signer.expires_ms,
                retires_ms: None,
            };
            if self
                .store
                .add_authority(&authority, overlap_ms, &change)
                .await?
            {
                tracing::info!(fingerprint = %signer.fingerprint, "a new authority is trusted");
            }
        }
        Ok(())
    }

    /// Makes the listener's settings anew when what they were made from has changed.
    fn build(&mut self, now_ms: u64) -> Result<Option<News>, TrustError> {
        let trusted: Vec<&Authority> = self
            .authorities
            .iter()
            .filter(|it| it.expires_ms > now_ms)
            .filter(|it| it.retires_ms.is_none_or(|retires_ms| retires_ms > now_ms))
            .collect();
        let key_of = |authority: &&Authority| {
            let mut signers = self.signers.iter();
            signers.find(|it| it.fingerprint == authority.fingerprint)
        };
        let (Some(server), Some(agents)) = (
            trusted.iter().find_map(key_of),
            trusted.iter().rev().find_map(key_of),
        ) else {
            return Err(TrustError::NoKey);
        };
        let (server, agents) = (Arc::clone(server), Arc::clone(agents));
        let left_ms = agents.expires_ms.saturating_sub(now_ms);
        self.metrics.enrolment.set_authority(left_ms);
        let fingerprints: Vec<_> = trusted.iter().map(|it| it.fingerprint.clone()).collect();
        if let Some(built) = &self.built
            && built.trusted == fingerprints
            && built.agents == agents.fingerprint
            && built.server == server.fingerprint
            && now_ms < built.reissue_ms
        {
            return Ok(None);
        }
        let roots: Vec<_> = trusted
            .iter()
            .filter_map(|it| CertificateDer::from_pem_slice(it.certificate.as_bytes()).ok())
            .collect();
        let bundle: String = trusted.iter().map(|it| it.certificate.as_str()).collect();
        self.warn_of_end(&agents, now_ms);
        let life = self.settings.server_certificate_life;
        let certificate = server
            .issue_server(&self.settings.names, now_ms, life)
            .map_err(AuthorityError::from)?;
        let tls = settings(certificate, &roots, ClientCertificate::Optional)?;
        let reissue = life.mul_f64(REISSUE_AT);
        let reissue_in_ms = u64::try_from(reissue.as_millis()).unwrap_or(u64::MAX);
        self.built = Some(Built {
            trusted: fingerprints,
            agents: agents.fingerprint.clone(),
            server: server.fingerprint.clone(),
            reissue_ms: now_ms.saturating_add(reissue_in_ms),
        });
        tracing::debug!(authority = %server.fingerprint, "this server has a new certificate");
        Ok(Some(News {
            issuing: Issuing {
                signer: agents,
                bundle: bundle.into(),
            },
            tls,
        }))
    }

    fn warn_of_end(&mut self, newest: &SigningAuthority, now_ms: u64) {
        let soon = newest.expires_ms.saturating_sub(now_ms) < ENDS_SOON_MS;
        if soon && now_ms.saturating_sub(self.warned_ms) >= WARN_INTERVAL_MS {
            self.warned_ms = now_ms;
            tracing::warn!(
                fingerprint = %newest.fingerprint,
                "the authority ends within 90 days: rotate it"
            );
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthorityError> + Send + 'static,
) -> Result<T, AuthorityError> {
    tokio::task::spawn_blocking(work).await?
}

/// Waits for news of a revocation; false when no more hints will come.
async fn revocation_hint(hints: &mut broadcast::Receiver<Hint>) -> bool {
    loop {
        match hints.recv().await {
            Ok(Hint::Revocation) | Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}

impl From<TrustError> for crate::Error {
    fn from(error: TrustError) -> Self {
        Self::Trust {
            source: error.into(),
        }
    }
}
