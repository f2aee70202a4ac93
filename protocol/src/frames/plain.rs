//! Frames that need no reading after the commit point.
//!
//! Nearly every frame of an answer is one more piece of text. Such a frame is told by the words that
//! it does not have, and several that came in one chunk are searched for those words together:
//! looking for the beginning of a search costs more than the search.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::super::Protocol;
use super::is_ping;

/// True when a frame can neither end nor fail the answer.
pub(super) fn is_plain(protocol: Protocol, raw: &[u8]) -> bool {
    match protocol {
        Protocol::Openai => {
            lone_data(raw).is_some_and(|data| is_plain_chunk(data) && !ERROR.is_in(data))
        }
        Protocol::Gemini => {
            is_plain_candidate(raw) && GEMINI_WORDS.iter().all(|word| !word.is_in(raw))
        }
        protocol => is_plain_event(protocol, raw),
    }
}

/// How many bytes at the start of `raw`, which begins with a frame, are whole frames of which
/// [`super::watch`] says that they are content unread. It may overlook some, never say one too many.
#[must_use]
pub fn run(protocol: Protocol, raw: &[u8]) -> usize {
    // Only line feeds end lines up to here, and none of the words stands before.
    let mut bound = memchr::memchr(b'\r', raw).unwrap_or(raw.len());
    for word in words(protocol) {
        let before = raw.get(..bound).unwrap_or_default();
        bound = word.0.find(before).unwrap_or(bound);
    }
    let raw = raw.get(..bound).unwrap_or_default();
    match protocol {
        Protocol::Openai => run_of_chunks(raw),
        Protocol::Gemini => run_of(raw, is_plain_candidate),
        protocol => run_of(raw, |frame| is_plain_event(protocol, frame)),
    }
}

/// The words that make a frame of this protocol worth reading, wherever they stand in it.
fn words(protocol: Protocol) -> &'static [Word] {
    match protocol {
        Protocol::Openai => std::slice::from_ref(&ERROR),
        Protocol::Gemini => &GEMINI_WORDS,
        Protocol::Anthropic | Protocol::Responses | Protocol::Cohere => &[],
    }
}

fn run_of(raw: &[u8], is_plain: impl Fn(&[u8]) -> bool) -> usize {
    let mut end = 0;
    while let Some((frame, _)) = raw.get(end..).and_then(first_frame) {
        if !is_plain(frame) {
            break;
        }
        end += frame.len();
    }
    end
}

/// `raw` does not name an error.
fn run_of_chunks(raw: &[u8]) -> usize {
    let mut end = 0;
    let mut shape: Option<Shape<'_>> = None;
    while let Some(rest) = raw.get(end..) {
        if let Some(len) = shape.as_ref().and_then(|shape| shape.first_of(rest)) {
            end += len;
            continue;
        }
        let Some((frame, lines)) = first_frame(rest) else {
            break;
        };
        if !lone_data(frame).is_some_and(is_plain_chunk) {
            break;
        }
        end += frame.len();
        shape = Shape::of(frame).filter(|_| lines == 1);
    }
    end
}

/// What frames have in common that differ in their text only. Where one of them is plain, all are:
/// no word can be hidden in a string, unless it is the string.
struct Shape<'a> {
    /// Up to the text, its opening quote included.
    prefix: &'a [u8],
    /// From the text's closing quote on.
    suffix: &'a [u8],
}

impl<'a> Shape<'a> {
    fn of(frame: &'a [u8]) -> Option<Self> {
        let name = CONTENT.0.find(frame)? + CONTENT.0.needle().len();
        let value = frame.get(name..)?.trim_ascii_start().strip_prefix(b":")?;
        let rest = value.trim_ascii_start().strip_prefix(b"\"")?;
        let (_, suffix) = rest.split_at_checked(string_len(rest)?)?;
        let prefix = frame.get(..frame.len().checked_sub(rest.len())?)?;
        Some(Self { prefix, suffix })
    }

    /// The length of the frame of this shape that `raw` begins with.
    fn first_of(&self, raw: &[u8]) -> Option<usize> {
        let rest = raw.strip_prefix(self.prefix)?;
        let (text, rest) = rest.split_at_checked(string_len(rest)?)?;
        // Behind a quote, before the closing one, it would stand as a word.
        let tells = text.ends_with(b"error") || text.ends_with(b"finish_reason");
        (rest.starts_with(self.suffix) && !tells)
            .then(|| self.prefix.len() + text.len() + self.suffix.len())
    }
}

/// The length of the string, behind its opening quote, if it ends in its line.
fn string_len(raw: &[u8]) -> Option<usize> {
    let mut len = 0;
    loop {
        let rest = raw.get(len..)?;
        let at = memchr::memchr3(b'"', b'\\', b'\n', rest)?;
        len += at;
        match rest.get(at..)? {
            [b'"', ..] => return Some(len),
            [b'\\', escaped, ..] if *escaped != b'\n' => len += 2,
            _ => return None,
        }
    }
}

