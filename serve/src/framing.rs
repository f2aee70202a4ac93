//! Finds requests that state their body's length twice, in `content-length` and in
//! `transfer-encoding`.
//!
//! Two readers of such a request may see two different bodies, which is how requests are smuggled
//! past a proxy. The HTTP library settles it by forgetting `content-length` before the service sees
//! the headers, so whoever has to refuse the request (RFC 9112, 6.3) must look at the bytes. This
//! follows only as much of them as it takes to find the next request's head; bodies are skipped by
//! their length. What is no HTTP needs no care here: the library ends such a connection.

/// Longest header name of interest.
const NAME_MAX_BYTES: usize = TRANSFER_ENCODING.len();
const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";
/// Bytes of a request line that are kept.
const REQUEST_LINE_MAX_BYTES: usize = 256;

/// Follows the bytes of one connection.
#[derive(Debug, Default)]
pub struct Framing {
    state: State,
    head: Head,
    /// Heads read to their end.
    heads: u64,
    request_line: RequestLine,
}

/// The beginning of the latest request line.
#[derive(Debug)]
struct RequestLine {
    bytes: [u8; REQUEST_LINE_MAX_BYTES],
    len: usize,
}

impl Default for RequestLine {
    fn default() -> Self {
        Self {
            bytes: [0; REQUEST_LINE_MAX_BYTES],
            len: 0,
        }
    }
}

impl RequestLine {
    fn push(&mut self, part: &[u8]) {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let len = part.len().min(room.len());
        if let (Some(room), Some(part)) = (room.get_mut(..len), part.get(..len)) {
            room.copy_from_slice(part);
            self.len += len;
        }
    }
}

/// What comes next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first byte of a line of the head or of a chunked body's trailer.
    #[default]
    LineStart,
    /// The rest of a request line.
    RequestLine,
    /// The name of a header that may be of interest: its first bytes.
    Name([u8; NAME_MAX_BYTES], usize),
    /// The value of `content-length`.
    Length,
    /// The rest of a line that is of no interest.
    LineRest,
    /// So many bytes of a body with a length.
    Body(u64),
    /// The digits of a chunk's size.
    ChunkSize(u64),
    /// The rest of the line behind a chunk's size.
    ChunkExtension(u64),
    /// So many bytes of a chunk, then the end of its line.
    Chunk(u64),
    /// A request was found; what follows is never served.
    Found,
}

/// What the lines of the present head have said.
#[derive(Debug, Default)]
struct Head {
    /// The request line has begun: a blank line from now on ends the head.
    begun: bool,
    /// These lines are the trailer of a chunked body.
    is_trailer: bool,
    length: Option<u64>,
    is_chunked: bool,
}

/// Where in its conversation a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before the first byte of a request.
    Between,
    /// Within a head.
    Head,
    /// Within a body, or behind a request that ends the connection.
    Body,
}

impl Framing {
    /// Where the bytes read so far end.
    pub fn place(&self) -> Place {
        match self.state {
            State::LineStart if !self.head.begun => Place::Between,
            State::LineStart
            | State::RequestLine
            | State::Name(..)
            | State::Length
            | State::LineRest
                if !self.head.is_trailer =>
            {
                Place::Head
            }
            _ => Place::Body,
        }
    }

    /// The target in the latest request line, as far as it was seen and kept.
    pub fn target(&self) -> &[u8] {
        let line = self.request_line.bytes.get(..self.request_line.len);
        let mut words = line.unwrap_or_default().split(|byte| *byte == b' ');
        words.nth(1).unwrap_or_default()
    }

    /// Heads read to their end.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Takes the next bytes. Returns which request of the connection, counted from 1, states its
    /// length twice; once at most.
    pub fn read(&mut self, mut bytes: &[u8]) -> Option<u64> {
        while let Some((&first, rest)) = bytes.split_first() {
            bytes = match self.state {
                State::Body(left) => self.skip(bytes, left, State::Body, State::LineStart),
                State::Chunk(left) => self.skip(bytes, left, State::Chunk, State::ChunkSize(0)),
                State::RequestLine => {
                    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
                    let (part, after) = bytes.split_at_checked(end).unwrap_or_default();
                    self.request_line.push(part);
                    if let Some(after) = after.get(1..) {
                        self.state = State::LineStart;
                        after
                    } else {
                        return None;
                    }
                }
                State::LineRest => match line_feed(bytes) {
                    Some(after) => {
                        self.state = State::LineStart;
                        after
                    }
                    None => return None,
                },
                State::ChunkExtension(size) => match line_feed(bytes) {
                    Some(after) => {
                        self.begin_chunk(size);
                        after
                    }
                    None => return None,
                },
                State::Found => return None,
                State::LineStart if let Some((line, after)) = whole_line(bytes) => {
                    self.line(line);
                    after
                }
                State::LineStart | State::Name(..) | State::Length | State::ChunkSize(_) => {
                    self.take(first);
                    rest
                }
            };
            if self.state == State::Found {
                return Some(self.heads);
            }
        }
        None
    }

