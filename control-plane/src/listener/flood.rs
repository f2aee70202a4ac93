//! Notices floods of HTTP/2's housekeeping frames (RFC 9113, section 10.5): each costs its sender a
//! few bytes and its receiver an answer, and the HTTP library answers them all.

use std::time::{Duration, Instant};

/// Length of the head of a frame, in bytes.
const HEAD_BYTES: usize = 9;
/// Kinds of frames that mean nothing for the calls of a connection: PRIORITY, SETTINGS, PING.
const HOUSEKEEPING: [u8; 3] = [2, 4, 6];
/// Such frames that may come in a row. An agent sends a handful at first.
const BURST: u32 = 200;
/// Time after which one more may come. An agent needs one in ten seconds.
const REFILL: Duration = Duration::from_millis(50);

/// What a connection's peer has sent so far, frame by frame.
#[derive(Debug)]
pub(crate) struct Frames {
    head: [u8; HEAD_BYTES],
    /// Bytes of the next head that are there.
    known: usize,
    /// Bytes until the next head: the rest of a payload, or of the client's preface.
    rest: usize,
    /// Before this the allowance was used up.
    spent_until: Option<Instant>,
}

impl Frames {
    /// A connection whose first `preface` bytes are no frames.
    pub(crate) fn behind(preface: usize) -> Self {
        Self {
            head: [0; HEAD_BYTES],
            known: 0,
            rest: preface,
            spent_until: None,
        }
    }

    /// Takes in the next bytes; false when it is a flood.
    pub(crate) fn take(&mut self, mut bytes: &[u8], now: impl Fn() -> Instant) -> bool {
        while !bytes.is_empty() {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let missing = HEAD_BYTES.saturating_sub(self.known).min(bytes.len());
            let (part, after) = bytes.split_at(missing);
            bytes = after;
            if let Some(room) = self.head.get_mut(self.known..self.known + missing) {
                room.copy_from_slice(part);
            }
            self.known += missing;
            if self.known == HEAD_BYTES {
                self.known = 0;
                let [a, b, c, kind, ..] = self.head;
                self.rest = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
                if HOUSEKEEPING.contains(&kind) && !self.is_allowed(now()) {
                    return false;
                }
            }
        }
        true
    }

    fn is_allowed(&mut self, now: Instant) -> bool {
        let spent = self.spent_until.unwrap_or(now).max(now) + REFILL;
        self.spent_until = Some(spent);
        spent.saturating_duration_since(now) <= REFILL * BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

    /// A frame of data that looks like pings.
    fn data() -> Vec<u8> {
        let payload = PING.repeat(1_000);
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [length[1], length[2], length[3], 0, 0, 0, 0, 0, 1];
        [&head[..], &payload].concat()
    }

    #[test]
    fn a_flood_is_noticed_however_its_bytes_are_cut() {
        let now = clock::now();
        for size in [1, 2, 7, 9, 17, 1_000, 100_000] {
            let mut frames = Frames::behind(24);
            let bytes = [&[b'P'; 24][..], &PING.repeat(201)].concat();
            let mut parts = bytes.chunks(size);
            assert!(!parts.all(|part| frames.take(part, || now)), "{size}");
            let mut frames = Frames::behind(24);
            let bytes = [&[b'P'; 24][..], &PING.repeat(200), &data()].concat();
            let mut parts = bytes.chunks(size);
            assert!(parts.all(|part| frames.take(part, || now)), "{size}");
        }
    }

    #[test]
    fn payloads_are_not_looked_at_and_patience_is_rewarded() {
        let now = clock::now();
        let mut frames = Frames::behind(0);
        assert!(frames.take(&data().repeat(50), || now));
        for second in 0..100 {
            let later = now + Duration::from_secs(second);
            assert!(frames.take(&PING.repeat(20), || later));
        }
    }
}
