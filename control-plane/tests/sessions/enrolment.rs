//! Agents join with a token, prove themselves with what they got, and lose it when told to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_control_plane::{AuthorityFiles, Enrolment, Transport, rotate_authority};
use lanekeeper_proto::message::{EnrollRequest, FromAgent, FromServer, IssuedCertificate};
use lanekeeper_proto::{FleetClient, wire};
use lanekeeper_store::testing::eventually;
use lanekeeper_store::{Change, ExposeSecret, Hint, NewJoinToken};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use crate::scripted::{Agent, PATIENCE, Plane, by_test, hello};
use crate::tls::{authority, issue};

/// The promise of design: a revoked agent's stream ends within this.
const REVOCATION_BOUND: Duration = Duration::from_secs(5);

fn files(dir: &Path) -> AuthorityFiles {
    AuthorityFiles {
        cert: dir.join("ca.crt"),
        key: dir.join("ca.key"),
        create: true,
    }
}

fn settings(dir: &Path) -> Enrolment {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    Enrolment::new(files(dir), names)
}

/// A control plane that agents join, with an authority in a folder.
pub(crate) struct Joinable {
    pub(crate) plane: Plane,
    dir: tempfile::TempDir,
}

impl Joinable {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Enrolment)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut enrolment = settings(dir.path());
        change(&mut enrolment);
        let plane = Plane::start_with(|config| {
            config.transport = Transport::Enrolment(enrolment);
        })
        .await;
        Self { plane, dir }
    }

    async fn token_with(&self, gateway: &str, max_uses: u64, expires_ms: u64) -> (String, String) {
        let new = NewJoinToken {
            gateway: gateway.to_owned(),
            expires_ms,
            max_uses,
        };
        let made = self.plane.store.create_join_token(new, &by_test()).await;
        let (row, secret) = made.unwrap();
        (row.id, secret.expose_secret().to_owned())
    }

    /// A token for `max_uses` agents of a gateway: id and text.
    async fn token(&self, gateway: &str, max_uses: u64) -> (String, String) {
        self.token_with(gateway, max_uses, u64::MAX / 4).await
    }

    /// What an agent trusts after its first contact.
    async fn bundle(&self) -> String {
        let trusted = self.plane.store.authorities(now_ms()).await.unwrap();
        trusted.into_iter().map(|it| it.certificate).collect()
    }

    async fn dial(&self, identity: Option<&Joined>) -> Result<Channel, tonic::transport::Error> {
        let trusted = match identity {
            Some(joined) => joined.issued.authorities.clone(),
            None => self.bundle().await,
        };
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trusted));
        let tls = match identity {
            Some(joined) => tls.identity(joined.identity()),
            None => tls,
        };
        self.dial_as(tls).await
    }

    async fn dial_as(&self, tls: ClientTlsConfig) -> Result<Channel, tonic::transport::Error> {
        let address = format!("https://localhost:{}", self.plane.addresses.grpc.port());
        let endpoint = Endpoint::from_shared(address).unwrap();
        endpoint.tls_config(tls).unwrap().connect().await
    }

    pub(crate) async fn enroll(&self, token: &str, gateway: &str) -> Result<Joined, Status> {
        self.enroll_key(token, gateway, KeyPair::generate().unwrap())
            .await
    }

    async fn enroll_key(&self, token: &str, gateway: &str, key: KeyPair) -> Result<Joined, Status> {
        let mut client = FleetClient::new(self.dial(None).await.unwrap());
        let request = EnrollRequest {
            join_token: token.to_owned(),
            gateway: gateway.to_owned(),
            name: "node-1".to_owned(),
            csr: csr(&key),
        };
        let answer = client.enroll(wire::EnrollRequest::from(request)).await?;
        let issued = IssuedCertificate::try_from(answer.into_inner()).unwrap();
        Ok(Joined { issued, key })
    }

    /// Joins with a token of its own.
    pub(crate) async fn joined(&self, gateway: &str) -> Joined {
        let (_, token) = self.token(gateway, 1).await;
        self.enroll(&token, gateway).await.unwrap()
    }

    async fn renew(&self, joined: &Joined) -> Result<Joined, Status> {
        let channel = self
            .dial(Some(joined))
            .await
            .map_err(|error| Status::unavailable(format!("{error:?}")))?;
        let key = KeyPair::generate().unwrap();
        let request = wire::RenewCertRequest { csr: csr(&key) };
        let answer = FleetClient::new(channel).renew_cert(request).await?;
        let issued = IssuedCertificate::try_from(answer.into_inner()).unwrap();
        Ok(Joined { issued, key })
    }

    /// Opens a session, or tells why not.
    pub(crate) async fn session(&self, joined: &Joined, gateway: &str) -> Result<Agent, Status> {
        let refused = |error: tonic::transport::Error| Status::aborted(format!("{error:?}"));
        let channel = self.dial(Some(joined)).await.map_err(refused)?;
        let mut agent = Agent::try_dial_on(channel).await?;
        agent.send(FromAgent::Hello(hello(gateway, "one"))).await;
        match agent.end_or_next().await? {
            Some(message) => {
                let message = FromServer::try_from(message).unwrap();
                assert!(matches!(message, FromServer::Welcome(_)), "{message:?}");
                Ok(agent)
            }
            None => Err(Status::cancelled("the stream ended")),
        }
    }
}

