//! The wire between agents and the control plane: the protobuf definition, the generated code, and
//! the conversions to and from checked values that keep generated types from spreading.
//!
//! Both ends decode a [`wire`] envelope, turn it into a [`message`] with `TryFrom`, and encode with
//! `From`. Sizes both ends must agree on are in [`limits`].

mod codec;
mod convert;
mod error;
pub mod limits;
pub mod message;
#[cfg(feature = "testing")]
#[expect(
    clippy::panic,
    reason = "a step of a test's preparation that fails is a failed test"
)]
pub mod testing;
pub mod wire;

pub use codec::FleetCodec;
pub use error::{Unfit, WireError};
pub use wire::fleet_client::FleetClient;
pub use wire::fleet_server::{Fleet, FleetServer};
