//! One attempt on one lane: from dispatch to the point where an answer may go to the caller, or to
//! the evidence why it may not.
//!
//! Nothing here settles a ticket or decides about the next member; that is the failover loop's.

mod beginning;
mod marked;
mod opening;
mod outbound;
mod passage;
mod translation;

use crate::clock;
use crate::lanes::lane::Lane;
use crate::observe::trace::AttemptTrace;
use crate::upstream::{self, Client};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, StatusCode, Uri, response};
use http_body_util::BodyExt as _;
use lanekeeper_breaker::CauseKind;
use lanekeeper_protocol::answer::{self, Answer as Inspected};
use lanekeeper_protocol::coding::Codings;
use lanekeeper_protocol::error_signal;
use lanekeeper_protocol::headers::{self, Credential};
use lanekeeper_protocol::query;
use lanekeeper_protocol::verdict::{self, Rules, Verdict};
use lanekeeper_protocol::{Dialect, endpoint};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub(crate) use outbound::{Asked, Outbound};
pub(crate) use passage::Passage;
pub(crate) use translation::Translation;

/// Most bytes of an answer held back before the commit point; beyond it they go to the caller,
/// whatever they are.
pub(crate) const HELD_MAX_BYTES: usize = 256 * 1024;
/// Longest wait for the text of an answer whose status already says that it is an error: a lane
/// that stalls there must not use up the time of its siblings.
const ERROR_TEXT_PATIENCE: Duration = Duration::from_secs(2);

/// The bounds of one attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// For connect and headers.
    pub(crate) head: Instant,
    /// For the first content.
    pub(crate) content: Instant,
    /// For the whole request: a lane that lives when it is over has not failed.
    pub(crate) request: Instant,
    /// How long the first content of a stream is held back, so that an error right behind it can
    /// still go to another lane.
    pub(crate) hold: Duration,
}

/// An answer that may go to the caller.
pub(crate) struct Answer {
    pub(crate) head: response::Parts,
    pub(crate) body: AnswerBody,
}

impl Answer {
    /// A stream that ended within what was held.
    fn of_frames(head: response::Parts, held: VecDeque<Bytes>) -> Self {
        let len = held.iter().map(Bytes::len).sum();
        Self {
            head,
            body: AnswerBody::Whole(join(held, len)),
        }
    }
}

/// How much of an answer is here.
pub(crate) enum AnswerBody {
    /// All of it.
    Whole(Bytes),
    /// Its beginning; the rest follows.
    Running(Running),
}

/// The rest of an answer, and what was read of it so far.
pub(crate) struct Running {
    /// Held bytes in order, to be sent first.
    pub(crate) held: VecDeque<Bytes>,
    pub(crate) upstream: upstream::Body,
    /// Present when the body is a stream of frames that can be judged; it keeps the held ones.
    pub(crate) passage: Option<Box<Passage>>,
    /// The model's turn has ended within the held frames.
    pub(crate) finished: bool,
    /// There is content among what is held. Without any, the bound on held bytes was reached: the
    /// answer goes to the caller all the same, and proves nothing yet.
    pub(crate) content: bool,
}

/// How an attempt went.
pub(crate) enum Attempted {
    /// Content has come.
    Content(Answer),
    /// A well-formed answer that says nothing; it may be relayed.
    Empty(Answer),
    /// A failure, with the lane's own answer where there is one.
    Failed(Verdict, Option<Answer>),
}

/// Makes the attempt; `trace` is its span.
pub(crate) async fn attempt(
    client: &Client,
    lane: &Lane,
    outbound: Outbound<'_>,
    bounds: Bounds,
    trace: Option<&mut AttemptTrace>,
) -> Attempted {
    let attempted = asked_of_lane(client, lane, outbound, bounds, trace).await;
    match outbound.translation {
        Some(translation) => translation.back(attempted),
        None => match outbound.mark {
            Some(mark) => marked::answer(attempted, mark, outbound.kept_ids()),
            None => attempted,
        },
    }
}

