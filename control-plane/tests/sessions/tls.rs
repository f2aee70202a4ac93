//! Agents prove who they are, and a server without usable certificates does not start.

use std::path::Path;

use lanekeeper_control_plane::{Config, Error, ServerTls, Transport};
use lanekeeper_proto::message::{FromAgent, FromServer};
use lanekeeper_store::{ConfigStore, MemoryLive};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::scripted::{Agent, Plane, hello};

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key in PEM.
pub(crate) fn issue(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn files(dir: &Path, authority: &Authority) -> ServerTls {
    let (certificate, key) = issue(authority, "localhost");
    let files = ServerTls {
        cert: dir.join("server.pem"),
        key: dir.join("server.key"),
        client_ca: dir.join("ca.pem"),
    };
    std::fs::write(&files.cert, certificate).unwrap();
    std::fs::write(&files.key, key).unwrap();
    std::fs::write(&files.client_ca, authority.pem()).unwrap();
    files
}

async fn dial(plane: &Plane, tls: ClientTlsConfig) -> Result<Channel, tonic::transport::Error> {
    let address = format!("https://localhost:{}", plane.addresses.grpc.port());
    let endpoint = Endpoint::from_shared(address).unwrap();
    endpoint.tls_config(tls).unwrap().connect().await
}

/// A session over a channel, if the server lets it come to one.
async fn welcomed(channel: Result<Channel, tonic::transport::Error>) -> bool {
    let Ok(channel) = channel else {
        return false;
    };
    // A refused certificate shows only after the client's half of the handshake.
    let Ok(mut agent) = Agent::try_dial_on(channel).await else {
        return false;
    };
    agent.send(FromAgent::Hello(hello("edge", "one"))).await;
    matches!(agent.next().await, FromServer::Welcome(_))
}

#[tokio::test]
async fn only_agents_with_a_certificate_of_the_authority_get_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (authority(), authority());
    let files = files(dir.path(), &ours);
    let plane = Plane::start_with(|config| {
        config.grpc_listen = "0.0.0.0:0".parse().unwrap();
        config.transport = Transport::MutualTls(files);
    })
    .await;
    let trusting = || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ours.pem()));
    let identity = |authority| {
        let (certificate, key) = issue(authority, "agent");
        Identity::from_pem(certificate, key)
    };

    let known = trusting().identity(identity(&ours));
    assert!(welcomed(dial(&plane, known).await).await);
    let stranger = trusting().identity(identity(&theirs));
    assert!(!welcomed(dial(&plane, stranger).await).await);
    assert!(!welcomed(dial(&plane, trusting()).await).await, "nameless");
    plane.stop().await;
}

#[tokio::test]
async fn unusable_certificates_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let good = files(dir.path(), &authority());
    let missing = ServerTls {
        key: dir.path().join("nothing.key"),
        ..good.clone()
    };
    let swapped = ServerTls {
        cert: good.key.clone(),
        key: good.cert.clone(),
        client_ca: good.client_ca.clone(),
    };
    for (files, wanted) in [(missing, "transport.key"), (swapped, "transport")] {
        let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
        let config = Config {
            grpc_listen: "127.0.0.1:0".parse().unwrap(),
            ops_listen: "127.0.0.1:0".parse().unwrap(),
            transport: Transport::MutualTls(files),
            ..Config::default()
        };
        let ran = lanekeeper_control_plane::run(
            config,
            store,
            std::sync::Arc::new(MemoryLive::new()),
            CancellationToken::new(),
            |addresses| panic!("ready on {addresses:?}"),
        );
        match ran.await {
            Err(Error::Config { field, .. }) => assert_eq!(field, wanted),
            other => panic!("{other:?}"),
        }
    }
}
