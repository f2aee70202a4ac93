//! The read API over the fleet: breaker state, its stream of changes, pools, and agents.

pub(crate) mod agents;
pub(crate) mod breaker_state;
pub(crate) mod change;
mod etag;
pub(crate) mod pools;
pub(crate) mod stream;
