//! Each preset against the sentences of the gateway it reproduces, one table per document.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

use lanekeeper_breaker::presets;

#[path = "presets/story.rs"]
mod story;

#[path = "presets/default.rs"]
mod default;

#[path = "presets/rolter.rs"]
mod rolter;

#[path = "presets/myra.rs"]
mod myra;

#[path = "presets/aibridge.rs"]
mod aibridge;

#[test]
fn every_preset_is_within_its_own_bounds_and_found_by_its_name() {
    for name in presets::NAMES {
        let policy = presets::by_name(name).expect(name);
        assert_eq!(policy.problems(), [], "{name}");
    }
    assert_eq!(presets::by_name("nonesuch"), None);
}
