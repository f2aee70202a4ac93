//! What does not keep the rules yet. Every list here only ever gets shorter, and ends empty.

/// Crates (folders) whose top modules still import each other in a circle.
pub const CIRCLES: &[&str] = &[];

/// Folders with words of the table in `words.rs`.
pub const WORDS: &[&str] = &[
    "agent/",
    "breaker/",
    "cli/",
    "control-plane/",
    "dashboard-api/",
    "fleet-sim/",
    "model/",
    "proto/",
    "protocol/",
    "serve/",
    "sim-provider/",
    "store/",
    "tests/simulation/",
];

/// Folders with comments wider than a screen.
pub const WIDE_COMMENTS: &[&str] = &[
    "agent/",
    "breaker/",
    "cli/",
    "dashboard-api/",
    "fleet-sim/",
    "model/",
    "proto/",
    "protocol/",
    "serve/",
    "sim-provider/",
    "store/",
];
