//! The caller's body with another model name in it, without copying the body.
//!
//! Lanes have their own model names, and failover sends the same body several times. A chain of
//! the untouched prefix, the new name and the untouched suffix costs three reference counts; its
//! exact length lets the upstream request carry `content-length`.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

/// Bodies up to this many bytes are joined into one segment: one small copy is cheaper than three
/// turns through the writer.
pub const JOIN_MAX_BYTES: usize = 8 * 1024;

/// Where a request names its model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ModelPlaces {
    /// Not in its body: the path carries it.
    #[default]
    Path,
    /// In the body, once.
    Body(Range<usize>),
    /// In the body too, at these places in order (see [`super::locate::model_names`]).
    Both(Vec<Range<usize>>),
}

/// A request body of up to three segments. Cloning it copies no bytes.
#[derive(Clone, Debug, Default)]
pub struct BodyChain {
    segments: [Bytes; 3],
}

impl BodyChain {
    /// A body that is sent as it is.
    #[must_use]
    pub fn whole(body: Bytes) -> Self {
        Self {
            segments: [body, Bytes::new(), Bytes::new()],
        }
    }

    /// `body` with the bytes at `model` (see [`super::locate::Located::model`]) replaced by
    /// `name`, escaped as JSON asks. A range outside the body leaves the body as it is.
    #[must_use]
    pub fn with_model(body: &Bytes, model: Range<usize>, name: &str) -> Self {
        let (Some(prefix), Some(current), Some(suffix)) = (
            body.get(..model.start),
            body.get(model.clone()),
            body.get(model.end..),
        ) else {
            return Self::whole(body.clone());
        };
        let escaped = escape(name);
        if current == escaped.as_ref() {
            return Self::whole(body.clone());
        }
        let len = prefix.len() + escaped.len() + suffix.len();
        if len <= JOIN_MAX_BYTES {
            let mut joined = BytesMut::with_capacity(len);
            joined.put_slice(prefix);
            joined.put_slice(&escaped);
            joined.put_slice(suffix);
            return Self::whole(joined.freeze());
        }
        Self {
            segments: [body.slice(..model.start), escaped, body.slice(model.end..)],
        }
    }

    /// `body` with `name` wherever the model is named.
    #[must_use]
    pub fn with_model_at(body: &Bytes, places: &ModelPlaces, name: &str) -> Self {
        match places {
            ModelPlaces::Path => Self::whole(body.clone()),
            ModelPlaces::Body(place) => Self::with_model(body, place.clone(), name),
            ModelPlaces::Both(places) => match places.as_slice() {
                [] => Self::whole(body.clone()),
                [place] => Self::with_model(body, place.clone(), bare(name)),
                places => Self::with_models(body, places, &escape(bare(name))),
            },
        }
    }

    fn with_models(body: &Bytes, places: &[Range<usize>], escaped: &[u8]) -> Self {
        let mut joined = BytesMut::with_capacity(body.len() + places.len() * escaped.len());
        let mut copied = 0;
        for place in places {
            let Some(before) = body.get(copied..place.start) else {
                return Self::whole(body.clone());
            };
            joined.put_slice(before);
            joined.put_slice(escaped);
            copied = place.end;
        }
        joined.put_slice(body.get(copied..).unwrap_or_default());
        Self::whole(joined.freeze())
    }

    /// Bytes still to be sent.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.len() as u64)
            .sum()
    }

    /// True when nothing is left to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `name` without the collection that Gemini's full names begin with.
fn bare(name: &str) -> &str {
    name.strip_prefix("models/").unwrap_or(name)
}

/// `name` as the inside of a JSON string.
fn escape(name: &str) -> Bytes {
    if name
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        return Bytes::copy_from_slice(name.as_bytes());
    }
    let quoted = serde_json::Value::from(name).to_string();
    let inner = quoted
        .get(1..quoted.len().saturating_sub(1))
        .unwrap_or_default();
    Bytes::copy_from_slice(inner.as_bytes())
}

impl Body for BodyChain {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.segments.iter_mut().find(|segment| !segment.is_empty());
        Poll::Ready(next.map(|segment| Ok(Frame::data(std::mem::take(segment)))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}

#[cfg(test)]
mod tests;
