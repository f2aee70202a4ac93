//! The loop of one request: choose a member, try it, and go on to the next until an answer's
//! content has begun or nothing is left.
//!
//! Every attempt starts from the caller's untouched body. No lane is chosen twice, and one deadline
//! covers hops, fallback pools and the queue together.

use crate::clock;
use crate::lanes::attempt_guard::AttemptGuard;
use crate::lanes::lane::Lane;
use crate::lanes::pool::{Chosen, Demand, Exhaustion, Member, Pool};
use crate::lanes::snapshot::Snapshot;
use crate::observe::metrics::RequestOutcome;
use crate::observe::trace::Destination;
use crate::request::attempt::{self, Answer, AnswerBody, Asked, Bounds, Outbound, Translation};
use crate::request::guard::RequestGuard;
use crate::request::held_open;
use crate::request::ingress::budget::Share;
use crate::request::reply::{self, Body, Provenance, RequestId};
use crate::upstream::Client;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use lanekeeper_model::PoolName;
use lanekeeper_model::gateway::{Protocol, UpstreamCredentials};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::error_body::{ErrorKind, Shortage};
use lanekeeper_protocol::translation::Refusal;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod conclude;
mod exhausted;

use conclude::{Conclusion, Retries, Retry};
use exhausted::unfit;

/// Retry-After when no member gives a better one: all are dead or out of budget.
const RETRY_AFTER_UNKNOWN: Duration = Duration::from_secs(30);
/// Retry-After when lanes failed this request and none is benched for it: the next request is
/// tried at once, so there is no reason to keep its caller away for long.
const RETRY_AFTER_UNBENCHED: Duration = Duration::from_secs(2);
/// What the answer says of a call whose further attempts the pool's retry budget did not allow.
const RETRY_BUDGET: &str = "retry_budget";
/// The backoff between tries on one lane doubles at most this often.
const MAX_BACKOFF_DOUBLINGS: u32 = 6;

/// A request that is about to be served.
pub(crate) struct Job {
    pub(crate) client: Client,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) asked: Asked,
    pub(crate) request_id: RequestId,
    /// Room for the body, held while attempts begin from it.
    pub(crate) _share: Share,
}

/// What the attempts so far have shown.
#[derive(Default)]
struct Progress {
    /// Lanes tried, over all pools.
    tried: Vec<u32>,
    /// The 5xx statuses this request has met, and where, for the poison guard.
    statuses: Vec<(u32, u16)>,
    /// A lane was benched for its credential or account.
    hard_down: bool,
    /// The largest context that was too small.
    larger_than: Option<u64>,
    /// Attempts made.
    attempts: u32,
    /// The lane of the last attempt.
    lane: Option<HeaderValue>,
    degraded: Option<&'static str>,
    last: Last,
    /// The status of the last lane that answered.
    last_status: Option<u16>,
    /// The last lane's own answer, where the pool may relay it.
    last_answer: Option<Box<Answer>>,
    /// The limits that the last lane named with a 429.
    limits: HeaderMap,
    /// Lanes of other protocols that cannot be asked this, and why.
    unfit: Vec<(HeaderValue, Refusal)>,
    /// What the last lane was asked in.
    spoken: Option<Dialect>,
    /// What the translation for it left out or changed.
    dropped: Option<HeaderValue>,
}

/// What the last attempt ended with.
#[derive(Default)]
enum Last {
    /// There was none.
    #[default]
    None,
    /// A failure without more to say.
    Failed,
    /// "Too many requests", with the Retry-After hint.
    RateLimited(Option<Duration>),
    /// The gateway's credential was refused.
    Auth,
    /// The request is too long; the lane's own message.
    TooLong(Option<Box<Answer>>),
    /// The provider does not have the operator's model; its own answer.
    ModelMissing(Option<Box<Answer>>),
    /// The lane refuses what a translation put into the request; its own answer.
    Misunderstood(Option<Box<Answer>>),
    /// The time for the whole request was over while the lane lived.
    OutOfTime,
    /// The agent itself had no room for an attempt.
    Local,
}

/// What one attempt leads to.
enum Step {
    Done(Response<Body>),
    Next(Box<RequestGuard>),
}

