//! Bodies: bounded in size and time, of a stated type, without unknown fields.

use super::budget::BodyShare;
use super::json;
use crate::error::{Error, Fault};
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// Largest gateway document, bytes.
pub(crate) const MAX_DOCUMENT_BYTES: usize = lanekeeper_model::document::DOCUMENT_BYTES_MAX;
/// Largest body of any other route, bytes.
const MAX_FORM_BYTES: usize = 64 * 1024;
/// First buffer of a body that comes in pieces, bytes.
const FIRST_BUFFER_BYTES: usize = 4 * 1024;
/// Longest wait for a whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A flat JSON object that a route takes.
pub(crate) trait Form: Sized {
    /// The fields it may have.
    const FIELDS: &'static [&'static str];

    /// Reads the fields. `None` only when a fault was noted.
    fn read(fields: &mut Fields) -> Option<Self>;
}

/// The fields of a form, and what is wrong with them.
pub(crate) struct Fields {
    given: Map<String, Value>,
    faults: Vec<Fault>,
}

impl Fields {
    /// Notes what is wrong with a field.
    pub(crate) fn refuse(&mut self, field: &str, code: &str, message: impl Into<String>) {
        self.faults
            .push(Fault::at(format!("/{field}"), code, message));
    }

    /// Whether something is wrong with a field.
    pub(crate) fn is_refused(&self, field: &str) -> bool {
        let place = Some(format!("/{field}"));
        self.faults.iter().any(|fault| fault.pointer == place)
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, field: &str) -> Option<String> {
        match self.given.remove(field) {
            Some(Value::String(text)) => return Some(text),
            Some(_) => self.refuse(field, "wrong_type", "must be a string"),
            None => self.refuse(field, "missing", "must be given"),
        }
        None
    }

    /// A text that may be left out or null.
    pub(crate) fn optional_text(&mut self, field: &str) -> Option<String> {
        match self.given.remove(field)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            _ => {
                self.refuse(field, "wrong_type", "must be a string or null");
                None
            }
        }
    }

    /// Texts by name; none when left out or null.
    pub(crate) fn texts_by_name(&mut self, field: &str) -> BTreeMap<String, String> {
        let given = match self.given.remove(field) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(given)) => given,
            Some(_) => {
                self.refuse(field, "wrong_type", "must be an object of strings");
                Map::new()
            }
        };
        let mut texts = BTreeMap::new();
        for (name, value) in given {
            match value {
                Value::String(text) => {
                    texts.insert(name, text);
                }
                _ => {
                    let place = format!("{field}/{}", escape(&name));
                    self.refuse(&place, "wrong_type", "must be a string");
                }
            }
        }
        texts
    }

    /// A yes or no; no when left out or null.
    pub(crate) fn flag(&mut self, field: &str) -> bool {
        match self.given.remove(field) {
            Some(Value::Bool(flag)) => flag,
            None | Some(Value::Null) => false,
            Some(_) => {
                self.refuse(field, "wrong_type", "must be true or false");
                false
            }
        }
    }

    /// A whole number that may be left out or null.
    pub(crate) fn whole(&mut self, field: &str) -> Option<u64> {
        let value = self.given.remove(field).filter(|value| !value.is_null())?;
        let whole = value.as_u64();
        if whole.is_none() {
            self.refuse(field, "wrong_type", "must be a whole number, not negative");
        }
        whole
    }
}

/// A JSON body as the route's form.
pub(crate) struct Json<T>(pub(crate) T);

impl<S, T> FromRequest<S> for Json<T>
where
    S: Send + Sync,
    T: Form,
{
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        if media_type(&parts.headers)?.as_deref() != Some("application/json") {
            return Err(unsupported(&parts.headers, "application/json"));
        }
        let bytes = read(&parts, body, MAX_FORM_BYTES).await?;
        form(json::parse(&bytes)?).map(Self)
    }
}

fn form<T: Form>(value: Value) -> Result<T, Error> {
    let Value::Object(given) = value else {
        return Err(Error::InvalidBody(vec![Fault::at(
            "",
            "not_an_object",
            "must be an object",
        )]));
    };
    let faults: Vec<Fault> = given
        .keys()
        .filter(|key| !T::FIELDS.contains(&key.as_str()))
        .map(|key| {
            let message = format!("unknown field; known: {}", T::FIELDS.join(", "));
            Fault::at(format!("/{}", escape(key)), "unknown_key", message)
        })
        .collect();
    let mut fields = Fields { given, faults };
    match T::read(&mut fields) {
        Some(form) if fields.faults.is_empty() => Ok(form),
        Some(_) | None => Err(Error::InvalidBody(fields.faults)),
    }
}

