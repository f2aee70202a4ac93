//! The authority that signs certificates: its key and certificate in two files, and what is issued
//! by it.
//!
//! The files may hold several authorities, the newest first, because a new one takes over in steps:
//! agents that know only the old one still have to recognise this server. Keys are read from files
//! and from nowhere else; docs/adr/0003-authority-keys-stay-in-files.md says why.

mod files;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::enrolment::AgentIdentity;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
    SanType, SerialNumber,
};
use rustls::pki_types::{
    CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer,
};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

pub use files::{AuthorityFiles, rotate_authority};
pub(crate) use files::{Contents, ensure, read};

/// How long a new authority lasts: ten years.
const AUTHORITY_LIFE: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// What PEM calls a certificate.
const PEM_LABEL: &str = "CERTIFICATE";
/// Certificates begin this long before they are issued, for peers whose clocks are behind.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// What is wrong with an authority or a request to it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file refuses.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file holds something else, or nothing that fits.
    #[error("{path}: {reason}")]
    Content {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A certificate cannot be made or read.
    #[error("a certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// The task that worked on the files was lost.
    #[error("a task was lost")]
    Lost(#[from] tokio::task::JoinError),
}

/// One authority with its key.
pub(crate) struct SigningAuthority {
    /// SHA-256 over the certificate's DER, lower-case hex.
    pub(crate) fingerprint: String,
    /// The certificate.
    pub(crate) certificate: CertificateDer<'static>,
    /// The certificate's end, wall time in unix milliseconds.
    pub(crate) expires_ms: u64,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for SigningAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningAuthority")
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// A certificate of this server with its key.
pub(crate) struct ServerCertificate {
    /// The certificate and the authority behind it.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub(crate) key: PrivateKeyDer<'static>,
}

/// A public key whose owner proved to have the private one.
pub(crate) struct ProvenKey(CertificateSigningRequestParams);

impl ProvenKey {
    /// Reads a certificate signing request and checks its signature. Nothing else of it is used:
    /// what a certificate says is decided here.
    pub(crate) fn read(csr: &[u8]) -> Option<Self> {
        let csr = CertificateSigningRequestDer::from(csr);
        CertificateSigningRequestParams::from_der(&csr)
            .ok()
            .map(Self)
    }

    /// The public key.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.public_key.der_bytes()
    }
}

impl SigningAuthority {
    pub(crate) fn new(
        certificate: CertificateDer<'static>,
        key: KeyPair,
    ) -> Result<Self, rcgen::Error> {
        let expires_ms = expiry_ms(&certificate).ok_or(rcgen::Error::CouldNotParseCertificate)?;
        Ok(Self {
            fingerprint: fingerprint(&certificate),
            issuer: Issuer::from_ca_cert_der(&certificate, key)?,
            certificate,
            expires_ms,
        })
    }

    /// A certificate for an agent: its identity, and nothing that a request asked for.
    pub(crate) fn issue_agent(
        &self,
        key: &ProvenKey,
        identity: &AgentIdentity,
        now_ms: u64,
        life: Duration,
    ) -> Result<String, rcgen::Error> {
        let mut params = leaf(
            "Lanekeeper agent",
            now_ms,
            life,
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(identity.to_string())?)];
        Ok(params.signed_by(&key.0.public_key, &self.issuer)?.pem())
    }

    /// A certificate with a fresh key for this server under `names`, host names and addresses.
    pub(crate) fn issue_server(
        &self,
        names: &[String],
        now_ms: u64,
        life: Duration,
    ) -> Result<ServerCertificate, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = leaf(
            "Lanekeeper control plane",
            now_ms,
            life,
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        params.subject_alt_names = names
            .iter()
            .map(|name| subject(name))
            .collect::<Result<_, _>>()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(ServerCertificate {
            // The authority goes along for agents that know only its fingerprint so far.
            chain: vec![certificate.der().clone(), self.certificate.clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    /// The certificate, PEM.
    pub(crate) fn pem(&self) -> String {
        pem::encode(&pem::Pem::new(PEM_LABEL, self.certificate.to_vec()))
    }

    fn matches(certificate: &CertificateDer<'_>, key: &KeyPair) -> bool {
        X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| {
            *parsed.subject_pki.subject_public_key.data == *key.der_bytes()
        })
    }
}

/// A new authority: certificate and key, PEM.
fn generate(now_ms: u64) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    // Told apart by name too: programs that show chains show names.
    let salt: [u8; 4] = rand::random();
    params.distinguished_name = named(&format!("Lanekeeper authority {}", hex(&salt)));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = span(now_ms, AUTHORITY_LIFE)?;
    params.serial_number = Some(serial());
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn leaf(
    name: &str,
    now_ms: u64,
    life: Duration,
    usage: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named(name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = span(now_ms, life)?;
    params.serial_number = Some(serial());
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn serial() -> SerialNumber {
    SerialNumber::from_slice(&rand::random::<[u8; 16]>())
}

fn span(now_ms: u64, life: Duration) -> Result<(OffsetDateTime, OffsetDateTime), rcgen::Error> {
    let now = OffsetDateTime::from_unix_timestamp_nanos(i128::from(now_ms) * 1_000_000)
        .map_err(|_| rcgen::Error::Time)?;
    let end = now.checked_add(life.try_into().map_err(|_| rcgen::Error::Time)?);
    Ok((now - BACKDATED, end.ok_or(rcgen::Error::Time)?))
}

fn subject(name: &str) -> Result<SanType, rcgen::Error> {
    Ok(match IpAddr::from_str(name) {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(Ia5String::try_from(name)?),
    })
}

/// True for a name that a server certificate can carry.
pub(crate) fn is_server_name(name: &str) -> bool {
    rustls::pki_types::ServerName::try_from(name).is_ok()
}

fn expiry_ms(certificate: &CertificateDer<'_>) -> Option<u64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let secs = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
    secs.checked_mul(1000)
}

/// SHA-256 over a certificate, lower-case hex.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    hex(&Sha256::digest(certificate))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a verified certificate says of its holder; `None` when it names no agent.
pub(crate) fn identity_in(certificate: &CertificateDer<'_>) -> Option<AgentIdentity> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()??;
    names
        .value
        .general_names
        .iter()
        .find_map(|name| match name {
            x509_parser::extensions::GeneralName::URI(uri) => AgentIdentity::parse(uri),
            _ => None,
        })
}

/// Authorities shared by whoever signs.
pub(crate) type Signers = Vec<Arc<SigningAuthority>>;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_790_000_000_000;

    fn authority() -> SigningAuthority {
        let (certificate, key) = generate(NOW_MS).unwrap();
        let certificate = pem(&certificate);
        SigningAuthority::new(certificate, KeyPair::from_pem(&key).unwrap()).unwrap()
    }

    fn pem(text: &str) -> CertificateDer<'static> {
        use rustls::pki_types::pem::PemObject;
        CertificateDer::from_pem_slice(text.as_bytes()).unwrap()
    }

    #[test]
    fn certificate_says_who_the_server_decided_and_not_what_the_request_says() {
        let key = KeyPair::generate().unwrap();
        let mut wish = CertificateParams::new(vec!["control.example".to_owned()]).unwrap();
        wish.subject_alt_names.push(SanType::URI(
            Ia5String::try_from("lanekeeper://gateway/other/agent/else").unwrap(),
        ));
        let request = wish.serialize_request(&key).unwrap();
        let proven = ProvenKey::read(request.der()).unwrap();
        let identity = AgentIdentity {
            gateway: "edge".to_owned(),
            id: "one".to_owned(),
        };
        let life = Duration::from_secs(60);
        let issued = authority().issue_agent(&proven, &identity, NOW_MS, life);
        let issued = pem(&issued.unwrap());
        assert_eq!(identity_in(&issued), Some(identity));
        assert_eq!(expiry_ms(&issued), Some(NOW_MS + 60_000));
        let (_, parsed) = X509Certificate::from_der(&issued).unwrap();
        let names = parsed.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names.len(), 1);
        assert!(!parsed.is_ca());
    }

    #[test]
    fn request_signed_by_another_key_is_none() {
        let request = CertificateParams::new(Vec::new())
            .unwrap()
            .serialize_request(&KeyPair::generate().unwrap())
            .unwrap();
        let mut forged = request.der().to_vec();
        *forged.last_mut().unwrap() ^= 1;
        assert!(ProvenKey::read(request.der()).is_some());
        assert!(ProvenKey::read(&forged).is_none());
        assert!(ProvenKey::read(b"nonsense").is_none());
    }

    #[test]
    fn no_log_shows_a_key() {
        let shown = format!("{:?}", authority());
        assert!(
            !shown.contains("Key") && shown.contains("fingerprint"),
            "{shown}"
        );
    }
}
