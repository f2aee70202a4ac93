//! Frames told by their outer shape, for readers that leave most frames unread after the commit point.
//!
//! Nearly every frame of an answer is one more piece of text. Such a frame is told by the words that
//! it does not have, and several that came in one chunk are searched for those words together:
//! looking for the beginning of a search costs more than the search. Next to the full readers of the
//! vendors this is the fast path; `frames` in the benches has the figures that it stands for.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The bytes at the start of `raw` in which only line feeds end lines and none of `words` stands.
#[must_use]
pub fn without<'a>(raw: &'a [u8], words: &[Word]) -> &'a [u8] {
    let mut bound = memchr::memchr(b'\r', raw).unwrap_or(raw.len());
    for word in words {
        let before = raw.get(..bound).unwrap_or_default();
        bound = word.find(before).unwrap_or(bound);
    }
    raw.get(..bound).unwrap_or_default()
}

/// How many bytes at the start of `raw` are whole frames that `is_plain` is true of.
pub fn run_of(raw: &[u8], is_plain: impl Fn(&[u8]) -> bool) -> usize {
    let mut end = 0;
    while let Some((frame, _)) = raw.get(end..).and_then(first_frame) {
        if !is_plain(frame) {
            break;
        }
        end += frame.len();
    }
    end
}

/// The length of the string, behind its opening quote, if it ends in its line.
#[must_use]
pub fn string_len(raw: &[u8]) -> Option<usize> {
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
#[must_use]
pub fn first_frame(raw: &[u8]) -> Option<(&[u8], usize)> {
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
#[must_use]
pub fn lone_data(raw: &[u8]) -> Option<&[u8]> {
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

/// True for the names that keep-alive events go by.
#[must_use]
pub fn is_ping(name: &[u8]) -> bool {
    matches!(name, b"ping" | b"keepalive")
}

/// The object's `type`, if it comes first. A second one would make the object unreadable.
#[must_use]
pub fn kind_first(data: &[u8]) -> Option<&[u8]> {
    let value = data.strip_prefix(b"{\"type\":")?.trim_ascii_start();
    let text = value.strip_prefix(b"\"")?;
    let (kind, _) = text.split_at_checked(memchr::memchr(b'"', text)?)?;
    (!kind.contains(&b'\\')).then_some(kind)
}

/// Words that are searched for in every frame, prepared once: preparing costs more than searching.
#[derive(Debug)]
pub struct Word(LazyLock<Finder<'static>>);

impl Word {
    /// A word; `prepare` makes its search.
    #[must_use]
    pub const fn new(prepare: fn() -> Finder<'static>) -> Self {
        Self(LazyLock::new(prepare))
    }

    /// Where it first stands in `raw`.
    #[must_use]
    pub fn find(&self, raw: &[u8]) -> Option<usize> {
        self.0.find(raw)
    }

    /// Everywhere it stands in `raw`.
    pub fn find_all<'a>(&'a self, raw: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        self.0.find_iter(raw)
    }

    /// True when it stands in `raw`.
    #[must_use]
    pub fn is_in(&self, raw: &[u8]) -> bool {
        self.0.find(raw).is_some()
    }
}
