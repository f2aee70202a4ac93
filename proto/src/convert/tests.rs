//! Every message survives the way out and in, and every fault names its field.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lanekeeper_model::lease::{ProbeAnswer, ProbeAsk, ProbeVerdict, ProbedLane};
use lanekeeper_model::transition::{ShedTransitions, TransitionCause, TransitionReport};
use lanekeeper_model::{
    Advisory, CauseReport, CellReport, CellState, ConfigSource, Override, OverrideAction, Problem,
    Report, Totals,
};
use proptest::prelude::*;
use prost::Message as _;

use crate::message::*;
use crate::{WireError, limits, wire};

mod fixtures;
mod pools;

fn hello() -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        agent_version: "0.1.0".into(),
        gateway: "edge".into(),
        name: "node-7".into(),
        labels: BTreeMap::from([("zone".into(), "b".into()), ("rack".into(), "4".into())]),
        instance: "0190-7".into(),
        applied: Some(AppliedRevision {
            revision: 12,
            hash: "ab".repeat(32),
            source: ConfigSource::Disk,
            control_epoch: Some("first".into()),
        }),
        wall_ms: 1_700_000_000_123,
        previous_session_epoch: Some(41),
        capabilities: vec!["dense".into()],
    }
}

fn applied() -> ConfigResult {
    ConfigResult {
        nonce: 3,
        outcome: ConfigOutcome::Applied {
            problems: vec!["provider openai: OPENAI_API_KEY is not set".into()],
        },
        revision: 13,
        hash: "cd".repeat(32),
        pools: Vec::new(),
    }
}

fn rejected() -> ConfigResult {
    ConfigResult {
        nonce: 4,
        outcome: ConfigOutcome::Rejected {
            errors: vec![Problem::new(
                "/pools/chat",
                "unknown_reference",
                "no such lane",
            )],
        },
        revision: 13,
        hash: "cd".repeat(32),
        pools: Vec::new(),
    }
}

fn report() -> Report {
    Report {
        seq: 9,
        dense: true,
        cells: vec![
            CellReport {
                pool: "chat".into(),
                lane: "sonnet".into(),
                provider: "anthropic-main".into(),
                endpoint: Some("eu".into()),
                state: CellState::Open,
                state_age_ms: 83_200,
                open_age_ms: 0,
                cooldown_remaining_ms: 4_100,
                parked_remaining_ms: 7,
                streak: 5,
                trips: 2,
                reopens: 3,
                window_ok: 3,
                window_failed: 8,
                cause: Some(CauseReport {
                    kind: "status".into(),
                    status: Some(529),
                    count: 412,
                }),
                override_action: Some("drain".into()),
                advisory: true,
                advisory_spared: 0,
            },
            CellReport {
                pool: "".into(),
                lane: "gpt".into(),
                provider: "openai".into(),
                endpoint: None,
                state: CellState::HalfOpen,
                state_age_ms: 1,
                open_age_ms: 0,
                cooldown_remaining_ms: 0,
                parked_remaining_ms: 0,
                streak: 0,
                trips: 1,
                reopens: 0,
                window_ok: 0,
                window_failed: 0,
                cause: None,
                override_action: None,
                advisory: false,
                advisory_spared: 0,
            },
        ],
        totals: Totals {
            requests: 10,
            ok: 8,
            failed: 1,
            failovers: 3,
            exhausted: 1,
            inflight: 1,
        },
        revision: 13,
        problems: vec!["disk is read-only".into()],
        draining: true,
        digest: None,
        pools: Vec::new(),
        pools_over_ms: 0,
        transitions: Vec::new(),
        shed_transitions: None,
    }
}

/// A report that also carries changes of state: of a member's cell, of a provider's own, and that
/// some before them are missing.
fn report_with_transitions() -> Report {
    let mut report = report();
    let opened = TransitionReport {
        sequence: 7,
        age_ms: 400,
        pool: "chat".into(),
        lane: "sonnet".into(),
        provider: "anthropic-main".into(),
        endpoint: Some("messages".into()),
        from: CellState::Closed,
        to: CellState::Open,
        reason: "error_rate".into(),
        failures: 6,
        samples: 10,
        cause: Some(TransitionCause {
            kind: "status".into(),
            status: Some(529),
        }),
        cooldown_ms: 10_000,
        observed: false,
    };
    let own = TransitionReport {
        sequence: 8,
        pool: "".into(),
        lane: "".into(),
        endpoint: None,
        from: CellState::HalfOpen,
        to: CellState::Closed,
        cause: None,
        observed: true,
        ..opened.clone()
    };
    report.transitions = vec![opened, own];
    report.shed_transitions = Some(ShedTransitions {
        first: 2,
        last: 6,
        age_ms: 90_000,
    });
    report
}

