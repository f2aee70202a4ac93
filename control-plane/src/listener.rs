//! The gRPC listener: connections, what one connection may do, and the session's frames.

pub(crate) mod connection;
pub(crate) mod flood;
pub(crate) mod frames;
pub(crate) mod grpc;
pub(crate) mod pace;
