//! The agent's link to the control plane: the pure state, and the loop that feeds it from a socket.

mod overrides;
mod state;
mod stream;

pub(crate) use stream::Ended;

pub use super::session::{Leave, Numbered};
pub use state::{Effect, Facts, Link, OPEN_TIMEOUT, Outgoing, Received};