/// A report that also carries what its cells come to.
fn report_with_digest() -> Report {
    let mut report = report();
    report.digest = Some(lanekeeper_model::digest(&report.cells));
    report
}

/// A report of a provider's own cell.
fn report_with_provider_cell() -> Report {
    let mut report = report();
    report.cells.truncate(1);
    let cell = &mut report.cells[0];
    (cell.pool, cell.lane) = ("".into(), "".into());
    report
}

/// An override of a provider's own cell.
fn provider_override() -> Override {
    Override {
        id: "o5".into(),
        pool: None,
        lane: "".into(),
        provider: Some("anthropic-main".into()),
        action: OverrideAction::ForceOpen,
        remaining_ms: 60_000,
    }
}

/// A report that also carries how long a cell has not been closed.
fn report_with_open_age() -> Report {
    let mut report = report();
    report.cells[0].open_age_ms = 154_300;
    report
}

/// A report of what advisories spared.
fn report_with_spared_attempts() -> Report {
    let mut report = report();
    report.cells[0].advisory_spared = 41;
    report
}

fn probed_lane(endpoint: Option<&str>) -> ProbedLane {
    ProbedLane {
        lane: "sonnet".into(),
        endpoint: endpoint.map(Into::into),
    }
}

/// A success and a failure.
fn probe_verdicts() -> Vec<ProbeVerdict> {
    let succeeded = ProbeVerdict {
        lane: probed_lane(None),
        subject: u64::MAX,
        failure: None,
        age_ms: 340,
        next_ms: 0,
    };
    let failed = ProbeVerdict {
        lane: probed_lane(Some("embeddings")),
        failure: Some(CauseReport {
            kind: "status".into(),
            status: Some(503),
            count: 1,
        }),
        next_ms: 30_000,
        ..succeeded.clone()
    };
    vec![succeeded, failed]
}

fn probe_lease_request() -> ProbeLeaseRequest {
    ProbeLeaseRequest {
        asks: vec![ProbeAsk {
            lane: probed_lane(None),
            ttl_ms: 15_000,
        }],
        verdicts: probe_verdicts(),
        returned: vec![probed_lane(Some("chat"))],
    }
}

fn probe_lease() -> ProbeLease {
    let answer = |granted| ProbeAnswer {
        lane: probed_lane(None),
        granted,
        remaining_ms: 9_000,
    };
    ProbeLease {
        answers: vec![answer(true), answer(false)],
        verdicts: probe_verdicts(),
    }
}

/// One advisory of each reach.
fn advisories() -> Vec<Advisory> {
    let advisory = |pool: &str, endpoint: Option<&str>| Advisory {
        pool: Some(pool.into()),
        lane: "sonnet".into(),
        endpoint: endpoint.map(Into::into),
        remaining_ms: 30_000,
        evidence_age_ms: 1_234,
        agents: 40,
    };
    vec![advisory("chat", None), advisory("", Some("embeddings"))]
}

/// One override of each action and each reach.
fn overrides() -> Vec<Override> {
    let override_ = |id: &str, pool: Option<&str>, action, remaining_ms| Override {
        id: id.into(),
        pool: pool.map(Into::into),
        lane: "sonnet".into(),
        provider: None,
        action,
        remaining_ms,
    };
    vec![
        override_("o1", None, OverrideAction::ForceOpen, 60_000),
        override_("o2", Some(""), OverrideAction::ForceClose, 1),
        override_("o3", Some("chat"), OverrideAction::Drain, u64::MAX),
        override_("o4", Some("chat"), OverrideAction::Reset, 0),
    ]
}

