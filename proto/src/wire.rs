//! The generated wire types and service. Only this crate's conversions and the two ends of the stream touch them;
//! everything else works with [`crate::message`] and the model.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    reason = "generated code"
)]

tonic::include_proto!("lanekeeper.fleet.v1");