/// One request on its way.
struct Route<'a> {
    job: &'a Job,
    pool: Arc<Pool>,
    /// Pools left behind, for the guard against loops.
    visited: Vec<PoolName>,
    deadline: Instant,
    session: Option<Vec<u8>>,
    /// Members tried in the present pool.
    members_tried: u32,
    /// Why the last member did not serve.
    reason: Option<&'static str>,
    progress: Progress,
}

/// Serves one request on `pool`. `waited` is what the caller took to send its body.
pub(crate) async fn run(
    job: Box<Job>,
    pool: Arc<Pool>,
    request: Box<RequestGuard>,
    waited: Duration,
) -> Response<Body> {
    let asked = &job.asked;
    let Some(after) = pool.keepalive_after.filter(|_| asked.keeps_open()) else {
        return serve(job, pool, request, waited).await;
    };
    let caller = held_open::Caller {
        dialect: asked.dialect,
        request_id: job.request_id.clone(),
    };
    held_open::answer(serve(job, pool, request, waited), after, caller).await
}

async fn serve(
    job: Box<Job>,
    pool: Arc<Pool>,
    mut request: Box<RequestGuard>,
    waited: Duration,
) -> Response<Body> {
    request.enter(&pool.state);
    let now = clock::now();
    let mut route = Route {
        job: &job,
        visited: Vec::new(),
        deadline: later(now, pool.failover.timeout),
        session: session(&pool, &job.asked),
        members_tried: 0,
        reason: None,
        progress: Progress::default(),
        pool,
    };
    request.dispatched(waited, now);
    let shutdown = request.shutdown();
    let served = {
        let mut serving = pin!(route.serve(request));
        poll_fn(|cx| shutdown.bound(serving.as_mut().poll(cx))).await
    };
    // A caller that still waits when the agent ends is told so; its attempt is given up.
    served.unwrap_or_else(|| route.refuse(&ErrorKind::ShuttingDown))
}