fn from_agent() -> Vec<(&'static str, FromAgent)> {
    vec![
        ("hello", FromAgent::Hello(hello())),
        ("config_result_applied", FromAgent::ConfigResult(applied())),
        (
            "config_result_rejected",
            FromAgent::ConfigResult(rejected()),
        ),
        (
            "config_result_with_pools",
            FromAgent::ConfigResult(pools::applied_with_pools()),
        ),
        ("report", FromAgent::Report(report())),
        (
            "report_with_open_age",
            FromAgent::Report(report_with_open_age()),
        ),
        (
            "report_with_digest",
            FromAgent::Report(report_with_digest()),
        ),
        (
            "report_with_provider_cell",
            FromAgent::Report(report_with_provider_cell()),
        ),
        (
            "report_with_pools",
            FromAgent::Report(pools::report_with_pools()),
        ),
        (
            "probe_lease_request",
            FromAgent::ProbeLeases(probe_lease_request()),
        ),
        (
            "report_with_spared_attempts",
            FromAgent::Report(report_with_spared_attempts()),
        ),
        (
            "report_with_transitions",
            FromAgent::Report(report_with_transitions()),
        ),
        (
            "bye",
            FromAgent::Bye(Bye {
                reason: "drained".into(),
            }),
        ),
        (
            "overrides_result",
            FromAgent::OverridesResult(OverridesResult {
                generation: 8,
                applied: vec!["o1".into(), "o2".into()],
                refused: vec![RefusedOverride {
                    id: "o3".into(),
                    reason: "no such cell".into(),
                }],
            }),
        ),
    ]
}

