use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ids::{CellName, CellOwner, GatewayName, LaneName, PoolName, ProviderName};
use crate::report::{CauseReport, CellReport, CellState, ConfigSource, Totals};
use oracle::{fleet_view, summary};

pub(super) mod oracle;

const NOW: u64 = 1_796_032_800_000; // 2026-11-30T10:00:00Z
const SECOND: u64 = 1_000;

fn windows() -> FreshWindows {
    FreshWindows::default()
}

/// An agent of gateway `edge` that reported this long ago.
fn agent(name: &str, report_age_ms: u64, cells: Vec<CellReport>) -> AgentRecord {
    AgentRecord {
        gateway: GatewayName::from("edge"),
        instance: format!("{name}-1"),
        name: name.to_owned(),
        labels: Default::default(),
        identity: None,
        version: "0.1.0".to_owned(),
        session_epoch: 1,
        seq: 1,
        connected_ms: NOW - 600 * SECOND,
        report_received_ms: Some(NOW - report_age_ms),
        left: false,
        draining: false,
        applied_revision: 7,
        applied_hash: "h7".to_owned(),
        config_source: ConfigSource::Live,
        problems: Vec::new(),
        last_error: None,
        clock_skew_ms: -1_500,
        cells,
        pools: Vec::new(),
        totals: Totals::default(),
        overrides: HeldOverrides::default(),
    }
}

