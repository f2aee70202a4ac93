//! The protocol's rules, one by one.

mod pools;

use std::collections::BTreeMap;

use bytes::Bytes;
use lanekeeper_model::{CellReport, CellState, ConfigSource};
use lanekeeper_proto::WireError;
use lanekeeper_proto::message::{AppliedRevision, Bye, ConfigOutcome, ConfigResult, ReportAck};

use super::*;

const EPOCH: &str = "first";

struct Bench {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "an origin to count from")]
fn bench() -> Bench {
    Bench {
        start: Instant::now(),
    }
}

impl Bench {
    fn at(&self, secs: u64) -> Instant {
        self.start + Duration::from_secs(secs)
    }

    fn open(&self, hello: Hello, target: Option<Arc<Target>>) -> (Session, Vec<Effect>) {
        let opening = Opening {
            advice: None,
            identity: None,
            session_epoch: 7,
            control_epoch: EPOCH.to_owned(),
            head: target.as_ref().map(|target| target.revision),
            target,
            overrides: None,
            now: self.start,
            now_ms: 1_000_000,
        };
        Session::open(hello, 1, &rules(), opening)
    }

    fn result(&self, session: &mut Session, result: ConfigResult) -> Vec<Effect> {
        let message = Ok(FromAgent::ConfigResult(result));
        session.receive(message, self.at(1), 1_001_000).unwrap()
    }

    fn report(&self, session: &mut Session, report: Report) -> Vec<Effect> {
        let message = Ok(FromAgent::Report(report));
        session.receive(message, self.at(1), 1_001_000).unwrap()
    }
}

fn rules() -> Rules {
    Rules {
        report_interval: Duration::from_secs(10),
        stale_after: Duration::from_secs(30),
    }
}

fn hello(applied: Option<AppliedRevision>) -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        agent_version: "0.1.0".into(),
        gateway: "edge".into(),
        name: "node-7".into(),
        labels: BTreeMap::new(),
        instance: "one".into(),
        applied,
        wall_ms: 1_000_250,
        previous_session_epoch: None,
        capabilities: Vec::new(),
    }
}

fn hash(revision: u64) -> String {
    format!("hash-{revision}")
}

fn applied(revision: u64, epoch: Option<&str>) -> Option<AppliedRevision> {
    Some(AppliedRevision {
        revision,
        hash: hash(revision),
        source: ConfigSource::Disk,
        control_epoch: epoch.map(str::to_owned),
    })
}

fn target(revision: u64) -> Option<Arc<Target>> {
    Some(Arc::new(Target {
        names: Default::default(),
        revision,
        hash: hash(revision),
        document: Bytes::from(format!("{{\"n\":{revision}}}")),
    }))
}

fn ack(nonce: u64, revision: u64) -> ConfigResult {
    ConfigResult {
        nonce,
        outcome: ConfigOutcome::Applied {
            problems: Vec::new(),
        },
        revision,
        hash: hash(revision),
        pools: Vec::new(),
    }
}

fn nack(nonce: u64, serving: u64) -> ConfigResult {
    ConfigResult {
        nonce,
        outcome: ConfigOutcome::Rejected {
            errors: vec![Problem::new("/pools", "unknown_reference", "no such lane")],
        },
        revision: serving,
        hash: hash(serving),
        pools: Vec::new(),
    }
}

fn report(seq: u64, cells: Vec<CellReport>) -> Report {
    Report {
        seq,
        cells,
        ..Report::default()
    }
}

fn ack_of(seq: u64, refused: Option<String>) -> Effect {
    Effect::Send(FromServer::ReportAck(ReportAck {
        seq,
        want_dense: false,
        next_interval: None,
        refused,
        transitions_stored: 0,
    }))
}

fn cell(state: CellState) -> CellReport {
    CellReport {
        pool: "chat".into(),
        lane: "sonnet".into(),
        provider: "anthropic".into(),
        endpoint: None,
        state,
        state_age_ms: 5,
        open_age_ms: 5,
        cooldown_remaining_ms: 0,
        parked_remaining_ms: 0,
        streak: 0,
        trips: 0,
        reopens: 0,
        window_ok: 0,
        window_failed: 0,
        cause: None,
        override_action: None,
        advisory: false,
        advisory_spared: 0,
    }
}