fn from_server() -> Vec<(&'static str, FromServer)> {
    vec![
        (
            "welcome",
            FromServer::Welcome(Welcome {
                session_epoch: 42,
                control_epoch: "first".into(),
                report_interval: Duration::from_secs(10),
                report_phase: Duration::from_millis(1234),
                stale_after: Duration::from_secs(30),
                target_revision: 13,
                protocol: 1,
                gateway_exists: true,
                limits: Limits {
                    message_bytes: 16 << 20,
                    report_cells: 65_536,
                },
                capabilities: vec!["lease".into()],
            }),
        ),
        (
            "config_push",
            FromServer::ConfigPush(ConfigPush {
                nonce: 3,
                revision: 13,
                document: Bytes::from_static(br#"{"version":1}"#),
                hash: "cd".repeat(32),
            }),
        ),
        (
            "report_ack",
            FromServer::ReportAck(ReportAck {
                seq: 9,
                want_dense: true,
                next_interval: Some(Duration::from_secs(20)),
                refused: Some("report.totals: is missing".into()),
                transitions_stored: 0,
            }),
        ),
        (
            "report_ack_with_transitions_stored",
            FromServer::ReportAck(ReportAck {
                seq: 10,
                want_dense: false,
                next_interval: None,
                refused: None,
                transitions_stored: 41,
            }),
        ),
        ("drain", FromServer::Drain(true)),
        ("advisories", FromServer::Advisories(advisories())),
        ("probe_lease", FromServer::ProbeLeases(probe_lease())),
        (
            "overrides",
            FromServer::Overrides(Overrides {
                generation: 8,
                entries: overrides(),
                unreadable: Vec::new(),
            }),
        ),
        (
            "overrides_of_a_provider",
            FromServer::Overrides(Overrides {
                generation: 9,
                entries: vec![provider_override()],
                unreadable: Vec::new(),
            }),
        ),
        (
            "goodbye",
            FromServer::Goodbye(Goodbye {
                reason: GoodbyeReason::Shutdown,
                detail: "the server restarts".into(),
                reconnect_after: Duration::from_millis(500),
                jitter: Duration::from_secs(5),
            }),
        ),
    ]
}

#[test]
fn agent_without_a_configuration_says_so_and_nothing_else() {
    let mut bare = hello();
    bare.applied = None;
    bare.previous_session_epoch = None;
    let message = wire::Hello::from(bare.clone());
    assert_eq!(message.applied_revision, 0);
    assert_eq!(message.config_source, 0);
    assert_eq!(Hello::try_from(message).unwrap(), bare);
}

#[test]
fn newer_peers_message_is_told_apart_from_a_bad_one() {
    // Field 15, a length-delimited message this build has never heard of.
    let unheard_of: &[u8] = &[0x7a, 0x01, 0x00];
    let envelope = wire::ServerMessage::decode(unheard_of).unwrap();
    assert_eq!(FromServer::try_from(envelope), Err(WireError::Empty));
    let envelope = wire::AgentMessage::decode(unheard_of).unwrap();
    assert_eq!(
        FromAgent::try_from(envelope).unwrap_err().error,
        WireError::Empty
    );
}

fn refused(change: impl FnOnce(&mut wire::Report)) -> String {
    let mut message = wire::Report::from(report());
    change(&mut message);
    let envelope = wire::AgentMessage {
        message: Some(wire::agent_message::Message::Report(message)),
    };
    let unfit = FromAgent::try_from(envelope).unwrap_err();
    assert_eq!(unfit.report_seq, Some(9), "the ack needs the number");
    unfit.to_string()
}

#[test]
fn faulty_report_is_refused_with_the_field_named() {
    assert_eq!(
        refused(|report| report.cells[1].state = 9),
        "report.cells[1].state: value 9 is not known"
    );
    assert_eq!(
        refused(|report| report.cells[0].state = 0),
        "report.cells[0].state: value 0 is not known"
    );
    assert_eq!(
        refused(|report| report.cells[0].lane.clear()),
        "report.cells[0].lane: is missing"
    );
    assert_eq!(
        refused(|report| {
            report.cells[0].pool.clear();
            report.cells[0].lane.clear();
            report.cells[0].provider.clear();
        }),
        "report.cells[0].provider: is missing"
    );
    assert_eq!(
        refused(|report| report.cells[0].cause.as_mut().unwrap().status = Some(70_000)),
        "report.cells[0].cause.status: 70000 is above 65535"
    );
    assert_eq!(
        refused(|report| report.totals = None),
        "report.totals: is missing"
    );
    assert_eq!(
        refused(|report| report.problems = vec!["x".repeat(limits::TEXT_BYTES_MAX + 1)]),
        "report.problems[0]: longer than 4096 bytes"
    );
    assert_eq!(
        refused(|report| {
            let cell = report.cells[0].clone();
            report.cells = vec![cell; limits::REPORT_CELLS_MAX + 1];
        }),
        "report.cells: more than 65536 entries"
    );
}

#[test]
fn faulty_hello_and_result_are_refused_with_the_field_named() {
    let mut message = wire::Hello::from(hello());
    message.config_source = 7;
    assert_eq!(
        Hello::try_from(message).unwrap_err().to_string(),
        "config_source: value 7 is not known"
    );
    let mut message = wire::Hello::from(hello());
    message.instance.clear();
    assert_eq!(
        Hello::try_from(message).unwrap_err().to_string(),
        "instance: is missing"
    );
    for steering in ["dup\u{1b}[31m", "two\nlines", "\u{9b}1m"] {
        let mut message = wire::Hello::from(hello());
        message.name = steering.into();
        assert_eq!(
            Hello::try_from(message).unwrap_err().to_string(),
            "name: must not have control characters"
        );
        let mut message = wire::Hello::from(hello());
        message.labels.insert("zone".into(), steering.into());
        assert_eq!(
            Hello::try_from(message).unwrap_err().to_string(),
            "labels: must not have control characters"
        );
    }
    for gateway in ["edge:1", "edge/..", "e dge", "edge\0"] {
        let mut message = wire::Hello::from(hello());
        message.gateway = gateway.into();
        let error = Hello::try_from(message).unwrap_err();
        assert!(matches!(error, WireError::NotAName { field } if field == "gateway"));
    }
    let mut message = wire::ConfigResult::from(rejected());
    message.outcome = 5;
    assert_eq!(
        ConfigResult::try_from(message).unwrap_err().to_string(),
        "outcome: value 5 is not known"
    );
}

#[test]
fn push_without_a_revision_or_beyond_the_size_is_refused() {
    let push = wire::ConfigPush {
        nonce: 1,
        revision: 0,
        document: Bytes::from_static(b"{}"),
        hash: "x".into(),
    };
    assert!(matches!(
        ConfigPush::try_from(push.clone()),
        Err(WireError::Missing { field }) if field == "revision"
    ));
    let push = wire::ConfigPush {
        revision: 1,
        document: vec![b' '; limits::DOCUMENT_BYTES_MAX + 1].into(),
        ..push
    };
    assert!(matches!(
        ConfigPush::try_from(push),
        Err(WireError::TooLong { field, .. }) if field == "document"
    ));
}

#[test]
fn override_that_cannot_be_read_does_not_keep_the_others() {
    let mut message = wire::Overrides::from(Overrides {
        generation: 3,
        entries: overrides(),
        unreadable: Vec::new(),
    });
    message.orders[0].action = 9;
    message.orders[1].lane.clear();
    message.orders[2].pool = Some("two\nlines".into());
    let overrides = Overrides::try_from(message.clone()).unwrap();
    let taken: Vec<&str> = overrides.entries.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(taken, ["o4"]);
    let reasons: Vec<(&str, &str)> = overrides
        .unreadable
        .iter()
        .map(|it| (it.id.as_str(), it.reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            ("o1", "action: value 9 is not known"),
            ("o2", "lane: is missing"),
            ("o3", "pool: must not have control characters"),
        ]
    );

    message.orders[3].id.clear();
    let nameless = Overrides::try_from(message.clone()).unwrap_err();
    assert_eq!(nameless.to_string(), "orders[3].id: is missing");
    message.orders = vec![message.orders[0].clone(); limits::OVERRIDES_MAX + 1];
    let many = Overrides::try_from(message).unwrap_err();
    assert_eq!(many.to_string(), "orders: more than 1000 entries");
}

#[test]
fn override_of_a_provider_names_neither_pool_nor_lane() {
    let reasons = |change: fn(&mut wire::Override)| {
        let mut given = wire::Override::from(provider_override());
        change(&mut given);
        let set = wire::Overrides {
            generation: 1,
            orders: vec![given],
        };
        let unreadable = Overrides::try_from(set).unwrap().unreadable;
        unreadable.into_iter().map(|it| it.reason).next()
    };
    assert_eq!(reasons(|_| {}), None);
    let excluded = Some("provider: is given beside fields that exclude it".to_owned());
    assert_eq!(reasons(|given| given.lane = "sonnet".into()), excluded);
    assert_eq!(reasons(|given| given.pool = Some(String::new())), excluded);
    let missing = |field: &str| Some(format!("{field}: is missing"));
    assert_eq!(
        reasons(|given| given.provider = Some(String::new())),
        missing("provider")
    );
    assert_eq!(
        reasons(|given| given.provider = None),
        missing("lane"),
        "what a release that does not know the field makes of it"
    );
}

#[test]
fn answer_to_orders_is_bounded() {
    let result = OverridesResult {
        generation: 1,
        applied: vec!["o".into(); limits::OVERRIDES_MAX + 1],
        refused: Vec::new(),
    };
    let error = OverridesResult::try_from(wire::OverridesResult::from(result)).unwrap_err();
    assert_eq!(error.to_string(), "applied: more than 1000 entries");
}

#[test]
fn unknown_goodbye_still_ends_the_session() {
    let goodbye = wire::Goodbye {
        reason: 99,
        ..wire::Goodbye::default()
    };
    assert_eq!(
        Goodbye::try_from(goodbye).unwrap().reason,
        GoodbyeReason::Other
    );
}

proptest! {
    #[test]
    fn no_bytes_make_conversion_fail_otherwise_than_by_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(envelope) = wire::AgentMessage::decode(&*bytes) {
            drop(FromAgent::try_from(envelope));
        }
        if let Ok(envelope) = wire::ServerMessage::decode(&*bytes) {
            drop(FromServer::try_from(envelope));
        }
    }

    #[test]
    fn cells_survive_the_wire(
        state in prop_oneof![Just(CellState::Closed), Just(CellState::Open), Just(CellState::HalfOpen)],
        age in any::<u64>(), open_age in any::<u64>(), cooldown in any::<u64>(), parked in any::<u64>(), streak in any::<u32>(),
        status in proptest::option::of(any::<u16>()), endpoint in proptest::option::of("[a-z]{0,8}"),
    ) {
        let mut sent = report();
        sent.cells.truncate(1);
        let cell = &mut sent.cells[0];
        cell.state = state;
        cell.state_age_ms = age;
        cell.open_age_ms = open_age;
        cell.cooldown_remaining_ms = cooldown;
        cell.parked_remaining_ms = parked;
        cell.streak = streak;
        cell.endpoint = endpoint;
        cell.cause.as_mut().unwrap().status = status;
        let bytes = wire::Report::from(sent.clone()).encode_to_vec();
        prop_assert_eq!(Report::try_from(wire::Report::decode(&*bytes).unwrap()).unwrap(), sent);
    }
}
