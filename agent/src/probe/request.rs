//! The request of a probe: the smallest real generation a protocol knows.
//!
//! A list of models or a bare connection would be cheaper and prove less: providers answer those
//! while every generation fails.

use crate::request::attempt::Asked;
use http::{HeaderMap, Method};
use lanekeeper_model::gateway::Protocol;
use lanekeeper_protocol::rewrite::ModelPlaces;
use lanekeeper_protocol::{Dialect, vendor};

/// The operation a probe of a protocol uses.
pub(super) fn dialect(protocol: Protocol) -> Dialect {
    let vendor = vendor(protocol);
    let (operation, _) = vendor.probe("");
    Dialect::new(vendor, operation)
}

/// The probe of a lane whose provider calls the model `model`.
pub(super) fn of(protocol: Protocol, model: &str) -> Asked {
    let vendor = vendor(protocol);
    let (operation, body) = vendor.probe(model);
    Asked {
        method: Method::POST,
        tail: String::new(),
        dialect: Dialect::new(vendor, operation),
        headers: HeaderMap::new(),
        body: body.to_string().into(),
        // The body names the provider's own model already.
        model: ModelPlaces::Path,
        model_name: model.to_owned(),
        cleaned: None,
        kept_at: None,
        query: None,
        streams: false,
    }
}
