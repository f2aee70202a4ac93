//! Chunks that need no reading after the commit point.

use memchr::memmem::Finder;

use crate::sse::plain::{Word, first_frame, lone_data, string_len, without};

/// True when a frame can neither end nor fail the answer.
pub(super) fn is_plain(raw: &[u8]) -> bool {
    lone_data(raw).is_some_and(|data| is_plain_chunk(data) && !ERROR.is_in(data))
}

/// How many bytes at the start of `raw` are whole frames that [`is_plain`] is true of.
pub(super) fn run(raw: &[u8]) -> usize {
    let raw = without(raw, std::slice::from_ref(&ERROR));
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
        let name = CONTENT.find(frame)? + CONTENT_NAME.len();
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

/// Only a chunk whose every `finish_reason` is null, and that does not name an error, is surely
/// neither end nor error.
fn is_plain_chunk(data: &[u8]) -> bool {
    let mut reasons = FINISH.find_all(data).peekable();
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

/// True when the word "error" stands in `raw` as a string of its own, as a name or a value.
pub(super) fn names_error(raw: &[u8]) -> bool {
    ERROR.is_in(raw)
}

const CONTENT_NAME: &[u8] = b"\"content\"";
const FINISH_REASON: &[u8] = b"\"finish_reason\"";

static CONTENT: Word = Word::new(|| Finder::new(CONTENT_NAME));
static ERROR: Word = Word::new(|| Finder::new(b"\"error\""));
static FINISH: Word = Word::new(|| Finder::new(FINISH_REASON));
