//! One caller's request, from its head to the last byte of its answer.

pub(crate) mod attempt;
mod failover;
pub(crate) mod guard;
mod held_open;
pub(crate) mod ingress;
pub(crate) mod relay;
mod reply;
pub(crate) mod shutdown_deadline;
pub(crate) mod worker;
