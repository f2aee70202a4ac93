//! From a caller's request to the failover loop: path, key, body, model name.
//!
//! Everything wrong with a request is found here, before any lane is touched, and told in the
//! caller's dialect.

mod body;
pub(crate) mod budget;
mod catalogue;
pub(crate) mod door;
mod marks;
pub(crate) mod path;
mod unnamed;

use crate::clients::{Caller, Refused};
use crate::clock;
use crate::lanes::pool::Pool;
use crate::lanes::snapshot::Snapshot;
use crate::observe::metrics::RequestOutcome;
use crate::observe::trace::RequestTrace;
use crate::request::attempt::Asked;
use crate::request::failover::{self, Job};
use crate::request::guard::RequestGuard;
use crate::request::reply::{self, Body, RequestId};
use crate::request::worker::Worker;
use bytes::Bytes;
use door::Origin;
use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request, Response, Uri, request};
use hyper::body::Incoming;
use lanekeeper_model::gateway::OnExhausted;
use lanekeeper_protocol::error_body::{ErrorKind, Shortage};
use lanekeeper_protocol::rewrite::ModelPlaces;
use lanekeeper_protocol::{Dialect, Operation, Protocol, headers, locate, via};
use lanekeeper_serve::{ConflictingLength, UnreadHead};
use marks::Unmarked;
use path::Route;
use std::future::{Future as _, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Retry-After of an agent whose places are all taken, or that has no configuration yet.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(2);
/// Bodies up to this many bytes are copied out of the network buffer where they are kept for long:
/// a larger one fills its buffer well enough.
const DETACH_MAX_BYTES: usize = 4 * 1024;

/// Answers one request. A fault of the agent itself ends that request and nothing else; its caller
/// is told in its own dialect, and what the request held is back by then.
pub(crate) async fn handle(worker: &Worker, request: Request<Incoming>) -> Response<Body> {
    let began = clock::now();
    let id = RequestId::of(request.headers());
    // Copies: the address itself is part of the network buffer.
    let uri = request.uri();
    let path = path::normal(uri.path()).into_owned();
    let query = uri.query().map(str::to_owned);
    if let Some(response) = door::probe(request.method(), &path) {
        return response;
    }
    let found = path::route(&path, request.headers(), query.as_deref());
    let dialect = match &found {
        Ok(route) => route.dialect,
        Err(unknown) => unknown.dialect,
    };
    let origin = Origin::of(request.headers(), || worker.cors());
    if let Some(mut response) = at_the_door(worker, &request, &origin, &found, dialect, &id) {
        origin.permit(response.headers_mut());
        return response;
    }
    let trace = worker
        .tracer()
        .map(|tracer| RequestTrace::begin(tracer, request.method(), request.headers()));
    if let (Some(trace), Ok(route)) = (&trace, &found) {
        trace.speaks(route.dialect);
    }
    // The head stays here: every future that took it by value would be larger by it.
    let (mut head, body) = request.into_parts();
    let asking = Asking {
        head: &mut head,
        body,
        dialect,
        id: &id,
        began,
    };
    // An idle connection has room for this future set aside: what a running request needs goes apart.
    let answering = Box::pin(answer(worker, asking, found, trace.clone()));
    let response = match AssertUnwindSafe(answering).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            worker.counters().count_panic();
            tracing::error!(
                request_id = id.as_str(),
                "the handler of a request panicked"
            );
            reply::refuse(dialect, &ErrorKind::Internal, &id)
        }
    };
    let mut response = if dialect.streams_array(query.as_deref()) {
        reply::array::of_events(response)
    } else {
        response
    };
    origin.permit(response.headers_mut());
    if let Some(trace) = trace {
        trace.answered(response.status());
    }
    response
}

/// The answer to a request that wants no operation, or may not have one.
fn at_the_door(
    worker: &Worker,
    request: &Request<Incoming>,
    origin: &Origin,
    found: &Result<Route<'_>, path::Unknown>,
    dialect: Dialect,
    id: &RequestId,
) -> Option<Response<Body>> {
    let headers = request.headers();
    if request.method() == Method::OPTIONS {
        let allow = match found {
            Ok(route) => route.options(),
            // The server as a whole.
            Err(_) if request.uri().path() == "*" => "GET, HEAD, POST, OPTIONS",
            Err(_) => return None,
        };
        return Some(door::options(headers, origin, allow));
    }
    let kind = if *origin == Origin::Foreign {
        ErrorKind::ForeignOrigin
    } else if door::wants_websocket(headers) {
        ErrorKind::UpgradeRefused
    } else if is_looped(worker, headers) {
        ErrorKind::Loop
    } else {
        return None;
    };
    worker.count_refusal(kind.code());
    Some(reply::refuse(dialect, &kind, id))
}

/// True when the request has passed through as many gateways of this kind as it may.
fn is_looped(worker: &Worker, headers: &HeaderMap) -> bool {
    let hops = via::hops(headers);
    hops > 0 && { worker.snapshot() }.is_some_and(|snapshot| hops >= snapshot.limits.hops_max)
}

