//! What sessions learn, written to the live view and the database without holding a session up.

pub(crate) mod outbox;
pub(crate) mod report_interval;
pub(crate) mod traffic;
pub(crate) mod transitions;
