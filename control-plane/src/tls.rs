//! Certificates of the gRPC listener.

use std::path::Path;

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::Error;
use crate::config::{ServerTls, Transport};

/// Reads what a transport needs; nothing for plaintext. Whether the files fit together shows when
/// the server is built.
///
/// # Errors
///
/// [`Error::Config`] naming the file that cannot be read.
pub(crate) async fn load(transport: &Transport) -> Result<Option<ServerTlsConfig>, Error> {
    let ServerTls {
        cert,
        key,
        client_ca,
    } = match transport {
        Transport::Plaintext => return Ok(None),
        Transport::MutualTls(files) => files,
    };
    let cert = read("transport.cert", cert).await?;
    let key = read("transport.key", key).await?;
    let client_ca = read("transport.client_ca", client_ca).await?;
    Ok(Some(
        ServerTlsConfig::new()
            .identity(Identity::from_pem(cert, key))
            .client_ca_root(Certificate::from_pem(client_ca)),
    ))
}

async fn read(field: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    tokio::fs::read(path).await.map_err(|error| Error::Config {
        field,
        reason: format!("cannot read {}: {error}", path.display()),
    })
}
