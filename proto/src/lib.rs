//! The wire between agents and the control plane: the protobuf definition, the generated code, and
//! the conversions to and from checked values that keep generated types from spreading.
//!
//! Both ends decode a [`wire`] envelope, turn it into a [`message`] with `TryFrom`, and encode with
//! `From`. Sizes both ends must agree on are in [`limits`].

mod convert;
mod error;
pub mod limits;
pub mod message;
pub mod wire;

pub use error::{Unfit, WireError};
pub use wire::fleet_client::FleetClient;
pub use wire::fleet_server::{Fleet, FleetServer};