fn cell(lane: &str, state: CellState) -> CellReport {
    CellReport {
        pool: PoolName::from("chat"),
        lane: LaneName::from(lane),
        provider: ProviderName::from("p"),
        endpoint: None,
        state,
        state_age_ms: 0,
        open_age_ms: 0,
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

fn edge(revision: u64, lanes: &[&str]) -> GatewayCells {
    GatewayCells {
        name: GatewayName::from("edge"),
        revision,
        cells: lanes
            .iter()
            .map(|lane| CellName {
                pool: PoolName::from("chat"),
                lane: LaneName::from(*lane),
                provider: ProviderName::from("p"),
            })
            .collect(),
        rules: Default::default(),
    }
}

fn everything() -> ViewQuery {
    ViewQuery {
        include_closed: true,
        detail_agents: true,
        ..ViewQuery::default()
    }
}

fn view(records: &[AgentRecord], query: &ViewQuery) -> FleetView {
    fleet_view(records, &[edge(7, &["a", "b"])], query, NOW, windows())
}

#[test]
fn an_incident_lasts_through_failed_probes() {
    let mut flapping = cell("a", CellState::Open);
    flapping.state_age_ms = 2 * SECOND;
    flapping.open_age_ms = 154 * SECOND;
    flapping.reopens = 3;
    let mut recent = cell("a", CellState::HalfOpen);
    recent.state_age_ms = SECOND;
    recent.open_age_ms = 40 * SECOND;
    let records = [
        agent("n1", SECOND, vec![recent]),
        agent("n2", SECOND, vec![flapping]),
    ];
    let view = view(&records, &everything());
    assert_eq!(view.cells[0].opened_for_secs, Some(155.0));
    assert_eq!(view.cells[0].flaps, 3);
    // Each agent's own age stays that of its present state.
    let ages: Vec<f64> = view.cells[0]
        .by_agent
        .iter()
        .flatten()
        .map(|agent| agent.age_secs)
        .collect();
    assert_eq!(ages, [2.0, 3.0]);
}

#[test]
fn the_view_is_the_json_of_the_api() {
    let mut open = cell("a", CellState::Open);
    open.state_age_ms = 2_000;
    open.cooldown_remaining_ms = 12_200;
    open.trips = 3;
    open.reopens = 2;
    open.advisory = true;
    open.cause = Some(CauseReport {
        kind: "transient".to_owned(),
        status: Some(529),
        count: 12,
    });
    let mut sooner = open.clone();
    sooner.cooldown_remaining_ms = 5_100;
    sooner.state_age_ms = 82_200;
    let records = [
        agent("n1", SECOND, vec![open]),
        agent("n2", SECOND, vec![sooner]),
        agent("n3", SECOND, vec![]),
        agent("n4", 31 * SECOND, vec![cell("a", CellState::Closed)]),
    ];
    let query = ViewQuery {
        detail_agents: true,
        ..ViewQuery::default()
    };
    let json = serde_json::to_value(view(&records, &query)).unwrap();
    assert_eq!(
        json,
        json!({
            "generated_at": "2026-11-30T10:00:00Z",
            "fresh_window_secs": 30,
            "partial": false, "rebuilding": false,
            "agents": {"live": 3, "stale": 1},
            "cells": [{
                "gateway": "edge", "pool": "chat", "lane": "a", "provider": "p", "endpoint": null,
                "state": "open", "scope": "fleet",
                "agents": {
                    "reporting": 3, "closed": 1, "open": 2, "half_open": 0, "parked": 0,
                    "overridden": 0, "forced_open": 0, "stale": 1,
                },
                "unusable": {"agents": 0, "reasons": []},
                "cause": {"kind": "transient", "status": 529, "count": 24},
                "opened_for_secs": 83.2, "flaps": 2, "next_probe_in_secs": 4.1, "trips": 6,
                "override": null,
                "advisory": {
                    "active": true, "expires_in_secs": null, "agents": 2, "mode": null,
                    "withheld": null, "advised_for_secs": null, "open_agents": 0,
                    "spared_attempts": 0, "late_agents": 0, "late_attempts": 0,
                },
                "by_agent": [
                    {"agent": "n1", "instance": "n1-1", "state": "open", "age_secs": 3.0,
                     "cooldown_remaining_secs": 11.2},
                    {"agent": "n2", "instance": "n2-1", "state": "open", "age_secs": 83.2,
                     "cooldown_remaining_secs": 4.1},
                    {"agent": "n4", "instance": "n4-1", "state": "stale", "age_secs": 31.0,
                     "cooldown_remaining_secs": 0.0},
                ],
            }],
        })
    );
}

#[test]
fn details_are_left_out_unless_asked_for() {
    let records = [agent("n1", 0, vec![cell("a", CellState::Open)])];
    let json = serde_json::to_value(view(&records, &ViewQuery::default())).unwrap();
    assert_eq!(json["cells"][0].get("by_agent"), None);
}

#[test]
fn agents_age_by_the_servers_receive_time() {
    let state = |age_ms| agent_state(&agent("n", age_ms, vec![]), NOW, windows());
    assert_eq!(state(0), AgentState::Live);
    assert_eq!(state(30 * SECOND), AgentState::Live);
    assert_eq!(state(30 * SECOND + 1), AgentState::Stale);
    assert_eq!(state(300 * SECOND), AgentState::Stale);
    assert_eq!(state(300 * SECOND + 1), AgentState::Gone);

    let left = AgentRecord {
        left: true,
        ..agent("n", 0, vec![])
    };
    assert_eq!(agent_state(&left, NOW, windows()), AgentState::Gone);
    let draining = AgentRecord {
        draining: true,
        ..agent("n", 0, vec![])
    };
    assert_eq!(agent_state(&draining, NOW, windows()), AgentState::Draining);
    let silent = AgentRecord {
        draining: true,
        ..agent("n", 40 * SECOND, vec![])
    };
    assert_eq!(agent_state(&silent, NOW, windows()), AgentState::Stale);
    let ahead = AgentRecord {
        report_received_ms: Some(NOW + 5),
        ..agent("n", 0, vec![])
    };
    assert_eq!(agent_state(&ahead, NOW, windows()), AgentState::Live);
}

#[test]
fn a_connected_agent_without_a_report_is_live_but_says_nothing() {
    let fresh = AgentRecord {
        connected_ms: NOW - SECOND,
        report_received_ms: None,
        ..agent("n", 0, vec![])
    };
    assert_eq!(agent_state(&fresh, NOW, windows()), AgentState::Live);
    let view = view(&[fresh], &everything());
    assert_eq!(view.agents, FleetAgents { live: 0, stale: 1 });
    assert_eq!(view.cells[0].state, ViewState::Unknown);
    assert_eq!(view.cells[0].agents.closed, 0);
}

/// Field report B119.
#[test]
fn a_silent_agent_is_stale_and_never_closed() {
    let records = [
        agent("n1", 0, vec![]),
        agent("n2", 31 * SECOND, vec![cell("a", CellState::Open)]),
    ];
    let view = view(&records, &everything());
    for cell in &view.cells {
        assert_eq!(cell.state, ViewState::Closed);
        assert_eq!(
            (cell.agents.reporting, cell.agents.closed, cell.agents.stale),
            (1, 1, 1)
        );
    }
}

#[test]
fn an_agent_that_left_counts_nowhere() {
    let left = AgentRecord {
        left: true,
        ..agent("n1", 0, vec![cell("a", CellState::Open)])
    };
    let gone = agent("n2", 301 * SECOND, vec![cell("a", CellState::Open)]);
    let view = view(&[left, gone], &everything());
    assert_eq!(view.agents, FleetAgents::default());
    assert!(
        view.cells
            .iter()
            .all(|cell| cell.agents == CellAgents::default())
    );
}

#[test]
fn two_instances_of_one_name_are_two_agents() {
    let mut twin = agent("n1", 0, vec![cell("a", CellState::Open)]);
    twin.instance = "n1-2".to_owned();
    let records = [agent("n1", 0, vec![]), twin];
    let view = view(&records, &ViewQuery::default());
    assert_eq!(view.cells[0].agents.reporting, 2);
    assert_eq!(
        (view.cells[0].agents.closed, view.cells[0].agents.open),
        (1, 1)
    );
}

#[test]
fn a_cell_counts_only_where_the_agents_revision_has_it() {
    let mut old = agent("n1", 0, vec![]);
    old.applied_revision = 6;
    let mut unknown = agent("n2", 0, vec![]);
    unknown.applied_revision = 5;
    let mut none = agent("n3", 0, vec![]);
    none.applied_revision = 0;
    let gateways = [edge(7, &["a", "b"]), edge(6, &["a"])];
    let view = fleet_view(
        &[old, unknown, none],
        &gateways,
        &everything(),
        NOW,
        windows(),
    );
    let reporting: Vec<u64> = view
        .cells
        .iter()
        .map(|cell| cell.agents.reporting)
        .collect();
    assert_eq!(
        reporting,
        [2, 1],
        "n2's revision is not known, so it is taken to have both"
    );
    assert_eq!(view.agents.live, 3);
}

#[test]
fn a_cell_that_is_no_longer_configured_shows_while_it_is_reported_open() {
    let records = [agent("n1", 0, vec![cell("old", CellState::HalfOpen)])];
    let view = view(&records, &ViewQuery::default());
    assert_eq!(view.cells.len(), 1);
    assert_eq!(view.cells[0].lane, Some("old".into()));
    assert_eq!(view.cells[0].state, ViewState::HalfOpen);
}

#[test]
fn scope_tells_one_of_forty_from_thirty_eight() {
    let scope = |affected: usize, fresh: usize| {
        let records: Vec<AgentRecord> = (0..fresh)
            .map(|n| {
                let cells = (n < affected).then(|| cell("a", CellState::Open));
                agent(&format!("n{n:02}"), 0, cells.into_iter().collect())
            })
            .collect();
        view(&records, &everything()).cells[0].scope
    };
    assert_eq!(scope(0, 40), None);
    assert_eq!(scope(1, 40), Some(Scope::Local));
    assert_eq!(scope(4, 40), Some(Scope::Local));
    assert_eq!(scope(5, 40), Some(Scope::Partial));
    assert_eq!(scope(19, 40), Some(Scope::Partial));
    assert_eq!(scope(20, 40), Some(Scope::Fleet));
    assert_eq!(scope(38, 40), Some(Scope::Fleet));
    assert_eq!(scope(1, 1), Some(Scope::Fleet));
    assert_eq!(scope(1, 2), Some(Scope::Fleet));
    assert_eq!(scope(1, 3), Some(Scope::Local));
}

#[test]
fn the_worst_state_wins() {
    let records = [
        agent(
            "n1",
            0,
            vec![
                cell("a", CellState::HalfOpen),
                cell("b", CellState::HalfOpen),
            ],
        ),
        agent("n2", 0, vec![cell("a", CellState::Open)]),
    ];
    let view = view(&records, &ViewQuery::default());
    let states: Vec<ViewState> = view.cells.iter().map(|cell| cell.state).collect();
    assert_eq!(states, [ViewState::Open, ViewState::HalfOpen]);
    assert_eq!(
        view.cells[1].next_probe_in_secs, None,
        "no agent waits for a probe"
    );
}

#[test]
fn parked_cells_are_closed_and_counted_apart() {
    let mut parked = cell("a", CellState::Closed);
    parked.parked_remaining_ms = 4_000;
    let view = view(&[agent("n1", 0, vec![parked])], &ViewQuery::default());
    let agents = view.cells[0].agents;
    assert_eq!(view.cells[0].state, ViewState::Closed);
    assert_eq!((agents.reporting, agents.closed, agents.parked), (1, 1, 1));
}

#[test]
fn a_park_that_has_run_out_since_the_report_is_over() {
    let mut parked = cell("a", CellState::Closed);
    parked.parked_remaining_ms = 4_000;
    let view = view(&[agent("n1", 5 * SECOND, vec![parked])], &everything());
    assert_eq!(view.cells[0].agents.parked, 0);
}

#[test]
fn the_most_frequent_cause_is_shown_with_its_sum() {
    let with_cause = |status, count| {
        let mut open = cell("a", CellState::Open);
        open.cause = Some(CauseReport {
            kind: "status".to_owned(),
            status: Some(status),
            count,
        });
        open
    };
    let records = [
        agent("n1", 0, vec![with_cause(503, 5)]),
        agent("n2", 0, vec![with_cause(429, 4)]),
        agent("n3", 0, vec![with_cause(429, 3)]),
    ];
    let cause = view(&records, &ViewQuery::default()).cells[0]
        .cause
        .clone()
        .unwrap();
    assert_eq!((cause.status, cause.count), (Some(429), 7));
}

#[test]
fn dense_and_sparse_reports_count_alike() {
    let mut closed = cell("b", CellState::Closed);
    closed.trips = 9;
    let open = cell("a", CellState::Open);
    let dense = [
        agent("n1", 0, vec![open.clone(), closed.clone()]),
        agent("n2", 0, vec![cell("a", CellState::Closed), closed]),
    ];
    let sparse = [agent("n1", 0, vec![open]), agent("n2", 0, vec![])];
    assert_eq!(view(&dense, &everything()), view(&sparse, &everything()));
}

#[test]
fn of_a_cell_reported_twice_by_one_agent_the_worst_counts_once() {
    let cells = vec![cell("a", CellState::HalfOpen), cell("a", CellState::Open)];
    let view = view(&[agent("n1", 0, cells)], &ViewQuery::default());
    let agents = view.cells[0].agents;
    assert_eq!((agents.reporting, agents.open, agents.half_open), (1, 1, 0));
}

#[test]
fn overrides_of_operators_are_shown() {
    let mut forced = cell("a", CellState::Closed);
    forced.override_action = Some("force_close".to_owned());
    let records = [agent("n1", 0, vec![forced]), agent("n2", 0, vec![])];
    let view = view(&records, &ViewQuery::default());
    let expected = OverrideView {
        action: "force_close".to_owned(),
        agents: 1,
        ..OverrideView::default()
    };
    assert_eq!(view.cells[0].override_, Some(expected));
    assert_eq!(view.cells[0].agents.overridden, 1);
}

#[test]
fn filters_narrow_the_view() {
    let other = AgentRecord {
        gateway: GatewayName::from("lab"),
        ..agent("n9", 0, vec![cell("z", CellState::Open)])
    };
    let mut direct = cell("a", CellState::HalfOpen);
    direct.pool = PoolName::direct();
    let records = [
        agent("n1", 0, vec![cell("a", CellState::Open), direct]),
        other,
    ];
    let lanes = |query: ViewQuery| -> Vec<String> {
        view(&records, &query)
            .cells
            .iter()
            .map(|cell| {
                let names = match cell.owner() {
                    CellOwner::Member { pool, lane } => format!("{pool}/{lane}"),
                    CellOwner::Provider(provider) => format!("provider {provider}"),
                };
                format!("{}:{names}", cell.gateway)
            })
            .collect()
    };
    let query = ViewQuery::default();
    assert_eq!(
        lanes(query.clone()),
        ["edge:/a", "edge:chat/a", "lab:chat/z"]
    );
    let only = |change: fn(&mut ViewQuery)| {
        let mut query = query.clone();
        change(&mut query);
        lanes(query)
    };
    assert_eq!(only(|it| it.gateway = Some("lab".into())), ["lab:chat/z"]);
    assert_eq!(only(|it| it.pool = Some(PoolName::direct())), ["edge:/a"]);
    assert_eq!(only(|it| it.lane = Some("z".into())), ["lab:chat/z"]);
    assert_eq!(
        only(|it| it.provider = Some("q".into())),
        Vec::<String>::new()
    );
    assert_eq!(only(|it| it.state = Some(ViewState::HalfOpen)), ["edge:/a"]);
    assert_eq!(
        only(|it| it.state = Some(ViewState::Closed)),
        ["edge:chat/b"]
    );
    let agents = view(
        &records,
        &ViewQuery {
            gateway: Some("lab".into()),
            ..query
        },
    )
    .agents;
    assert_eq!(agents.live, 1, "agents of other gateways are not counted");
}

/// A provider's own cell as an agent reports it.
fn own_cell(provider: &str, state: CellState) -> CellReport {
    CellReport {
        pool: PoolName::direct(),
        lane: LaneName::none(),
        provider: provider.into(),
        ..cell("", state)
    }
}

#[test]
fn providers_own_cells_have_rows_of_their_own() {
    let mut configured = edge(7, &["a"]);
    configured.cells.extend(["p", "q"].map(|provider| CellName {
        pool: PoolName::direct(),
        lane: LaneName::none(),
        provider: provider.into(),
    }));
    let records = [
        agent("n1", 0, vec![own_cell("p", CellState::Open)]),
        agent("n2", 0, vec![own_cell("p", CellState::HalfOpen)]),
        agent("n3", 0, vec![]),
    ];
    let rows = |query: &ViewQuery| -> Vec<(CellOwner, ViewState, u64)> {
        let view = fleet_view(
            &records,
            std::slice::from_ref(&configured),
            query,
            NOW,
            windows(),
        );
        let rows = view.cells.iter();
        rows.map(|it| (it.owner(), it.state, it.agents.closed))
            .collect()
    };
    let (p, q) = (
        CellOwner::Provider("p".into()),
        CellOwner::Provider("q".into()),
    );
    let lane = CellOwner::Member {
        pool: "chat".into(),
        lane: "a".into(),
    };
    assert_eq!(
        rows(&ViewQuery::default()),
        [(p.clone(), ViewState::Open, 1)]
    );
    assert_eq!(
        rows(&everything()),
        [
            (p.clone(), ViewState::Open, 1),
            (q, ViewState::Closed, 3),
            (lane.clone(), ViewState::Closed, 3)
        ]
    );
    let of_provider = ViewQuery {
        provider: Some("p".into()),
        ..everything()
    };
    assert_eq!(
        rows(&of_provider),
        [
            (p, ViewState::Open, 1),
            (lane.clone(), ViewState::Closed, 3)
        ],
        "its own cell and its lanes"
    );
    for pool in ["", "chat"] {
        let of_pool = ViewQuery {
            pool: Some(pool.into()),
            ..everything()
        };
        let owners = rows(&of_pool).into_iter().map(|(owner, ..)| owner);
        assert!(owners.eq((pool == "chat").then(|| lane.clone())), "{pool}");
    }
}

#[test]
fn cells_kept_for_each_endpoint_have_a_row_each() {
    let mut chat = cell("a", CellState::Open);
    chat.endpoint = Some("chat".to_owned());
    let records = [agent("n1", 0, vec![chat]), agent("n2", 0, vec![])];
    let view = view(&records, &everything());
    let rows: Vec<(&str, Option<&str>, u64, u64)> = view
        .cells
        .iter()
        .map(|it| {
            (
                it.lane.as_deref().unwrap_or_default(),
                it.endpoint.as_deref(),
                it.agents.open,
                it.agents.closed,
            )
        })
        .collect();
    assert_eq!(rows, [("a", Some("chat"), 1, 1), ("b", None, 0, 2)]);
}

#[test]
fn an_agent_is_converged_when_it_serves_the_target() {
    let record = agent("n1", 2_500, vec![]);
    let view = |target| agent_view(&record, target, NOW, windows());
    assert!(view(Some((7, "h7"))).converged);
    assert!(!view(Some((7, "other"))).converged);
    assert!(!view(Some((8, "h8"))).converged);
    assert!(!view(None).converged);
    let json = serde_json::to_value(view(Some((8, "h8")))).unwrap();
    assert_eq!(json["state"], "live");
    assert_eq!(json["applied_revision"], 7);
    assert_eq!(json["target_revision"], 8);
    assert_eq!(json["config_source"], "live");
    assert_eq!(json["clock_skew_secs"], -1.5);
    assert_eq!(json["last_report_age_secs"], 2.5);
    assert_eq!(json["last_error"], json!(null));
}

#[test]
fn the_summary_counts_agents_and_cells() {
    let records = [
        agent("n1", 0, vec![cell("a", CellState::Open)]),
        agent("n2", 40 * SECOND, vec![]),
        AgentRecord {
            left: true,
            ..agent("n3", 0, vec![])
        },
        AgentRecord {
            draining: true,
            ..agent("n4", 0, vec![])
        },
    ];
    let gateways = [edge(7, &["a", "b"]), edge(6, &["a"])];
    let summary = summary(&records, &gateways, NOW, windows());
    assert_eq!(summary.gateways, 1);
    assert_eq!(
        summary.agents,
        AgentCounts {
            live: 1,
            draining: 1,
            stale: 1,
            gone: 1
        }
    );
    assert_eq!(
        (summary.cells.open, summary.cells.closed, summary.incidents),
        (1, 1, 1)
    );
}

#[test]
fn reports_of_other_releases_can_be_read() {
    let text = r#"{"pool": "", "lane": "a", "provider": "p", "state": "open", "of_tomorrow": 1}"#;
    let cell: CellReport = serde_json::from_str(text).unwrap();
    assert!(cell.pool.is_direct());
    assert_eq!(cell.state, CellState::Open);
    let text = r#"{"gateway": "edge", "instance": "i", "name": "n", "of_tomorrow": 1}"#;
    let record: AgentRecord = serde_json::from_str(text).unwrap();
    assert_eq!(record.report_received_ms, None);
}

fn any_cell() -> impl Strategy<Value = CellReport> {
    let state = prop_oneof![
        Just(CellState::Closed),
        Just(CellState::HalfOpen),
        Just(CellState::Open),
    ];
    let cause = prop::option::of((0..2_u16, any::<u64>()));
    (
        prop::sample::select(vec!["a", "b", "c"]),
        state,
        cause,
        any::<(u64, u64, u64, bool)>(),
    )
        .prop_map(
            |(lane, state, cause, (age, cooldown, trips, advisory))| CellReport {
                state_age_ms: age,
                open_age_ms: 0,
                cooldown_remaining_ms: cooldown,
                parked_remaining_ms: cooldown % 9_000,
                trips,
                advisory,
                advisory_spared: 0,
                cause: cause.map(|(status, count)| CauseReport {
                    kind: "status".to_owned(),
                    status: Some(500 + status),
                    count,
                }),
                ..cell(lane, state)
            },
        )
}

fn any_agent() -> impl Strategy<Value = AgentRecord> {
    let age = prop_oneof![0..60 * SECOND, 0..600 * SECOND];
    let cells = prop::collection::vec(any_cell(), 0..4);
    (0..6_u8, age, cells, any::<bool>(), any::<bool>(), 5..9_u64).prop_map(
        |(name, age, cells, reported, left, revision)| AgentRecord {
            report_received_ms: reported.then_some(NOW - age),
            connected_ms: NOW - age,
            left: left && age % 3 == 0,
            applied_revision: revision % 8,
            ..agent(&format!("n{name}"), 0, cells)
        },
    )
}

proptest! {
    #[test]
    fn counts_add_up_and_silent_agents_are_never_closed(
        mut records in prop::collection::vec(any_agent(), 0..12),
    ) {
        for (index, record) in records.iter_mut().enumerate() {
            record.instance = format!("i{index}");
        }
        let fresh = records.iter().filter(|it| reports_freshly(it, NOW, windows())).count() as u64;
        let silent = records
            .iter()
            .filter(|it| !reports_freshly(it, NOW, windows()))
            .filter(|it| agent_state(it, NOW, windows()) != AgentState::Gone)
            .count() as u64;
        let view = view(&records, &everything());
        prop_assert_eq!(view.agents, FleetAgents { live: fresh, stale: silent });
        for cell in &view.cells {
            let agents = cell.agents;
            prop_assert_eq!(agents.closed + agents.open + agents.half_open, agents.reporting);
            prop_assert!(agents.reporting <= fresh);
            prop_assert_eq!(agents.stale, silent);
            prop_assert!(agents.parked <= agents.closed);
            prop_assert_eq!(cell.state == ViewState::Unknown, agents.reporting == 0);
            prop_assert_eq!(cell.state == ViewState::Open, agents.open > 0);
        }
    }

    #[test]
    fn silencing_an_agent_never_adds_a_closed_one(
        mut records in prop::collection::vec(any_agent(), 1..8),
        silenced in any::<prop::sample::Index>(),
    ) {
        for (index, record) in records.iter_mut().enumerate() {
            record.instance = format!("i{index}");
        }
        let closed = |records: &[AgentRecord]| -> u64 {
            view(records, &everything()).cells.iter().map(|cell| cell.agents.closed).sum()
        };
        let before = closed(&records);
        let index = silenced.index(records.len());
        records[index].report_received_ms = Some(NOW - 31 * SECOND);
        prop_assert!(closed(&records) <= before);
    }

    #[test]
    fn the_order_of_records_does_not_matter(
        records in prop::collection::vec(any_agent(), 0..10),
        rotation in 0..10_usize,
    ) {
        let mut records = records;
        for (index, record) in records.iter_mut().enumerate() {
            record.instance = format!("i{index}");
        }
        let before = view(&records, &everything());
        if !records.is_empty() {
            let by = rotation % records.len();
            records.rotate_left(by);
            records.reverse();
        }
        prop_assert_eq!(before, view(&records, &everything()));
    }
}
