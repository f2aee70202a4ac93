//! Opens the connection to the control plane: address, certificates, keepalive.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use lanekeeper_proto::limits::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint as Target, Error};

use super::identity::{Identity, IdentityError};
use super::trust::{Credentials, Trust};
use crate::config::ClientTls;

/// How long connecting may take, name resolution and handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The port of an address without one.
const HTTPS_PORT: u16 = 443;

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

/// Where a control plane is: `http://` or `https://`, host and port.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint(pub(crate) String);

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The address is unusable.
    #[error("cannot use the control plane's address")]
    Settings(#[source] Error),
    /// The address names no host.
    #[error("cannot use the control plane's address")]
    Address,
    /// The certificates are unusable.
    #[error("cannot use a certificate")]
    Certificates(#[from] rustls::Error),
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
    /// There is no certificate to connect with.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Dialer {
    /// Connects once. Certificates in files are read anew each time, since they are renewed while
    /// the agent runs. `troubled` says that the last connection led to no session.
    pub(crate) async fn connect(&self, troubled: bool) -> Result<Channel, DialError> {
        let credentials = match &self.proof {
            Proof::None => return self.endpoint.connect_plain().await,
            Proof::Files(files) => Credentials {
                trust: Trust::from_file(&files.ca).await?,
                own: Some((read(&files.cert).await?, read(&files.key).await?)),
            },
            Proof::Identity(identity) => identity.credentials(&self.endpoint, troubled).await?,
        };
        self.endpoint.connect(&credentials).await
    }
}

impl Endpoint {
    async fn connect_plain(&self) -> Result<Channel, DialError> {
        in_time(self.target(self.0.clone())?.connect()).await
    }

    /// Connects with TLS.
    pub(super) async fn connect(&self, credentials: &Credentials) -> Result<Channel, DialError> {
        let uri: Uri = self.0.parse().map_err(|_| DialError::Address)?;
        let host = uri.host().ok_or(DialError::Address)?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri.port_u16().unwrap_or(HTTPS_PORT);
        let name = ServerName::try_from(host.clone()).map_err(|_| DialError::Address)?;
        let connector = TlsConnector::from(Arc::new(credentials.settings()?));
        let connect = tower::service_fn(move |_: Uri| {
            let (host, name, connector) = (host.clone(), name.clone(), connector.clone());
            async move {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                let stream = connector.connect(name, stream).await?;
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        // TLS is the connector's work; were the address https, the library would do it again.
        let authority = uri.authority().ok_or(DialError::Address)?;
        let target = self.target(format!("http://{authority}"))?.origin(uri);
        in_time(target.connect_with_connector(connect)).await
    }

    fn target(&self, address: String) -> Result<Target, DialError> {
        Ok(Target::from_shared(address)
            .map_err(DialError::Settings)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true))
    }
}

/// The endpoint's own limit covers TCP alone, not a peer that hangs in the TLS handshake.
async fn in_time(
    connecting: impl Future<Output = Result<Channel, Error>>,
) -> Result<Channel, DialError> {
    tokio::time::timeout(CONNECT_TIMEOUT, connecting)
        .await
        .map_err(|_| DialError::Slow)?
        .map_err(DialError::Connect)
}

/// Reads a certificate file.
pub(super) async fn read(path: &Path) -> Result<Vec<u8>, DialError> {
    tokio::fs::read(path)
        .await
        .map_err(|source| DialError::File {
            path: path.to_owned(),
            source,
        })
}