impl Route<'_> {
    async fn serve(&mut self, mut request: Box<RequestGuard>) -> Response<Body> {
        loop {
            let chosen = match self.choose().await {
                Ok(chosen) => chosen,
                Err(exhaustion) => return self.give_up(exhaustion, *request),
            };
            if self.progress.attempts == 0 {
                self.pool.pay_for_retries(clock::now());
            } else if !self.may_retry() {
                drop(chosen);
                return self.give_up(Exhaustion::default(), *request);
            }
            if let Some(reason) = self.reason.take() {
                request.count_failover(reason);
            }
            match self.attempt(chosen, request).await {
                Step::Done(response) => return response,
                Step::Next(back) if !self.job.asked.may_be_repeated() => {
                    return self.give_up(Exhaustion::default(), *back);
                }
                Step::Next(back) => request = back,
            }
        }
    }

    /// Whether the pool's budget allows a further attempt. A call that it ends says so.
    fn may_retry(&mut self) -> bool {
        let may_retry = self.pool.may_retry(clock::now());
        if !may_retry {
            self.progress.degraded = Some(RETRY_BUDGET);
            tracing::debug!(pool = %self.pool.name, "the retry budget is spent");
        }
        may_retry
    }

    fn demand(&self, in_turn: bool) -> Demand<'_> {
        Demand {
            dialect: self.job.asked.dialect,
            translates: self.translates(),
            kept_at: self.job.asked.kept_at,
            tried: &self.progress.tried,
            larger_than: self.progress.larger_than,
            session: self.session.as_deref(),
            endpoint: self.job.asked.dialect.endpoint_name(),
            in_turn,
        }
    }

    /// Tries the chosen member, in place again where the pool says so.
    async fn attempt(&mut self, chosen: Chosen, mut request: Box<RequestGuard>) -> Step {
        let pool = Arc::clone(&self.pool);
        let Some(member) = pool.members.get(chosen.position) else {
            return Step::Next(request);
        };
        self.progress.tried.push(member.lane.number);
        let translation = Translation::of(&self.job.asked, &member.lane, &self.job.request_id);
        let translation = match translation {
            Ok(translation) => translation,
            Err(refusal) => {
                let lane = member.lane.header.clone();
                self.progress.unfit.push((lane, refusal));
                return Step::Next(request);
            }
        };
        let outbound = Outbound {
            asked: &self.job.asked,
            mark: (pool.marks_ids && self.job.asked.dialect.gives_out_ids())
                .then_some(member.lane.mark),
            translation: translation.as_deref(),
            passthrough: self.passes_credential(),
        };
        self.members_tried += 1;
        self.progress.spoken = Some(outbound.dialect());
        self.progress.dropped = { translation.as_ref() }.and_then(|it| it.dropped.clone());
        self.progress.lane = Some(member.lane.header.clone());
        let mut guard = chosen.guard;
        let mut left = if self.job.asked.may_be_repeated() {
            Retries::of(&pool)
        } else {
            Retries::default()
        };
        loop {
            self.progress.attempts += 1;
            if let Some(trace) = request.trace() {
                let protocol = outbound.dialect().protocol();
                guard.traced(trace.attempt(&destination(&member.lane, protocol, &pool.name)));
            }
            let bounds = self.bounds(member);
            let attempted = attempt::attempt(
                &self.job.client,
                &member.lane,
                outbound,
                bounds,
                guard.trace(),
            )
            .await;
            let retry = match self.conclude(attempted, member, guard, request, &left) {
                Conclusion::Done(response) => return Step::Done(response),
                Conclusion::Failed(back, retry) => {
                    request = back;
                    retry
                }
            };
            let retry = match retry {
                Retry::AtOnce | Retry::AfterBackoff if !self.may_retry() => Retry::Never,
                retry => retry,
            };
            let again = match retry {
                Retry::Never => None,
                Retry::AtOnce => {
                    left.empty_answer = false;
                    member.claim_again(self.job.asked.dialect.endpoint_name(), clock::now())
                }
                Retry::AfterBackoff => {
                    let backoff = pool.failover.retry_backoff;
                    let again = self.again(member, backoff, left.transient).await;
                    left.transient = left.transient.saturating_sub(1);
                    again
                }
            };
            match again {
                Some(again) => guard = again,
                None => return Step::Next(request),
            }
        }
    }

    /// True when the pool sends the caller's own credential on.
    fn passes_credential(&self) -> bool {
        self.pool.upstream_credentials == UpstreamCredentials::Passthrough
    }

    /// True when lanes of other protocols may serve. A caller's own credential means nothing to them.
    fn translates(&self) -> bool {
        self.pool.translates && !self.passes_credential()
    }

    /// A further guard on the same lane, after a wait of full jitter.
    async fn again(
        &self,
        member: &Member,
        backoff: Duration,
        left: u32,
    ) -> Option<Box<AttemptGuard>> {
        let done = self.pool.failover.same_lane_retries.saturating_sub(left);
        let ceiling = backoff.saturating_mul(1 << done.min(MAX_BACKOFF_DOUBLINGS));
        let wait = ceiling.mul_f64(clock::jitter());
        let now = clock::now();
        if later(now, wait) >= self.deadline {
            return None;
        }
        tokio::time::sleep(wait).await;
        member.claim_again(self.job.asked.dialect.endpoint_name(), clock::now())
    }

    fn bounds(&self, member: &Member) -> Bounds {
        let now = clock::now();
        let until = |limit: Option<Duration>| {
            limit.map_or(self.deadline, |limit| later(now, limit).min(self.deadline))
        };
        let content = until(member.timeouts.first_content);
        Bounds {
            // Content cannot come before the headers.
            head: until(member.timeouts.headers(self.job.asked.streams)).min(content),
            content,
            request: self.deadline,
            hold: self.pool.failover.hold,
        }
    }

    /// Nothing is left to try.
    fn give_up(&mut self, exhaustion: Exhaustion, request: RequestGuard) -> Response<Body> {
        let soonest = exhaustion.retry_in();
        let last = match std::mem::take(&mut self.progress.last) {
            // A larger member is benched: the request is not too long, only too early.
            Last::TooLong(_) if soonest.is_some_and(|wait| !wait.is_zero()) => Last::Failed,
            last => last,
        };
        let (kind, outcome) = match last {
            Last::TooLong(Some(answer))
            | Last::ModelMissing(Some(answer))
            | Last::Misunderstood(Some(answer)) => {
                return self.relay_last(*answer, request, RequestOutcome::ClientFault);
            }
            Last::Failed | Last::RateLimited(_)
                if let Some(answer) = self.progress.last_answer.take() =>
            {
                let wait = soonest.unwrap_or(RETRY_AFTER_UNBENCHED);
                let mut response = self.relay_last(*answer, request, RequestOutcome::Exhausted);
                reply::hint(&mut response, wait);
                return response;
            }
            Last::OutOfTime => (ErrorKind::Timeout, RequestOutcome::Failed),
            Last::Local => (ErrorKind::Busy, RequestOutcome::Failed),
            Last::TooLong(None) => (
                ErrorKind::BadRequest {
                    message: "The request is too long for every lane of this model.".to_owned(),
                    field: None,
                },
                RequestOutcome::ClientFault,
            ),
            Last::Auth => (ErrorKind::UpstreamAuth, RequestOutcome::Failed),
            Last::RateLimited(own) => (
                ErrorKind::RateLimited {
                    retry_after: own.max(soonest).unwrap_or(RETRY_AFTER_UNBENCHED),
                },
                RequestOutcome::Exhausted,
            ),
            Last::Failed | Last::ModelMissing(None) | Last::Misunderstood(None) => (
                ErrorKind::Exhausted {
                    retry_after: soonest.unwrap_or(RETRY_AFTER_UNBENCHED),
                    shortage: Shortage::UpstreamFailed {
                        status: self.progress.last_status,
                    },
                },
                RequestOutcome::Exhausted,
            ),
            Last::None if self.job.asked.kept_at.is_some() => {
                (ErrorKind::StateElsewhere, RequestOutcome::Exhausted)
            }
            Last::None
                if soonest.is_none()
                    && let Some(kind) = unfit(&self.progress.unfit) =>
            {
                (kind, RequestOutcome::ClientFault)
            }
            Last::None => (
                ErrorKind::Exhausted {
                    retry_after: soonest.unwrap_or(RETRY_AFTER_UNKNOWN),
                    shortage: exhaustion.shortage(),
                },
                RequestOutcome::Exhausted,
            ),
        };
        let mut response = self.refuse(&kind);
        if let Some(status) = self.progress.last_status {
            let status = HeaderValue::from(status);
            response.headers_mut().insert(reply::X_LAST_STATUS, status);
        }
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().extend(self.progress.limits.drain());
        }
        request.end(outcome);
        response
    }

    /// Relays a lane's own answer to a request that no lane served.
    fn relay_last(
        &self,
        answer: Answer,
        request: RequestGuard,
        outcome: RequestOutcome,
    ) -> Response<Body> {
        let body = match answer.body {
            AnswerBody::Whole(bytes) => Body::Whole(Some(bytes)),
            AnswerBody::Running(_) => Body::Whole(None),
        };
        let mut response = reply::relay(answer.head, body, &self.job.request_id);
        reply::mark(&mut response, &self.provenance());
        request.end(outcome);
        response
    }

    fn refuse(&self, kind: &ErrorKind) -> Response<Body> {
        let mut response = reply::refuse(self.job.asked.dialect, kind, &self.job.request_id);
        reply::mark(&mut response, &self.provenance());
        response
    }

    fn provenance(&self) -> Provenance<'_> {
        Provenance {
            lane: self.progress.lane.as_ref(),
            attempts: self.progress.attempts,
            degraded: self.progress.degraded,
            dropped: self.progress.dropped.as_ref(),
        }
    }
}

/// The session the caller names, where the pool keeps sessions on one member.
fn session(pool: &Pool, asked: &Asked) -> Option<Vec<u8>> {
    let affinity = pool.affinity.as_ref()?;
    let value = asked.headers.get(affinity.header_name.as_str())?;
    (!value.is_empty()).then(|| value.as_bytes().to_vec())
}

/// Where an attempt goes, for its span.
fn destination<'a>(lane: &'a Lane, protocol: Protocol, pool: &'a str) -> Destination<'a> {
    let provider = &lane.provider;
    Destination {
        pool,
        lane: lane.name(),
        provider: &provider.name,
        protocol,
        upstream_model: &lane.upstream_model,
        server: provider
            .target
            .as_ref()
            .ok()
            .map(|target| (target.host(), target.port())),
    }
}

fn later(now: Instant, by: Duration) -> Instant {
    now.checked_add(by).unwrap_or(now)
}