/// Answers a request whose head could not be read, in the dialect of its path.
pub(crate) fn refuse_unread(worker: &Worker, head: UnreadHead<'_>) -> Response<Bytes> {
    let none = HeaderMap::new();
    let dialect = match path::route(&path::normal(head.path), &none, None) {
        Ok(route) => route.dialect,
        Err(unknown) => unknown.dialect,
    };
    let kind = ErrorKind::UnreadableHead {
        status: head.status,
    };
    worker.count_refusal(kind.code());
    reply::refuse_whole(dialect, &kind, &RequestId::of(&none))
}

/// A request on its way.
struct Asking<'a> {
    head: &'a mut request::Parts,
    body: Incoming,
    /// What an error is told in.
    dialect: Dialect,
    id: &'a RequestId,
    began: Instant,
}

async fn answer(
    worker: &Worker,
    asking: Asking<'_>,
    found: Result<Route<'_>, path::Unknown>,
    trace: Option<RequestTrace>,
) -> Response<Body> {
    let (dialect, id) = (asking.dialect, asking.id);
    // What is refused here is counted for no pool.
    let refuse = |kind: &ErrorKind| {
        worker.count_refusal(kind.code());
        reply::refuse(dialect, kind, id)
    };
    let busy = |reason: &'static str| {
        worker.count_refusal(reason);
        let kind = ErrorKind::Exhausted {
            shortage: Shortage::Unready,
            retry_after: BUSY_RETRY_AFTER,
        };
        reply::refuse(dialect, &kind, id)
    };
    let Some(snapshot) = worker.snapshot() else {
        return busy("no_configuration");
    };
    let most = snapshot.limits.inbound_max;
    let Some(mut request) =
        RequestGuard::begin(worker.counters(), most, worker.deadline(), asking.began)
    else {
        return busy("inbound_limit");
    };
    request.traced(trace);
    let admitted = snapshot.clients.admit(
        &asking.head.headers,
        asking
            .head
            .uri
            .query()
            .filter(|_| dialect.protocol() == Protocol::Gemini),
    );
    let caller = match admitted {
        Ok(caller) => caller,
        Err(refused) => {
            request.end(RequestOutcome::ClientFault);
            let Asking { head, body, .. } = asking;
            Box::pin(body::pass_over(body, &head.headers, &snapshot.limits)).await;
            return refuse(&match refused {
                Refused::Unknown => ErrorKind::Unauthorized,
                Refused::Busy => ErrorKind::RateLimited {
                    retry_after: BUSY_RETRY_AFTER,
                },
            });
        }
    };
    let served = match found {
        Ok(route) => {
            let trace = request.trace();
            serve(worker, &snapshot, &caller, route, asking, trace).await
        }
        Err(_) => {
            let Asking { head, body, .. } = asking;
            Box::pin(body::pass_over(body, &head.headers, &snapshot.limits)).await;
            Err(ErrorKind::NoRoute)
        }
    };
    request.hold(caller);
    match served {
        Ok(Served::Job { job, pool, waited }) => failover::run(job, pool, request, waited).await,
        Ok(Served::Document(document)) => {
            request.end(RequestOutcome::Ok);
            reply::document(&document, id)
        }
        Err(kind) => {
            request.end(match kind {
                ErrorKind::ShuttingDown | ErrorKind::Busy => RequestOutcome::Failed,
                _ => RequestOutcome::ClientFault,
            });
            refuse(&kind)
        }
    }
}

/// What a good request wants.
enum Served {
    Job {
        /// On the heap, because it passes through several futures that would each hold it.
        job: Box<Job>,
        pool: Arc<Pool>,
        /// What the caller took to send its body.
        waited: Duration,
    },
    Document(serde_json::Value),
}

