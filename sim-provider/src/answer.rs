//! Turns a call and its fault into the bytes of an answer, cut and paced as asked.

use crate::dialect::{Call, FAILED_WITHIN, Framing};
use crate::fault::{Fault, Hang};
use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;
use std::time::Duration;

/// Body of every answer; an error breaks the connection in the middle.
pub(crate) type Body = UnsyncBoxBody<Bytes, Cut>;

/// The connection breaks here, as the fault orders.
#[derive(Debug, thiserror::Error)]
#[error("cut by a fault")]
pub(crate) struct Cut;

/// Time that bytes before a cut have to reach the wire: the HTTP library drops what it has not yet
/// written when a body fails.
const CUT_PAUSE: Duration = Duration::from_millis(2);

/// One step of a body.
enum Step {
    Send(Bytes),
    Pause(Duration),
    Cut,
    Hang,
}

/// An answer of JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    whole(status, "application/json", Bytes::from(value.to_string()))
}

fn whole(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    let body = Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync();
    with_type(status, content_type, body)
}

fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

fn steps(steps: Vec<Step>) -> Body {
    let frames = stream::iter(steps).filter_map(|step| async move {
        match step {
            Step::Send(bytes) => Some(Ok(Frame::data(bytes))),
            Step::Cut => Some(Err(Cut)),
            Step::Pause(pause) => {
                tokio::time::sleep(pause).await;
                None
            }
            Step::Hang => future::pending().await,
        }
    });
    StreamBody::new(frames.boxed()).boxed_unsync()
}

/// The answer to a call under a fault; the default fault is none.
pub(crate) async fn to_call(
    call: &Call,
    fault: &Fault,
    latency: Duration,
    frame_interval: Duration,
) -> Response<Body> {
    let pause = latency + Duration::from_millis(fault.delay_ms);
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    if fault.hang == Some(Hang::BeforeHeaders) {
        return future::pending().await;
    }
    let mut response = match fault.status {
        Some(status) => failed(call, fault, status),
        None if call.stream => with_type(
            StatusCode::OK,
            match call.framing {
                Framing::Events => "text/event-stream",
                Framing::Array => "application/json; charset=UTF-8",
            },
            stream_body(call, fault, frame_interval),
        ),
        None => good(call, fault),
    };
    if fault.hang == Some(Hang::AfterHeaders) {
        *response.body_mut() = steps(vec![Step::Hang]);
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    response
}

fn failed(call: &Call, fault: &Fault, status: u16) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match &fault.body {
        Some(Value::String(text)) => whole(status, "text/plain", Bytes::from(text.clone())),
        Some(value) => json(status, value),
        None => {
            let message = format!("Simulated failure with status {}.", status.as_u16());
            json(status, &call.dialect.error_body(status.as_u16(), &message))
        }
    };
    for (name, value) in &fault.headers {
        // Both were checked when the fault was set.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn good(call: &Call, fault: &Fault) -> Response<Body> {
    if fault.error_after_frames.is_some() {
        let error = call.dialect.error_body(500, FAILED_WITHIN);
        return json(StatusCode::OK, &error);
    }
    let words = if fault.empty { 0 } else { call.words };
    let bytes = Bytes::from(call.answer(words).to_string());
    if fault.cut_after_frames.is_none() {
        return whole(StatusCode::OK, "application/json", bytes);
    }
    let half = bytes.slice(..bytes.len() / 2);
    let mut response = with_type(
        StatusCode::OK,
        "application/json",
        steps(vec![Step::Send(half), Step::Pause(CUT_PAUSE), Step::Cut]),
    );
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    response
}

fn stream_body(call: &Call, fault: &Fault, frame_interval: Duration) -> Body {
    let words = if fault.empty { 0 } else { call.words };
    let end = [fault.cut_after_frames, fault.error_after_frames]
        .into_iter()
        .flatten()
        .min();
    let sent = end.map_or(words, |end| end.min(words));

    let mut frames = vec![];
    // A stream that is cut or fails at once has sent nothing, not even its opening.
    if end != Some(0) {
        frames.push(call.opening());
    }
    frames.extend((0..sent).map(|index| call.content(index)));
    let last = match end {
        Some(end) if fault.error_after_frames == Some(end) => Some(call.error_frame(sent)),
        Some(_) => None,
        None => Some(call.closing(words)),
    };
    let cut = end.is_some() && last.is_none();
    frames.extend(last);
    frames.retain(|frame| !frame.is_empty());

    if frame_interval.is_zero() && !cut {
        return whole_stream(&frames);
    }
    let mut plan = Vec::with_capacity(frames.len() * 2 + 1);
    for frame in frames {
        plan.push(Step::Send(Bytes::from(frame)));
        let pause = if cut {
            frame_interval.max(CUT_PAUSE)
        } else {
            frame_interval
        };
        plan.push(Step::Pause(pause));
    }
    if cut {
        plan.push(Step::Cut);
    }
    steps(plan)
}

/// All frames in one write, chunked like every stream.
fn whole_stream(frames: &[String]) -> Body {
    steps(vec![Step::Send(Bytes::from(frames.concat()))])
}
