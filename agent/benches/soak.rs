//! Outages of half a minute under 200 calls a second, with the cooldowns of the default policy.
//!
//! `make soak` runs it; it takes some five minutes, prints what each outage showed and fails where
//! a promise is broken. The short form of the same test is part of `make test`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    dead_code,
    reason = "a broken promise ends the run, and only a part of the shared scaffold is needed here"
)]

#[path = "../tests/data_plane/caller.rs"]
mod caller;
#[path = "../tests/data_plane/gateway.rs"]
mod gateway;
#[path = "../tests/data_plane/outage.rs"]
mod outage;
#[path = "../tests/data_plane/upstream.rs"]
mod upstream;

use outage::{Death, Plan, play};
use std::time::Duration;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for death in [Death::Errors, Death::Resets, Death::Silence] {
        let plan = Plan {
            death,
            calls_per_sec: 200,
            calm: Duration::from_secs(10),
            outage: Duration::from_secs(30),
            breaker: "trip: {mode: consecutive}, park_secs: 0.5",
            base_cooldown: Duration::from_secs(14),
            longest_cooldown: Duration::from_secs(120),
            ramp: Duration::from_secs(10),
        };
        let findings = runtime.block_on(play(&plan));
        println!("{death:?}: {findings:#?}");
        findings.check(&plan);
    }
}
