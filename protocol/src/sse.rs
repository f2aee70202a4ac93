//! Splits a server-sent event stream into frames without changing or copying its bytes.
//!
//! A frame is what lies between two blank lines, comments included. Frames that arrive whole are
//! slices of the network buffer; only one that is cut by a buffer's end is put together by copy.
//! The raw bytes of all frames, in order, are the input byte for byte: the relay can pass frames on
//! and cut exactly after one.

pub mod plain;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Largest frame kept. Tool arguments and inline images make single lines of several megabytes; a
/// stream without any blank line must still end somewhere.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// A frame grew beyond [`MAX_FRAME_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stream frame is larger than {MAX_FRAME_BYTES} bytes")]
pub struct FrameTooLong;

/// One event as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// All its bytes, the closing blank line included. A line feed that belongs to the carriage
    /// return that closed the frame before may stand first.
    pub raw: Bytes,
}

impl Frame {
    /// The value of the last `event` field, if there is one.
    #[must_use]
    pub fn event(&self) -> Option<&[u8]> {
        self.fields()
            .filter(|(name, _)| *name == b"event")
            .map(|(_, value)| value)
            .last()
    }

    /// The `data` lines, joined by line feeds; borrowed when there is only one. `None` for a frame
    /// of comments.
    #[must_use]
    pub fn data(&self) -> Option<Cow<'_, [u8]>> {
        let mut lines = self
            .fields()
            .filter(|(name, _)| *name == b"data")
            .map(|(_, value)| value);
        let first = lines.next()?;
        let Some(second) = lines.next() else {
            return Some(Cow::Borrowed(first));
        };
        let mut joined = first.to_vec();
        for line in std::iter::once(second).chain(lines) {
            joined.push(b'\n');
            joined.extend_from_slice(line);
        }
        Some(Cow::Owned(joined))
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let raw = self.raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.raw);
        Lines { rest: raw }
            .filter(|line| !line.is_empty())
            .map(|line| {
                let Some(colon) = memchr::memchr(b':', line) else {
                    return (line, &[] as &[u8]);
                };
                let name = line.get(..colon).unwrap_or_default();
                let value = line.get(colon + 1..).unwrap_or_default();
                (name, value.strip_prefix(b" ").unwrap_or(value))
            })
    }
}

/// Lines that end with LF, CR or both. Between CR and LF it sees an empty line, which means
/// nothing inside a frame.
struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b'\n', b'\r', self.rest).unwrap_or(self.rest.len());
        let line = self.rest.get(..end).unwrap_or_default();
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(line)
    }
}

/// Cuts chunks into frames, and puts those that shall pass together again. Memory is bounded by one
/// chunk, one unfinished frame and what is kept.
#[derive(Debug, Default)]
pub struct SseReader {
    /// The unfinished frame from earlier chunks.
    held: BytesMut,
    /// The newest chunk.
    chunk: Bytes,
    /// Where the frame after the newest one begins in the chunk.
    begin: usize,
    /// The newest frame, until it is kept or the next one is read.
    newest: Newest,
    /// Frames kept in the present chunk and not yet handed out: neighbours, so one slice.
    run: Range<usize>,
    /// What was kept before the run.
    kept: VecDeque<Bytes>,
    /// True when the last byte scanned was a carriage return, whose line feed may still come.
    after_cr: bool,
    /// True when the current line has no byte yet.
    line_is_empty: bool,
    /// True when the current frame has a line with bytes.
    has_line: bool,
    /// True once the first byte was seen, after which the current line's state is known.
    started: bool,
}

/// Where the bytes of the newest frame are.
#[derive(Debug, Default)]
enum Newest {
    #[default]
    None,
    /// In the chunk, from here to where the next one begins.
    Slice(usize),
    /// Put together from several chunks.
    Joined(Bytes),
}

impl SseReader {
    /// A reader at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk. Call [`Self::next_frame`] until it has none before pushing another;
    /// otherwise the chunks are joined by copy.
    pub fn push(&mut self, chunk: Bytes) {
        self.end_run();
        let rest = self.chunk.split_off(self.begin);
        self.begin = 0;
        self.run = 0..0;
        self.chunk = if rest.is_empty() {
            chunk
        } else {
            let mut joined = BytesMut::with_capacity(rest.len() + chunk.len());
            joined.extend_from_slice(&rest);
            joined.extend_from_slice(&chunk);
            joined.freeze()
        };
    }

