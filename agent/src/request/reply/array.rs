//! A stream of events as one JSON array that grows: the form of a Gemini stream that was asked for
//! without `alt=sse`.
//!
//! Lanes always send events, so that one reader judges every stream. Each event's document goes to
//! the caller unchanged; only what stands between the documents is written here. An answer that
//! breaks off leaves its array open. What is no document, such as a `[DONE]` behind a good end,
//! would make the array unreadable and is left out.

use super::Body;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body as _;
use lanekeeper_protocol::headers;
use lanekeeper_protocol::sse::{Frame, SseReader};
use lanekeeper_serve::BodyEnd;
use std::pin::Pin;
use std::task::{Context, Poll};

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// The answer with its events as an array; other answers stay as they are.
pub(crate) fn of_events(mut response: Response<Body>) -> Response<Body> {
    if response.status() != StatusCode::OK || !headers::is_event_stream(response.headers()) {
        return response;
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    response.map(|events| {
        Body::Array(Box::new(ArrayBody {
            events,
            reader: SseReader::new(),
            has_begun: false,
            has_ended: false,
        }))
    })
}

/// The body of such an answer.
pub(crate) struct ArrayBody {
    events: Body,
    reader: SseReader,
    has_begun: bool,
    has_ended: bool,
}

impl ArrayBody {
    /// What the events within the next bytes become.
    fn take(&mut self, bytes: Bytes) -> Result<Bytes, BodyEnd> {
        self.reader.push(bytes);
        let mut out = BytesMut::new();
        while let Some(frame) = self.reader.next_frame().map_err(|_| BodyEnd::BrokenOff)? {
            self.put(&frame, &mut out);
        }
        Ok(out.freeze())
    }

    fn end(&mut self) -> Bytes {
        self.has_ended = true;
        let mut out = BytesMut::new();
        if let Some(frame) = self.reader.finish() {
            self.put(&frame, &mut out);
        }
        out.extend_from_slice(if self.has_begun { b"\n]" } else { b"[]" });
        out.freeze()
    }

    fn put(&mut self, frame: &Frame, out: &mut BytesMut) {
        let Some(document) = frame.data().filter(|data| is_object(data)) else {
            return;
        };
        let begun = std::mem::replace(&mut self.has_begun, true);
        out.extend_from_slice(if begun { b"\n,\r\n" } else { b"[" });
        out.extend_from_slice(&document);
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BodyEnd>>> {
        loop {
            if self.has_ended {
                return Poll::Ready(None);
            }
            let out = match Pin::new(&mut self.events).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.end(),
                // A document that stops in the middle must not look like one that ended.
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(BodyEnd::BrokenOff))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => match self.take(bytes) {
                        Ok(out) => out,
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    },
                    Err(_) => continue,
                },
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(http_body::Frame::data(out))));
            }
        }
    }

    pub(super) const fn is_end_stream(&self) -> bool {
        self.has_ended
    }
}

/// True for what looks like a JSON object.
fn is_object(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    data.starts_with(b"{") && data.ends_with(b"}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    async fn array(events: &'static str) -> String {
        let mut response = Response::new(Body::Whole(Some(Bytes::from_static(events.as_bytes()))));
        let media_type = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        let response = of_events(response);
        assert_eq!(response.headers()[CONTENT_TYPE], MEDIA_TYPE);
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn documents_of_a_stream_become_the_items_of_an_array() {
        for (events, expected) in [
            ("", "[]"),
            (": ping\n\n", "[]"),
            ("data: {\"a\": 1}\r\n\r\n", "[{\"a\": 1}\n]"),
            (
                "data: {\"a\":1}\n\n: ping\n\ndata: {\"b\":2}",
                "[{\"a\":1}\n,\r\n{\"b\":2}\n]",
            ),
            (
                "data: {\"a\":1}\n\ndata: [DONE]\n\ndata:\n\ndata: <html>\n\n",
                "[{\"a\":1}\n]",
            ),
        ] {
            assert_eq!(array(events).await, expected, "{events:?}");
        }
    }

    #[test]
    fn other_answers_stay_as_they_are() {
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        assert!(matches!(of_events(response).into_body(), Body::Whole(None)));
    }
}
