//! The agent's side of the fleet protocol.

pub(crate) mod control;
