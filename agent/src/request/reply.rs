//! Answers to callers: the agent's own and the lanes', with the headers every answer carries.

pub(crate) mod array;

use crate::request::held_open::HeldOpen;
use crate::request::relay::Relay;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{Response, StatusCode, response};
use http_body::{Frame, SizeHint};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::error_body::{self, ErrorKind};
use lanekeeper_protocol::headers;
use lanekeeper_serve::BodyEnd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) const X_LANE: HeaderName = HeaderName::from_static("x-lanekeeper-lane");
pub(crate) const X_ATTEMPTS: HeaderName = HeaderName::from_static("x-lanekeeper-attempts");
pub(crate) const X_DEGRADED: HeaderName = HeaderName::from_static("x-lanekeeper-degraded");
/// The status of the last lane that failed a request.
pub(crate) const X_LAST_STATUS: HeaderName = HeaderName::from_static("x-lanekeeper-last-status");
/// What a translation for the lane left out or changed.
const X_DROPPED: HeaderName = HeaderName::from_static("x-lanekeeper-dropped");
/// What names the request at the provider.
const X_UPSTREAM_REQUEST_ID: HeaderName =
    HeaderName::from_static("x-lanekeeper-upstream-request-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The body of any answer to a caller.
pub(crate) enum Body {
    /// All of it is here.
    Whole(Option<Bytes>),
    /// It runs.
    Relay(Box<Relay>),
    /// Either of them, put as one array.
    Array(Box<array::ArrayBody>),
    /// It was opened before there is an answer.
    HeldOpen(Box<HeldOpen>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyEnd;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyEnd>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Relay(relay) => Pin::new(relay.as_mut()).poll_frame(cx),
            Self::Array(array) => array.poll_frame(cx),
            Self::HeldOpen(held) => held.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Relay(relay) => relay.is_end_stream(),
            Self::Array(array) => array.is_end_stream(),
            Self::HeldOpen(held) => held.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Relay(relay) => relay.size_hint(),
            Self::Array(_) | Self::HeldOpen(_) => SizeHint::default(),
        }
    }
}

/// What names one request in answers and logs, as the header it travels in.
#[derive(Clone)]
pub(crate) struct RequestId(HeaderValue);

/// Longest request id taken over from a caller.
const REQUEST_ID_MAX_BYTES: usize = 128;

impl RequestId {
    /// The caller's own id, if it is a harmless one, else a new one.
    pub(crate) fn of(headers: &http::HeaderMap) -> Self {
        let given = headers.get(X_REQUEST_ID).filter(|value| {
            let id = value.as_bytes();
            (1..=REQUEST_ID_MAX_BYTES).contains(&id.len())
                && id
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/".contains(byte))
        });
        let mut text = [0; uuid::fmt::Simple::LENGTH];
        let id = match given {
            // A copy: as it came it is part of the network buffer.
            Some(id) => id.as_bytes(),
            None => {
                let id = uuid::Builder::from_u128(rand::random()).into_uuid();
                id.simple().encode_lower(&mut text).as_bytes()
            }
        };
        let id = HeaderValue::from_bytes(id);
        Self(id.unwrap_or_else(|_| HeaderValue::from_static("unprintable")))
    }

    pub(crate) fn as_str(&self) -> &str {
        // Of either origin it is plain text.
        self.0.to_str().unwrap_or_default()
    }

    fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// An error the agent makes itself.
pub(crate) fn refuse(dialect: Dialect, kind: &ErrorKind, id: &RequestId) -> Response<Body> {
    let mut response = refuse_whole(dialect, kind, id).map(|body| Body::Whole(Some(body)));
    // For a stream that is open already, where the status comes too late.
    response.extensions_mut().insert(kind.clone());
    response
}

/// As [`refuse`], for a caller that no service has heard of.
pub(crate) fn refuse_whole(dialect: Dialect, kind: &ErrorKind, id: &RequestId) -> Response<Bytes> {
    let (status, headers, body) = error_body::render(dialect, kind, id.as_str());
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(X_REQUEST_ID, id.header());
    response
}

/// A JSON document of the agent.
pub(crate) fn document(body: &serde_json::Value, id: &RequestId) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(Bytes::from(body.to_string()))));
    *response.status_mut() = StatusCode::OK;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(X_REQUEST_ID, id.header());
    response
}

/// What an answer says about how it came about.
pub(crate) struct Provenance<'a> {
    pub(crate) lane: Option<&'a HeaderValue>,
    pub(crate) attempts: u32,
    pub(crate) degraded: Option<&'static str>,
    pub(crate) dropped: Option<&'a HeaderValue>,
}

/// Writes provenance into any answer.
pub(crate) fn mark(response: &mut Response<Body>, provenance: &Provenance<'_>) {
    let headers = response.headers_mut();
    if let Some(lane) = provenance.lane {
        headers.insert(X_LANE, lane.clone());
    }
    let attempts = match provenance.attempts {
        // Nearly always, and then no memory is set aside for it.
        1 => HeaderValue::from_static("1"),
        more => HeaderValue::from(more),
    };
    headers.insert(X_ATTEMPTS, attempts);
    if let Some(dropped) = provenance.dropped {
        headers.insert(X_DROPPED, dropped.clone());
    }
    if let Some(degraded) = provenance.degraded {
        headers.insert(X_DEGRADED, HeaderValue::from_static(degraded));
    }
}

/// Names the wait on an answer that asks to come back and does not say when.
pub(crate) fn hint(response: &mut Response<Body>, wait: Duration) {
    let asks_back = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    if asks_back && !response.headers().contains_key(RETRY_AFTER) {
        let seconds = HeaderValue::from(error_body::whole_seconds(wait));
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
}

/// A lane's answer with `body` in place of its own.
pub(crate) fn relay(head: response::Parts, body: Body, id: &RequestId) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    let mut headers = headers::downstream_response(head.headers);
    // The server frames the body itself.
    headers.remove(TRANSFER_ENCODING);
    if headers::is_event_stream(&headers) {
        // Proxies on the way must neither keep nor collect what streams.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    }
    if matches!(response.body(), Body::Whole(_)) {
        headers.remove(http::header::CONTENT_LENGTH);
    }
    let upstream_id = headers.insert(X_REQUEST_ID, id.header());
    if let Some(upstream_id) = upstream_id.or_else(|| headers.get(REQUEST_ID).cloned()) {
        headers.insert(X_UPSTREAM_REQUEST_ID, upstream_id);
    }
    *response.headers_mut() = headers;
    response
}
