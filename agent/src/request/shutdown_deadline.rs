//! The moment when everything that still runs has to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Set once, when the agent's grace for running requests is over. Clones share it.
///
/// Looking at it costs one load and registers for nothing, because every request looks at it
/// several times: whoever sets it must have what waits polled once more.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShutdownDeadline(Arc<AtomicBool>);

impl ShutdownDeadline {
    /// The moment is here.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True from that moment on.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Ends a wait at the deadline: what has come by then counts, `None` stands for what has not.
    pub(crate) fn bound<T>(&self, polled: Poll<T>) -> Poll<Option<T>> {
        match polled {
            Poll::Ready(come) => Poll::Ready(Some(come)),
            Poll::Pending if self.is_set() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
