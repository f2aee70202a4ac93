//! Room for the bodies of all requests together.
//!
//! A body is held until its request has an answer, since every attempt begins from it. Without a
//! bound over all of them, a few callers that never finish take the agent's whole memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bodies up to this many bytes may use the reserve.
const SMALL_BODY_BYTES: usize = 64 * 1024;
/// The reserve is this part of the room: large bodies cannot keep small ones out.
const RESERVE_PART: usize = 8;

/// How much of the room is taken, over all workers.
#[derive(Debug, Default)]
pub(crate) struct BodyRoom(AtomicUsize);

impl BodyRoom {
    /// Bytes that are held now.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// An empty share of at most `most` bytes over all shares.
    pub(crate) fn share(self: &Arc<Self>, most: usize) -> Share {
        Share {
            room: Arc::clone(self),
            most,
            bytes: 0,
        }
    }
}

/// What one request holds of the room; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<BodyRoom>,
    most: usize,
    bytes: usize,
}

impl Share {
    /// Takes so many bytes more; false when there is no room for them.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let wanted = self.bytes.saturating_add(more);
        let most = if wanted <= SMALL_BODY_BYTES {
            self.most
        } else {
            self.most.saturating_sub(self.most / RESERVE_PART)
        };
        let before = self.room.0.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > most {
            self.room.0.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes = wanted;
        true
    }

    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let spare = self.bytes.saturating_sub(bytes);
        self.room.0.fetch_sub(spare, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_sub(spare);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn large_bodies_leave_the_reserve_to_small_ones() {
        let room = Arc::<BodyRoom>::default();
        let mut large: Vec<Share> = Vec::new();
        while {
            let mut share = room.share(8 * MIB);
            let fits = share.grow(MIB);
            large.push(share);
            fits
        } {}
        assert_eq!(room.held(), 7 * MIB);
        let mut small: Vec<Share> = Vec::new();
        while {
            let mut share = room.share(8 * MIB);
            let fits = share.grow(SMALL_BODY_BYTES);
            small.push(share);
            fits
        } {}
        assert_eq!(room.held(), 8 * MIB);
        drop(small);
        drop(large);
        assert_eq!(room.held(), 0);
    }

    #[test]
    fn share_grows_shrinks_and_is_given_back_whole() {
        let room = Arc::<BodyRoom>::default();
        let mut share = room.share(MIB);
        assert!(share.grow(1000) && share.grow(500) && !share.grow(MIB));
        assert_eq!(room.held(), 1500);
        share.shrink_to(200);
        assert_eq!(room.held(), 200);
        share.shrink_to(900);
        assert_eq!(room.held(), 200, "it does not grow by shrinking");
        drop(share);
        assert_eq!(room.held(), 0);
    }
}
