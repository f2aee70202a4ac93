//! Pools in reports.

use lanekeeper_model::{
    AttemptCounts, LaneUsability, PoolReport, PoolTotals, PoolTraffic, PoolUsability,
    RequestCounts, Times, UnusableReason,
};

use super::*;

fn pool() -> PoolReport {
    let counts = |success, transient| AttemptCounts {
        success,
        transient,
        ..AttemptCounts::default()
    };
    PoolReport {
        usability: PoolUsability {
            pool: "chat".into(),
            members: 3,
            usable: 1,
            exhausted: false,
            in_flight: 4,
            queued: 1,
            unusable: vec![
                LaneUsability {
                    lane: "sonnet".into(),
                    reasons: { UnusableReason::ALL.into_iter() }
                        .filter(|reason| *reason != UnusableReason::Empty)
                        .collect(),
                },
                LaneUsability {
                    lane: "opus".into(),
                    reasons: [UnusableReason::PermitsGone].into_iter().collect(),
                },
            ],
        },
        traffic: PoolTraffic {
            totals: PoolTotals {
                requests: RequestCounts {
                    ok: 90,
                    exhausted: 7,
                    ..RequestCounts::default()
                },
                failovers: 12,
                first_content: Times::from(vec![0, 0, 60, 30]),
                whole: Times::from(vec![0, 0, 0, 0, 97]),
            },
            attempts: vec![
                ("opus".into(), counts(0, 12)),
                ("gpt".into(), counts(90, 0)),
            ],
        },
    }
}

/// A report that also says what its pools can serve with and what came of their requests.
pub(super) fn report_with_pools() -> Report {
    Report {
        pools: vec![
            pool(),
            PoolReport {
                usability: PoolUsability {
                    pool: "hollow".into(),
                    exhausted: true,
                    ..PoolUsability::default()
                },
                ..PoolReport::default()
            },
        ],
        pools_over_ms: 10_000,
        ..report()
    }
}

/// An answer to a push that also says which pools lack a member now.
pub(super) fn applied_with_pools() -> ConfigResult {
    ConfigResult {
        pools: vec![pool().usability],
        ..applied()
    }
}

fn sent(report: Report) -> wire::Report {
    wire::Report::from(report)
}

#[test]
fn pools_arrive_as_they_were_sent() {
    let report = report_with_pools();
    assert_eq!(Report::try_from(sent(report.clone())).unwrap(), report);
}

#[test]
fn noughts_at_the_end_take_no_room() {
    let pool = &sent(report_with_pools()).pools[0];
    assert_eq!(pool.requests, [90, 0, 0, 7]);
    assert_eq!(pool.first_content, [0, 0, 60, 30]);
    assert_eq!(pool.lanes[1].attempts, [0, 12]);
    assert_eq!(pool.lanes.len(), 3, "a lane is listed once");
}

#[test]
fn reason_of_a_later_release_still_says_that_the_lane_is_unusable() {
    let mut message = sent(report_with_pools());
    message.pools[0].lanes[1].reasons = vec![77];
    let report = Report::try_from(message).unwrap();
    let reasons = report.pools[0].usability.unusable[1].reasons;
    assert_eq!(reasons.iter().collect::<Vec<_>>(), [UnusableReason::Other]);
}

#[test]
fn pools_that_cannot_be_are_refused_with_the_field_named() {
    let refused = |change: &dyn Fn(&mut wire::Report)| {
        let mut message = sent(report_with_pools());
        change(&mut message);
        Report::try_from(message).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|report| report.pools[0].usable = 9),
        "pools[0].usable: 9 is above 3"
    );
    assert_eq!(
        refused(&|report| report.pools[0].requests = vec![0, 12_000_000]),
        "pools[0].requests: 12000000 is above 11000000"
    );
    assert_eq!(
        refused(&|report| report.pools[0].lanes[1].lane.clear()),
        "pools[0].lanes[1].lane: is missing"
    );
    assert_eq!(
        refused(&|report| {
            let pool = report.pools[1].clone();
            report.pools = vec![pool; limits::REPORT_POOLS_MAX + 1];
        }),
        "pools: more than 4096 entries"
    );
    assert_eq!(
        refused(&|report| {
            let lane = report.pools[0].lanes[0].clone();
            report.pools[0].lanes = vec![lane; limits::REPORT_MEMBERS_MAX + 1];
        }),
        "pools.lanes: more than 65536 entries"
    );
}
