//! Walks a JSON document without building a tree, and checks its grammar on the way.
//!
//! Two readers that disagree about a body are a way around exclusions and limits, so what is walked is
//! checked whole, in one pass that allocates nothing.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::plain::plain_len;

/// Arrays and objects nested deeper than this are refused.
pub const MAX_DEPTH: u32 = 128;
/// Longest model name accepted, in bytes as written.
pub const MAX_MODEL_BYTES: usize = 1024;

/// Why a body cannot be routed. Every text is fit for a 400 answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// The body starts with a byte order mark.
    #[error("the body starts with a byte order mark; send plain UTF-8")]
    ByteOrderMark,
    /// A byte sequence is no UTF-8, which JSON must be (RFC 8259, 8.1). Readers that replace such
    /// bytes and readers that refuse them would see two bodies.
    #[error("the body is not valid UTF-8 at offset {offset}; send JSON in UTF-8")]
    NotUtf8 {
        /// Offset of the first byte of the sequence.
        offset: usize,
    },
    /// The body has no bytes but white space.
    #[error("the body is empty; send a JSON object")]
    Empty,
    /// The top-level value is no object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// The grammar is broken at this byte.
    #[error("the body is not valid JSON: unexpected byte at offset {offset}")]
    Malformed {
        /// Offset of the first byte that cannot stand there, counted from 0.
        offset: usize,
    },
    /// The body ends inside a value.
    #[error("the body is not valid JSON: it ends early, at offset {offset}")]
    Truncated {
        /// The body's length.
        offset: usize,
    },
    /// Something follows the object.
    #[error("the body is not valid JSON: something follows the object at offset {offset}")]
    TrailingData {
        /// Offset of the first byte too many.
        offset: usize,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("the body is nested deeper than {MAX_DEPTH} levels at offset {offset}")]
    TooDeep {
        /// Offset of the bracket too many.
        offset: usize,
    },
    /// A routing field stands twice, so that two readers could see two values.
    #[error("the field \"{field}\" is given twice")]
    Duplicate {
        /// The field's name.
        field: &'static str,
    },
    /// A routing field in another case: readers that tell keys apart by case and readers that do not
    /// would see two bodies.
    #[error(
        "the field \"{field}\" must be written in lower case; some servers would read this one"
    )]
    OtherCase {
        /// The field's name as it should be written.
        field: &'static str,
    },
    /// No `model` field.
    #[error("the field \"model\" is missing; name a pool or a model")]
    MissingModel,
    /// `model` is not a string that can name a model.
    #[error("the field \"model\" must be a non-empty string of at most {MAX_MODEL_BYTES} bytes")]
    BadModel,
    /// `stream` is neither a boolean nor null.
    #[error("the field \"stream\" must be true or false")]
    BadStream,
}

impl LocateError {
    /// The field the error is about, if it is about one.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::Duplicate { field } | Self::OtherCase { field } => Some(field),
            Self::MissingModel | Self::BadModel => Some("model"),
            Self::BadStream => Some("stream"),
            Self::ByteOrderMark
            | Self::NotUtf8 { .. }
            | Self::Empty
            | Self::NotAnObject
            | Self::Malformed { .. }
            | Self::Truncated { .. }
            | Self::TrailingData { .. }
            | Self::TooDeep { .. } => None,
        }
    }
}

