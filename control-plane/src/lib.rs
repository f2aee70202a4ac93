//! The control plane: holds a session with every agent, pushes revisions, takes reports in, and
//! writes what it learns to the live view and the configuration database.
//!
//! The protocol's rules are one plain value in `session`, tested without sockets; `hosting` runs it
//! on a connection, `follow` reads the database, `publish` writes behind slow stores.

mod clock;
mod config;
mod enrolment;
mod error;
mod follow;
mod hosting;
mod housekeeping;
mod incidents;
mod listener;
mod metrics;
mod ops;
mod publish;
mod rollout;
mod run;
mod session;
#[cfg(feature = "simulation")]
pub mod simulation;
mod trace;

pub use config::{Config, GRPC_PORT, OPS_PORT, Timing, Transport};
pub use enrolment::authority::{AuthorityError, AuthorityFiles, rotate_authority};
pub use enrolment::settings::{
    CERTIFICATE_LIFE, Enrolment, KeySource, KeyUrl, Kubernetes, ServerTls,
};
pub use error::Error;
pub use run::{Addresses, run, run_when};
