//! The checked-in messages of other releases mean what they meant: those of past ones as they were
//! sent, and those of a next one that knows more than this one does.
//!
//! A fixture is written once, by `LANEKEEPER_WRITE_FIXTURES=1`, and then never changed: a peer of
//! that release still sends those bytes. `proto/fixtures/README.md` says what belongs where.

use lanekeeper_model::content_hash;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::*;

/// The protocol's first form: before overrides, drains, enrolment, refused reports and the ages of
/// incidents.
const FIRST: &str = "0.0";
/// This release.
const PRESENT: &str = "0.1";
/// One that extends the protocol in every way that is allowed.
const NEXT: &str = "next";

/// The bytes of a fixture, which are `encoded` if it is new.
fn bytes_of(release: &str, name: &str, encoded: Vec<u8>) -> Bytes {
    let name = format!("{release}/{name}");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let path = folder.join(format!("{name}.bin"));
    if std::env::var_os("LANEKEEPER_WRITE_FIXTURES").is_some() && !path.exists() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, encoded).unwrap();
    }
    crate::testing::fixture(&name)
}

fn agents(release: &str, name: &str, encoded: Vec<u8>) -> Result<FromAgent, crate::Unfit> {
    let bytes = bytes_of(release, &format!("agent/{name}"), encoded);
    FromAgent::try_from(wire::AgentMessage::decode(bytes).unwrap())
}

fn servers(release: &str, name: &str, encoded: Vec<u8>) -> Result<FromServer, WireError> {
    let bytes = bytes_of(release, &format!("server/{name}"), encoded);
    FromServer::try_from(wire::ServerMessage::decode(bytes).unwrap())
}

fn as_agent(message: FromAgent) -> Vec<u8> {
    wire::AgentMessage::from(message).encode_to_vec()
}

fn as_server(message: FromServer) -> Vec<u8> {
    wire::ServerMessage::from(message).encode_to_vec()
}

#[test]
fn agents_messages_of_this_release_mean_what_they_meant() {
    for (name, message) in from_agent() {
        let read = agents(PRESENT, name, as_agent(message.clone()));
        assert_eq!(read.unwrap(), message, "{name}");
    }
}

#[test]
fn servers_messages_of_this_release_mean_what_they_meant() {
    for (name, message) in from_server() {
        let read = servers(PRESENT, name, as_server(message.clone()));
        assert_eq!(read.unwrap(), message, "{name}");
    }
}

fn enroll_request() -> EnrollRequest {
    EnrollRequest {
        join_token: "id.secret.pin".into(),
        gateway: "edge".into(),
        name: "node-7".into(),
        csr: vec![0x30, 0x01, 0x02],
    }
}

fn issued() -> IssuedCertificate {
    IssuedCertificate {
        agent_id: "ab".repeat(16),
        certificate: "-----BEGIN CERTIFICATE-----\n".into(),
        authorities: "-----BEGIN CERTIFICATE-----\n".into(),
        valid_for: Duration::from_secs(86_400),
    }
}

/// The unary calls' messages of a release, with whatever it adds at the end of each.
fn unary_messages_mean_what_they_meant(release: &str, addition: &[u8]) {
    let bytes = |name: &str, mut encoded: Vec<u8>| {
        encoded.extend_from_slice(addition);
        bytes_of(release, &format!("unary/{name}"), encoded)
    };
    let encoded = wire::EnrollRequest::from(enroll_request()).encode_to_vec();
    let read = wire::EnrollRequest::decode(bytes("enroll_request", encoded)).unwrap();
    assert!(EnrollRequest::try_from(read).unwrap() == enroll_request());

    let request = RenewCertRequest {
        csr: vec![0x30, 0x03],
    };
    let encoded = wire::RenewCertRequest::from(request.clone()).encode_to_vec();
    let read = wire::RenewCertRequest::decode(bytes("renew_cert_request", encoded)).unwrap();
    assert_eq!(RenewCertRequest::try_from(read).unwrap(), request);

    let encoded = wire::IssuedCertificate::from(issued()).encode_to_vec();
    let read = wire::IssuedCertificate::decode(bytes("issued_certificate", encoded)).unwrap();
    assert_eq!(IssuedCertificate::try_from(read).unwrap(), issued());
}

