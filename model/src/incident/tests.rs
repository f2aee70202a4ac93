use super::*;
use crate::fleet::{AgentRecord, FreshWindows};
use crate::report::{CauseReport, CellReport, CellState};
use crate::transition::{EntryDetail, EntryKind, TimelineEntry};

const QUIET_MS: u64 = 60_000;

fn cell(pool: &str, lane: &str, state: CellState, open_age_ms: u64) -> CellReport {
    let text = serde_json::json!({
        "pool": pool, "lane": lane, "provider": "anthropic-main", "state": state,
        "state_age_ms": open_age_ms, "open_age_ms": open_age_ms,
    });
    serde_json::from_value(text).unwrap()
}

fn failed(mut cell: CellReport, kind: &str, status: Option<u16>, count: u64) -> CellReport {
    cell.cause = Some(CauseReport {
        kind: kind.to_owned(),
        status,
        count,
    });
    cell
}

fn agent(number: u64, reported_ms: u64, cells: Vec<CellReport>) -> AgentRecord {
    let text = serde_json::json!({
        "gateway": "edge", "instance": format!("i-{number}"), "name": format!("node-{number}"),
        "report_received_ms": reported_ms,
    });
    let mut record: AgentRecord = serde_json::from_value(text).unwrap();
    record.cells = cells;
    record
}

/// A fleet of agents of which the first `open` have the lane open since a while.
fn fleet(agents: u64, open: u64, now_ms: u64, open_age_ms: u64) -> Vec<AgentRecord> {
    (0..agents)
        .map(|number| {
            let is_open = number < open;
            let open = is_open.then(|| cell("chat", "sonnet", CellState::Open, open_age_ms));
            agent(number, now_ms, open.into_iter().collect())
        })
        .collect()
}

fn subject() -> Subject {
    Subject {
        kind: SubjectKind::Lane,
        name: "sonnet".to_owned(),
    }
}

/// What a fleet says of the lane, and how many of it are fresh.
fn look(records: &[AgentRecord], now_ms: u64) -> (Sighting, u64) {
    let mut seen = sightings(records, now_ms, FreshWindows::default());
    let mut seen = seen.remove("edge").unwrap_or_default();
    let sighting = seen.subjects.remove(&subject()).unwrap_or_default();
    (sighting, seen.fresh)
}

fn open(records: &[AgentRecord], now_ms: u64) -> Option<Incident> {
    let (sighting, fresh) = look(records, now_ms);
    Incident::open(&"edge".into(), &subject(), &sighting, fresh, now_ms)
}

fn step(incident: &mut Incident, records: &[AgentRecord], now_ms: u64) -> Vec<IncidentEvent> {
    let (sighting, fresh) = look(records, now_ms);
    incident.step(&sighting, fresh, false, now_ms, QUIET_MS)
}

#[test]
fn it_begins_with_the_first_agent_and_not_with_the_look_that_found_it() {
    let incident = open(&fleet(40, 1, 100_000, 4_000), 100_500).unwrap();
    assert_eq!(incident.opened_ms, 96_000);
    assert_eq!(
        (incident.scope, incident.widest),
        (Some(Scope::Local), Scope::Local)
    );
    assert_eq!(
        incident.peak,
        Share {
            affected: 1,
            fresh: 40
        }
    );
    assert!(open(&fleet(40, 0, 100_000, 0), 100_500).is_none());
}

#[test]
fn it_widens_once_for_each_scope_that_it_reaches() {
    let mut incident = open(&fleet(40, 1, 1_000, 0), 1_000).unwrap();
    let widened = |from| vec![IncidentEvent::Widened { from }];
    assert_eq!(
        step(&mut incident, &fleet(40, 10, 2_000, 0), 2_000),
        widened(Scope::Local)
    );
    assert_eq!(step(&mut incident, &fleet(40, 2, 3_000, 0), 3_000), []);
    assert_eq!(
        step(&mut incident, &fleet(40, 38, 4_000, 0), 4_000),
        widened(Scope::Partial)
    );
    assert_eq!(step(&mut incident, &fleet(40, 10, 5_000, 0), 5_000), []);
    assert_eq!(
        step(&mut incident, &fleet(40, 39, 6_000, 0), 6_000),
        [],
        "it was fleet before"
    );
    assert_eq!(
        incident.peak,
        Share {
            affected: 39,
            fresh: 40
        }
    );
    let scopes: Vec<_> = incident.scopes.iter().map(|it| it.scope.unwrap()).collect();
    use Scope::{Fleet, Local, Partial};
    assert_eq!(scopes, [Local, Partial, Local, Fleet, Partial, Fleet]);
}