/// The attempt, with the answer as the lane gave it.
async fn asked_of_lane(
    client: &Client,
    lane: &Lane,
    outbound: Outbound<'_>,
    bounds: Bounds,
    mut trace: Option<&mut AttemptTrace>,
) -> Attempted {
    let dialect = outbound.dialect();
    let rules = Rules {
        vendor: dialect.vendor(),
        error_map: &lane.provider.error_map,
        passthrough: outbound.passthrough,
    };
    let sent = dispatch(client, lane, outbound, bounds.head, trace.as_deref()).await;
    let response = match sent {
        Ok(response) => response,
        Err(Unsent::Upstream(error)) => {
            tracing::debug!(lane = %lane.name(), %error, "attempt got no answer");
            return Attempted::Failed(error.verdict(), None);
        }
        Err(Unsent::Unready) => {
            return Attempted::Failed(Verdict::transient(CauseKind::Connect), None);
        }
    };
    let (head, body) = response.into_parts();
    if let Some(trace) = &mut trace {
        trace.answered(head.status);
    }
    if !head.status.is_success() {
        return refused(rules, head, body, bounds).await;
    }
    if dialect.is_judged_by_status() && outbound.translation.is_none() {
        return Box::pin(unread(head, body, outbound.held_max(), bounds)).await;
    }
    let attempted = if !headers::is_event_stream(&head.headers) {
        // On the heap, because it would make the future of every attempt larger.
        Box::pin(unlabelled(rules, outbound, head, body, bounds, trace)).await
    } else if is_encoded(&head.headers) {
        // Nobody asked for a coding, and frames that cannot be read cannot be judged.
        tracing::debug!(lane = %lane.name(), "the event stream is in a content coding");
        Attempted::Failed(Verdict::transient(CauseKind::BadBody), None)
    } else {
        let chunks = VecDeque::new();
        opening::read(rules, outbound, head, body, chunks, bounds, trace).await
    };
    match attempted {
        // A caller that wants one document would take the frames for garbage, and one that wants
        // frames finds none in a document: to its package the answer is over before it began.
        Attempted::Content(answer) | Attempted::Empty(answer)
            if outbound.wants_events() != headers::is_event_stream(&answer.head.headers) =>
        {
            Attempted::Failed(Verdict::transient(CauseKind::BadBody), None)
        }
        attempted => attempted,
    }
}

/// A success that is not labelled as an event stream, and may be one all the same.
async fn unlabelled(
    rules: Rules<'_>,
    outbound: Outbound<'_>,
    mut head: response::Parts,
    mut body: upstream::Body,
    bounds: Bounds,
    trace: Option<&mut AttemptTrace>,
) -> Attempted {
    let mut chunks = VecDeque::new();
    if !is_encoded(&head.headers) {
        match beginning::read(&mut body, &mut chunks, bounds.content).await {
            Err(verdict) => return Attempted::Failed(verdict, None),
            Ok(false) => {}
            Ok(true) => {
                let events = HeaderValue::from_static("text/event-stream");
                head.headers.insert(CONTENT_TYPE, events);
                return opening::read(rules, outbound, head, body, chunks, bounds, trace).await;
            }
        }
    }
    whole(rules, outbound, head, body, chunks, bounds, trace).await
}

/// Why no request went out.
enum Unsent {
    Upstream(upstream::Error),
    /// The provider became unusable after it was selected.
    Unready,
}

