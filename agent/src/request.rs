//! One caller's request, from its head to the last byte of its answer.

pub(crate) mod attempt;
pub(crate) mod cut;
mod failover;
pub(crate) mod ingress;
pub(crate) mod relay;
mod reply;
pub(crate) mod visit;