#[test]
fn unary_messages_of_this_release_mean_what_they_meant() {
    unary_messages_mean_what_they_meant(PRESENT, &[]);
}

// ---- the first form ----

fn first_hello() -> Hello {
    Hello {
        agent_version: "0.0.9".into(),
        instance: "first-1".into(),
        applied: None,
        previous_session_epoch: None,
        capabilities: Vec::new(),
        ..hello()
    }
}

/// A report without what was added to cells later.
fn first_report() -> Report {
    let mut first = report();
    first.seq = 1;
    first.revision = 1;
    first.draining = false;
    for cell in &mut first.cells {
        cell.reopens = 0;
        cell.open_age_ms = 0;
        cell.override_action = None;
        cell.advisory = false;
    }
    first
}

fn first_result(outcome: ConfigOutcome, revision: u64) -> ConfigResult {
    ConfigResult {
        nonce: 1,
        outcome,
        revision,
        hash: "ab".repeat(32),
        pools: Vec::new(),
    }
}

fn firsts_agents() -> Vec<(&'static str, FromAgent)> {
    let applied = ConfigOutcome::Applied {
        problems: Vec::new(),
    };
    vec![
        ("hello", FromAgent::Hello(first_hello())),
        (
            "config_result_applied",
            FromAgent::ConfigResult(first_result(applied, 1)),
        ),
        (
            "config_result_rejected",
            FromAgent::ConfigResult(first_result(rejected().outcome, 0)),
        ),
        ("report", FromAgent::Report(first_report())),
        (
            "bye",
            FromAgent::Bye(Bye {
                reason: "the agent stops".into(),
            }),
        ),
    ]
}

/// A document that an agent of any release can serve, and its hash.
fn document(addition: Option<(&str, serde_json::Value)>) -> (Bytes, String) {
    let mut document = serde_json::json!({
        "gateway": "edge",
        "providers": {"p": {"protocol": "openai", "base_url": "http://127.0.0.1:9", "api_key": null}},
        "models": {"m": {"provider": "p"}},
        "pools": {"chat": {"members": [{"target": "m", "weight": 1}]}},
    });
    if let Some((field, value)) = addition {
        document["pools"]["chat"][field] = value;
    }
    let hash = content_hash(&document);
    (document.to_string().into(), hash)
}

fn push(nonce: u64, addition: Option<(&str, serde_json::Value)>) -> ConfigPush {
    let (document, hash) = document(addition);
    ConfigPush {
        nonce,
        revision: nonce,
        document,
        hash,
    }
}

fn first_welcome() -> Welcome {
    Welcome {
        session_epoch: 42,
        control_epoch: "first".into(),
        report_interval: Duration::from_secs(1),
        report_phase: Duration::from_millis(100),
        stale_after: Duration::from_secs(30),
        target_revision: 1,
        protocol: 1,
        gateway_exists: true,
        limits: Limits {
            message_bytes: 16 << 20,
            report_cells: 65_536,
        },
        capabilities: Vec::new(),
    }
}

fn ack(seq: u64) -> ReportAck {
    ReportAck {
        seq,
        want_dense: false,
        next_interval: None,
        refused: None,
        transitions_stored: 0,
    }
}

fn goodbye() -> Goodbye {
    Goodbye {
        reason: GoodbyeReason::Shutdown,
        detail: "the server restarts".into(),
        reconnect_after: Duration::from_secs(2),
        jitter: Duration::ZERO,
    }
}

fn firsts_servers() -> Vec<(&'static str, FromServer)> {
    vec![
        ("welcome", FromServer::Welcome(first_welcome())),
        ("config_push", FromServer::ConfigPush(push(1, None))),
        ("report_ack", FromServer::ReportAck(ack(1))),
        ("goodbye", FromServer::Goodbye(goodbye())),
    ]
}