/// Refuses what a caller sends to a route that takes no body, before the route runs: an option that
/// nobody reads would be taken for granted. Nothing and an empty object are accepted.
pub(crate) async fn refuse_any(request: Request, next: Next) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let bytes = read(&parts, body, MAX_FORM_BYTES).await?;
    if !bytes.trim_ascii().is_empty() {
        let faults = match json::parse(&bytes)? {
            Value::Object(given) => given.keys().map(|key| unexpected(key)).collect(),
            _ => vec![Fault::at("", "unexpected_body", "this route takes no body")],
        };
        if !faults.is_empty() {
            return Err(Error::InvalidBody(faults));
        }
    }
    Ok(next.run(Request::from_parts(parts, Body::empty())).await)
}

fn unexpected(key: &str) -> Fault {
    let message = "unknown field; this route takes no body, see its query parameters";
    Fault::at(format!("/{}", escape(key)), "unknown_key", message)
}

/// A key as a token of an RFC 6901 pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The body's media type in lower case without parameters; an error when the body is coded.
pub(crate) fn media_type(headers: &HeaderMap) -> Result<Option<String>, Error> {
    if let Some(coding) = headers.get(CONTENT_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(Error::UnsupportedMedia(
            "the body must be sent without a content coding".to_owned(),
        ));
    }
    Ok(headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|value| value.trim().to_ascii_lowercase()))
}

/// The refusal of a body that is not of an `accepted` type.
pub(crate) fn unsupported(headers: &HeaderMap, accepted: &str) -> Error {
    let given = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map_or("it has none".to_owned(), |value| {
            format!("it has '{value}'")
        });
    Error::UnsupportedMedia(format!(
        "the body's Content-Type must be {accepted}; {given}"
    ))
}

/// Reads a whole body of at most `limit` bytes, as far as the request's share of the budget goes.
pub(crate) async fn read(parts: &Parts, body: Body, limit: usize) -> Result<Bytes, Error> {
    let share = parts
        .extensions
        .get::<BodyShare>()
        .ok_or_else(|| Error::Internal("the route has no guard".into()))?;
    let limit = limit.min(share.largest());
    let announced = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok())
        .map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if announced.is_some_and(|length| length > limit) {
        return Err(Error::TooLarge(limit));
    }
    let collected = collect(body, announced.unwrap_or(limit), limit, share);
    tokio::time::timeout(BODY_TIMEOUT, collected)
        .await
        .map_err(|_| Error::BodyTimeout(BODY_TIMEOUT.as_secs()))?
}

/// Collects a body into one buffer, which doubles up to the `expected` length: a chain of the pieces
/// that came would hold many small allocations, which the process does not give back.
async fn collect(
    mut body: Body,
    expected: usize,
    limit: usize,
    share: &BodyShare,
) -> Result<Bytes, Error> {
    let mut whole: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| Error::BodyCut)?.into_data() else {
            continue;
        };
        let length = whole.len().saturating_add(piece.len());
        if length > limit {
            return Err(Error::TooLarge(limit));
        }
        if whole.is_empty() && body.is_end_stream() {
            share.grow_to(length)?;
            return Ok(piece);
        }
        if length > whole.capacity() {
            let doubled = whole.capacity().saturating_mul(2).max(FIRST_BUFFER_BYTES);
            let capacity = doubled.min(expected).max(length);
            share.grow_to(capacity)?;
            whole.reserve_exact(capacity - whole.len());
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq)]
    struct Named {
        name: String,
    }

    impl Form for Named {
        const FIELDS: &'static [&'static str] = &["name"];

        fn read(fields: &mut Fields) -> Option<Self> {
            Some(Self {
                name: fields.text("name")?,
            })
        }
    }

    #[test]
    fn every_unknown_field_is_pointed_at() {
        let Error::InvalidBody(faults) =
            form::<Named>(json!({"name": "a", "nmae": 1, "a/b": 2})).unwrap_err()
        else {
            panic!("not refused");
        };
        let pointers: Vec<_> = faults
            .iter()
            .filter_map(|fault| fault.pointer.clone())
            .collect();
        assert_eq!(pointers, ["/a~1b", "/nmae"]);
    }

    #[test]
    fn a_missing_field_is_named() {
        let Error::InvalidBody(faults) = form::<Named>(json!({})).unwrap_err() else {
            panic!("not refused");
        };
        assert_eq!(faults[0].pointer.as_deref(), Some("/name"));
        assert_eq!(faults[0].message, "must be given");
    }

    #[tokio::test]
    async fn a_body_is_cut_at_its_limit_even_when_it_announces_no_length() {
        let body = Body::from_stream(futures_util::stream::iter(
            (0..3).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"12345"))),
        ));
        let budget = std::sync::Arc::new(crate::input::budget::BodyBudget::default());
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.extensions.insert(budget.share("a"));
        assert!(matches!(
            read(&parts, body, 12).await,
            Err(Error::TooLarge(12))
        ));
    }
}
