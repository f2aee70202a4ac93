//! Mutual TLS with certificates from files.

use std::path::Path;

use lanekeeper_agent::{ClientTls, Config, Source};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::agent::{Agent, config, document, eventually};
use crate::scripted::Scripted;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key in PEM.
fn issue(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

async fn server(authority: &Authority) -> Scripted {
    let (certificate, key) = issue(authority, "localhost");
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(authority.pem()));
    Scripted::start_tls(tls).await
}

fn write(dir: &Path, trusted: &Authority, own: &Authority) {
    let (certificate, key) = issue(own, "agent");
    std::fs::write(dir.join("ca.pem"), trusted.pem()).unwrap();
    std::fs::write(dir.join("agent.pem"), certificate).unwrap();
    std::fs::write(dir.join("agent.key"), key).unwrap();
}

fn secured(server: &Scripted, dir: &Path) -> Config {
    config(Source::Joined {
        control_plane: format!("https://localhost:{}", server.address.port()),
        gateway: "edge".to_owned(),
        insecure: false,
        tls: Some(ClientTls {
            ca: dir.join("ca.pem"),
            cert: dir.join("agent.pem"),
            key: dir.join("agent.key"),
        }),
    })
}

#[tokio::test]
async fn a_session_opens_once_the_certificates_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let authority = authority();
    let mut server = server(&authority).await;
    let agent = Agent::start(secured(&server, dir.path())).await;
    write(dir.path(), &authority, &authority);
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    peer.push(1, &document(1)).await;
    assert_eq!(peer.result().await.revision, 1);
    agent.stop().await;
}

#[tokio::test]
async fn strangers_do_not_get_a_session_and_renewed_certificates_do() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (authority(), authority());
    let mut server = server(&ours).await;
    for (trusted, own) in [(&ours, &theirs), (&theirs, &ours)] {
        write(dir.path(), trusted, own);
        let agent = Agent::start(secured(&server, dir.path())).await;
        assert_eq!(
            server
                .count_and_close(std::time::Duration::from_secs(2))
                .await,
            0
        );
        assert_eq!(agent.stats().await["agent"]["connected"], false);

        write(dir.path(), &ours, &ours);
        let mut peer = server.peer().await;
        peer.open("a", 0).await;
        eventually(async || agent.stats().await["agent"]["connected"] == true).await;
        agent.stop().await;
    }
}
