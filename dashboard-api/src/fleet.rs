//! The read API over the fleet: breaker state, its stream of changes, and agents.

pub(crate) mod agents;
pub(crate) mod breaker_state;
pub(crate) mod change;
mod etag;
pub(crate) mod stream;
