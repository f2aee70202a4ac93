//! TLS towards the control plane: version 1.3, a client certificate, and authorities known either
//! by their certificates or, at the first contact, by their fingerprints.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use sha2::{Digest, Sha256};

/// HTTP/2, which gRPC is.
const PROTOCOL: &[u8] = b"h2";

/// A certificate file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub(crate) struct FileError {
    path: PathBuf,
    source: io::Error,
}

/// Reads a certificate file.
pub(super) async fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    tokio::fs::read(path).await.map_err(|source| FileError {
        path: path.to_owned(),
        source,
    })
}

/// What a connection is made with.
#[derive(Clone)]
pub(crate) struct Credentials {
    /// Whom to trust.
    pub(super) trust: Trust,
    /// The own certificate and its key, PEM.
    pub(super) own: Option<(Vec<u8>, Vec<u8>)>,
}

/// Whom to trust.
#[derive(Clone)]
pub(super) enum Trust {
    /// Authorities, PEM.
    Authorities(Vec<u8>),
    /// Fingerprints of authorities, SHA-256 in lower-case hex. The control plane shows the
    /// certificate that fits.
    Pins(Vec<String>),
}

impl Trust {
    pub(super) async fn from_file(path: &Path) -> Result<Self, FileError> {
        read(path).await.map(Self::Authorities)
    }
}

impl Credentials {
    /// Without a certificate of one's own.
    pub(super) fn anonymous(trust: Trust) -> Self {
        Self { trust, own: None }
    }

    /// The TLS settings of one connection.
    ///
    /// # Errors
    ///
    /// What is no certificate or does not fit together.
    pub(super) fn settings(&self) -> Result<ClientConfig, Error> {
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?;
        let builder = match &self.trust {
            Trust::Authorities(pem) => builder.with_root_certificates(roots(certificates(pem)?)?),
            Trust::Pins(pins) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Pinned {
                    pins: pins.clone(),
                    provider,
                })),
        };
        let mut settings = match &self.own {
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| Error::General("the key is not a PEM key".to_owned()))?;
                builder.with_client_auth_cert(certificates(certificate)?, key)?
            }
            None => builder.with_no_client_auth(),
        };
        settings.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(settings)
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let list: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| Error::General("a certificate is not PEM".to_owned()))?;
    if list.is_empty() {
        return Err(Error::General("there is no certificate".to_owned()));
    }
    Ok(list)
}

fn roots(certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// Trusts an authority that the server shows when its fingerprint was promised, and then checks the
/// server's certificate by it as ever: signature, name and time.
#[derive(Debug)]
struct Pinned {
    pins: Vec<String>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let promised: Vec<_> = intermediates
            .iter()
            .filter(|it| self.pins.contains(&fingerprint(it)))
            .map(|it| it.clone().into_owned())
            .collect();
        if promised.is_empty() {
            return Err(CertificateError::UnknownIssuer.into());
        }
        let roots = Arc::new(roots(promised)?);
        WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&self.provider))
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = Sha256::digest(certificate);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