#[test]
fn messages_of_the_first_form_are_read_with_what_came_later_absent() {
    for (name, message) in firsts_agents() {
        let read = agents(FIRST, name, as_agent(message.clone()));
        assert_eq!(read.unwrap(), message, "{name}");
    }
    for (name, message) in firsts_servers() {
        let read = servers(FIRST, name, as_server(message.clone()));
        assert_eq!(read.unwrap(), message, "{name}");
    }
}

// ---- a next form ----

/// Numbers that this release gives no meaning.
const UNHEARD_NUMBER: u32 = 200;
const UNHEARD_TEXT: u32 = 201;
/// An enum's value that this release has no name for.
const UNHEARD_VALUE: i32 = 9;
/// An ability that this release does not have.
const UNHEARD_ABILITY: &str = "telepathy";

fn varint(field: u32, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(field, WireType::Varint, &mut bytes);
    encode_varint(value, &mut bytes);
    bytes
}

fn nested(field: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_key(field, WireType::LengthDelimited, &mut bytes);
    encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

/// What a next release adds to a message.
fn additions() -> Vec<u8> {
    [
        varint(UNHEARD_NUMBER, 7),
        nested(UNHEARD_TEXT, b"later knowledge"),
    ]
    .concat()
}

/// An envelope's only message, with additions in it and beside it.
fn extended(field: u32, message: &impl prost::Message) -> Vec<u8> {
    let content = [message.encode_to_vec(), additions()].concat();
    [nested(field, &content), varint(UNHEARD_NUMBER, 1)].concat()
}

/// A message that is none of those this release knows.
fn unheard_of() -> Vec<u8> {
    nested(15, &additions())
}

fn next_hello(protocol_min: u32, protocol_max: u32) -> Hello {
    Hello {
        protocol_min,
        protocol_max,
        agent_version: "0.2.0".into(),
        instance: "next-1".into(),
        applied: None,
        previous_session_epoch: None,
        capabilities: vec![ABILITY_OVERRIDES.into(), UNHEARD_ABILITY.into()],
        ..hello()
    }
}

/// A report whose cells have fields of which this release knows nothing.
fn next_report(seq: u64, state: Option<i32>) -> Vec<u8> {
    let mut message = wire::Report::from(Report {
        seq,
        revision: 1,
        draining: false,
        ..report()
    });
    if let Some(state) = state {
        message.cells[0].state = state;
    }
    let cells = std::mem::take(&mut message.cells);
    let cells = cells.iter().flat_map(|cell| {
        let content = [cell.encode_to_vec(), additions()].concat();
        nested(3, &content)
    });
    let content: Vec<u8> = message.encode_to_vec().into_iter().chain(cells).collect();
    nested(3, &[content, additions()].concat())
}

fn next_result(outcome: i32) -> wire::ConfigResult {
    wire::ConfigResult {
        outcome,
        ..first_result(rejected().outcome, 0).into()
    }
}

#[test]
fn agents_messages_of_a_next_form_are_read_as_far_as_they_are_known() {
    let next = |name: &str, encoded| agents(NEXT, name, encoded);
    for (name, range) in [("hello", (1, 2)), ("hello_without_this", (2, 3))] {
        let hello = next_hello(range.0, range.1);
        let encoded = extended(1, &wire::Hello::from(hello.clone()));
        assert_eq!(next(name, encoded).unwrap(), FromAgent::Hello(hello));
    }
    let mut sourced = wire::Hello::from(hello());
    sourced.config_source = UNHEARD_VALUE;
    let refused = next("hello_unknown_source", extended(1, &sourced)).unwrap_err();
    assert_eq!(
        refused.error.to_string(),
        "hello.config_source: value 9 is not known"
    );

    let known = Report {
        seq: 1,
        revision: 1,
        draining: false,
        ..report()
    };
    let read = next("report", next_report(1, None)).unwrap();
    assert_eq!(read, FromAgent::Report(known));
    let refused = next("report_unknown_state", next_report(2, Some(UNHEARD_VALUE)));
    let refused = refused.unwrap_err();
    assert_eq!(refused.report_seq, Some(2));
    assert_eq!(
        refused.error.to_string(),
        "report.cells[0].state: value 9 is not known"
    );

    let encoded = extended(2, &next_result(UNHEARD_VALUE));
    let refused = next("config_result_unknown_outcome", encoded).unwrap_err();
    assert_eq!(refused.push_nonce, Some(1));
    assert_eq!(
        refused.error.to_string(),
        "config_result.outcome: value 9 is not known"
    );
    let applied = first_result(
        ConfigOutcome::Applied {
            problems: Vec::new(),
        },
        1,
    );
    let encoded = extended(2, &wire::ConfigResult::from(applied.clone()));
    let read = next("config_result_applied", encoded).unwrap();
    assert_eq!(read, FromAgent::ConfigResult(applied));

    let unheard = next("unheard_of", unheard_of()).unwrap_err();
    assert_eq!(unheard.error, WireError::Empty);
    let bye = wire::Bye {
        reason: "gone".into(),
    };
    assert!(matches!(
        next("bye", extended(4, &bye)).unwrap(),
        FromAgent::Bye(_)
    ));
}

#[test]
fn servers_messages_of_a_next_form_are_read_as_far_as_they_are_known() {
    let next = |name: &str, encoded| servers(NEXT, name, encoded);
    for (name, protocol) in [("welcome", 1), ("welcome_protocol_2", 2)] {
        let welcome = Welcome {
            protocol,
            capabilities: vec![ABILITY_OVERRIDES.into(), UNHEARD_ABILITY.into()],
            ..first_welcome()
        };
        let encoded = extended(1, &wire::Welcome::from(welcome.clone()));
        assert_eq!(next(name, encoded).unwrap(), FromServer::Welcome(welcome));
    }
    let strategy = serde_json::json!("by_the_stars");
    for (name, push) in [
        ("config_push", push(1, None)),
        (
            "config_push_unknown_enum",
            push(2, Some(("strategy", strategy))),
        ),
        (
            "config_push_unknown_field",
            push(3, Some(("moon", 1.into()))),
        ),
    ] {
        let encoded = extended(2, &wire::ConfigPush::from(push.clone()));
        assert_eq!(next(name, encoded).unwrap(), FromServer::ConfigPush(push));
    }
    let encoded = extended(3, &wire::ReportAck::from(ack(1)));
    let read = next("report_ack", encoded).unwrap();
    assert_eq!(read, FromServer::ReportAck(ack(1)));

    let mut overrides = wire::Overrides::from(Overrides {
        generation: 4,
        entries: vec![super::overrides()[0].clone(), super::overrides()[2].clone()],
        unreadable: Vec::new(),
    });
    overrides.orders[0].action = UNHEARD_VALUE;
    for entry in &mut overrides.orders {
        entry.lane = "m".into();
    }
    let FromServer::Overrides(read) = next("overrides", extended(5, &overrides)).unwrap() else {
        panic!("no overrides")
    };
    assert_eq!((read.entries.len(), read.unreadable.len()), (1, 1));

    let drain = next("drain", extended(8, &wire::Drain { active: true }));
    assert_eq!(drain.unwrap(), FromServer::Drain(true));
    let unheard = next("unheard_of", unheard_of());
    assert_eq!(unheard.unwrap_err(), WireError::Empty);

    let mut parting = wire::Goodbye::from(goodbye());
    parting.reason = UNHEARD_VALUE;
    let FromServer::Goodbye(read) = next("goodbye", extended(4, &parting)).unwrap() else {
        panic!("no goodbye")
    };
    assert_eq!(read.reason, GoodbyeReason::Other);
    assert_eq!(read.reconnect_after, goodbye().reconnect_after);
}

#[test]
fn unary_messages_of_a_next_form_are_read_as_far_as_they_are_known() {
    unary_messages_mean_what_they_meant(NEXT, &additions());
}

#[test]
fn every_checked_in_message_is_read_by_a_test() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let count = |path: &str| std::fs::read_dir(folder.join(path)).unwrap().count();
    assert_eq!(count("0.0/agent"), firsts_agents().len());
    assert_eq!(count("0.0/server"), firsts_servers().len());
    assert_eq!(count("0.1/agent"), from_agent().len());
    assert_eq!(count("0.1/server"), from_server().len());
}