    /// The next whole frame, or `None` when more input is needed.
    ///
    /// # Errors
    ///
    /// The frame is larger than [`MAX_FRAME_BYTES`]; the reader is of no use afterwards.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLong> {
        self.newest = Newest::None;
        let end = self.scan();
        let begin = std::mem::replace(&mut self.begin, end.unwrap_or(self.chunk.len()));
        if self.held.len() + self.begin.saturating_sub(begin) > MAX_FRAME_BYTES {
            return Err(FrameTooLong);
        }
        if end.is_some() && self.held.is_empty() {
            self.newest = Newest::Slice(begin);
            let raw = self.chunk.slice(begin..self.begin);
            return Ok(Some(Frame { raw }));
        }
        let part = self.chunk.get(begin..self.begin).unwrap_or_default();
        self.held.extend_from_slice(part);
        if end.is_none() {
            return Ok(None);
        }
        Ok(Some(self.joined()))
    }

    /// The bytes of the newest chunk behind the newest frame, if a frame begins there.
    #[must_use]
    pub fn ahead(&self) -> &[u8] {
        let between = self.held.is_empty()
            && !self.after_cr
            && !self.has_line
            && (self.line_is_empty || !self.started);
        if between {
            self.chunk.get(self.begin..).unwrap_or_default()
        } else {
            &[]
        }
    }

    /// Lets `len` bytes of [`Self::ahead`] pass unread. They must be whole frames.
    pub fn keep_ahead(&mut self, len: usize) {
        let begin = self.begin;
        self.begin = begin.saturating_add(len).min(self.chunk.len());
        self.newest = Newest::Slice(begin);
        self.keep();
    }

    /// Bytes of the frame that is not finished yet.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// What is left when the stream has ended: a last frame without its blank line. Some servers
    /// leave that line out, so it counts as a frame if it has any line.
    pub fn finish(&mut self) -> Option<Frame> {
        let rest = self.chunk.get(self.begin..).unwrap_or_default();
        self.held.extend_from_slice(rest);
        self.begin = self.chunk.len();
        self.newest = Newest::None;
        (!self.held.is_empty()).then(|| self.joined())
    }

    fn joined(&mut self) -> Frame {
        let raw = self.held.split().freeze();
        self.newest = Newest::Joined(raw.clone());
        Frame { raw }
    }

    /// Lets the newest frame pass.
    pub fn keep(&mut self) {
        match std::mem::take(&mut self.newest) {
            Newest::None => {}
            Newest::Slice(begin) if begin == self.run.end => self.run.end = self.begin,
            Newest::Slice(begin) => {
                self.end_run();
                self.run = begin..self.begin;
            }
            Newest::Joined(raw) => {
                self.end_run();
                self.kept.push_back(raw);
                self.run = self.begin..self.begin;
            }
        }
    }

    /// Moves what was kept behind `queue`, in as few pieces as its memory allows: frames that came
    /// in one chunk leave as one slice of it.
    pub fn hand_out(&mut self, queue: &mut VecDeque<Bytes>) {
        self.end_run();
        queue.append(&mut self.kept);
        self.leave_chunk();
    }

    /// Copies what is kept, if it has no more than `most` bytes, so that it keeps no network buffer
    /// while more is waited for.
    pub fn detach(&mut self, most: usize) {
        self.end_run();
        let len = self.kept.iter().map(Bytes::len).sum();
        if (1..=most).contains(&len) {
            let mut joined = BytesMut::with_capacity(len);
            self.kept
                .drain(..)
                .for_each(|piece| joined.extend_from_slice(&piece));
            self.kept.push_back(joined.freeze());
        }
        self.leave_chunk();
    }

    /// The network buffer is free for the next read once nobody else has a part of it.
    fn leave_chunk(&mut self) {
        if self.begin == self.chunk.len() {
            self.chunk = Bytes::new();
            self.begin = 0;
            self.run = 0..0;
            self.newest = Newest::None;
        }
    }

    fn end_run(&mut self) {
        if !self.run.is_empty() {
            self.kept.push_back(self.chunk.slice(self.run.clone()));
        }
        self.run = self.run.end..self.run.end;
    }

    /// Where the frame ends in the chunk, or `None` when it does not end there.
    fn scan(&mut self) -> Option<usize> {
        if !self.started {
            self.started = true;
            self.line_is_empty = true;
        }
        let mut at = self.begin;
        while let Some(rest) = self.chunk.get(at..).filter(|rest| !rest.is_empty()) {
            if self.after_cr {
                self.after_cr = false;
                if rest.first() == Some(&b'\n') {
                    at += 1;
                    continue;
                }
            }
            let Some(skip) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.line_is_empty = false;
                self.has_line = true;
                return None;
            };
            if skip > 0 {
                self.line_is_empty = false;
                self.has_line = true;
            }
            at += skip + 1;
            self.after_cr = rest.get(skip) == Some(&b'\r');
            if !self.line_is_empty {
                self.line_is_empty = true;
            } else if self.has_line {
                self.has_line = false;
                // The pair's line feed goes with the frame when it is already here.
                if self.after_cr && self.chunk.get(at) == Some(&b'\n') {
                    self.after_cr = false;
                    at += 1;
                }
                return Some(at);
            }
        }
        None
    }
}

impl SseReader {
    /// True when nothing is held and nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.begin == self.chunk.len()
    }
}

#[cfg(test)]
mod tests;