async fn dispatch(
    client: &Client,
    lane: &Lane,
    outbound: Outbound<'_>,
    deadline: Instant,
    trace: Option<&AttemptTrace>,
) -> Result<http::Response<upstream::Body>, Unsent> {
    let asked = outbound.asked;
    let provider = &lane.provider;
    let target = provider.target.as_ref().map_err(|_| Unsent::Unready)?;
    let provider_headers =
        { provider.credential.headers(outbound.dialect().protocol()) }.ok_or(Unsent::Unready)?;
    let credential = if outbound.passthrough {
        Credential::Passthrough
    } else {
        Credential::Own
    };
    let uri = upstream_uri(lane, outbound, credential).ok_or(Unsent::Unready)?;
    let body = outbound.body(lane);
    let parent = trace.and_then(AttemptTrace::headers);
    let make = || {
        let mut request = Request::new(body.clone());
        *request.method_mut() = asked.method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() =
            headers::upstream_request(&asked.headers, &provider_headers, credential);
        if asked.body.is_empty() {
            // Some servers then look for a document, and refuse its absence.
            request.headers_mut().remove(CONTENT_TYPE);
        }
        if let Some(parent) = &parent {
            parent.write(request.headers_mut());
        }
        request
    };
    client
        .send(target, make, deadline)
        .await
        .map_err(Unsent::Upstream)
}

