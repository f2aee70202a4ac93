use proptest::prelude::*;

use super::*;
use crate::FreshWindows;
use crate::fleet::tests::oracle::{fleet_view, summary};
use crate::fleet::{ViewQuery, ViewState};
use crate::ids::{CellName, LaneName, PoolName};
use crate::report::{CauseReport, CellReport, CellState, Totals};
use crate::usability::{LaneUsability, PoolUsability, UnusableReason};

const NOW: u64 = 1_796_032_800_000; // 2026-11-30T10:00:00Z
const SECOND: u64 = 1_000;

fn windows() -> FreshWindows {
    FreshWindows::default()
}

/// The pool of cell number `lane`: none for a provider's own.
fn pool_name(pool: u8, lane: u8) -> PoolName {
    match lane {
        0 => PoolName::direct(),
        _ => format!("p{pool}").as_str().into(),
    }
}

/// The lane of cell number `lane`: none for a provider's own.
fn lane_name(lane: u8) -> LaneName {
    match lane {
        0 => LaneName::none(),
        _ => format!("l{lane}").as_str().into(),
    }
}

prop_compose! {
    fn any_cell()(
        (pool, lane, provider) in (0..2_u8, 0..4_u8, 0..2_u8),
        endpoint in prop::option::weighted(0.2, 0..2_u8),
        state in prop_oneof![
            Just(CellState::Closed), Just(CellState::HalfOpen), Just(CellState::Open)
        ],
        (state_age_ms, open_age_ms) in (0..100 * SECOND, 0..100 * SECOND),
        (cooldown, parked) in (0..40 * SECOND, prop_oneof![Just(0), 0..40 * SECOND]),
        (trips, reopens) in (prop_oneof![0..9_u64, Just(u64::MAX)], 0..4_u32),
        cause in prop::option::of((0..3_u8, prop::option::of(500..503_u16), 0..4_u64)),
        override_action in prop::option::weighted(0.3, 0..3_u8),
        advisory in any::<bool>(),
    ) -> CellReport {
        CellReport {
            pool: pool_name(pool, lane),
            lane: lane_name(lane),
            provider: format!("v{provider}").as_str().into(),
            endpoint: endpoint.map(|number| format!("e{number}")),
            state,
            state_age_ms,
            open_age_ms,
            cooldown_remaining_ms: cooldown,
            parked_remaining_ms: parked,
            streak: 0,
            trips,
            reopens,
            window_ok: 0,
            window_failed: 0,
            cause: cause.map(|(kind, status, count)| CauseReport {
                kind: format!("k{kind}"),
                status,
                count,
            }),
            override_action: override_action.map(|number| ACTIONS[number as usize].to_owned()),
            advisory,
            advisory_spared: 0,
        }
    }
}

const ACTIONS: [&str; 3] = ["force_open", "drain", "force_close"];

prop_compose! {
    fn any_pool()(
        pool in 0..3_u8,
        lanes in prop::collection::vec((1..4_u8, prop::collection::vec(
            prop::sample::select(UnusableReason::ALL.as_slice()), 1..3
        )), 0..3),
        (exhausted, in_flight) in (prop::bool::weighted(0.3), 0..2_u64),
    ) -> PoolUsability {
        PoolUsability {
            pool: match pool {
                2 => PoolName::direct(),
                named => format!("p{named}").as_str().into(),
            },
            members: 3,
            usable: 3 - u32::try_from(lanes.len()).unwrap(),
            exhausted,
            in_flight,
            queued: 0,
            unusable: { lanes.into_iter() }
                .map(|(lane, reasons)| LaneUsability {
                    lane: lane_name(lane),
                    reasons: reasons.into(),
                })
                .collect(),
        }
    }
}

prop_compose! {
    fn any_record()(
        (gateway, instance, name) in (0..2_u8, 0..6_u8, 0..3_u8),
        cells in prop::collection::vec(any_cell(), 0..6),
        pools in prop::collection::vec(any_pool(), 0..3),
        // Some arrive from the future: a replica's clock runs ahead.
        received in prop::option::weighted(0.9, prop_oneof![
            NOW - 60 * SECOND..NOW + 5 * SECOND, NOW - 600 * SECOND..NOW
        ]),
        connected in NOW - 600 * SECOND..NOW,
        (left, draining) in (prop::bool::weighted(0.1), prop::bool::weighted(0.2)),
        revision in 0..5_u64,
    ) -> AgentRecord {
        AgentRecord {
            gateway: format!("g{gateway}").as_str().into(),
            instance: format!("i{instance}"),
            name: format!("n{name}"),
            identity: None,
            labels: BTreeMap::new(),
            version: String::new(),
            session_epoch: 1,
            seq: 1,
            connected_ms: connected,
            report_received_ms: received,
            left,
            draining,
            applied_revision: revision,
            applied_hash: String::new(),
            config_source: Default::default(),
            problems: Vec::new(),
            last_error: None,
            clock_skew_ms: 0,
            cells,
            pools,
            totals: Totals::default(),
            overrides: Default::default(),
        }
    }
}

