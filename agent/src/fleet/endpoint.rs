//! Where the control plane is, and how a connection to it is opened: address, TLS, keepalive.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use lanekeeper_proto::limits::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint as Target, Error};

use super::tls::{Credentials, FileError};

/// How long connecting may take, name resolution and handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The port of an address without one.
const HTTPS_PORT: u16 = 443;

/// Where a control plane is: `http://` or `https://`, host and port.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint(pub(crate) String);

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
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
    #[error(transparent)]
    File(#[from] FileError),
    /// The control plane is not reached or not trusted.
    #[error("cannot connect")]
    Connect(#[source] Error),
    /// It took too long.
    #[error("cannot connect within {} s", CONNECT_TIMEOUT.as_secs())]
    Slow,
}

impl Endpoint {
    pub(super) async fn connect_plain(&self) -> Result<Channel, ConnectError> {
        in_time(self.target(self.0.clone())?.connect()).await
    }

    /// Connects with TLS.
    pub(super) async fn connect(&self, credentials: &Credentials) -> Result<Channel, ConnectError> {
        let uri: Uri = self.0.parse().map_err(|_| ConnectError::Address)?;
        let host = uri.host().ok_or(ConnectError::Address)?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri.port_u16().unwrap_or(HTTPS_PORT);
        let name = ServerName::try_from(host.clone()).map_err(|_| ConnectError::Address)?;
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
        let authority = uri.authority().ok_or(ConnectError::Address)?;
        let target = self.target(format!("http://{authority}"))?.origin(uri);
        in_time(target.connect_with_connector(connect)).await
    }

    fn target(&self, address: String) -> Result<Target, ConnectError> {
        Ok(Target::from_shared(address)
            .map_err(ConnectError::Settings)?
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
) -> Result<Channel, ConnectError> {
    tokio::time::timeout(CONNECT_TIMEOUT, connecting)
        .await
        .map_err(|_| ConnectError::Slow)?
        .map_err(ConnectError::Connect)
}
