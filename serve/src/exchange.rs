//! What the stream and the service of one connection know of each other's work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An extension of a request that stated its body's length twice, in `content-length` and in
/// `transfer-encoding`, and must be answered 400. The connection ends after the answer. Given only
/// with [`crate::Limits::tell_conflicting_length`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictingLength;

/// What the two halves share.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Which request is at fault, counted from 1; 0 while none is.
    fault: AtomicU64,
    /// An answer is under way.
    busy: AtomicBool,
    /// No further request is read.
    over: AtomicBool,
}

impl Exchange {
    pub(crate) fn set_fault(&self, request: u64) {
        self.fault.store(request, Ordering::Relaxed);
    }

    pub(crate) fn is_fault(&self, request: u64) -> bool {
        self.fault.load(Ordering::Relaxed) == request
    }

    /// The connection ends with the present answer.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }
}
