//! The unary calls: a first certificate for whoever shows a token, a new one for whoever has one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::enrolment::{AgentIdentity, JoinToken};
use lanekeeper_proto::message::{EnrollRequest, IssuedCertificate, RenewCertRequest};
use lanekeeper_store::{Change, ConfigStore, NewIdentity, Renewal};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::clock;
use crate::enrolment::authority::ProvenKey;
use crate::enrolment::kubernetes::{Pods, Refusal};
use crate::enrolment::settings::Enrolment;
use crate::enrolment::throttle::Throttle;
use crate::enrolment::trust::Trust;
use crate::metrics::{Means, Metrics};

/// Bytes of an identity's id: enough that two never meet.
const ID_BYTES: usize = 16;
/// Who the audit trail says let a pod in.
const KUBERNETES: &str = "kubernetes";

/// Hands out certificates.
pub(crate) struct Registrar {
    trust: Arc<Trust>,
    store: ConfigStore,
    life: Duration,
    pods: Option<Pods>,
    throttle: Mutex<Throttle>,
    metrics: Arc<Metrics>,
}

impl Registrar {
    pub(crate) fn new(
        settings: &Enrolment,
        store: ConfigStore,
        trust: Arc<Trust>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            trust,
            store,
            life: settings.certificate_life,
            pods: settings.kubernetes.clone().map(Pods::new),
            throttle: Mutex::default(),
            metrics,
        }
    }

    /// Keeps what pods' tokens are checked by current until told to stop.
    pub(crate) async fn follow_cluster(self: Arc<Self>, shutdown: CancellationToken) {
        if let Some(pods) = &self.pods {
            pods.follow(&self.metrics, shutdown).await;
        }
    }

    /// A first certificate. Every token that does not let in is answered alike.
    pub(crate) async fn enroll(
        &self,
        request: EnrollRequest,
        peer: IpAddr,
    ) -> Result<IssuedCertificate, Status> {
        let means = match JoinToken::parse(&request.join_token) {
            Some(_) => Means::JoinToken,
            None => Means::ServiceAccount,
        };
        let answer = self.let_in(request, peer).await;
        self.metrics.enrolment.enrolled(means, &answer);
        answer
    }

    async fn let_in(
        &self,
        request: EnrollRequest,
        peer: IpAddr,
    ) -> Result<IssuedCertificate, Status> {
        self.throttle(peer)?;
        let key = proven(&request.csr)?;
        let now_ms = clock::unix_ms();
        let granted = match JoinToken::parse(&request.join_token) {
            Some(token) => self.by_token(&token, &request, &key, now_ms).await,
            None => self.by_pod(&request, &key, now_ms).await,
        };
        match granted {
            Ok(Some(issued)) => {
                tracing::info!(
                    gateway = %request.gateway,
                    agent = %request.name,
                    identity = %issued.agent_id,
                    "an agent has joined"
                );
                Ok(issued)
            }
            Ok(None) => {
                tracing::warn!(%peer, gateway = %request.gateway, "a join token was refused");
                Err(Status::unauthenticated("the join token does not let in"))
            }
            Err(status) => Err(status),
        }
    }

    async fn by_token(
        &self,
        token: &JoinToken<'_>,
        request: &EnrollRequest,
        key: &ProvenKey,
        now_ms: u64,
    ) -> Result<Option<IssuedCertificate>, Status> {
        // The same key with the same token is the same agent, which asks again because it did not
        // get the answer.
        let id = identity_id(&[token.id.as_bytes(), key.bytes()]);
        let (identity, issued) = self.prepare(id, request, key, now_ms)?;
        let let_in = self
            .store
            .enrol_by_token(token.id, token.secret, &identity, now_ms)
            .await
            .map_err(unavailable)?;
        Ok(let_in.then_some(issued))
    }

    async fn by_pod(
        &self,
        request: &EnrollRequest,
        key: &ProvenKey,
        now_ms: u64,
    ) -> Result<Option<IssuedCertificate>, Status> {
        let Some(pods) = &self.pods else {
            return Ok(None);
        };
        let pod = match pods.verify(&request.join_token).await {
            Ok(pod) => pod,
            Err(Refusal::Token) => return Ok(None),
            Err(Refusal::NoKeys) => {
                return Err(Status::unavailable(
                    "the keys of the cluster are not known at the moment",
                ));
            }
        };
        if pod.gateway != request.gateway {
            return Ok(None);
        }
        // A pod keeps its identity through restarts of its containers, and its revocation too.
        let id = identity_id(&[
            KUBERNETES.as_bytes(),
            pod.subject.as_bytes(),
            pod.uid.as_bytes(),
        ]);
        let (identity, issued) = self.prepare(id, request, key, now_ms)?;
        let origin = format!("{KUBERNETES}/{}", pod.subject);
        let change = Change {
            actor: origin.clone(),
            actor_id: String::new(),
            message: String::new(),
            now_ms,
            idempotency: None,
        };
        let granted = self
            .store
            .enrol_vouched(&identity, &origin, &change)
            .await
            .map_err(unavailable)?;
        Ok((granted == Renewal::Granted).then_some(issued))
    }

    /// A new certificate for the identity that the connection proved.
    pub(crate) async fn renew(
        &self,
        request: RenewCertRequest,
        identity: &AgentIdentity,
        peer: IpAddr,
    ) -> Result<IssuedCertificate, Status> {
        let answer = self.renewed(request, identity, peer).await;
        self.metrics.enrolment.renewed(&answer);
        answer
    }

    async fn renewed(
        &self,
        request: RenewCertRequest,
        identity: &AgentIdentity,
        peer: IpAddr,
    ) -> Result<IssuedCertificate, Status> {
        self.throttle(peer)?;
        let key = proven(&request.csr)?;
        let now_ms = clock::unix_ms();
        let issued = self.issue(identity, &key, now_ms)?;
        let renewal = self
            .store
            .renew_identity(
                &identity.id,
                &identity.gateway,
                self.expires_ms(now_ms),
                now_ms,
            )
            .await
            .map_err(unavailable)?;
        match renewal {
            Renewal::Granted => Ok(issued),
            Renewal::Refused => Err(Status::permission_denied(
                "this identity is unknown or was revoked",
            )),
        }
    }

    fn prepare(
        &self,
        id: String,
        request: &EnrollRequest,
        key: &ProvenKey,
        now_ms: u64,
    ) -> Result<(NewIdentity, IssuedCertificate), Status> {
        let identity = AgentIdentity {
            gateway: request.gateway.clone(),
            id,
        };
        // Before the token is used: a certificate that cannot be made costs no use.
        let issued = self.issue(&identity, key, now_ms)?;
        let identity = NewIdentity {
            id: identity.id,
            gateway: identity.gateway,
            name: request.name.clone(),
            expires_ms: self.expires_ms(now_ms),
        };
        Ok((identity, issued))
    }

    fn issue(
        &self,
        identity: &AgentIdentity,
        key: &ProvenKey,
        now_ms: u64,
    ) -> Result<IssuedCertificate, Status> {
        let issuing = self.trust.issuing();
        let certificate = issuing
            .signer
            .issue_agent(key, identity, now_ms, self.life)
            .map_err(|error| {
                tracing::error!(?error, "a certificate cannot be made");
                Status::internal("a certificate cannot be made")
            })?;
        Ok(IssuedCertificate {
            agent_id: identity.id.clone(),
            certificate,
            authorities: issuing.bundle.to_string(),
            valid_for: self.life,
        })
    }

    fn expires_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_add(u64::try_from(self.life.as_millis()).unwrap_or(u64::MAX))
    }

    fn throttle(&self, peer: IpAddr) -> Result<(), Status> {
        if self.throttle.lock().take(peer, clock::now()) {
            Ok(())
        } else {
            Err(Status::resource_exhausted(
                "too many requests for certificates from this address",
            ))
        }
    }
}

fn proven(csr: &[u8]) -> Result<ProvenKey, Status> {
    ProvenKey::read(csr)
        .ok_or_else(|| Status::invalid_argument("csr: is not a signed certificate request"))
}

/// Length before content, so that no two lists of parts read the same.
fn identity_id(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest
        .iter()
        .take(ID_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn unavailable(error: lanekeeper_store::Error) -> Status {
    if error.is_unavailable() {
        return Status::unavailable("the configuration database does not answer");
    }
    tracing::error!(?error, "an agent cannot be let in");
    Status::internal("the agent cannot be let in")
}
