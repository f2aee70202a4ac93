use super::*;
use crate::fleet::GatewayCells;
use crate::fleet::advice::PoolRules;
use crate::ids::{CellName, PoolName};
use crate::report::CellReport;
use crate::spec::FleetMode;
use std::sync::Arc;

const NOW: u64 = 1_700_000_000_000;
const WINDOWS: AdviceWindows = AdviceWindows {
    fresh: FreshWindows {
        stale_after_ms: 30_000,
        gone_after_ms: 300_000,
    },
    known_ms: u64::MAX,
};

fn rules() -> AdviceRules {
    let rules = PoolRules {
        mode: FleetMode::Act,
        quorum: 0.5,
        min_agents: 3,
        max_benched: 0.5,
        members: vec!["a".into(), "b".into()],
    };
    AdviceRules(BTreeMap::from([(PoolName::from("chat"), rules)]))
}

fn record(identity: &str, instance: &str, open: bool) -> AgentRecord {
    let mut cells = Vec::new();
    if open {
        let cell = serde_json::json!({"pool": "chat", "lane": "a", "provider": "p",
            "state": "open", "state_age_ms": 2000, "open_age_ms": 5000,
            "cause": {"kind": "status", "status": 503, "count": 5}});
        cells.push(serde_json::from_value::<CellReport>(cell).unwrap());
    }
    let record = serde_json::json!({"gateway": "edge", "instance": instance, "name": "node",
        "identity": identity, "report_received_ms": NOW - 1000, "applied_revision": 1});
    AgentRecord {
        cells,
        ..serde_json::from_value(record).unwrap()
    }
}

fn index(records: impl IntoIterator<Item = AgentRecord>) -> FleetIndex {
    let mut index = FleetIndex::new();
    let cell = |lane: &str| CellName {
        pool: "chat".into(),
        lane: lane.into(),
        provider: "p".into(),
    };
    index.configure(&[GatewayCells {
        name: "edge".into(),
        revision: 1,
        cells: vec![cell("a"), cell("b")],
        rules: rules(),
    }]);
    for record in records {
        index.put(Arc::new(record));
    }
    index
}

fn advice(index: &FleetIndex) -> Vec<Advice> {
    index.advice(&"edge".into(), &rules(), NOW, WINDOWS)
}

fn many(identities: std::ops::Range<u32>, open: bool) -> Vec<AgentRecord> {
    let one = |number| record(&format!("id-{number}"), &format!("i-{number}"), open);
    identities.map(one).collect()
}

#[test]
fn enough_agents_make_advice_with_times_by_the_servers_clock() {
    let index = index(many(0..3, true).into_iter().chain(many(3..6, false)));
    let advice = advice(&index).remove(0);
    assert_eq!((advice.open, advice.fresh), (3, 6));
    assert_eq!(advice.since_ms, NOW - 6000);
    assert_eq!(advice.evidence_ms, NOW - 3000);
    let shown = index.view(&Default::default(), NOW, WINDOWS.fresh);
    let shown = shown.cells[0].advisory.unwrap();
    assert_eq!(shown.mode, Some(FleetMode::Act));
    assert!(!shown.active, "no agent has said so");
    assert_eq!(shown.open_agents, 3);
    assert_eq!(shown.advised_for_secs, Some(6.0));
}

#[test]
fn an_identity_has_one_vote_whatever_the_number_of_its_processes() {
    let liar = (0..40).map(|number| record("liar", &format!("l-{number}"), true));
    let honest = many(0..3, false);
    assert!(advice(&index(liar.chain(honest))).is_empty());
}

#[test]
fn an_identity_whose_other_process_has_the_cell_closed_is_no_vote() {
    let mut records = many(0..3, true);
    assert_eq!(advice(&index(records.clone())).len(), 1);
    records.push(record("id-1", "new", false));
    assert!(advice(&index(records)).is_empty());
}

#[test]
fn silent_agents_have_no_vote_and_who_sees_half_of_the_fleet_only_says_nothing() {
    let silent = |count: u32| {
        many(10..10 + count, true)
            .into_iter()
            .map(|record| AgentRecord {
                report_received_ms: Some(NOW - 60_000),
                ..record
            })
    };
    let open = many(0..3, true);
    assert_eq!(
        advice(&index(open.clone().into_iter().chain(silent(3)))).len(),
        1
    );
    assert!(advice(&index(open.clone().into_iter().chain(silent(4)))).is_empty());
    let left = silent(40).map(|record| AgentRecord {
        left: true,
        ..record
    });
    assert_eq!(advice(&index(open.into_iter().chain(left))).len(), 1);
}

#[test]
fn reports_that_a_wrong_clock_received_in_the_future_have_no_vote() {
    let ahead = many(0..6, true).into_iter().map(|record| AgentRecord {
        report_received_ms: Some(NOW + 3_600_000),
        ..record
    });
    assert!(advice(&index(ahead.chain(many(6..12, false)))).is_empty());
}

#[test]
fn operators_overrides_and_agents_without_the_cell_do_not_count() {
    let mut overridden = many(0..3, true);
    for record in &mut overridden {
        record.cells[0].override_action = Some("force_open".to_owned());
    }
    assert!(advice(&index(overridden)).is_empty());
    let elsewhere = many(3..9, false).into_iter().map(|record| AgentRecord {
        applied_revision: 0,
        ..record
    });
    let found = advice(&index(many(0..3, true).into_iter().chain(elsewhere)));
    assert_eq!((found[0].open, found[0].fresh), (3, 3));
}
