//! TLS of the gRPC listener: version 1.3 only, no resumption, and settings that can be replaced
//! while connections are open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::enrolment::authority::ServerCertificate;
use crate::enrolment::settings::ServerTls;
use crate::{Error, clock};

/// What the listener takes for each new connection.
pub(crate) type Settings = watch::Receiver<Arc<ServerConfig>>;

/// How often certificate files are looked at, +-20 %.
const FILES_POLL: Duration = Duration::from_secs(5);
const FILES_POLL_JITTER: f64 = 0.2;
/// HTTP/2, which gRPC is.
const PROTOCOL: &[u8] = b"h2";

/// Whether a client has to have a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientCertificate {
    /// Without one there is no connection.
    Required,
    /// Without one there is a connection, on which only joining is possible.
    Optional,
}

/// The settings of a listener with this certificate, for clients of these authorities.
///
/// # Errors
///
/// What does not fit together.
pub(crate) fn settings(
    certificate: ServerCertificate,
    trusted: &[CertificateDer<'static>],
    clients: ClientCertificate,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in trusted {
        roots.add(authority.clone())?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = match clients {
        ClientCertificate::Required => verifier,
        ClientCertificate::Optional => verifier.allow_unauthenticated(),
    };
    let verifier = verifier
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificate.chain, certificate.key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // A resumed connection would not check the client's certificate again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Certificates from files, followed when the files change.
pub(crate) struct Files {
    files: ServerTls,
    read: Read,
    sender: watch::Sender<Arc<ServerConfig>>,
}

/// What the files held.
#[derive(PartialEq, Eq)]
struct Read {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Vec<u8>,
}

impl Files {
    /// Reads them for the first time.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] naming the file that cannot be read, or saying that they do not fit
    /// together.
    pub(crate) async fn load(files: &ServerTls) -> Result<Self, Error> {
        let read = Read::from(files).await?;
        let sender = watch::Sender::new(read.settings()?);
        Ok(Self {
            files: files.clone(),
            read,
            sender,
        })
    }

    pub(crate) fn settings(&self) -> Settings {
        self.sender.subscribe()
    }

    /// Takes changed files over until told to stop; while they are unusable the last good ones
    /// count.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(clock::jittered(FILES_POLL, FILES_POLL_JITTER)) => {}
            }
            let read = match Read::from(&self.files).await {
                Ok(read) if read == self.read => continue,
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(%error, "the certificates cannot be read again");
                    continue;
                }
            };
            match read.settings() {
                Ok(settings) => {
                    self.sender.send_replace(settings);
                    tracing::info!("the certificates have changed and are in use");
                }
                Err(error) => {
                    tracing::warn!(%error, "the changed certificates cannot be used; the old stay");
                }
            }
            self.read = read;
        }
    }
}

impl Read {
    async fn from(files: &ServerTls) -> Result<Self, Error> {
        Ok(Self {
            cert: read("transport.cert", &files.cert).await?,
            key: read("transport.key", &files.key).await?,
            client_ca: read("transport.client_ca", &files.client_ca).await?,
        })
    }

    fn settings(&self) -> Result<Arc<ServerConfig>, Error> {
        let unusable = |what: &str| Error::Config {
            field: "transport",
            reason: format!("the certificates cannot be used: {what}"),
        };
        let certificates = |pem: &[u8]| -> Option<Vec<CertificateDer<'static>>> {
            let list: Vec<_> = CertificateDer::pem_slice_iter(pem)
                .collect::<Result<_, _>>()
                .ok()?;
            (!list.is_empty()).then_some(list)
        };
        let chain = certificates(&self.cert).ok_or_else(|| unusable("no certificate in cert"))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| unusable("no private key in key"))?;
        let trusted =
            certificates(&self.client_ca).ok_or_else(|| unusable("no certificate in client_ca"))?;
        settings(
            ServerCertificate { chain, key },
            &trusted,
            ClientCertificate::Required,
        )
        .map_err(|error| unusable(&error.to_string()))
    }
}

async fn read(field: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    tokio::fs::read(path).await.map_err(|error| Error::Config {
        field,
        reason: format!("cannot read {}: {error}", path.display()),
    })
}
