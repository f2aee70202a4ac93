//! The session under a clock that only moves when told to.

use super::*;
use bytes::Bytes;
use lanekeeper_proto::message::GoodbyeReason;

const INTERVAL: Duration = Duration::from_secs(10);

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn welcome(control_epoch: &str) -> Welcome {
    Welcome {
        session_epoch: 7,
        control_epoch: control_epoch.to_owned(),
        report_interval: INTERVAL,
        report_phase: Duration::from_secs(4),
        stale_after: Duration::from_secs(30),
        target_revision: 5,
        protocol: 1,
        gateway_exists: true,
        limits: Limits {
            message_bytes: 1 << 24,
            report_cells: 1000,
        },
        capabilities: Vec::new(),
    }
}

fn push(revision: u64) -> ConfigPush {
    ConfigPush {
        nonce: revision * 10,
        revision,
        document: Bytes::from_static(b"{}"),
        hash: format!("hash-{revision}"),
    }
}

fn ack(seq: u64) -> FromServer {
    FromServer::ReportAck(ReportAck {
        seq,
        want_dense: false,
        next_interval: None,
        refused: None,
        transitions_stored: 0,
    })
}

fn serving(revision: u64, control_epoch: &str) -> Lineage {
    Lineage {
        applied: Some(AppliedRevision {
            revision,
            hash: format!("hash-{revision}"),
            source: ConfigSource::Disk,
            control_epoch: Some(control_epoch.to_owned()),
        }),
        session_epoch: None,
    }
}

/// An open session whose first report is sent and acknowledged.
fn running(start: Instant) -> (Session, Lineage) {
    let mut lineage = Lineage::default();
    let mut session = Session::new(start);
    session
        .receive(FromServer::Welcome(welcome("a")), &mut lineage, start)
        .unwrap();
    session.number(start, 0.5).unwrap();
    session.receive(ack(1), &mut lineage, start).unwrap();
    (session, lineage)
}

#[test]
fn the_first_report_is_dense_and_at_once_the_next_ones_keep_phase_and_interval() {
    let start = crate::clock::now();
    let mut lineage = Lineage::default();
    let mut session = Session::new(start);
    assert_eq!(session.due(start), Ok(false));
    let step = session.receive(FromServer::Welcome(welcome("a")), &mut lineage, start);
    assert_eq!(step, Ok(Step::Opened { confirmed: false }));
    assert_eq!(lineage.session_epoch, Some(7));
    assert_eq!(session.due(start), Ok(true));
    let first = session.number(start, 0.5).unwrap();
    assert_eq!(
        first,
        Numbered {
            seq: 1,
            dense: true,
            provider_cells: false,
            transitions: false,
        }
    );

    let mut times = Vec::new();
    for seq in 2..=4 {
        let at = session.wake_at();
        assert_eq!(session.due(at - secs(0.001)), Ok(false));
        assert_eq!(session.due(at), Ok(true));
        let numbered = session.number(at, 0.5).unwrap();
        assert_eq!((numbered.seq, numbered.dense), (seq, false));
        session.receive(ack(seq), &mut lineage, at).unwrap();
        times.push(at.duration_since(start).as_secs_f64().round());
    }
    assert_eq!(times, [4.0, 14.0, 24.0]);
}

#[test]
fn intervals_spread_by_a_tenth_each_way() {
    for (jitter, expected) in [(0.0, 9.0), (1.0, 11.0)] {
        let start = crate::clock::now();
        let (mut session, mut lineage) = running(start);
        let timed = session.wake_at();
        session.number(timed, jitter).unwrap();
        session.receive(ack(2), &mut lineage, timed).unwrap();
        let step = session.wake_at().duration_since(timed).as_secs_f64();
        assert!((step - expected).abs() < 1e-6, "{step}");
    }
}

#[test]
fn a_burst_of_transitions_is_one_report_a_second_and_none_waits_longer() {
    let start = crate::clock::now();
    let (mut session, mut lineage) = running(start);
    let mut sent = Vec::new();
    let mut oldest_waiting = None;
    for tick in 0..300 {
        let now = start + Duration::from_millis(10) * tick;
        session.stir(now);
        let waiting = *oldest_waiting.get_or_insert(now);
        if session.due(now).unwrap() {
            assert!(now.duration_since(waiting) <= secs(1.0));
            let numbered = session.number(now, 0.5).unwrap();
            session
                .receive(ack(numbered.seq), &mut lineage, now)
                .unwrap();
            oldest_waiting = None;
            sent.push(now);
        }
    }
    assert_eq!(sent.len(), 3);
    for pair in sent.windows(2) {
        assert!(pair[1].duration_since(pair[0]) >= REPORT_GAP);
    }
}