/// The frame that `raw` begins with and its lines, where only line feeds end lines. `None` when it
/// is not here whole, or begins with a blank line.
fn first_frame(raw: &[u8]) -> Option<(&[u8], usize)> {
    let mut end = 0;
    let mut lines = 0;
    loop {
        let rest = raw.get(end..)?;
        let line = memchr::memchr(b'\n', rest)?;
        end += line + 1;
        match (line, lines) {
            (0, 0) => return None,
            (0, _) => return Some((raw.get(..end)?, lines)),
            _ => lines += 1,
        }
    }
}

/// The data of a frame in the usual shape: at most one event line, not about an error or a ping, and
/// one data line after it, which begins and ends as an object does.
fn lone_data(raw: &[u8]) -> Option<&[u8]> {
    // A line feed may belong to the frame before.
    let mut rest = raw.strip_prefix(b"\n").unwrap_or(raw);
    if let Some(named) = rest.strip_prefix(b"event:") {
        let (name, after) = named.split_at_checked(memchr::memchr(b'\n', named)?)?;
        let name = name.trim_ascii();
        if name == b"error" || is_ping(name) || name.contains(&b'\r') {
            return None;
        }
        rest = after.get(1..)?;
    }
    let data = rest.strip_prefix(b"data:")?;
    let end = memchr::memchr2(b'\n', b'\r', data).unwrap_or(data.len());
    let (data, after) = data.split_at_checked(end)?;
    let is_all = after.iter().all(|byte| matches!(byte, b'\n' | b'\r'));
    let data = data.trim_ascii();
    (is_all && data.starts_with(b"{") && data.ends_with(b"}")).then_some(data)
}

/// What Gemini says comes first in its documents. The words that end or fail an answer are another
/// search.
fn is_plain_candidate(raw: &[u8]) -> bool {
    lone_data(raw)
        .and_then(|data| data.strip_prefix(b"{"))
        .is_some_and(|data| data.trim_ascii_start().starts_with(b"\"candidates\""))
}

/// Where events carry their kind: only pieces of text are plain.
fn is_plain_event(protocol: Protocol, raw: &[u8]) -> bool {
    lone_data(raw)
        .and_then(kind_first)
        .is_some_and(|kind| match protocol {
            Protocol::Anthropic => kind == b"content_block_delta",
            Protocol::Responses => kind.ends_with(b".delta"),
            Protocol::Cohere => kind == b"content-delta",
            Protocol::Openai | Protocol::Gemini => false,
        })
}

/// The object's `type`, if it comes first. A second one would make the object unreadable.
fn kind_first(data: &[u8]) -> Option<&[u8]> {
    let value = data.strip_prefix(b"{\"type\":")?.trim_ascii_start();
    let text = value.strip_prefix(b"\"")?;
    let (kind, _) = text.split_at_checked(memchr::memchr(b'"', text)?)?;
    (!kind.contains(&b'\\')).then_some(kind)
}

/// Only a chunk whose every `finish_reason` is null, and that does not name an error, is surely
/// neither end nor error.
fn is_plain_chunk(data: &[u8]) -> bool {
    let mut reasons = OPENAI_FINISH.0.find_iter(data).peekable();
    reasons.peek().is_some() && { reasons }
        .all(|at| is_null_reason(data.get(at..).unwrap_or_default()))
}

/// True when the member `finish_reason`, with which `member` begins, is null.
fn is_null_reason(member: &[u8]) -> bool {
    member
        .get(FINISH_REASON.len()..)
        .and_then(|rest| rest.trim_ascii_start().strip_prefix(b":"))
        .is_some_and(|value| value.trim_ascii_start().starts_with(b"null"))
}

/// Words that are searched for in every frame, prepared once: preparing costs more than searching.
struct Word(LazyLock<Finder<'static>>);

impl Word {
    const fn new(prepare: fn() -> Finder<'static>) -> Self {
        Self(LazyLock::new(prepare))
    }

    fn is_in(&self, raw: &[u8]) -> bool {
        self.0.find(raw).is_some()
    }
}

/// True when the word "error" stands in `raw` as a string of its own, as a name or a value.
pub(super) fn names_error(raw: &[u8]) -> bool {
    ERROR.is_in(raw)
}

const FINISH_REASON: &[u8] = b"\"finish_reason\"";

static CONTENT: Word = Word::new(|| Finder::new(b"\"content\""));
static ERROR: Word = Word::new(|| Finder::new(b"\"error\""));
static OPENAI_FINISH: Word = Word::new(|| Finder::new(FINISH_REASON));
static GEMINI_WORDS: [Word; 3] = [
    Word::new(|| Finder::new(b"\"error\"")),
    Word::new(|| Finder::new(b"\"finishReason\"")),
    Word::new(|| Finder::new(b"\"blockReason\"")),
];