#[test]
fn it_holds_through_flaps_until_all_have_been_well_for_the_quiet_time() {
    let mut incident = open(&fleet(4, 2, 1_000, 0), 1_000).unwrap();
    let mut now_ms = 1_000;
    for flap in 1..=4 {
        now_ms += 10_000;
        assert_eq!(step(&mut incident, &fleet(4, 0, now_ms, 0), now_ms), []);
        assert_eq!(incident.state(), IncidentState::Quiet);
        now_ms += QUIET_MS - 1;
        assert_eq!(
            step(&mut incident, &fleet(4, 0, now_ms, 0), now_ms),
            [],
            "not for long enough"
        );
        now_ms += 1_000;
        let events = step(&mut incident, &fleet(4, 1, now_ms, 0), now_ms);
        let expected = (flap == FLAPPING_AFTER).then_some(IncidentEvent::Flapping);
        assert_eq!(events, expected.into_iter().collect::<Vec<_>>());
        assert_eq!(incident.flaps, flap);
    }
    let over_ms = now_ms + 5_000;
    step(&mut incident, &fleet(4, 0, over_ms, 0), over_ms);
    let closed_ms = over_ms + QUIET_MS;
    let events = step(&mut incident, &fleet(4, 0, closed_ms, 0), closed_ms);
    assert_eq!(events, [IncidentEvent::Ended(Ending::Recovered)]);
    assert_eq!(
        incident.ended_ms(),
        Some(over_ms),
        "when it was over, not when that was sure"
    );
    let again = closed_ms + 1_000;
    assert_eq!(
        step(&mut incident, &fleet(4, 4, again, 0), again),
        [],
        "closed once"
    );
}

#[test]
fn silent_agents_are_neither_well_nor_failing() {
    let mut incident = open(&fleet(2, 1, 1_000, 0), 1_000).unwrap();
    // The one that had it open is silent; the other one is well.
    let silent = |now_ms| {
        let mut records = fleet(2, 1, 1_000, 0);
        records[1].report_received_ms = Some(now_ms);
        records
    };
    assert_eq!(step(&mut incident, &silent(40_000), 40_000), []);
    let now_ms = 40_000 + QUIET_MS;
    let events = step(&mut incident, &silent(now_ms), now_ms);
    assert_eq!(events, [IncidentEvent::Ended(Ending::Recovered)]);
}

#[test]
fn it_does_not_recover_because_nobody_is_left_to_tell() {
    let mut incident = open(&fleet(2, 1, 1_000, 0), 1_000).unwrap();
    let gone = fleet(2, 1, 1_000, 0);
    let lost_ms = 50_000;
    assert_eq!(step(&mut incident, &gone, lost_ms), []);
    assert_eq!(
        step(&mut incident, &gone, lost_ms + UNKNOWN_AFTER_MS - 1),
        []
    );
    assert_eq!(incident.state(), IncidentState::Active);
    let events = step(&mut incident, &gone, lost_ms + UNKNOWN_AFTER_MS);
    assert_eq!(events, [IncidentEvent::Ended(Ending::Unknown)]);
}

#[test]
fn it_does_not_recover_while_reports_are_missing() {
    let mut incident = open(&fleet(4, 2, 1_000, 0), 1_000).unwrap();
    for now_ms in [10_000, 10_000 + QUIET_MS] {
        let (sighting, fresh) = look(&fleet(4, 0, now_ms, 0), now_ms);
        assert_eq!(incident.step(&sighting, fresh, true, now_ms, QUIET_MS), []);
    }
    assert!(incident.is_open());
}

#[test]
fn an_override_opens_no_incident_and_hides_no_failure() {
    let ordered = |action: &str, now_ms| {
        let mut open = cell("chat", "sonnet", CellState::Open, 0);
        open.override_action = Some(action.to_owned());
        vec![agent(0, now_ms, vec![open]), agent(1, now_ms, Vec::new())]
    };
    for action in ["force_open", "drain"] {
        assert!(open(&ordered(action, 1_000), 1_000).is_none());
        let mut incident = open(&fleet(2, 1, 1_000, 0), 1_000).unwrap();
        for now_ms in [2_000, 2_000 + 2 * QUIET_MS] {
            assert_eq!(step(&mut incident, &ordered(action, now_ms), now_ms), []);
        }
        assert_eq!(
            incident.state(),
            IncidentState::Active,
            "{action} says nothing of the lane"
        );
    }
}

#[test]
fn failures_are_counted_once_however_often_they_are_reported() {
    let with = |count, now_ms| {
        let cells = ["chat", "bulk"].map(|pool| {
            let open = cell(pool, "sonnet", CellState::Open, 0);
            failed(open, "status", Some(529), count)
        });
        vec![
            agent(0, now_ms, cells.to_vec()),
            agent(1, now_ms, Vec::new()),
        ]
    };
    let mut incident = open(&with(5, 1_000), 1_000).unwrap();
    step(&mut incident, &with(5, 2_000), 2_000);
    step(&mut incident, &with(7, 3_000), 3_000);
    let causes = |incident: &Incident| incident.view(9_000).causes;
    assert_eq!(causes(&incident)[0].count, 14, "seven in each of two cells");
    // Closed and opened again: the count of the cell began anew.
    step(&mut incident, &fleet(2, 0, 4_000, 0), 4_000);
    step(&mut incident, &with(3, 5_000), 5_000);
    assert_eq!(causes(&incident)[0].count, 20);
    assert_eq!(incident.pools, ["bulk", "chat"]);
    assert_eq!(incident.agents["i-0"].openings, 2);
}

