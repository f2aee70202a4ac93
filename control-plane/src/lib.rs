//! The control plane: holds a session with every agent, pushes revisions, takes reports in, and
//! writes what it learns to the live view and the configuration database.
//!
//! The protocol's rules are one plain value in `session`, tested without sockets; `stream` runs it
//! on a connection, `config_watch` and `override_watch` follow the database, `outbox` writes behind slow stores.

mod authority;
mod clock;
mod config;
mod config_watch;
mod copies;
mod core;
mod drain_watch;
mod enrol;
mod error;
mod flood;
mod frames;
mod grpc;
mod housekeeping;
mod intake;
mod kubernetes;
mod link;
mod metrics;
mod ops;
mod outbox;
mod outgoing;
mod override_watch;
mod pace;
mod poll;
mod report_pace;
mod rollout;
mod run;
mod session;
mod session_epoch;
mod sessions;
mod share;
#[cfg(feature = "simulation")]
pub mod simulation;
mod standing;
mod stream;
mod target;
mod throttle;
mod tls;
mod trace;
mod trust;

pub use authority::{AuthorityError, AuthorityFiles, rotate_authority};
pub use config::{
    CERTIFICATE_LIFE, Config, Enrolment, GRPC_PORT, KeySource, KeyUrl, Kubernetes, OPS_PORT,
    ServerTls, Timing, Transport,
};
pub use error::Error;
pub use run::{Addresses, run, run_when};
