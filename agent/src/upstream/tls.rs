//! The TLS side of upstream connections: which authorities are trusted, and how names are checked.
//!
//! Verification is never switched off. A private authority is added by a PEM file.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::error::{Error, ErrorKind};

/// Environment variable with the path of a PEM file of further authorities.
pub const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";

/// HTTP/2 as peers agree on it.
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// What a peer may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// HTTP/2 before HTTP/1.1.
    Both,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only.
    Http2,
}

/// TLS settings, made once per process. Cloning is three reference counts.
#[derive(Clone, Debug)]
pub struct Tls {
    both: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts the public authorities, and those of the file named by `SSL_CERT_FILE` if it is set.
    ///
    /// # Errors
    ///
    /// The file cannot be read or holds no certificate.
    pub fn from_env() -> Result<Self, Error> {
        let file = std::env::var_os(CERT_FILE_VARIABLE).filter(|path| !path.is_empty());
        Self::with_authorities(file.as_deref().map(Path::new))
    }

    /// Trusts the public authorities and those of a PEM file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or holds no certificate.
    pub fn with_authorities(file: Option<&Path>) -> Result<Self, Error> {
        let setup = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Setup, error);
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        if let Some(path) = file {
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| setup(&format!("{}: {error}", path.display())))?;
            let (added, _) = roots.add_parsable_certificates(certificates);
            if added == 0 {
                return Err(setup(&format!("{}: no certificate in it", path.display())));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| setup(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let http1 = Arc::new(config.clone());
        config.alpn_protocols = vec![HTTP2.to_vec()];
        let http2 = Arc::new(config.clone());
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        let both = Arc::new(config);
        Ok(Self { both, http1, http2 })
    }

    pub(super) fn config(&self, offer: Offer) -> Arc<ClientConfig> {
        match offer {
            Offer::Both => Arc::clone(&self.both),
            Offer::Http1 => Arc::clone(&self.http1),
            Offer::Http2 => Arc::clone(&self.http2),
        }
    }
}
