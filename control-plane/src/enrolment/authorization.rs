//! What a connection proved about its other end, and whether that still counts.

use std::collections::HashSet;
use std::sync::Arc;

use lanekeeper_model::enrolment::AgentIdentity;
use tokio::sync::watch;
use tonic::Status;

/// Ids of identities whose certificates no longer count.
pub(crate) type Revoked = Arc<HashSet<String>>;

/// What a connection proved about its other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Nothing, and nothing was asked: plaintext on loopback.
    Unasked,
    /// Nothing: a TLS client without a certificate.
    Missing,
    /// A certificate from an authority that is trusted, which may name an agent.
    Certificate(Option<AgentIdentity>),
}

/// An agent's right to its session.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    identity: Option<AgentIdentity>,
    revoked: watch::Receiver<Revoked>,
}

impl Authorization {
    /// Lets a proof count, or tells why it does not. `identities` says that a certificate has to
    /// name an agent.
    pub(crate) fn new(
        proof: Option<&Proof>,
        identities: bool,
        revoked: watch::Receiver<Revoked>,
    ) -> Result<Self, Status> {
        let identity = match proof {
            Some(Proof::Unasked) => None,
            Some(Proof::Certificate(Some(identity))) => Some(identity.clone()),
            Some(Proof::Certificate(None)) if !identities => None,
            Some(Proof::Certificate(None)) => {
                return Err(Status::unauthenticated("the certificate names no agent"));
            }
            Some(Proof::Missing) | None => {
                return Err(Status::unauthenticated("a client certificate is needed"));
            }
        };
        let authorization = Self { identity, revoked };
        authorization.check()?;
        Ok(authorization)
    }

    /// The proven identity, when there is one.
    pub(crate) fn identity(&self) -> Option<&AgentIdentity> {
        self.identity.as_ref()
    }

    /// An agent serves the gateway that its certificate names and no other.
    pub(crate) fn admits(&self, gateway: &str) -> Result<(), Status> {
        match &self.identity {
            Some(identity) if identity.gateway != gateway => Err(Status::permission_denied(
                format!("the certificate is for gateway {:?}", identity.gateway),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Still counts.
    pub(crate) fn check(&self) -> Result<(), Status> {
        let revoked = self.revoked.borrow();
        match &self.identity {
            Some(identity) if revoked.contains(&identity.id) => Err(revoked_status()),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until the identity is revoked; for ever when there is none.
    pub(crate) async fn lost(&self) -> Status {
        if self.identity.is_some() {
            let mut revoked = self.revoked.clone();
            revoked.mark_unchanged();
            loop {
                if let Err(status) = self.check() {
                    return status;
                }
                if revoked.changed().await.is_err() {
                    break;
                }
            }
        }
        std::future::pending().await
    }
}

fn revoked_status() -> Status {
    Status::permission_denied("the certificate was revoked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof() -> Proof {
        Proof::Certificate(Some(AgentIdentity {
            gateway: "edge".to_owned(),
            id: "one".to_owned(),
        }))
    }

    fn revoked(ids: &[&str]) -> Revoked {
        Arc::new(ids.iter().map(|id| (*id).to_owned()).collect())
    }

    #[test]
    fn only_a_certificate_that_names_the_gateway_opens_its_sessions() {
        let none = watch::Sender::new(revoked(&[]));
        let authorization = |proof: Option<&Proof>, identities| {
            Authorization::new(proof, identities, none.subscribe()).map_err(|status| status.code())
        };
        let named = authorization(Some(&proof()), true).unwrap();
        named.admits("edge").unwrap();
        let refused = named.admits("other").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        authorization(Some(&Proof::Unasked), true)
            .unwrap()
            .admits("any")
            .unwrap();
        authorization(Some(&Proof::Certificate(None)), false).unwrap();
        for nothing in [Some(&Proof::Missing), Some(&Proof::Certificate(None)), None] {
            let code = authorization(nothing, true).unwrap_err();
            assert_eq!(code, tonic::Code::Unauthenticated, "{nothing:?}");
        }
    }

    #[tokio::test]
    async fn standing_is_lost_with_the_revocation_whenever_it_comes() {
        let sender = watch::Sender::new(revoked(&["other"]));
        let authorization = Authorization::new(Some(&proof()), true, sender.subscribe()).unwrap();
        sender.send_replace(revoked(&["other", "two"]));
        let still = std::time::Duration::from_millis(10);
        assert!(
            tokio::time::timeout(still, authorization.lost())
                .await
                .is_err()
        );
        sender.send_replace(revoked(&["one"]));
        let status = authorization.lost().await;
        assert_eq!(status.code(), tonic::Code::PermissionDenied);
        let late = Authorization::new(Some(&proof()), true, sender.subscribe()).unwrap_err();
        assert_eq!(late.code(), tonic::Code::PermissionDenied);
    }
}