fn any_configured() -> impl Strategy<Value = Vec<GatewayCells>> {
    let cell = (0..2_u8, 0..4_u8, 0..2_u8).prop_map(|(pool, lane, provider)| CellName {
        pool: pool_name(pool, lane),
        lane: lane_name(lane),
        // Of the providers' own cells some are reported and not configured, and the reverse.
        provider: format!("{}{provider}", if lane == 0 { "v" } else { "w" })
            .as_str()
            .into(),
    });
    let cells = prop::collection::vec(cell, 0..6);
    let revision = (0..3_u8, 1..5_u64, cells).prop_map(|(gateway, revision, cells)| GatewayCells {
        name: format!("g{gateway}").as_str().into(),
        revision,
        cells,
        rules: Default::default(),
    });
    prop::collection::vec(revision, 0..5)
}

prop_compose! {
    fn any_query()(
        gateway in prop::option::weighted(0.3, 0..3_u8),
        pool in prop::option::weighted(0.2, 0..2_u8),
        lane in prop::option::weighted(0.2, 0..4_u8),
        provider in prop::option::weighted(0.2, 0..2_u8),
        state in prop::option::weighted(0.3, prop_oneof![
            Just(ViewState::Unknown), Just(ViewState::Closed),
            Just(ViewState::HalfOpen), Just(ViewState::Open),
        ]),
        include_closed in any::<bool>(),
        detail_agents in any::<bool>(),
    ) -> ViewQuery {
        ViewQuery {
            gateway: gateway.map(|number| format!("g{number}").as_str().into()),
            pool: pool.map(|number| format!("p{number}").as_str().into()),
            lane: lane.map(|number| format!("l{number}").as_str().into()),
            provider: provider.map(|number| format!("w{number}").as_str().into()),
            state,
            include_closed,
            detail_agents,
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(Box<AgentRecord>),
    Remove(u8, u8),
    Configure(Vec<GatewayCells>),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any_record().prop_map(|record| Step::Put(Box::new(record))),
        1 => (0..2_u8, 0..6_u8).prop_map(|(gateway, instance)| Step::Remove(gateway, instance)),
        1 => any_configured().prop_map(Step::Configure),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn folding_changes_gives_the_same_view_as_reading_everything(
        steps in prop::collection::vec(any_step(), 0..40),
        queries in prop::collection::vec(any_query(), 1..6),
        later in 0..90 * SECOND,
    ) {
        let mut index = FleetIndex::new();
        let mut records: BTreeMap<(GatewayName, String), AgentRecord> = BTreeMap::new();
        let mut configured = Vec::new();
        for step in steps {
            match step {
                Step::Put(record) => {
                    records.insert((record.gateway.clone(), record.instance.clone()), (*record).clone());
                    index.put(Arc::new(*record));
                }
                Step::Remove(gateway, instance) => {
                    let (gateway, instance) = (format!("g{gateway}"), format!("i{instance}"));
                    index.remove(&gateway, &instance);
                    records.remove(&(gateway.as_str().into(), instance));
                }
                Step::Configure(cells) => {
                    index.configure(&cells);
                    configured = cells;
                }
            }
        }
        let records: Vec<AgentRecord> = records.into_values().collect();
        for now in [NOW, NOW + later] {
            for query in &queries {
                prop_assert_eq!(
                    index.view(query, now, windows()),
                    fleet_view(&records, &configured, query, now, windows())
                );
            }
            prop_assert_eq!(
                index.fold(now, windows()).summary(None),
                summary(&records, &configured, now, windows())
            );
        }
        prop_assert_eq!(index.records().count(), records.len());
    }
}

fn record(instance: &str, cells: Vec<CellReport>) -> AgentRecord {
    AgentRecord {
        gateway: "edge".into(),
        instance: instance.to_owned(),
        name: "node".to_owned(),
        identity: None,
        labels: BTreeMap::new(),
        version: String::new(),
        session_epoch: 1,
        seq: 1,
        connected_ms: NOW,
        report_received_ms: Some(NOW),
        left: false,
        draining: false,
        applied_revision: 1,
        applied_hash: String::new(),
        config_source: Default::default(),
        problems: Vec::new(),
        last_error: None,
        clock_skew_ms: 0,
        cells,
        pools: Vec::new(),
        totals: Totals::default(),
        overrides: Default::default(),
    }
}

fn open(lane: String) -> CellReport {
    CellReport {
        pool: "chat".into(),
        lane: lane.into(),
        provider: "one".into(),
        endpoint: None,
        state: CellState::Open,
        state_age_ms: 0,
        open_age_ms: 0,
        cooldown_remaining_ms: 0,
        parked_remaining_ms: 0,
        streak: 0,
        trips: 1,
        reopens: 0,
        window_ok: 0,
        window_failed: 0,
        cause: Some(CauseReport {
            kind: "status".to_owned(),
            status: Some(503),
            count: 1,
        }),
        override_action: None,
        advisory: false,
        advisory_spared: 0,
    }
}

#[test]
fn names_that_an_agent_makes_up_do_not_pile_up() {
    let mut index = FleetIndex::new();
    for round in 0..100 {
        let cells = (0..100).map(|cell| {
            let mut cell = open(format!("lane-{round}-{cell}"));
            cell.cause.as_mut().unwrap().kind = format!("kind-{round}-{}", cell.lane);
            cell
        });
        index.put(Arc::new(record("one", cells.collect())));
    }
    let gateway = &index.gateways["edge"];
    assert!(gateway.cells.len() < 2_000, "{} names", gateway.cells.len());
    let view = index.view(&ViewQuery::default(), NOW, windows());
    assert_eq!(view.cells.len(), 100);
}