/// An agent that was let in.
pub(crate) struct Joined {
    issued: IssuedCertificate,
    key: KeyPair,
}

impl Joined {
    pub(crate) fn agent_id(&self) -> &str {
        &self.issued.agent_id
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(&self.issued.certificate, self.key.serialize_pem())
    }
}

fn csr(key: &KeyPair) -> Vec<u8> {
    let request = CertificateParams::new(Vec::new()).unwrap();
    request.serialize_request(key).unwrap().der().to_vec()
}

pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_millis()).unwrap()
}

/// Reads the stream to its end and tells how it ended.
async fn end_of(agent: &mut Agent) -> Status {
    loop {
        match agent.end_or_next().await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::ok("the stream ended in order"),
            Err(status) => return status,
        }
    }
}

#[tokio::test]
async fn a_token_lets_an_agent_in_and_its_certificate_opens_sessions() {
    let joinable = Joinable::start().await;
    let joined = joinable.joined("edge").await;
    assert_eq!(joined.issued.valid_for, Duration::from_secs(24 * 60 * 60));
    assert_eq!(joined.issued.authorities, joinable.bundle().await);
    joinable.session(&joined, "edge").await.unwrap();
    let identities = joinable.plane.store.identities(None, now_ms()).await;
    let identities = identities.unwrap();
    assert_eq!(identities.len(), 1);
    assert_eq!(identities[0].id, joined.issued.agent_id);
    assert_eq!(identities[0].name, "node-1");
    joinable.plane.stop().await;
}

#[tokio::test]
async fn twenty_agents_at_once_do_not_use_a_token_twice() {
    let joinable = Arc::new(Joinable::start().await);
    let (_, token) = joinable.token("edge", 1).await;
    let mut attempts = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (joinable, token) = (Arc::clone(&joinable), token.clone());
        attempts.spawn(async move { joinable.enroll(&token, "edge").await.map(drop) });
    }
    let results = attempts.join_all().await;
    let (granted, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((granted.len(), refused.len()), (1, 19));
    for refusal in refused {
        assert_eq!(refusal.unwrap_err().code(), Code::Unauthenticated);
    }
    let rows = joinable.plane.store.list_join_tokens(now_ms()).await;
    assert_eq!(rows.unwrap()[0].uses, 1);
}

#[tokio::test]
async fn whatever_is_wrong_with_a_token_is_answered_alike() {
    let joinable = Joinable::start().await;
    let (id, good) = joinable.token("edge", 1).await;
    let (_, expired) = joinable.token_with("edge", 1, now_ms() - 1).await;
    let (_, used) = joinable.token("edge", 1).await;
    joinable.enroll(&used, "edge").await.unwrap();
    let (revoked_id, revoked) = joinable.token("edge", 1).await;
    let store = &joinable.plane.store;
    let by_test = by_test();
    store
        .revoke_join_token(&revoked_id, false, &by_test)
        .await
        .unwrap();
    let wrong = format!("{id}.{}", "0".repeat(64));
    let unknown = format!("{}.{}", "0".repeat(32), "0".repeat(64));
    let mut answers = Vec::new();
    for (token, gateway) in [
        (wrong.as_str(), "edge"),
        (unknown.as_str(), "edge"),
        ("nonsense", "edge"),
        ("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", "edge"),
        (expired.as_str(), "edge"),
        (used.as_str(), "edge"),
        (revoked.as_str(), "edge"),
        (good.as_str(), "other"),
    ] {
        let refusal = joinable.enroll(token, gateway).await.map(drop).unwrap_err();
        answers.push((refusal.code(), refusal.message().to_owned()));
    }
    let alike = (
        Code::Unauthenticated,
        "the join token does not let in".to_owned(),
    );
    assert_eq!(answers, vec![alike; 8]);
    joinable.enroll(&good, "edge").await.unwrap();
    joinable.plane.stop().await;
}