/// Where the request goes: the endpoint, what the caller's path has below it, and the part of the
/// caller's query that passes.
fn upstream_uri(lane: &Lane, outbound: Outbound<'_>, credential: Credential) -> Option<Uri> {
    let endpoint = lane.endpoint(outbound.dialect())?;
    let asked = outbound.asked;
    // A parameter means nothing in another protocol.
    let query = { asked.query.as_deref() }
        .filter(|_| outbound.translation.is_none())
        .and_then(|query| query::upstream_query(query, asked.dialect, credential));
    if asked.tail.is_empty() && query.is_none() {
        return Some(endpoint.clone());
    }
    let tailed = endpoint::with_tail(&endpoint.to_string(), &asked.tail);
    let whole = query.and_then(|query| endpoint::with_query(&tailed, &query));
    whole.unwrap_or(tailed).parse().ok()
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// What reading up to the bound gave.
enum Held {
    All(Bytes),
    Part(VecDeque<Bytes>, upstream::Body),
}

/// Reads a body behind `chunks` until it ends, or until more is held than may be.
async fn hold(
    mut chunks: VecDeque<Bytes>,
    mut body: upstream::Body,
    most: usize,
    deadline: Instant,
) -> Result<Held, Verdict> {
    let mut held: usize = chunks.iter().map(Bytes::len).sum();
    loop {
        if held > most {
            return Ok(Held::Part(chunks, body));
        }
        // Most often it is here already, and nothing has to be set up for a wait.
        let next = match body.frame().now_or_never() {
            Some(next) => next,
            None => tokio::time::timeout_at(deadline.into(), body.frame())
                .await
                .map_err(|_| Verdict::transient(CauseKind::Timeout))?,
        };
        match next {
            None => return Ok(Held::All(join(chunks, held))),
            Some(Err(error)) => return Err(error.verdict()),
            Some(Ok(frame)) => {
                let Ok(chunk) = frame.into_data() else {
                    continue;
                };
                held = held.saturating_add(chunk.len());
                chunks.push_back(chunk);
            }
        }
    }
}

/// One buffer of all chunks; a single chunk is not copied.
fn join(mut chunks: VecDeque<Bytes>, len: usize) -> Bytes {
    if chunks.len() < 2 {
        return chunks.pop_front().unwrap_or_default();
    }
    let mut joined = BytesMut::with_capacity(len);
    for chunk in chunks {
        joined.extend_from_slice(&chunk);
    }
    joined.freeze()
}

impl Held {
    fn prefix(&self) -> &[u8] {
        match self {
            Self::All(bytes) => bytes,
            Self::Part(chunks, _) => chunks.front().map_or(&[], |chunk| chunk),
        }
    }

    fn into_body(self) -> AnswerBody {
        match self {
            Self::All(bytes) => AnswerBody::Whole(bytes),
            Self::Part(held, upstream) => AnswerBody::Running(Running {
                held,
                upstream,
                passage: None,
                finished: false,
                content: true,
            }),
        }
    }
}

/// An answer whose status says it is none.
async fn refused(
    rules: Rules<'_>,
    head: response::Parts,
    body: upstream::Body,
    bounds: Bounds,
) -> Attempted {
    let now = clock::now();
    let patience = now.checked_add(ERROR_TEXT_PATIENCE).unwrap_or(now);
    // An error whose text is cut off is still an error: the status decides.
    let held = hold(
        VecDeque::new(),
        body,
        HELD_MAX_BYTES,
        bounds.content.min(patience),
    )
    .await
    .unwrap_or_else(|_| Held::All(Bytes::new()));
    let verdict = verdict::response(
        rules,
        head.status,
        &head.headers,
        held.prefix(),
        clock::unix_now(),
    );
    let body = held.into_body();
    Attempted::Failed(verdict, Some(Answer { head, body }))
}

/// A success that is not read. A document is held, so that one that breaks off can still go to
/// another lane; anything else, such as audio, goes on as it comes.
async fn unread(
    head: response::Parts,
    body: upstream::Body,
    most: usize,
    bounds: Bounds,
) -> Attempted {
    if !headers::is_json(&head.headers) {
        let held = Held::Part(VecDeque::new(), body);
        let body = held.into_body();
        return Attempted::Content(Answer { head, body });
    }
    match hold(VecDeque::new(), body, most, bounds.content).await {
        Ok(held) => Attempted::Content(Answer {
            head,
            body: held.into_body(),
        }),
        Err(verdict) => Attempted::Failed(verdict, None),
    }
}

/// A success whose body, of which `chunks` are here, is one document.
async fn whole(
    rules: Rules<'_>,
    outbound: Outbound<'_>,
    mut head: response::Parts,
    body: upstream::Body,
    chunks: VecDeque<Bytes>,
    bounds: Bounds,
    trace: Option<&mut AttemptTrace>,
) -> Attempted {
    let dialect = outbound.dialect();
    let encoded = is_encoded(&head.headers);
    let held = match hold(chunks, body, outbound.held_max(), bounds.content).await {
        Ok(held) => held,
        Err(verdict) => return Attempted::Failed(verdict, None),
    };
    let inspected = match &held {
        Held::All(bytes) if encoded && !bytes.is_empty() => {
            inspect_encoded(rules, dialect, &head.headers, bytes)
        }
        Held::Part(chunks, _) if encoded => {
            let len = chunks.iter().map(Bytes::len).sum();
            let bytes = join(chunks.clone(), len);
            if error_signal::decoded(&head.headers, &bytes).is_empty() {
                Inspected::Malformed
            } else {
                Inspected::Good
            }
        }
        // What is long is surely an answer.
        Held::Part(..) => Inspected::Good,
        Held::All(bytes) => answer::inspect(rules, dialect, bytes),
    };
    if let (Held::All(bytes), Some(trace), false) = (&held, trace, encoded) {
        trace.document(bytes);
    }
    match inspected {
        Inspected::Good => Attempted::Content(Answer {
            head,
            body: held.into_body(),
        }),
        Inspected::Empty => Attempted::Empty(Answer {
            head,
            body: held.into_body(),
        }),
        Inspected::Malformed => Attempted::Failed(Verdict::transient(CauseKind::BadBody), None),
        Inspected::Error(verdict) => {
            // An error must not travel under a status that says success.
            head.status = stands_for(&verdict);
            let body = held.into_body();
            Attempted::Failed(*verdict, Some(Answer { head, body }))
        }
    }
}

/// Judges a document in a content coding that nobody asked for. It is decoded only to be judged:
/// the caller gets it as it came. One in a coding that is not known passes unjudged.
fn inspect_encoded(
    rules: Rules<'_>,
    dialect: Dialect,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Inspected {
    if Codings::of(headers).is_err() {
        return Inspected::Good;
    }
    let plain = error_signal::decoded(headers, bytes);
    if plain.len() >= error_signal::MAX_BODY_BYTES {
        // Not read to its end, and too long for an error.
        return Inspected::Good;
    }
    answer::inspect(rules, dialect, &plain)
}

fn stands_for(verdict: &Verdict) -> StatusCode {
    verdict
        .status
        .and_then(|status| StatusCode::from_u16(status).ok())
        .filter(|status| status.is_client_error() || status.is_server_error())
        .unwrap_or(StatusCode::BAD_GATEWAY)
}