/// The pushes among effects, as (nonce, revision).
fn pushes(effects: &[Effect]) -> Vec<(u64, u64)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(FromServer::ConfigPush(push)) => Some((push.nonce, push.revision)),
            _ => None,
        })
        .collect()
}

fn welcome(effects: &[Effect]) -> &Welcome {
    match effects.first() {
        Some(Effect::Send(FromServer::Welcome(welcome))) => welcome,
        other => panic!("no welcome first: {other:?}"),
    }
}

#[test]
fn hello_is_welcomed_and_pushed_what_it_lacks() {
    let bench = bench();
    let (session, effects) = bench.open(hello(None), target(3));
    let welcome = welcome(&effects);
    assert_eq!(welcome.session_epoch, 7);
    assert_eq!(welcome.control_epoch, EPOCH);
    assert_eq!(welcome.report_interval, Duration::from_secs(10));
    assert!(welcome.report_phase < Duration::from_secs(10));
    assert_eq!(welcome.target_revision, 3);
    assert!(welcome.gateway_exists);
    assert_eq!(pushes(&effects), [(1, 3)]);
    assert!(effects.contains(&Effect::Record { notable: true }));
    assert_eq!(session.record().clock_skew_ms, 250);
    assert_eq!(session.record().connected_ms, 1_000_000);
    assert_eq!(session.record().report_received_ms, None);
}

#[test]
fn agent_that_serves_the_target_is_not_pushed() {
    let (_, effects) = bench().open(hello(applied(3, Some(EPOCH))), target(3));
    assert_eq!(pushes(&effects), []);
}

#[test]
fn file_configuration_is_replaced_whatever_its_number() {
    let (_, effects) = bench().open(hello(applied(3, None)), target(3));
    assert_eq!(pushes(&effects), [(1, 3)]);
}

#[test]
fn same_number_with_other_content_is_pushed() {
    let mut applied = applied(3, Some(EPOCH));
    if let Some(applied) = &mut applied {
        applied.hash = "tampered".to_owned();
    }
    let (_, effects) = bench().open(hello(applied), target(3));
    assert_eq!(pushes(&effects), [(1, 3)]);
}

#[test]
fn agent_never_goes_back_within_one_control_epoch() {
    let bench = bench();
    let (mut session, effects) = bench.open(hello(applied(9, Some(EPOCH))), target(5));
    assert_eq!(pushes(&effects), []);
    assert_eq!(pushes(&session.set_target(target(8), bench.at(1))), []);
    assert_eq!(
        pushes(&session.set_target(target(10), bench.at(2))),
        [(1, 10)]
    );
}

#[test]
fn agent_goes_back_after_the_database_was_restored() {
    let (_, effects) = bench().open(hello(applied(9, Some("before"))), target(5));
    assert_eq!(pushes(&effects), [(1, 5)]);
}

#[test]
fn unknown_gateway_waits_in_band_and_is_pushed_when_it_comes() {
    let bench = bench();
    let (mut session, effects) = bench.open(hello(None), None);
    assert!(!welcome(&effects).gateway_exists);
    assert_eq!(welcome(&effects).target_revision, 0);
    assert_eq!(pushes(&effects), []);
    assert_eq!(
        pushes(&session.set_target(target(1), bench.at(1))),
        [(1, 1)]
    );
}

#[test]
fn deleted_gateway_leaves_the_agent_as_it_is() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(applied(3, Some(EPOCH))), target(3));
    assert_eq!(session.set_target(None, bench.at(1)), []);
    assert_eq!(session.record().applied_revision, 3);
}

#[test]
fn newest_revision_replaces_those_that_wait_behind_a_push() {
    let bench = bench();
    let (mut session, effects) = bench.open(hello(None), target(1));
    assert_eq!(pushes(&effects), [(1, 1)]);
    assert_eq!(session.set_target(target(2), bench.at(1)), []);
    assert_eq!(session.set_target(target(3), bench.at(1)), []);
    let effects = bench.result(&mut session, ack(1, 1));
    assert_eq!(pushes(&effects), [(2, 3)], "2 is never sent");
    assert_eq!(session.record().applied_revision, 1);
    let effects = bench.result(&mut session, ack(2, 3));
    assert_eq!(pushes(&effects), []);
    assert_eq!(session.record().applied_revision, 3);
    assert_eq!(session.record().config_source, ConfigSource::Live);
}

