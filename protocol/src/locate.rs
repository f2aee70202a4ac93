//! Finds the model name and the stream flag of a request where they stand, without building a tree.
//!
//! The request path needs two fields of a body that may be megabytes long, and it must know that
//! the body is one JSON object and nothing else: two readers that disagree about a body are a way
//! around exclusions and limits. So the whole body is checked against the JSON grammar in one pass
//! that allocates nothing; only the bytes of keys and of the model name are looked at as text.

mod names;
mod plain;

use std::borrow::Cow;
use std::ops::Range;

pub use names::model_names;
use plain::plain_len;

/// Arrays and objects nested deeper than this are refused.
pub const MAX_DEPTH: u32 = 128;
/// Longest model name accepted, in bytes as written.
pub const MAX_MODEL_BYTES: usize = 1024;

/// Where the two fields stand in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<'a> {
    /// The model name's bytes in the body, without its quotes.
    pub model: Range<usize>,
    /// The model name with its escapes decoded.
    pub model_name: Cow<'a, str>,
    /// True only when `stream` is the literal `true`.
    pub stream: bool,
}

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
            Self::Duplicate { field } => Some(field),
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

/// Finds `model` and `stream` at the top level of `body` and checks the whole body's grammar.
///
/// # Errors
///
/// Anything but one JSON object with exactly one usable `model`; see [`LocateError`].
pub fn locate(body: &[u8]) -> Result<Located<'_>, LocateError> {
    let mut scan = Scan::open(body)?;

    let mut model: Option<Range<usize>> = None;
    let mut model_usable = true;
    let mut stream: Option<bool> = None;
    scan.white_space();
    if scan.peek() == Some(b'}') {
        scan.at += 1;
    } else {
        loop {
            let key = scan.string()?;
            scan.white_space();
            scan.expect(b':')?;
            scan.white_space();
            match field_of(body.get(key).unwrap_or_default()) {
                Field::Model => {
                    if model.is_some() || !model_usable {
                        return Err(LocateError::Duplicate { field: "model" });
                    }
                    if scan.peek() == Some(b'"') {
                        model = Some(scan.string()?);
                    } else {
                        model_usable = false;
                        scan.value(1)?;
                    }
                }
                Field::Stream => {
                    if stream.is_some() {
                        return Err(LocateError::Duplicate { field: "stream" });
                    }
                    let from = scan.at;
                    scan.value(1)?;
                    stream = match body.get(from..scan.at) {
                        Some(b"true") => Some(true),
                        Some(b"false" | b"null") => Some(false),
                        _ => return Err(LocateError::BadStream),
                    };
                }
                Field::Other => scan.value(1)?,
            }
            scan.white_space();
            match scan.next()? {
                b',' => scan.white_space(),
                b'}' => break,
                _ => return Err(scan.malformed_before()),
            }
        }
    }
    scan.end()?;

    if !model_usable {
        return Err(LocateError::BadModel);
    }
    let model = model.ok_or(LocateError::MissingModel)?;
    let model_name = decode(body, model.clone()).ok_or(LocateError::BadModel)?;
    if model_name.is_empty() {
        return Err(LocateError::BadModel);
    }
    Ok(Located {
        model,
        model_name,
        stream: stream.unwrap_or(false),
    })
}

enum Field {
    Model,
    Stream,
    Other,
}

/// Compares a key with the two names that matter, escapes included: `"mod\u0065l"` is `model` to
/// every JSON reader behind the agent.
fn field_of(key: &[u8]) -> Field {
    // The longest spelling of "stream" escapes all six letters.
    const LONGEST: usize = 6 * 6;
    let named = |name: &[u8]| match name {
        b"model" => Field::Model,
        b"stream" => Field::Stream,
        _ => Field::Other,
    };
    if key.len() > LONGEST {
        return Field::Other;
    }
    if memchr::memchr(b'\\', key).is_none() {
        return named(key);
    }
    decode(key, 0..key.len()).map_or(Field::Other, |key| named(key.as_bytes()))
}

/// The text of a string token, borrowed unless it holds escapes.
fn decode(body: &[u8], token: Range<usize>) -> Option<Cow<'_, str>> {
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

/// Walks a JSON document and checks its grammar on the way.
pub(super) struct Scan<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// Begins behind the opening bracket of the body's one object.
    pub(super) fn open(body: &'a [u8]) -> Result<Self, LocateError> {
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
    pub(super) fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    /// Takes the next byte.
    pub(super) fn next(&mut self) -> Result<u8, LocateError> {
        let byte = self.peek().ok_or_else(|| self.truncated())?;
        self.at += 1;
        Ok(byte)
    }

    /// Takes the next byte, which must be this one.
    pub(super) fn expect(&mut self, wanted: u8) -> Result<(), LocateError> {
        if self.next()? == wanted {
            Ok(())
        } else {
            Err(self.malformed_before())
        }
    }

    /// The bytes of a token.
    pub(super) fn text(&self, token: Range<usize>) -> &'a [u8] {
        self.body.get(token).unwrap_or_default()
    }

    /// The bytes that `walk` walks over.
    pub(super) fn taken(
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
    const fn malformed_before(&self) -> LocateError {
        LocateError::Malformed {
            offset: self.at.saturating_sub(1),
        }
    }

    /// Skips white space.
    pub(super) fn white_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Checks that nothing but white space follows.
    pub(super) fn end(&mut self) -> Result<(), LocateError> {
        self.white_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(LocateError::TrailingData { offset: self.at }),
        }
    }

    /// Skips one value; `depth` levels are open around it.
    pub(super) fn value(&mut self, depth: u32) -> Result<(), LocateError> {
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
    pub(super) fn string(&mut self) -> Result<Range<usize>, LocateError> {
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

#[cfg(test)]
mod tests;
