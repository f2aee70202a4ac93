//! How much one stream is moved at a stretch before the others of its thread have their turn.
//!
//! The HTTP library asks a body again and again while it has something to give and the caller takes
//! it. A lane that is always ahead would have its thread to itself: the runtime looks for new
//! connections and for bytes of others only once every few turns of its tasks.

/// Chunks of the upstream in one stretch. Two of the vectored writes that the HTTP library makes of
/// sixteen pieces each.
pub(super) const CHUNKS_MAX: usize = 32;
/// Bytes of the upstream in one stretch; the chunk that reaches the bound is the last.
pub(super) const BYTES_MAX: usize = 128 * 1024;

/// Counts what was taken since the relay last waited.
#[derive(Debug, Default)]
pub(super) struct Burst {
    chunks: usize,
    bytes: usize,
}

impl Burst {
    /// A chunk of so many bytes came.
    pub(super) fn add(&mut self, bytes: usize) {
        self.chunks = self.chunks.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// True when it is the others' turn.
    pub(super) fn is_over(&self) -> bool {
        self.chunks >= CHUNKS_MAX || self.bytes >= BYTES_MAX
    }

    /// The relay waits now.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_chunks_and_a_few_large_ones_both_end_a_burst() {
        for (bytes, most) in [(1, CHUNKS_MAX), (64 * 1024, 2), (BYTES_MAX, 1)] {
            let mut burst = Burst::default();
            for taken in 0..most {
                assert!(!burst.is_over(), "{bytes}: {taken}");
                burst.add(bytes);
            }
            assert!(burst.is_over(), "{bytes}");
            burst.end();
            assert!(!burst.is_over(), "{bytes}");
        }
    }
}