#[test]
fn stale_or_repeated_answer_is_ignored() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), target(1));
    assert_eq!(bench.result(&mut session, ack(99, 42)), []);
    assert_eq!(session.record().applied_revision, 0);
    bench.result(&mut session, ack(1, 1));
    assert_eq!(bench.result(&mut session, nack(1, 0)), []);
    assert_eq!(session.record().applied_revision, 1);
    assert_eq!(session.record().last_error, None);
}

#[test]
fn refused_revision_is_shown_and_not_resent_but_the_next_is_tried() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(applied(1, Some(EPOCH))), target(2));
    let effects = bench.result(&mut session, nack(1, 1));
    assert!(effects.contains(&Effect::Answered {
        took: Duration::from_secs(1),
        applied: false
    }));
    assert!(effects.contains(&Effect::Facts));
    assert_eq!(pushes(&effects), []);
    let rejected = session.record().last_error.as_ref().unwrap();
    assert_eq!(rejected.revision, 2);
    assert_eq!(rejected.errors[0].code, "unknown_reference");
    assert_eq!(
        session.record().applied_revision,
        1,
        "the old one serves on"
    );

    assert_eq!(session.set_target(target(2), bench.at(2)), []);
    assert_eq!(session.tick(bench.at(3)), []);
    assert_eq!(
        pushes(&session.set_target(target(3), bench.at(4))),
        [(2, 3)]
    );
    bench.result(&mut session, ack(2, 3));
    assert_eq!(session.record().last_error, None);
}

#[test]
fn refused_revision_is_pushed_again_after_a_reconnect() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(applied(1, Some(EPOCH))), target(2));
    bench.result(&mut session, nack(1, 1));
    let (_, effects) = bench.open(hello(applied(1, Some(EPOCH))), target(2));
    assert_eq!(pushes(&effects), [(1, 2)]);
}

#[test]
fn unanswered_push_is_shown_and_does_not_hold_up_the_next() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), target(1));
    bench.report(&mut session, report(1, Vec::new()));
    session.last_heard = bench.at(59);
    assert_eq!(session.next_tick(), bench.at(60));
    assert_eq!(session.set_target(target(2), bench.at(59)), []);
    let effects = session.tick(bench.at(60));
    assert_eq!(pushes(&effects), [(2, 2)]);
    assert_eq!(
        session.record().last_error.as_ref().unwrap().errors[0].code,
        "unanswered"
    );
    bench.result(&mut session, ack(2, 2));
    assert_eq!(session.record().applied_revision, 2);
}

#[test]
fn late_answer_to_a_push_that_another_followed_still_says_what_is_served() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), target(1));
    session.last_heard = bench.at(59);
    session.set_target(target(2), bench.at(59));
    assert_eq!(pushes(&session.tick(bench.at(60))), [(2, 2)]);
    let effects = bench.result(&mut session, ack(1, 1));
    assert_eq!(effects, [Effect::Record { notable: true }, Effect::Facts]);
    assert_eq!(session.record().applied_revision, 1);
    bench.result(&mut session, nack(2, 1));
    assert_eq!(
        session.record().applied_revision,
        1,
        "and the next is refused"
    );
}

#[test]
fn late_answer_counts_while_nothing_newer_was_pushed() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), target(1));
    session.last_heard = bench.at(59);
    assert_eq!(pushes(&session.tick(bench.at(60))), []);
    bench.result(&mut session, ack(1, 1));
    assert_eq!(session.record().applied_revision, 1);
    assert_eq!(session.record().last_error, None);
}