#[test]
fn a_single_transition_is_reported_within_a_second() {
    let start = crate::clock::now();
    let (mut session, _) = running(start);
    let transition = start + secs(2.0);
    session.stir(transition);
    assert!(session.wake_at().duration_since(transition) <= secs(1.0));
    assert_eq!(session.due(session.wake_at()), Ok(true));
}

#[test]
fn dense_reports_come_every_five_minutes_and_when_asked_for() {
    let start = crate::clock::now();
    let (mut session, mut lineage) = running(start);
    let mut dense = Vec::new();
    while session.wake_at() < start + secs(320.0) {
        let at = session.wake_at();
        let numbered = session.number(at, 0.5).unwrap();
        session
            .receive(ack(numbered.seq), &mut lineage, at)
            .unwrap();
        if numbered.dense {
            dense.push(at.duration_since(start).as_secs());
        }
    }
    assert_eq!(dense.len(), 1);
    assert!((300..=310).contains(&dense[0]), "{dense:?}");

    let now = session.wake_at() - secs(2.0);
    let wanted = ReportAck {
        seq: 0,
        want_dense: true,
        next_interval: None,
        refused: None,
        transitions_stored: 0,
    };
    session
        .receive(FromServer::ReportAck(wanted), &mut lineage, now)
        .unwrap();
    assert_eq!(session.due(now), Ok(true));
    assert!(session.number(now, 0.5).unwrap().dense);
}

#[test]
fn a_server_that_does_without_closed_cells_gets_a_dense_report_only_when_it_asks() {
    let start = crate::clock::now();
    let mut lineage = Lineage::default();
    let mut session = Session::new(start);
    let sparse = Welcome {
        capabilities: vec![ABILITY_SPARSE.to_owned(), ABILITY_PROVIDER_CELLS.to_owned()],
        ..welcome("a")
    };
    session
        .receive(FromServer::Welcome(sparse), &mut lineage, start)
        .unwrap();
    let later = start + secs(400.0);
    for at in [start, later] {
        let numbered = session.number(at, 0.5).unwrap();
        assert_eq!((numbered.dense, numbered.provider_cells), (false, true));
    }
    let wanted = ReportAck {
        seq: 2,
        want_dense: true,
        next_interval: None,
        refused: None,
        transitions_stored: 0,
    };
    session
        .receive(FromServer::ReportAck(wanted), &mut lineage, later)
        .unwrap();
    assert!(session.number(later, 0.5).unwrap().dense);
    assert!(!session.number(later + secs(400.0), 0.5).unwrap().dense);
}

#[test]
fn a_server_that_always_asks_for_dense_reports_gets_one_in_five_seconds() {
    let start = crate::clock::now();
    let (mut session, mut lineage) = running(start);
    let (mut now, mut dense) = (start, 0);
    while now < start + secs(60.0) {
        now = session.wake_at();
        let numbered = session.number(now, 0.5).unwrap();
        dense += u32::from(numbered.dense);
        let always = ReportAck {
            seq: numbered.seq,
            want_dense: true,
            next_interval: None,
            refused: None,
            transitions_stored: 0,
        };
        session
            .receive(FromServer::ReportAck(always), &mut lineage, now)
            .unwrap();
    }
    assert!((10..=13).contains(&dense), "{dense}");
}

#[test]
fn two_missing_acknowledgements_end_the_session() {
    let start = crate::clock::now();
    let (mut session, mut lineage) = running(start);
    let first = session.wake_at();
    session.number(first, 0.5).unwrap();
    session.number(first + INTERVAL, 0.5).unwrap();
    let deadline = first + INTERVAL * 2;
    assert!(session.due(deadline - secs(0.1)).is_ok());
    assert_eq!(session.due(deadline), Err(Leave::NoAck));

    session.receive(ack(2), &mut lineage, deadline).unwrap();
    assert!(session.due(deadline).is_ok(), "the second is younger");
}

#[test]
fn a_server_that_never_welcomes_is_left() {
    let start = crate::clock::now();
    let session = Session::new(start);
    assert_eq!(session.wake_at(), start + WELCOME_PATIENCE);
    assert_eq!(session.due(session.wake_at()), Err(Leave::NoWelcome));
    assert_eq!(session.lasted(session.wake_at()), Duration::ZERO);
}

#[test]
fn a_blocked_link_does_not_cause_a_burst_afterwards() {
    let start = crate::clock::now();
    let (mut session, _) = running(start);
    let late = session.wake_at() + secs(19.0);
    session.number(late, 0.5).unwrap();
    assert!(session.wake_at() >= late + INTERVAL / 2);
}