async fn serve(
    worker: &Worker,
    snapshot: &Arc<Snapshot>,
    caller: &Caller,
    route: Route<'_>,
    asking: Asking<'_>,
    trace: Option<&RequestTrace>,
) -> Result<Served, ErrorKind> {
    let Asking { head, body, id, .. } = asking;
    if !route.takes(&head.method) {
        Box::pin(body::pass_over(body, &head.headers, &snapshot.limits)).await;
        return Err(ErrorKind::MethodNotAllowed {
            allow: route.allow(),
        });
    }
    let told = head.extensions.get::<ConflictingLength>();
    let fault = told
        .map(|_| headers::BOTH_LENGTHS)
        .or_else(|| headers::conflicting_length(&head.headers))
        .or_else(|| headers::host_fault(head.version, &head.headers));
    if let Some(fault) = fault {
        return Err(ErrorKind::BadRequest {
            message: format!("{fault}."),
            field: None,
        });
    }
    let dialect = route.dialect;
    if dialect.lists_models() {
        return catalogue::answer(snapshot, caller, &route).map(Served::Document);
    }
    caller.withhold_key(&mut head.headers);
    let tail = route.tail.to_owned();
    let in_path = route.model.map(std::borrow::Cow::into_owned);
    let upload_began = clock::now();
    let shutdown = worker.deadline();
    let held = {
        let limits = &snapshot.limits;
        let share = worker.bodies().share(limits.bodies_max_bytes);
        let mut reading = pin!(body::read(body, &mut head.headers, limits, share));
        poll_fn(|cx| shutdown.bound(reading.as_mut().poll(cx))).await
    };
    let held = held
        .ok_or(ErrorKind::ShuttingDown)?
        .map_err(|unread| unread.refusal(&snapshot.limits))?;
    let body = held.bytes;
    let waited = clock::now().saturating_duration_since(upload_began);
    let Named {
        model,
        places,
        streams,
    } = named(&body, dialect, in_path)?;
    let model = match model {
        Some(model) => model,
        None => unnamed::pool(snapshot, caller, &head.headers, dialect)?,
    };
    if let Some(trace) = trace {
        trace.asks_for(&model);
    }
    let pool = resolve(snapshot, caller, &model, dialect)?;
    if let Some(trace) = trace {
        trace.resolved(&model, &pool.name);
    }
    let query = caller.query_without_key(head.uri.query());
    let Unmarked {
        kept_at,
        cleaned,
        tail,
        query,
    } = marks::take_off(&pool, dialect, &body, tail, query)?;
    let mut headers = std::mem::take(&mut head.headers);
    let mut body = body;
    if streams {
        // It may take a long time, for which a whole network buffer would be kept.
        head.uri = Uri::default();
        headers::detach(&mut headers);
        if body.len() <= DETACH_MAX_BYTES {
            body = Bytes::copy_from_slice(&body);
        }
    }
    let job = Box::new(Job {
        client: worker.client(),
        snapshot: Arc::clone(snapshot),
        asked: Asked {
            method: head.method.clone(),
            dialect,
            tail,
            headers,
            body,
            model: places,
            model_name: model,
            kept_at,
            cleaned,
            streams,
            query,
        },
        request_id: id.clone(),
        _share: held.share,
    });
    Ok(Served::Job { job, pool, waited })
}

/// What the caller named.
struct Named {
    /// `None` where the operation has a default and the body names none.
    model: Option<String>,
    places: ModelPlaces,
    /// The answer is to be an event stream.
    streams: bool,
}

fn named(body: &Bytes, dialect: Dialect, in_path: Option<String>) -> Result<Named, ErrorKind> {
    let unfit = |error: locate::LocateError| ErrorKind::BadRequest {
        message: format!("{error}."),
        field: error.field().map(str::to_owned),
    };
    if let (true, Some(model)) = (dialect.has_model_in_path(), &in_path) {
        return Ok(Named {
            model: Some(model.clone()),
            places: ModelPlaces::Both(locate::model_names(dialect.vendor(), body).map_err(unfit)?),
            streams: dialect.operation() == Operation::ChatStream,
        });
    }
    if dialect.is_collection() {
        return Ok(Named {
            model: in_path,
            places: ModelPlaces::Path,
            streams: false,
        });
    }
    let located = match locate::locate(body) {
        Err(locate::LocateError::MissingModel) if dialect.is_judged_by_status() => {
            return Ok(Named {
                model: in_path,
                places: ModelPlaces::Path,
                streams: false,
            });
        }
        located => located.map_err(unfit)?,
    };
    Ok(Named {
        model: in_path.or_else(|| Some(located.model_name.into_owned())),
        places: ModelPlaces::Body(located.model),
        streams: located.stream,
    })
}

/// What serves the name, which must be the caller's to use.
fn of_caller<'a>(
    snapshot: &'a Snapshot,
    caller: &Caller,
    model: &str,
) -> Result<&'a Arc<Pool>, ErrorKind> {
    let pool = snapshot.route(model).ok_or_else(|| ErrorKind::NotFound {
        model: model.to_owned(),
    })?;
    // A lane may be named with its provider before it.
    let lane = pool.members.first().filter(|_| pool.name.is_direct());
    if !caller.may_use(model) && !lane.is_some_and(|member| caller.may_use(member.lane.name())) {
        return Err(ErrorKind::Forbidden {
            model: model.to_owned(),
        });
    }
    Ok(pool)
}

fn resolve(
    snapshot: &Snapshot,
    caller: &Caller,
    model: &str,
    dialect: Dialect,
) -> Result<Arc<Pool>, ErrorKind> {
    let pool = of_caller(snapshot, caller, model)?;
    let falls_back = matches!(pool.on_exhausted, OnExhausted::FallbackPool(_));
    if !pool.speaks(dialect.protocol()) && !pool.is_reached_by(dialect) && !falls_back {
        return Err(ErrorKind::BadRequest {
            message: format!(
                "No lane of \"{model}\" speaks {}, and this operation is not translated. Use a \
                 client for {}.",
                dialect.protocol().as_str(),
                pool.protocols().join(" or ")
            ),
            field: Some("model".to_owned()),
        });
    }
    Ok(Arc::clone(pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server sets this much aside for every connection, also an idle one.
    const FUTURE_MAX_BYTES: usize = 3 * 1024 + 256;

    fn size_of_output<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn idle_connections_are_light() {
        let bytes = size_of_output(|worker: &'static Worker, request| handle(worker, request));
        assert!(bytes <= FUTURE_MAX_BYTES, "{bytes}");
    }
}
