//! The control plane: holds a session with every agent, pushes revisions, takes reports in, and
//! writes what it learns to the live view and the configuration database.
//!
//! The protocol's rules are one plain value in `session`, tested without sockets; `stream` runs it
//! on a connection, `config_watch` follows the database, `outbox` writes behind slow stores.

mod clock;
mod config;
mod config_watch;
mod core;
mod error;
mod grpc;
mod housekeeping;
mod intake;
mod link;
mod metrics;
mod ops;
mod outbox;
mod outgoing;
mod run;
mod session;
mod session_epoch;
mod sessions;
mod stream;
mod target;
mod tls;

pub use config::{Config, GRPC_PORT, OPS_PORT, ServerTls, Timing, Transport};
pub use error::Error;
pub use run::{Addresses, run};