#[test]
fn an_ordered_interval_takes_effect_within_bounds() {
    let start = crate::clock::now();
    let (mut session, mut lineage) = running(start);
    let order = |interval| {
        FromServer::ReportAck(ReportAck {
            seq: 1,
            want_dense: false,
            next_interval: Some(interval),
            refused: None,
            transitions_stored: 0,
        })
    };
    session
        .receive(order(secs(2.0)), &mut lineage, start)
        .unwrap();
    assert_eq!(session.wake_at(), start + secs(2.0));
    session
        .receive(order(secs(0.001)), &mut lineage, start)
        .unwrap();
    assert_eq!(session.wake_at(), start + INTERVAL_MIN);
    session
        .receive(order(Duration::MAX), &mut lineage, start)
        .unwrap();
    session.number(session.wake_at(), 0.5).unwrap();
    assert!(session.wake_at() <= start + INTERVAL_MAX + secs(1.0));
}

#[test]
fn no_revision_goes_back_within_a_control_epoch() {
    let start = crate::clock::now();
    let mut lineage = serving(5, "a");
    let mut session = Session::new(start);
    let step = session.receive(FromServer::Welcome(welcome("a")), &mut lineage, start);
    assert_eq!(step, Ok(Step::Opened { confirmed: true }));
    let step = session
        .receive(FromServer::ConfigPush(push(4)), &mut lineage, start)
        .unwrap();
    let Step::Answer(answer) = step else {
        panic!("an older revision was let through: {step:?}")
    };
    assert_eq!((answer.nonce, answer.revision), (40, 5));
    assert_eq!(answer.hash, "hash-5");
    let ConfigOutcome::Rejected { errors } = answer.outcome else {
        panic!("not refused")
    };
    assert_eq!(errors[0].code, "older_revision");

    for revision in [5, 6] {
        let step = session.receive(FromServer::ConfigPush(push(revision)), &mut lineage, start);
        assert_eq!(step, Ok(Step::Adopt(push(revision))));
    }
}

#[test]
fn a_new_control_epoch_may_go_back() {
    let start = crate::clock::now();
    let mut lineage = serving(5, "a");
    let mut session = Session::new(start);
    let step = session.receive(FromServer::Welcome(welcome("b")), &mut lineage, start);
    assert_eq!(step, Ok(Step::Opened { confirmed: false }));
    let step = session.receive(FromServer::ConfigPush(push(2)), &mut lineage, start);
    assert_eq!(step, Ok(Step::Adopt(push(2))));
    lineage.tried(
        &push(2),
        session.control_epoch().map(str::to_owned),
        Ok(Vec::new()),
    );
    let applied = lineage.applied.unwrap();
    assert_eq!(applied.control_epoch.as_deref(), Some("b"));
    assert_eq!((applied.revision, applied.source), (2, ConfigSource::Live));
}

#[test]
fn a_refused_push_leaves_the_lineage_alone() {
    let start = crate::clock::now();
    let mut lineage = serving(5, "a");
    let mut session = Session::new(start);
    session
        .receive(FromServer::Welcome(welcome("a")), &mut lineage, start)
        .unwrap();
    let answer = lineage.tried(
        &push(6),
        session.control_epoch().map(str::to_owned),
        Err(Vec::new()),
    );
    assert_eq!(answer.nonce, 60);
    assert_eq!((answer.revision, answer.hash.as_str()), (5, "hash-5"));
    assert_eq!(lineage.applied.unwrap().revision, 5);
}

#[test]
fn messages_out_of_place_end_the_session() {
    let start = crate::clock::now();
    let mut lineage = Lineage::default();
    for early in [ack(1), FromServer::ConfigPush(push(1))] {
        let left = Session::new(start).receive(early, &mut lineage, start);
        assert!(matches!(left, Err(Leave::Protocol(_))));
    }
    let (mut session, mut lineage) = running(start);
    let again = session.receive(FromServer::Welcome(welcome("a")), &mut lineage, start);
    assert!(matches!(again, Err(Leave::Protocol(_))));

    let mut unknown = welcome("a");
    unknown.protocol = PROTOCOL_MAX + 1;
    let left = Session::new(start).receive(FromServer::Welcome(unknown), &mut lineage, start);
    assert!(matches!(left, Err(Leave::Protocol(_))));
}

#[test]
fn a_goodbye_ends_the_session_at_any_time() {
    let start = crate::clock::now();
    let goodbye = Goodbye {
        reason: GoodbyeReason::Shutdown,
        detail: "restart".to_owned(),
        reconnect_after: Duration::from_secs(1),
        jitter: Duration::ZERO,
    };
    let message = FromServer::Goodbye(goodbye.clone());
    let mut lineage = Lineage::default();
    let left = Session::new(start).receive(message.clone(), &mut lineage, start);
    assert_eq!(left, Err(Leave::Goodbye(goodbye.clone())));
    let (mut session, mut lineage) = running(start);
    let left = session.receive(message, &mut lineage, start);
    assert_eq!(left, Err(Leave::Goodbye(goodbye)));
}