#[tokio::test]
async fn an_agent_whose_answer_was_lost_asks_again_with_its_key() {
    let joinable = Joinable::start().await;
    let (id, token) = joinable.token("edge", 1).await;
    let key = || KeyPair::from_pem(KEY).unwrap();
    let first = joinable.enroll_key(&token, "edge", key()).await.unwrap();
    let again = joinable.enroll_key(&token, "edge", key()).await.unwrap();
    assert_eq!(first.issued.agent_id, again.issued.agent_id);
    joinable.session(&again, "edge").await.unwrap();
    let refused = joinable.enroll(&token, "edge").await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "another key");

    let store = &joinable.plane.store;
    store
        .revoke_join_token(&id, true, &by_test())
        .await
        .unwrap();
    let refused = joinable.enroll_key(&token, "edge", key()).await;
    assert_eq!(refused.map(drop).unwrap_err().code(), Code::Unauthenticated);
    joinable.plane.stop().await;
}

/// Some key of this test and of nothing else.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgirGgWmO1LDmOpdaY
1DyxpiJ+BMGY0fArtv3f4z8NK5KhRANCAAQOBvRwRCej1PtpF0w0KeqI6SePvEbk
cKxPXq/dni/i8d54hewqf7s79WHpxhqSCIhF2qd5AtQroh24NPZBMOWR
-----END PRIVATE KEY-----
";

#[tokio::test]
async fn only_certificates_of_the_authority_for_the_gateway_open_sessions() {
    let joinable = Joinable::start().await;
    let joined = joinable.joined("edge").await;

    let refused = joinable.session(&joined, "other").await.map(drop);
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);

    let nameless = Agent::try_dial_on(joinable.dial(None).await.unwrap()).await;
    assert_eq!(
        nameless.map(drop).unwrap_err().code(),
        Code::Unauthenticated
    );
    let mut client = FleetClient::new(joinable.dial(None).await.unwrap());
    let request = wire::RenewCertRequest {
        csr: csr(&joined.key),
    };
    let refused = client.renew_cert(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);

    let (certificate, key) = issue(&authority(), "lanekeeper://gateway/edge/agent/x");
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(joinable.bundle().await))
        .identity(Identity::from_pem(certificate, key));
    // A refused certificate shows only after the client's half of the handshake.
    if let Ok(channel) = joinable.dial_as(tls).await {
        assert!(Agent::try_dial_on(channel).await.is_err(), "a stranger's");
    }
    joinable.plane.stop().await;
}

#[tokio::test]
async fn plaintext_and_older_tls_get_nowhere() {
    let joinable = Joinable::start().await;
    let address = format!("http://{}", joinable.plane.addresses.grpc);
    let plain = Endpoint::from_shared(address).unwrap().connect().await;
    if let Ok(channel) = plain {
        assert!(Agent::try_dial_on(channel).await.is_err());
    }

    let handshake = async |version| {
        let mut roots = RootCertStore::empty();
        let bundle = joinable.bundle().await;
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(joinable.plane.addresses.grpc)
            .await
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map(drop)
    };
    handshake(&rustls::version::TLS13).await.unwrap();
    let refused = handshake(&rustls::version::TLS12).await.unwrap_err();
    assert!(refused.to_string().contains("ProtocolVersion"), "{refused}");
    joinable.plane.stop().await;
}

#[tokio::test]
async fn an_expired_certificate_opens_nothing_and_the_session_lives_through_a_renewal() {
    let life = Duration::from_secs(3);
    let joinable = Joinable::start_with(|it| it.certificate_life = life).await;
    let joined = joinable.joined("edge").await;
    let mut agent = joinable.session(&joined, "edge").await.unwrap();
    let renewed = joinable.renew(&joined).await.unwrap();
    assert_eq!(renewed.issued.agent_id, joined.issued.agent_id);
    assert_ne!(renewed.issued.certificate, joined.issued.certificate);

    eventually("the first certificate ends", PATIENCE, async || {
        joinable.session(&joined, "edge").await.is_err()
    })
    .await;
    assert!(joinable.renew(&joined).await.is_err(), "too late to renew");
    let other = joinable.joined("edge").await;
    joinable.session(&other, "edge").await.unwrap();
    // The first session was opened long before and goes on until another takes its place.
    let ended = end_of(&mut agent).await;
    assert_eq!(ended.code(), Code::Ok, "{ended}");
    joinable.plane.stop().await;
}

#[tokio::test]
async fn a_revoked_agent_is_out_within_seconds_even_when_the_hint_is_lost() {
    let joinable = Joinable::start().await;
    for hinted in [true, false] {
        let joined = joinable.joined("edge").await;
        let mut agent = joinable.session(&joined, "edge").await.unwrap();
        let bystander = joinable.joined("other").await;
        let store = &joinable.plane.store;
        let id = &joined.issued.agent_id;
        store.revoke_identity(id, &by_test()).await.unwrap();
        if hinted {
            joinable.plane.live.publish(Hint::Revocation).await.unwrap();
        }
        let ended = tokio::time::timeout(REVOCATION_BOUND, end_of(&mut agent)).await;
        assert_eq!(ended.unwrap().code(), Code::PermissionDenied);
        let refused = joinable.session(&joined, "edge").await.map(drop);
        assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
        let refused = joinable.renew(&joined).await.map(drop);
        assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
        joinable.session(&bystander, "other").await.unwrap();
    }
    joinable.plane.stop().await;
}

