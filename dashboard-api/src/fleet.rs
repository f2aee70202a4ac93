//! The read API over the fleet: breaker state, its stream of changes, pools, agents, incidents, the
//! timeline, and the events that a page lives by.

pub(crate) mod agents;
pub(crate) mod breaker_state;
pub(crate) mod events;
pub(crate) mod incidents;
pub(crate) mod pools;
pub(crate) mod stream;
pub(crate) mod timeline;
