//! Translation between Anthropic's and Gemini's dialects, from outside: what public reports of other
//! gateways describe, round trips, and streams that say what whole answers say.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

mod answers;
mod anthropic_lane;
mod counts;
mod gemini_lane;
mod round_trips;
mod same_answer;
mod streams;
mod support;