#[test]
fn report_is_taken_with_the_servers_time() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    let effects = bench.report(&mut session, report(1, vec![cell(CellState::Open)]));
    assert_eq!(effects[0], Effect::Reported(Reported::Accepted));
    assert_eq!(effects[1], Effect::Record { notable: true });
    assert_eq!(effects[2], ack_of(1, None));
    assert_eq!(session.record().report_received_ms, Some(1_001_000));
    assert_eq!(session.record().cells.len(), 1);
    assert_eq!(session.record().seq, 1);
}

#[test]
fn older_or_repeated_report_is_dropped() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    bench.report(&mut session, report(5, vec![cell(CellState::Open)]));
    for seq in [5, 4, 0] {
        let effects = bench.report(&mut session, report(seq, Vec::new()));
        assert_eq!(
            effects,
            [Effect::Reported(Reported::Older), ack_of(seq, None)]
        );
    }
    assert_eq!(session.record().cells.len(), 1);
    assert_eq!(session.record().seq, 5);
}

#[test]
fn only_a_changed_picture_is_notable() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    let mut notable = |seq, cells| {
        let effects = bench.report(&mut session, report(seq, cells));
        effects.contains(&Effect::Record { notable: true })
    };
    assert!(notable(1, Vec::new()), "the first is always");
    assert!(!notable(2, Vec::new()));
    assert!(!notable(3, vec![cell(CellState::Closed)]), "dense");
    assert!(notable(4, vec![cell(CellState::Open)]));
    assert!(!notable(5, vec![cell(CellState::Open)]));
    assert!(notable(6, vec![cell(CellState::HalfOpen)]));
    assert!(notable(7, Vec::new()));
}

#[test]
fn unreadable_report_is_answered_and_ages_the_record() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    bench.report(&mut session, report(1, vec![cell(CellState::Open)]));
    let unfit = || Unfit {
        report_seq: Some(2),
        push_nonce: None,
        error: WireError::UnknownValue {
            field: "report.cells[0].state".to_owned(),
            value: 9,
        },
    };
    let effects = session
        .receive(Err(unfit()), bench.at(9), 1_009_000)
        .unwrap();
    let reason = "report.cells[0].state: value 9 is not known";
    let asking = ReportAck {
        seq: 2,
        want_dense: true,
        next_interval: None,
        refused: Some(reason.to_owned()),
        transitions_stored: 0,
    };
    assert!(effects.contains(&Effect::Send(FromServer::ReportAck(asking))));
    assert!(effects.contains(&Effect::Record { notable: true }));
    assert!(session.record().problems[0].contains(reason));
    assert_eq!(session.record().report_received_ms, Some(1_001_000));
    assert_eq!(session.record().cells.len(), 1);
    assert_eq!(session.next_tick(), bench.at(39), "it was heard, though");
}

#[test]
fn newer_peers_messages_are_skipped() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    let effects = session.receive(Err(WireError::Empty.into()), bench.at(1), 1_001_000);
    assert_eq!(effects, Ok(Vec::new()));
}

#[test]
fn agent_that_was_taken_back_between_two_sessions_is_sent_so() {
    let bench = bench();
    let capabilities = vec![ABILITY_DRAIN.to_owned()];
    for (previous_session_epoch, sends_first) in [(None, false), (Some(1), true)] {
        let hello = Hello {
            previous_session_epoch,
            capabilities: capabilities.clone(),
            ..hello(None)
        };
        let (mut session, _) = bench.open(hello, None);
        let sent = |active| [Effect::Send(FromServer::Drain(active))];
        let first = session.drain(false, bench.at(1));
        assert_eq!(first == sent(false), sends_first, "{first:?}");
        assert_eq!(session.drain(true, bench.at(2)), sent(true));
        assert_eq!(session.drain(true, bench.at(3)), []);
        assert_eq!(session.drain(false, bench.at(4)), sent(false));
    }
}

#[test]
fn bye_is_recorded_at_once_and_ends_the_session() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), target(1));
    let bye = FromAgent::Bye(Bye {
        reason: "drained".into(),
    });
    let effects = session.receive(Ok(bye), bench.at(1), 1_001_000).unwrap();
    assert_eq!(
        effects,
        [
            Effect::Record { notable: true },
            Effect::Facts,
            Effect::Close
        ]
    );
    assert!(session.record().left);
    assert!(session.is_closed());
    assert_eq!(session.set_target(target(2), bench.at(2)), []);
}