#[test]
fn calls_are_counted_while_the_agent_has_it() {
    let with = |failovers, failed, open, now_ms| {
        let mut records = fleet(2, u64::from(open), now_ms, 0);
        records[0].totals.failovers = failovers;
        records[0].totals.failed = failed;
        records
    };
    let mut incident = open(&with(100, 10, true, 1_000), 1_000).unwrap();
    step(&mut incident, &with(130, 12, true, 2_000), 2_000);
    step(&mut incident, &with(150, 12, false, 3_000), 3_000);
    step(&mut incident, &with(200, 12, true, 4_000), 4_000);
    step(&mut incident, &with(201, 13, true, 5_000), 5_000);
    assert_eq!(incident.calls(), (31, 3));
}

#[test]
fn providers_own_cell_and_a_lane_are_two_subjects() {
    let mut own = cell("", "", CellState::Open, 0);
    own.provider = "anthropic-main".into();
    let lane = cell("chat", "sonnet", CellState::HalfOpen, 0);
    let records = [agent(0, 1_000, vec![own, lane])];
    let seen = sightings(&records, 1_000, FreshWindows::default());
    let subjects: Vec<String> = seen["edge"]
        .subjects
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(subjects, ["lane sonnet", "provider anthropic-main"]);
}

#[test]
fn what_began_shortly_before_is_a_suspect_and_what_came_later_is_not() {
    let mark = |kind, id: &str, at_ms, ended_ms| ContextMark {
        kind,
        id: id.to_owned(),
        at_ms,
        ended_ms,
        actor: "ann".to_owned(),
        detail: String::new(),
    };
    use ContextKind::{Override, Revision, Rollout};
    let begin_ms = 1_000_000;
    let mut incident = open(&fleet(2, 1, begin_ms, 0), begin_ms).unwrap();
    let context = Context {
        marks: vec![
            mark(Rollout, "12", begin_ms - SUSPECT_WINDOW_MS, None),
            mark(Revision, "11", begin_ms - SUSPECT_WINDOW_MS - 1, None),
            mark(Revision, "13", begin_ms + 5_000, None),
            mark(Override, "o1", begin_ms - 600_000, None),
            mark(Override, "o2", begin_ms - 600_000, Some(begin_ms - 500_000)),
        ],
    };
    assert!(incident.note_context(&context));
    assert!(
        !incident.note_context(&context),
        "the same again is no news"
    );
    let named: Vec<&str> = incident.context.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(named, ["o1", "12", "13"]);
    let suspects: Vec<&str> = incident.suspects().map(|it| it.id.as_str()).collect();
    assert_eq!(suspects, ["12"]);
}

#[test]
fn a_large_fleet_is_named_in_part_and_counted_whole() {
    let records = fleet(AGENTS_MAX as u64 + 500, AGENTS_MAX as u64 + 200, 1_000, 0);
    let incident = open(&records, 1_000).unwrap();
    assert_eq!(incident.agents.len(), AGENTS_MAX);
    assert_eq!(incident.view(2_000).agents_total, AGENTS_MAX as u64 + 200);
}

#[test]
fn a_strip_shows_the_worst_of_an_agents_cells_over_time() {
    let entry = |sequence, at_ms, kind, pool: &str| TimelineEntry {
        gateway: "edge".into(),
        instance: "i-0".to_owned(),
        sequence,
        agent: "node-0".to_owned(),
        at_ms,
        kind,
        pool: Some(pool.into()),
        lane: Some("sonnet".into()),
        provider: "p".into(),
        detail: EntryDetail::default(),
    };
    use EntryKind::{Closed, HalfOpened, Opened};
    let timeline = [
        entry(1, 1_000, Opened, "chat"),
        entry(2, 2_000, Opened, "bulk"),
        entry(3, 3_000, HalfOpened, "chat"),
        entry(4, 3_500, Closed, "chat"),
        entry(5, 4_000, HalfOpened, "bulk"),
        entry(6, 5_000, Closed, "bulk"),
    ];
    let incident = open(&fleet(2, 1, 1_000, 0), 1_000).unwrap();
    let detail = incident.detail(&timeline, false, 9_000);
    let spans = &detail.strip[0].spans;
    let states: Vec<StripState> = spans.iter().map(|span| span.state).collect();
    assert_eq!(
        states,
        [StripState::Open, StripState::HalfOpen, StripState::Closed]
    );
    assert_eq!(spans[1].from, "1970-01-01T00:00:04Z");
    assert_eq!(spans[0].until.as_deref(), Some("1970-01-01T00:00:04Z"));
    assert_eq!(spans[2].until, None);
    assert!(!detail.strip_truncated);
}

#[test]
fn it_is_the_same_after_it_was_stored() {
    let mut incident = open(&fleet(40, 3, 1_000, 0), 1_000).unwrap();
    step(&mut incident, &fleet(40, 30, 2_000, 0), 2_000);
    let text = serde_json::to_string(&incident).unwrap();
    assert_eq!(serde_json::from_str::<Incident>(&text).unwrap(), incident);
}
