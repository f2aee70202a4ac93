//! The gateway that is simulated: its documents and the policy of its cells.

use lanekeeper_breaker::{Policy, Recovery, Trip, TripMode};
use lanekeeper_model::{LaneName, PoolName};
use serde_json::{Value, json};
use std::time::Duration;

pub const GATEWAY: &str = "edge";
/// A lane that never fails.
pub const STEADY: &str = "steady";
/// Lanes that may.
pub const FAILING: [&str; 3] = ["a", "b", "c"];

/// Share of the agents that must hold a lane open before the others are advised, and how many at
/// least.
pub const QUORUM: f64 = 0.5;
pub const AGENTS_MIN: usize = 3;

/// A good document. Each number makes another one; every third lacks a member.
pub fn document(number: u64) -> Value {
    let mut members = vec![
        json!({"target": STEADY}),
        json!({"target": "a"}),
        json!({"target": "b"}),
    ];
    if !number.is_multiple_of(3) {
        members.push(json!({"target": "c"}));
    }
    let fleet = json!({"mode": "act", "quorum": QUORUM, "min_agents": AGENTS_MIN,
        "probe": "coordinated"});
    json!({
        "gateway": GATEWAY,
        "providers": {"p": {
            "protocol": "openai",
            "base_url": format!("http://127.0.0.1:9/{number}"),
            "api_key": null,
        }},
        "models": {STEADY: {"provider": "p"}, "a": {"provider": "p"}, "b": {"provider": "p"},
                   "c": {"provider": "p"}},
        "pools": {
            "chat": {"members": members, "fleet": fleet},
            "deep": {"members": [{"target": STEADY}, {"target": "a"}], "fleet": fleet},
        },
    })
}

/// A document that every agent refuses.
pub fn poison(number: u64) -> Value {
    let mut document = document(number);
    document["pools"]["chat"]["members"][0]["target"] = json!("nowhere");
    document
}

/// Breaks and mends quickly and without randomness.
pub fn policy(max_probes: u32) -> Policy {
    Policy {
        base_cooldown: Duration::from_secs(5),
        max_cooldown: Duration::from_secs(20),
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        park: Duration::ZERO,
        trip: Trip {
            mode: TripMode::Consecutive,
            ..Trip::default()
        },
        half_open: Recovery {
            max_probes,
            ..Recovery::default()
        },
        ..Policy::default()
    }
}

/// Cells that every document has, and one that some have.
pub fn cells() -> Vec<(PoolName, LaneName)> {
    let cell = |pool: &str, lane: &str| (PoolName::from(pool), LaneName::from(lane));
    let mut cells: Vec<_> = FAILING.iter().map(|lane| cell("chat", lane)).collect();
    cells.extend([
        cell("chat", STEADY),
        cell("deep", STEADY),
        cell("deep", "a"),
    ]);
    cells
}
