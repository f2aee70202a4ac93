//! Open sessions on their streams, and which of them belongs to an instance.

pub(crate) mod core;
pub(crate) mod duplicates;
pub(crate) mod epoch;
pub(crate) mod host;
pub(crate) mod intake;
pub(crate) mod leases;
pub(crate) mod link;
pub(crate) mod news;
pub(crate) mod outgoing;
pub(crate) mod sessions;
pub(crate) mod share;
pub(crate) mod stream;
pub(crate) mod writer;