#[tokio::test]
async fn revoking_a_token_takes_its_agents_along_only_when_asked() {
    let joinable = Joinable::start().await;
    let (id, token) = joinable.token("edge", 2).await;
    let joined = joinable.enroll(&token, "edge").await.unwrap();
    let store = &joinable.plane.store;
    let revoked = store.revoke_join_token(&id, false, &by_test()).await;
    assert_eq!(revoked.unwrap(), 0);
    assert!(joinable.enroll(&token, "edge").await.is_err());
    joinable.session(&joined, "edge").await.unwrap();

    let (id, token) = joinable.token("edge", 2).await;
    let taken = joinable.enroll(&token, "edge").await.unwrap();
    let mut agent = joinable.session(&taken, "edge").await.unwrap();
    let revoked = store.revoke_join_token(&id, true, &by_test()).await;
    assert_eq!(revoked.unwrap(), 1);
    let ended = tokio::time::timeout(REVOCATION_BOUND, end_of(&mut agent)).await;
    assert_eq!(ended.unwrap().code(), Code::PermissionDenied);
    joinable.session(&joined, "edge").await.unwrap();
    joinable.plane.stop().await;
}

#[tokio::test]
async fn a_new_authority_takes_over_while_both_are_trusted() {
    let life = Duration::from_secs(6);
    let joinable = Joinable::start_with(|it| it.certificate_life = life).await;
    let old = joinable.joined("edge").await;
    let new_fingerprint = rotate_authority(&files(joinable.dir.path()), now_ms()).unwrap();
    let store = &joinable.plane.store;
    eventually("the new authority is known", PATIENCE, async || {
        let trusted = store.authorities(now_ms()).await.unwrap();
        trusted.len() == 2 && trusted[1].fingerprint == new_fingerprint
    })
    .await;
    // The old certificate is good, the old bundle too, and the renewal brings the new ones.
    joinable.session(&old, "edge").await.unwrap();
    let renewed = joinable.renew(&old).await.unwrap();
    assert_eq!(renewed.issued.authorities, joinable.bundle().await);
    joinable.session(&renewed, "edge").await.unwrap();

    eventually("the old authority has retired", PATIENCE, async || {
        store.authorities(now_ms()).await.unwrap().len() == 1
    })
    .await;
    eventually(
        "the server shows a certificate of the new one",
        PATIENCE,
        async || joinable.dial(None).await.is_ok(),
    )
    .await;
    let latest = joinable.joined("edge").await;
    joinable.session(&latest, "edge").await.unwrap();
    assert!(
        joinable.dial(Some(&old)).await.is_err(),
        "who missed the whole overlap knows no authority of this server"
    );
    joinable.plane.stop().await;
}

#[tokio::test]
async fn replicas_with_the_same_files_honour_each_others_certificates() {
    let one = Joinable::start().await;
    let enrolment = settings(one.dir.path());
    let change = |config: &mut lanekeeper_control_plane::Config| {
        config.transport = Transport::Enrolment(enrolment);
    };
    let (store, live) = (one.plane.store.clone(), Arc::clone(&one.plane.live));
    let plane = Plane::start_on(store, live, change).await;
    let other = Joinable {
        plane,
        dir: tempfile::tempdir().unwrap(),
    };
    let joined = one.joined("edge").await;
    let mut agent = other.session(&joined, "edge").await.unwrap();
    let store = &one.plane.store;
    let change: Change = by_test();
    store
        .revoke_identity(&joined.issued.agent_id, &change)
        .await
        .unwrap();
    let ended = tokio::time::timeout(REVOCATION_BOUND, end_of(&mut agent)).await;
    assert_eq!(ended.unwrap().code(), Code::PermissionDenied);
    other.plane.stop().await;
    one.plane.stop().await;
}

#[tokio::test]
async fn the_servers_own_certificate_is_renewed_without_a_restart() {
    // Long enough that a busy machine renews it in time.
    let life = Duration::from_secs(6);
    let joinable = Joinable::start_with(|it| it.server_certificate_life = life).await;
    let joined = joinable.joined("edge").await;
    let began = tokio::time::Instant::now();
    while began.elapsed() < life + life / 2 {
        joinable.session(&joined, "edge").await.unwrap();
    }
    joinable.plane.stop().await;
}
