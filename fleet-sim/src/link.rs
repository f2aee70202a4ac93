//! The connections: one for each agent as in a real fleet, or a few that are shared.

use crate::{Config, Error};
use lanekeeper_proto::limits::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// How long connecting may take, the TLS handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Certificate files of the agents, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// The authority that the control plane's certificate must come from.
    pub ca: PathBuf,
    /// The certificate that all agents show.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The control plane is not reached or not trusted.
    #[error("cannot connect")]
    Connect(#[source] tonic::transport::Error),
    /// It took too long.
    #[error("cannot connect within {} s", CONNECT_TIMEOUT.as_secs())]
    Slow,
}

/// Where agents get their connections from.
pub(crate) struct Links {
    endpoint: Endpoint,
    /// Shared connections, which open again by themselves; empty when each agent has its own.
    shared: Vec<Channel>,
}

impl Links {
    pub(crate) async fn new(config: &Config) -> Result<Self, Error> {
        let mut endpoint = Endpoint::from_shared(config.control_plane.clone())
            .map_err(Error::Address)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        if let Some(tls) = &config.tls {
            let settings = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(read(&tls.ca).await?))
                .identity(Identity::from_pem(
                    read(&tls.cert).await?,
                    read(&tls.key).await?,
                ));
            endpoint = endpoint.tls_config(settings).map_err(Error::Address)?;
        }
        let shared = config.connections.unwrap_or(0);
        Ok(Self {
            shared: (0..shared).map(|_| endpoint.connect_lazy()).collect(),
            endpoint,
        })
    }

    /// A connection for an agent.
    pub(crate) async fn dial(&self, number: usize) -> Result<Channel, DialError> {
        let place = number.checked_rem(self.shared.len());
        if let Some(channel) = place.and_then(|place| self.shared.get(place)) {
            return Ok(channel.clone());
        }
        // The endpoint's own limit covers TCP alone, not a peer that hangs in the TLS handshake.
        tokio::time::timeout(CONNECT_TIMEOUT, self.endpoint.connect())
            .await
            .map_err(|_| DialError::Slow)?
            .map_err(DialError::Connect)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, Error> {
    tokio::fs::read(path).await.map_err(|source| Error::File {
        path: path.display().to_string(),
        source,
    })
}
