//! What the stores promise, shown on every engine: each case runs on SQLite and on a real
//! PostgreSQL, or on the in-process view and on a real Redis.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

#[macro_use]
mod stores;
mod agents;
mod audit;
mod drains;
mod embedded;
mod enrolment;
mod idempotency;
mod live;
mod outages;
mod overrides;
mod revisions;
mod rollouts;
mod sign_ins;
mod timeline;
mod tokens;
