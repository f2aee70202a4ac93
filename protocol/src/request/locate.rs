//! Finds the model name and the stream flag of a request where they stand, without building a tree.
//!
//! The request path needs two fields of a body that may be megabytes long, and it must know that
//! the body is one JSON object and nothing else: two readers that disagree about a body are a way
//! around exclusions and limits. So the whole body is checked against the JSON grammar in one pass
//! that allocates nothing; only the bytes of keys and of the model name are looked at as text.

use std::borrow::Cow;
use std::ops::Range;

use crate::dialect::Vendor;
use crate::json::scan::{Scan, decode, is_same_but_for_case};

pub use crate::json::scan::{LocateError, MAX_DEPTH, MAX_MODEL_BYTES};

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
                Field::OtherCase(field) => return Err(LocateError::OtherCase { field }),
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

/// Where the body repeats the model that the request's path names, in order.
///
/// # Errors
///
/// Anything but one JSON object; see [`LocateError`].
pub fn model_names(vendor: &dyn Vendor, body: &[u8]) -> Result<Vec<Range<usize>>, LocateError> {
    vendor.model_names(body)
}

enum Field {
    Model,
    Stream,
    /// One of the two but for its case.
    OtherCase(&'static str),
    Other,
}

/// Compares a key with the two names that matter, escapes included: `"mod\u0065l"` is `model` to
/// every JSON reader behind the agent.
fn field_of(key: &[u8]) -> Field {
    // The longest spelling of "stream" escapes all six letters.
    const LONGEST: usize = 6 * 6;
    if key.len() > LONGEST {
        return Field::Other;
    }
    if memchr::memchr(b'\\', key).is_none() {
        return named(key);
    }
    decode(key, 0..key.len()).map_or(Field::Other, |key| named(key.as_bytes()))
}

fn named(name: &[u8]) -> Field {
    // The longest spelling of "stream" has a letter of two bytes for its first.
    const LENGTHS: std::ops::RangeInclusive<usize> = 5..=7;
    match name {
        b"model" => Field::Model,
        b"stream" => Field::Stream,
        _ if !LENGTHS.contains(&name.len()) => Field::Other,
        _ => {
            let name = std::str::from_utf8(name).unwrap_or_default();
            ["model", "stream"]
                .into_iter()
                .find(|field| is_same_but_for_case(name, field))
                .map_or(Field::Other, Field::OtherCase)
        }
    }
}

#[cfg(test)]
mod tests;
