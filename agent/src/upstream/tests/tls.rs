//! Field report B36: a certificate that does not fit is a failure by its own name, and nothing is
//! ever sent past it.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::*;

pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Settings that trust this authority, by file as an operator would say it.
    pub(super) fn trusted(&self) -> Tls {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.issuer.pem()).unwrap();
        Tls::with_authorities(Some(file.path())).unwrap()
    }

    fn client(&self) -> Client {
        Client::new(self.trusted())
    }

    fn acceptor(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> TlsAcceptor {
        self.speaking(&["http/1.1"], name, change)
    }

    /// A peer that agrees on one of `protocols`.
    pub(super) fn speaking(
        &self,
        protocols: &[&str],
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> TlsAcceptor {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        acceptor(certificate.der().clone(), &key, protocols)
    }
}

fn acceptor(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
    protocols: &[&str],
) -> TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Answers requests over TLS, and tells the protocol that was agreed on and the first bytes.
pub(super) async fn start(
    acceptor: TlsAcceptor,
) -> (Peer, mpsc::Receiver<(Option<Vec<u8>>, Vec<u8>)>) {
    let (sender, received) = mpsc::channel(8);
    let peer = Peer::start(move |_, stream| {
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            let mut bytes = vec![0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                sender
                    .send((agreed.clone(), bytes[..read].to_vec()))
                    .await
                    .unwrap();
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await;
    (peer, received)
}

pub(super) fn https(host: &str, peer: &Peer) -> Target {
    target_at(Scheme::Https, host, peer.port, guard())
}

#[tokio::test]
async fn a_private_authority_is_trusted_by_file_and_http1_connections_are_kept() {
    let authority = Authority::new();
    let (peer, mut received) = start(authority.acceptor("localhost", |_| {})).await;
    let client = authority.client();
    for _ in 0..3 {
        let answer = client
            .send(&https("localhost", &peer), request, soon())
            .await
            .unwrap();
        assert_eq!(text(answer).await, "hi");
        let (agreed, bytes) = received.recv().await.unwrap();
        assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
        assert!(bytes.starts_with(b"POST /v1/messages"));
    }
    assert_eq!(peer.connections(), 1);
    // Requests beside each other have connections of their own, as the peer has no other way.
    let target = https("localhost", &peer);
    let answers =
        futures_util::future::join_all((0..4).map(|_| client.send(&target, request, soon())));
    for answer in answers.await {
        assert_eq!(text(answer.unwrap()).await, "hi");
    }
    assert_eq!((peer.connections(), client.idle_connections()), (4, 4));
}

#[tokio::test]
async fn certificates_that_do_not_fit_are_tls_failures_and_nothing_is_sent() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let self_signed = {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        acceptor(params.self_signed(&key).unwrap().der().clone(), &key, &[])
    };
    let expired = authority.acceptor("localhost", |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    });
    let rows = [
        ("another name", authority.acceptor("elsewhere.test", |_| {})),
        ("expired", expired),
        ("self-signed", self_signed),
        ("unknown authority", stranger.acceptor("localhost", |_| {})),
    ];
    for (case, acceptor) in rows {
        let (peer, mut received) = start(acceptor).await;
        let target = https("localhost", &peer);
        let error = authority
            .client()
            .send(&target, request, soon())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls, "{case}: {error}");
        assert_eq!(peer.connections(), 1, "{case}: no second try");
        assert!(received.try_recv().is_err(), "{case}: nothing was sent");
    }
}
