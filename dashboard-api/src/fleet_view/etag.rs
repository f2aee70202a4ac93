//! The ETag of a fleet view: what the view says, without what only the clock changes in it.
//!
//! Ages move with every second, so a tag over the whole text would never match. The tag is weak: two
//! views under one tag tell the same story at different times.

use lanekeeper_model::FleetView;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes of the hash that are shown.
const TAG_BYTES: usize = 16;

/// The view with every field that the clock alone moves set to nothing.
pub(crate) fn timeless(mut view: FleetView) -> FleetView {
    view.generated_at.clear();
    for cell in &mut view.cells {
        cell.opened_for_secs = cell.opened_for_secs.map(|_| 0.0);
        cell.next_probe_in_secs = cell.next_probe_in_secs.map(|_| 0.0);
        if let Some(order) = &mut cell.override_ {
            order.expires_in_secs = order.expires_in_secs.map(|_| 0.0);
        }
        if let Some(advisory) = &mut cell.advisory {
            advisory.expires_in_secs = advisory.expires_in_secs.map(|_| 0.0);
        }
        for agent in cell.by_agent.iter_mut().flatten() {
            agent.age_secs = 0.0;
            agent.cooldown_remaining_secs = 0.0;
        }
    }
    view
}

/// The weak tag of a timeless view.
pub(crate) fn tag(timeless: &FleetView) -> String {
    let text = serde_json::to_vec(timeless).unwrap_or_default();
    let mut tag = String::from("W/\"");
    for byte in Sha256::digest(&text).iter().take(TAG_BYTES) {
        // Writing to a string cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}
