//! The data plane over real sockets: a plane, a scripted upstream, a caller.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

mod caller;
mod dialects;
mod gateway;
mod upstream;

mod any_pool;
mod azure;
mod bounds;
mod cancellation;
mod classification;
mod counts;
mod embeddings;
mod encoded;
mod endpoints;
mod exhaustion;
mod failover;
mod false_success;
mod floods;
mod framing;
mod health;
mod held;
mod hints;
mod hygiene;
mod in_place;
mod ingress;
mod kept_state;
mod last_error;
mod native;
mod odd_frames;
mod other_endpoints;
mod outage;
mod overrides;
mod panics;
mod probes;
mod providers;
mod queue;
mod recovery;
mod refusals;
mod reload;
mod retry_budget;
mod routes;
mod scenarios;
mod selection;
mod spoken_http;
mod strategies;
mod streams;
mod telling;
mod traces;
mod translated;
mod transport;
mod tripping;
mod usability;
mod waits;
