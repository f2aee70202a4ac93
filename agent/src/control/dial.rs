//! Opens the connection to the control plane: address, certificates, keepalive.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lanekeeper_proto::limits::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Error, Identity};

use crate::config::ClientTls;

/// How long connecting may take, name resolution and handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Reaches one control plane.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    /// `http://` or `https://`, host and port.
    pub(crate) address: String,
    /// Certificates, for `https://`.
    pub(crate) tls: Option<ClientTls>,
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The address or a certificate is unusable.
    #[error("cannot use the control plane's address or a certificate")]
    Settings(#[source] Error),
    /// A certificate file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The control plane is not reached or not trusted.
    #[error("cannot connect")]
    Connect(#[source] Error),
    /// It took too long.
    #[error("cannot connect within {} s", CONNECT_TIMEOUT.as_secs())]
    Slow,
}

impl Dialer {
    /// Connects once. Certificates are read anew each time, since they are renewed while the agent
    /// runs.
    pub(crate) async fn connect(&self) -> Result<Channel, DialError> {
        let mut endpoint = Endpoint::from_shared(self.address.clone())
            .map_err(DialError::Settings)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        if let Some(tls) = &self.tls {
            let settings = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(read(&tls.ca).await?))
                .identity(Identity::from_pem(
                    read(&tls.cert).await?,
                    read(&tls.key).await?,
                ));
            endpoint = endpoint.tls_config(settings).map_err(DialError::Settings)?;
        }
        // The endpoint's own limit covers TCP alone, not a peer that hangs in the TLS handshake.
        tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect())
            .await
            .map_err(|_| DialError::Slow)?
            .map_err(DialError::Connect)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, DialError> {
    tokio::fs::read(path)
        .await
        .map_err(|source| DialError::File {
            path: path.to_owned(),
            source,
        })
}