/// The text of a string token, borrowed unless it holds escapes.
pub(crate) fn decode(body: &[u8], token: Range<usize>) -> Option<Cow<'_, str>> {
    let raw = body.get(token)?;
    if raw.len() > MAX_MODEL_BYTES {
        return None;
    }
    if memchr::memchr(b'\\', raw).is_none() {
        return std::str::from_utf8(raw).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(raw.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    serde_json::from_slice::<String>(&quoted)
        .ok()
        .map(Cow::Owned)
}

/// True when a key is `name` to readers that do not tell cases apart. Some of them fold by Unicode
/// (Go's `encoding/json` does), where two letters beside those of ASCII stand for `s` and `k`.
pub(crate) fn is_same_but_for_case(key: &str, name: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}

/// Walks a JSON document and checks its grammar on the way.
pub(crate) struct Scan<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Scan<'a> {
    /// Begins behind the opening bracket of the body's one object.
    pub(crate) fn open(body: &'a [u8]) -> Result<Self, LocateError> {
        if body.starts_with(b"\xef\xbb\xbf") {
            return Err(LocateError::ByteOrderMark);
        }
        if let Err(error) = std::str::from_utf8(body) {
            return Err(LocateError::NotUtf8 {
                offset: error.valid_up_to(),
            });
        }
        let mut scan = Self { body, at: 0 };
        scan.white_space();
        match scan.peek() {
            None => return Err(LocateError::Empty),
            Some(b'{') => scan.at += 1,
            // A body of another type is only named so if it is JSON at all.
            Some(_) => {
                scan.value(1)?;
                scan.end()?;
                return Err(LocateError::NotAnObject);
            }
        }
        Ok(scan)
    }

    /// The next byte, left where it is.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    /// Takes the next byte.
    pub(crate) fn next(&mut self) -> Result<u8, LocateError> {
        let byte = self.peek().ok_or_else(|| self.truncated())?;
        self.at += 1;
        Ok(byte)
    }

    /// Takes the next byte, which must be this one.
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<(), LocateError> {
        if self.next()? == wanted {
            Ok(())
        } else {
            Err(self.malformed_before())
        }
    }

    /// The bytes of a token.
    pub(crate) fn text(&self, token: Range<usize>) -> &'a [u8] {
        self.body.get(token).unwrap_or_default()
    }

    /// The bytes that `walk` walks over.
    pub(crate) fn taken(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<(), LocateError>,
    ) -> Result<&'a [u8], LocateError> {
        let from = self.at;
        walk(self)?;
        Ok(self.text(from..self.at))
    }

    const fn truncated(&self) -> LocateError {
        LocateError::Truncated {
            offset: self.body.len(),
        }
    }

    /// The byte just taken cannot stand there.
    pub(crate) const fn malformed_before(&self) -> LocateError {
        LocateError::Malformed {
            offset: self.at.saturating_sub(1),
        }
    }

    /// Skips white space.
    pub(crate) fn white_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Checks that nothing but white space follows.
    pub(crate) fn end(&mut self) -> Result<(), LocateError> {
        self.white_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(LocateError::TrailingData { offset: self.at }),
        }
    }

    /// Skips one value; `depth` levels are open around it.
    pub(crate) fn value(&mut self, depth: u32) -> Result<(), LocateError> {
        // One bit per open level below `depth`: 1 for an object. Deeper than MAX_DEPTH never fits.
        let mut kinds: u128 = 0;
        let mut open: u32 = 0;
        loop {
            self.white_space();
            match self.next()? {
                bracket @ (b'{' | b'[') => {
                    if depth + open >= MAX_DEPTH {
                        return Err(LocateError::TooDeep {
                            offset: self.at - 1,
                        });
                    }
                    let is_object = bracket == b'{';
                    kinds = kinds << 1 | u128::from(is_object);
                    open += 1;
                    self.white_space();
                    match (is_object, self.peek()) {
                        (true, Some(b'}')) | (false, Some(b']')) => {
                            self.at += 1;
                            kinds >>= 1;
                            open -= 1;
                        }
                        (true, _) => {
                            self.key()?;
                            continue;
                        }
                        (false, _) => continue,
                    }
                }
                b'"' => {
                    self.string_tail()?;
                }
                b't' => self.literal(b"rue")?,
                b'f' => self.literal(b"alse")?,
                b'n' => self.literal(b"ull")?,
                first @ (b'-' | b'0'..=b'9') => self.number(first)?,
                _ => return Err(self.malformed_before()),
            }
            // A value has ended: close what ends with it, or go on to the next one.
            loop {
                if open == 0 {
                    return Ok(());
                }
                self.white_space();
                let in_object = kinds & 1 == 1;
                match (self.next()?, in_object) {
                    (b',', true) => {
                        self.white_space();
                        self.key()?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) | (b']', false) => {
                        kinds >>= 1;
                        open -= 1;
                    }
                    _ => return Err(self.malformed_before()),
                }
            }
        }
    }

    fn key(&mut self) -> Result<(), LocateError> {
        self.string()?;
        self.white_space();
        self.expect(b':')
    }

    fn literal(&mut self, rest: &[u8]) -> Result<(), LocateError> {
        rest.iter().try_for_each(|byte| self.expect(*byte))
    }

    /// The token between the quotes of the string that starts here.
    pub(crate) fn string(&mut self) -> Result<Range<usize>, LocateError> {
        self.expect(b'"')?;
        self.string_tail()
    }

    fn string_tail(&mut self) -> Result<Range<usize>, LocateError> {
        let from = self.at;
        loop {
            let rest = self.body.get(self.at..).unwrap_or_default();
            self.at += plain_len(rest);
            match self.next()? {
                b'"' => return Ok(from..self.at - 1),
                b'\\' => self.escape()?,
                _ => return Err(self.malformed_before()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), LocateError> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    if !self.next()?.is_ascii_hexdigit() {
                        return Err(self.malformed_before());
                    }
                }
                Ok(())
            }
            _ => Err(self.malformed_before()),
        }
    }

    fn number(&mut self, first: u8) -> Result<(), LocateError> {
        let leading = if first == b'-' { self.next()? } else { first };
        match leading {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.malformed_before()),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(())
    }

    fn some_digits(&mut self) -> Result<(), LocateError> {
        if !self.next()?.is_ascii_digit() {
            return Err(self.malformed_before());
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}