#[test]
fn silence_of_three_intervals_ends_the_session_without_a_farewell_in_the_record() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    assert_eq!(session.next_tick(), bench.at(30));
    assert_eq!(session.tick(bench.at(29)), []);
    let effects = session.tick(bench.at(30));
    assert!(matches!(
        &effects[..],
        [
            Effect::Send(FromServer::Goodbye(Goodbye {
                reason: GoodbyeReason::Silent,
                ..
            })),
            Effect::Close
        ]
    ));
    assert!(session.is_closed());
    assert!(!session.record().left);
}

#[test]
fn second_hello_breaks_the_protocol() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    let again = session.receive(Ok(FromAgent::Hello(hello(None))), bench.at(1), 1_001_000);
    assert_eq!(again, Err(Fault::Repeated));
}

#[test]
fn stream_begins_with_a_hello_or_not_at_all() {
    let report = FromAgent::Report(Report::default());
    assert_eq!(first(Ok(report)), Err(Fault::Unannounced));
    let missing = WireError::Missing {
        field: "hello.gateway".into(),
    };
    let fault = first(Err(missing.into())).unwrap_err();
    assert_eq!(fault.to_string(), "hello.gateway: is missing");
    assert_eq!(first(Ok(FromAgent::Hello(hello(None)))), Ok(hello(None)));
}

#[test]
fn highest_common_protocol_is_spoken() {
    let range = |min, max| {
        let mut hello = hello(None);
        (hello.protocol_min, hello.protocol_max) = (min, max);
        negotiate(&hello)
    };
    assert_eq!(range(1, 1), Ok(1));
    assert_eq!(range(0, 9), Ok(1));
    for (min, max) in [(2, 3), (0, 0), (3, 1)] {
        assert_eq!(range(min, max).unwrap_err().reason, GoodbyeReason::Protocol);
    }
}

#[test]
fn fleet_spreads_its_reports_over_the_interval() {
    let interval = Duration::from_secs(10);
    let mut per_second = [0_u32; 10];
    for agent in 0..1000 {
        let phase = phase(&format!("instance-{agent}"), interval);
        per_second[usize::try_from(phase.as_secs()).unwrap()] += 1;
    }
    assert!(
        per_second.iter().all(|count| (60..=140).contains(count)),
        "{per_second:?}"
    );
}

/// What the acknowledgement among these effects asks for.
fn asked(effects: &[Effect]) -> (bool, Option<Duration>) {
    let acks = effects.iter().filter_map(|effect| match effect {
        Effect::Send(FromServer::ReportAck(ack)) => Some((ack.want_dense, ack.next_interval)),
        _ => None,
    });
    acks.last().unwrap()
}

#[test]
fn whole_report_is_asked_for_when_one_is_missing_or_short() {
    let bench = bench();
    let open = || vec![cell(CellState::Open)];
    let with_digest = |seq, of: &[CellReport]| Report {
        digest: Some(lanekeeper_model::digest(of)),
        ..report(seq, open())
    };
    let (mut session, _) = bench.open(hello(None), None);
    let effects = bench.report(&mut session, with_digest(1, &open()));
    assert_eq!(asked(&effects), (false, None));
    let two = [cell(CellState::Open), cell(CellState::HalfOpen)];
    let effects = bench.report(&mut session, with_digest(2, &two));
    assert_eq!(asked(&effects), (true, None), "a cell is missing");

    let (mut session, _) = bench.open(hello(None), None);
    let effects = bench.report(&mut session, report(3, open()));
    assert_eq!(asked(&effects), (true, None), "two reports are missing");
}

#[test]
fn agent_is_told_another_interval_and_given_its_time() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(None), None);
    let longer = Duration::from_secs(15);
    session.set_report_interval(longer);
    let effects = bench.report(&mut session, report(1, Vec::new()));
    assert_eq!(asked(&effects), (false, Some(longer)));
    assert!(session.tick(bench.at(45)).is_empty(), "heard at 1 s");
    assert!(session.tick(bench.at(46)).contains(&Effect::Close));
}
