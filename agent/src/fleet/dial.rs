//! Opens the connection to the control plane with the proof of who is calling.

use std::sync::Arc;

use tonic::transport::Channel;

use super::endpoint::{ConnectError, Endpoint};
use super::identity::{Identity, IdentityError};
use super::tls::{Credentials, Trust, read};
use crate::config::ClientTls;

/// Reaches one control plane.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    /// Where it is.
    pub(crate) endpoint: Endpoint,
    /// How to prove who is calling.
    pub(crate) proof: Proof,
}

/// How to prove who is calling.
#[derive(Debug, Clone)]
pub(crate) enum Proof {
    /// Not at all: plaintext on loopback.
    None,
    /// With certificates that someone else puts into files.
    Files(ClientTls),
    /// With a certificate that the control plane hands out.
    Identity(Arc<Identity>),
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The connection failed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no certificate to connect with.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Dialer {
    /// Connects once. Certificates in files are read anew each time, since they are renewed while
    /// the agent runs. `troubled` says that the last connection led to no session.
    pub(crate) async fn connect(&self, troubled: bool) -> Result<Channel, DialError> {
        let credentials = match &self.proof {
            Proof::None => return Ok(self.endpoint.connect_plain().await?),
            Proof::Files(files) => Credentials {
                trust: Trust::from_file(&files.ca)
                    .await
                    .map_err(ConnectError::from)?,
                own: Some((
                    read(&files.cert).await.map_err(ConnectError::from)?,
                    read(&files.key).await.map_err(ConnectError::from)?,
                )),
            },
            Proof::Identity(identity) => identity.credentials(&self.endpoint, troubled).await?,
        };
        Ok(self.endpoint.connect(&credentials).await?)
    }
}
