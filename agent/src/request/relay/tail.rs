//! What may still follow an answer's end.
//!
//! Some services send a comment, another protocol's closing frame or a report of usage behind their
//! own. That passes; whoever goes on for ever is cut off, and the answer is as whole as before.

use lanekeeper_protocol::Vendor;
use lanekeeper_protocol::frame;

/// Bytes that may follow the closing frame.
const TAIL_MAX_BYTES: usize = 16 * 1024;
/// Bytes that may follow the end of the model's turn where the protocol has no closing frame: other
/// candidates of the same answer may still be at work.
const LOOSE_TAIL_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Counts what follows the end.
#[derive(Debug)]
pub(super) struct Tail {
    left: usize,
}

impl Tail {
    pub(super) fn new(vendor: &dyn Vendor) -> Self {
        let left = if frame::closes_by_finish(vendor) {
            LOOSE_TAIL_MAX_BYTES
        } else {
            TAIL_MAX_BYTES
        };
        Self { left }
    }

    /// True when a frame of so many bytes still passes.
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    /// True when a frame of so many bytes could pass.
    pub(super) const fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.left
    }
}