    /// Skips up to `left` bytes.
    fn skip<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        within: fn(u64) -> State,
        after: State,
    ) -> &'a [u8] {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left.saturating_sub(here as u64);
        self.state = if left == 0 { after } else { within(left) };
        bytes.get(here..).unwrap_or_default()
    }

    fn begin_chunk(&mut self, size: u64) {
        self.state = if size == 0 {
            self.head = Head {
                begun: true,
                is_trailer: true,
                ..Head::default()
            };
            State::LineStart
        } else {
            // The data and its line end.
            State::Chunk(size.saturating_add(2))
        };
    }

    /// Takes a line that is here whole, its line feed left out: nearly every line of a head. It
    /// says what [`Self::take`] would say of its bytes one by one.
    fn line(&mut self, line: &[u8]) {
        let start = line
            .iter()
            .position(|byte| *byte != b'\r')
            .unwrap_or(line.len());
        let line = line.get(start..).unwrap_or_default();
        let Some(first) = line.first() else {
            return self.end_head();
        };
        if !self.head.begun {
            self.head.begun = true;
            self.request_line.len = 0;
            self.request_line.push(line);
            return;
        }
        if self.head.is_trailer || !matches!(first, b'c' | b'C' | b't' | b'T') {
            return;
        }
        let known = line.get(..=NAME_MAX_BYTES).unwrap_or(line);
        let Some(end) = memchr::memchr(b':', known) else {
            return;
        };
        let (name, value) = line.split_at_checked(end).unwrap_or_default();
        if self.named(name) == State::Length {
            self.state = State::Length;
            value.iter().skip(1).for_each(|byte| self.take(*byte));
            self.state = State::LineStart;
        }
    }

    fn take(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            // A carriage return before the line feed of a blank line.
            (State::LineStart, b'\r') => State::LineStart,
            (State::LineStart, b'\n') => return self.end_head(),
            (State::LineStart, _) if !self.head.begun => {
                self.head.begun = true;
                self.request_line.len = 0;
                self.request_line.push(&[byte]);
                State::RequestLine
            }
            (State::LineStart, b'c' | b'C' | b't' | b'T') if !self.head.is_trailer => {
                name_with([0; NAME_MAX_BYTES], 0, byte)
            }
            (State::LineStart, _) => State::LineRest,
            (State::Name(name, len), b':') => self.named(name.get(..len).unwrap_or_default()),
            (State::Name(..) | State::Length, b'\n') => State::LineStart,
            (State::Name(name, len), _) => name_with(name, len, byte),
            (State::Length, b'0'..=b'9') => {
                let digit = u64::from(byte - b'0');
                let length = self.head.length.unwrap_or_default();
                self.head.length = Some(length.saturating_mul(10).saturating_add(digit));
                State::Length
            }
            (State::Length, _) => State::Length,
            (State::ChunkSize(size), _) => match char::from(byte).to_digit(16) {
                Some(digit) => {
                    State::ChunkSize(size.saturating_mul(16).saturating_add(u64::from(digit)))
                }
                None if byte == b'\n' => return self.begin_chunk(size),
                None => State::ChunkExtension(size),
            },
            (state, _) => state,
        };
    }

    /// A header's name has ended.
    fn named(&mut self, name: &[u8]) -> State {
        if name.eq_ignore_ascii_case(CONTENT_LENGTH) {
            // A second one must say the same, or the library refuses the request.
            self.head.length = Some(0);
            State::Length
        } else {
            self.head.is_chunked |= name.eq_ignore_ascii_case(TRANSFER_ENCODING);
            State::LineRest
        }
    }

    /// A blank line.
    fn end_head(&mut self) {
        let head = std::mem::take(&mut self.head);
        if !head.begun {
            // Blank lines before a request are allowed and mean nothing.
            return;
        }
        self.state = State::LineStart;
        if head.is_trailer {
            return;
        }
        self.heads = self.heads.saturating_add(1);
        self.state = match (head.length, head.is_chunked) {
            (Some(_), true) => State::Found,
            (_, true) => State::ChunkSize(0),
            (None | Some(0), false) => State::LineStart,
            (Some(length), false) => State::Body(length),
        };
    }
}

fn name_with(mut name: [u8; NAME_MAX_BYTES], len: usize, byte: u8) -> State {
    match name.get_mut(len) {
        Some(place) => {
            *place = byte;
            State::Name(name, len + 1)
        }
        // Longer than the names of interest.
        None => State::LineRest,
    }
}

/// The next line without its line feed, and what follows it.
fn whole_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, rest) = bytes.split_at_checked(memchr::memchr(b'\n', bytes)?)?;
    Some((line, rest.get(1..)?))
}

/// What follows the next line feed.
fn line_feed(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(memchr::memchr(b'\n', bytes)? + 1..)
}

#[cfg(test)]
mod tests;
