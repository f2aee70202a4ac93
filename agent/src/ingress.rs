//! From a caller's request to the failover loop: path, key, body, model name.
//!
//! Everything wrong with a request is found here, before any lane is touched, and told in the
//! caller's dialect.

mod body;
mod catalogue;
pub(crate) mod path;

use crate::attempt::Asked;
use crate::clients::{Caller, Refused};
use crate::clock;
use crate::failover::{self, Job};
use crate::metrics::RequestOutcome;
use crate::plane::Worker;
use crate::pool::Pool;
use crate::protocol::error_body::ErrorKind;
use crate::protocol::{Dialect, headers, locate};
use crate::reply::{self, Body, RequestId};
use crate::snapshot::Snapshot;
use crate::visit::Visit;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use lanekeeper_model::gateway::OnExhausted;
use lanekeeper_serve::ConflictingLength;
use path::Route;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Retry-After of an agent whose places are all taken, or that has no configuration yet.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(2);

/// Answers one request.
pub(crate) async fn handle(worker: &Worker, request: Request<Incoming>) -> Response<Body> {
    let began = clock::now();
    let id = RequestId::of(request.headers());
    let uri = request.uri().clone();
    let found = path::route(uri.path(), request.headers());
    let dialect = match &found {
        Ok(route) => route.dialect,
        Err(unknown) => unknown.dialect,
    };
    let refuse = |kind: &ErrorKind| reply::refuse(dialect, kind, &id);
    let Some(snapshot) = worker.snapshot() else {
        return refuse(&ErrorKind::Exhausted {
            retry_after: BUSY_RETRY_AFTER,
        });
    };
    let most = snapshot.limits.inbound_max;
    let Some(mut visit) = Visit::begin(worker.counters(), most, worker.cut(), began) else {
        return refuse(&ErrorKind::Exhausted {
            retry_after: BUSY_RETRY_AFTER,
        });
    };
    let caller = match snapshot.clients.admit(request.headers()) {
        Ok(caller) => caller,
        Err(refused) => {
            visit.end(RequestOutcome::ClientFault);
            return refuse(&match refused {
                Refused::Unknown => ErrorKind::Unauthorized,
                Refused::Busy => ErrorKind::RateLimited {
                    retry_after: BUSY_RETRY_AFTER,
                },
            });
        }
    };
    let served = match found {
        Ok(route) => serve(worker, &snapshot, &caller, route, request, &id).await,
        Err(_) => Err(ErrorKind::NoRoute),
    };
    visit.hold(caller);
    match served {
        Ok(Served::Job { job, pool, waited }) => failover::run(job, pool, visit, waited).await,
        Ok(Served::Document(document)) => {
            visit.end(RequestOutcome::Ok);
            reply::document(&document, &id)
        }
        Err(kind) => {
            visit.end(match kind {
                ErrorKind::ShuttingDown => RequestOutcome::Failed,
                _ => RequestOutcome::ClientFault,
            });
            refuse(&kind)
        }
    }
}

/// What a good request wants.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is nearly every request, and boxing it would cost each of them"
)]
enum Served {
    Job {
        job: Job,
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
    request: Request<Incoming>,
    id: &RequestId,
) -> Result<Served, ErrorKind> {
    if request.method() != route.method() {
        return Err(ErrorKind::MethodNotAllowed {
            allow: route.allow(),
        });
    }
    let told = request.extensions().get::<ConflictingLength>();
    let fault = told
        .map(|_| headers::BOTH_LENGTHS)
        .or_else(|| headers::conflicting_length(request.headers()))
        .or_else(|| headers::host_fault(request.version(), request.headers()));
    if let Some(fault) = fault {
        return Err(ErrorKind::BadRequest {
            message: format!("{fault}."),
            field: None,
        });
    }
    if route.dialect == Dialect::OpenAiModels {
        let named = route.model.as_deref();
        return catalogue::answer(snapshot, caller, named).map(Served::Document);
    }
    let dialect = route.dialect;
    let query = request.uri().query().map(str::to_owned);
    let in_path = route.model.map(std::borrow::Cow::into_owned);
    let (head, incoming) = request.into_parts();
    let upload_began = clock::now();
    let cut = worker.cut();
    let body = tokio::select! {
        biased;
        body = body::read(incoming, &head.headers, &snapshot.limits) => body?,
        () = cut.cancelled() => return Err(ErrorKind::ShuttingDown),
    };
    let waited = clock::now().saturating_duration_since(upload_began);
    let Named {
        model,
        range,
        streams,
    } = named(&body, dialect, in_path)?;
    let pool = resolve(snapshot, caller, &model, dialect)?;
    let job = Job {
        client: worker.client(),
        snapshot: Arc::clone(snapshot),
        asked: Asked {
            dialect,
            headers: head.headers,
            body,
            model: range,
            streams,
            query,
        },
        request_id: id.clone(),
    };
    Ok(Served::Job { job, pool, waited })
}

/// What the caller named.
struct Named {
    model: String,
    /// Where the model's name stands in the body; `None` when the path carries it.
    range: Option<Range<usize>>,
    /// The answer shall be an event stream.
    streams: bool,
}

fn named(body: &Bytes, dialect: Dialect, in_path: Option<String>) -> Result<Named, ErrorKind> {
    if let (true, Some(model)) = (path::carries_model(dialect), &in_path) {
        return Ok(Named {
            model: model.clone(),
            range: None,
            streams: dialect == Dialect::GeminiStream,
        });
    }
    let located = locate::locate(body).map_err(|error| ErrorKind::BadRequest {
        message: format!("{error}."),
        field: error.field().map(str::to_owned),
    })?;
    Ok(Named {
        model: in_path.unwrap_or_else(|| located.model_name.into_owned()),
        range: Some(located.model),
        streams: located.stream,
    })
}

fn resolve(
    snapshot: &Snapshot,
    caller: &Caller,
    model: &str,
    dialect: Dialect,
) -> Result<Arc<Pool>, ErrorKind> {
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
    let falls_back = matches!(pool.on_exhausted, OnExhausted::FallbackPool(_));
    if !pool.speaks(dialect.protocol()) && !falls_back {
        return Err(ErrorKind::BadRequest {
            message: format!(
                "No lane of \"{model}\" speaks {}, and this gateway does not translate. Use a \
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
    const FUTURE_MAX_BYTES: usize = 6 * 1024;

    fn size_of_output<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn idle_connections_are_light() {
        let bytes = size_of_output(|worker: &'static Worker, request| handle(worker, request));
        assert!(bytes <= FUTURE_MAX_BYTES, "{bytes}");
    }
}
