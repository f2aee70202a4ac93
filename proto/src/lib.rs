//! The wire between agents and the control plane: the protobuf definition, the generated code, and the conversions to and
//! from the model that keep generated types from spreading.

pub mod limits;
pub mod wire;

pub use wire::fleet_client::FleetClient;
pub use wire::fleet_server::{Fleet, FleetServer};
