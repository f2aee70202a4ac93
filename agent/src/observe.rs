//! What the agent shows of itself: metrics and spans.

pub(crate) mod metrics;
pub(crate) mod trace;
