//! What an attempt leads to: its answer goes to the caller, the same lane is asked again, or the
//! next member has its turn.
//!
//! This is where an attempt is booked: on its guard for the lane, on the request's for the caller.

use super::{Last, Route};
use crate::clock;
use crate::lanes::attempt_guard::AttemptGuard;
use crate::lanes::pool::{Member, Pool};
use crate::observe::metrics::RequestOutcome;
use crate::proof::{Circumstances, Proof};
use crate::request::attempt::{Answer, AnswerBody, Attempted};
use crate::request::guard::RequestGuard;
use crate::request::relay::{Origin, Relay};
use crate::request::reply::{self, Body};
use http::{HeaderMap, Response};
use lanekeeper_breaker::CauseKind;
use lanekeeper_model::gateway::{EmptyAnswer, OnAuthDown, Protocol};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::error_body::ErrorKind;
use lanekeeper_protocol::headers;
use lanekeeper_protocol::verdict::{Disposition, Verdict};
use std::sync::Arc;

/// Longest answer of a lane that is kept to be relayed when no other serves.
const RELAYED_MAX_BYTES: usize = 64 * 1024;

/// What one attempt leads to.
pub(super) enum Conclusion {
    /// The caller's answer.
    Done(Response<Body>),
    /// It failed and is booked; nothing has reached the caller.
    Failed(Box<RequestGuard>, Retry),
}

/// Whether the same lane is asked again.
pub(super) enum Retry {
    Never,
    AtOnce,
    AfterBackoff,
}

/// What is left of the retries on one lane.
#[derive(Default)]
pub(super) struct Retries {
    /// After transient failures.
    pub(super) transient: u32,
    /// After an empty answer, which is asked for once more where the provider says so.
    pub(super) empty_answer: bool,
}

impl Retries {
    /// Those of an attempt in `pool`.
    pub(super) fn of(pool: &Pool) -> Self {
        Self {
            transient: pool.failover.same_lane_retries,
            empty_answer: true,
        }
    }
}

impl Route<'_> {
    /// Books an attempt that is over or whose answer goes to the caller.
    pub(super) fn conclude(
        &mut self,
        attempted: Attempted,
        member: &Member,
        guard: Box<AttemptGuard>,
        request: Box<RequestGuard>,
        left: &Retries,
    ) -> Conclusion {
        match attempted {
            Attempted::Content(answer) => Conclusion::Done(self.deliver(answer, guard, request)),
            Attempted::Empty(answer)
                if member.lane.provider.empty_answer == EmptyAnswer::Neutral =>
            {
                let booking = (Proof::Neutral, RequestOutcome::Ok);
                Conclusion::Done(self.relay(answer, guard, request, booking))
            }
            Attempted::Empty(_) if left.empty_answer => {
                guard.settle(Proof::Neutral, Circumstances::default(), clock::now());
                self.reason = Some(CauseKind::EmptyAnswer.as_str());
                self.progress.last = Last::Failed;
                Conclusion::Failed(request, Retry::AtOnce)
            }
            Attempted::Empty(_) => {
                let verdict = Verdict::transient(CauseKind::EmptyAnswer);
                self.fail(verdict, None, member, *guard, request, left)
            }
            Attempted::Failed(verdict, Some(answer))
                if matches!(
                    verdict.disposition,
                    Disposition::ClientFault | Disposition::Neutral
                ) =>
            {
                let booking = (Proof::of(&verdict), RequestOutcome::ClientFault);
                Conclusion::Done(self.relay(answer, guard, request, booking))
            }
            Attempted::Failed(verdict, answer) => {
                self.fail(verdict, answer, member, *guard, request, left)
            }
        }
    }

    /// Books a failure of the lane.
    fn fail(
        &mut self,
        verdict: Verdict,
        answer: Option<Answer>,
        member: &Member,
        guard: AttemptGuard,
        request: Box<RequestGuard>,
        left: &Retries,
    ) -> Conclusion {
        let circumstances = self.circumstances(&verdict);
        let proof = Proof::of(&verdict);
        self.progress.hard_down |= matches!(proof, Proof::HardDown { .. });
        guard.settle(proof, circumstances, clock::now());
        if verdict.disposition == Disposition::HardDownAuth
            && self.pool.on_auth_down == OnAuthDown::Surface
        {
            let response = self.refuse(&ErrorKind::UpstreamAuth);
            request.end(RequestOutcome::Failed);
            return Conclusion::Done(response);
        }
        let may_retry = left.transient > 0
            && verdict.disposition == Disposition::Transient
            && verdict.retry_after.is_none();
        self.note(verdict, answer, member);
        let retry = if may_retry {
            Retry::AfterBackoff
        } else {
            Retry::Never
        };
        Conclusion::Failed(request, retry)
    }

    /// Whether another lane has failed this request with the same 5xx before.
    fn circumstances(&mut self, verdict: &Verdict) -> Circumstances {
        let status = verdict
            .status
            .filter(|status| (500..600).contains(status))
            .filter(|_| verdict.disposition == Disposition::Transient);
        let repeated = status.is_some_and(|status| {
            let before =
                self.progress.statuses.iter().any(|(lane, seen)| {
                    *seen == status && Some(lane) != self.progress.tried.last()
                });
            if let Some(lane) = self.progress.tried.last() {
                self.progress.statuses.push((*lane, status));
            }
            before
        });
        Circumstances {
            after_content: false,
            repeated,
            hard_down_before: self.progress.hard_down,
        }
    }

    fn note(&mut self, verdict: Verdict, answer: Option<Answer>, member: &Member) {
        self.reason = Some(verdict.cause.kind.as_str());
        self.progress.last_status = verdict.status;
        self.progress.limits = HeaderMap::new();
        if verdict.status == Some(429)
            && let Some(answer) = &answer
        {
            self.progress.limits = headers::limits(&answer.head.headers);
        }
        // Only an answer that is all here can wait for the end of the request.
        let answer = answer.filter(|answer| matches!(answer.body, AnswerBody::Whole(_)));
        self.progress.last = match verdict.disposition {
            Disposition::ContextLength => {
                let too_small = member.context_max.unwrap_or_default();
                let known = self.progress.larger_than.unwrap_or_default();
                self.progress.larger_than = Some(known.max(too_small));
                Last::TooLong(answer.map(Box::new))
            }
            Disposition::HardDownModel => Last::ModelMissing(answer.map(Box::new)),
            Disposition::Misunderstood => Last::Misunderstood(answer.map(Box::new)),
            Disposition::Neutral => Last::OutOfTime,
            Disposition::Local => Last::Local,
            Disposition::HardDownAuth => Last::Auth,
            Disposition::Transient => {
                if self.pool.relays_last_error {
                    let fit =
                        answer.filter(|answer| may_relay(answer, member, self.spoken().protocol()));
                    self.progress.last_answer = fit.map(Box::new);
                }
                match verdict.status {
                    Some(429) => Last::RateLimited(verdict.retry_after),
                    _ => Last::Failed,
                }
            }
            Disposition::Success
            | Disposition::HardDownBilling
            | Disposition::ClientFault
            | Disposition::Empty => Last::Failed,
        };
    }

    /// What the last lane was asked in.
    fn spoken(&self) -> Dialect {
        self.progress.spoken.unwrap_or(self.job.asked.dialect)
    }

    /// The answer goes to the caller: from now on there is no other lane for this request.
    fn deliver(
        &self,
        answer: Answer,
        mut guard: Box<AttemptGuard>,
        request: Box<RequestGuard>,
    ) -> Response<Body> {
        let waits = matches!(&answer.body, AnswerBody::Running(running) if !running.content);
        if !waits {
            let now = clock::now();
            if matches!(answer.body, AnswerBody::Whole(_)) {
                guard.commit_whole(now);
            } else {
                guard.commit(now);
            }
            request.first_content(now);
        }
        let booking = (Proof::Success, RequestOutcome::Ok);
        self.relay(answer, guard, request, booking)
    }

    /// Hands a lane's answer to the caller; `booking` is what a whole delivery proves.
    fn relay(
        &self,
        answer: Answer,
        mut guard: Box<AttemptGuard>,
        request: Box<RequestGuard>,
        booking: (Proof, RequestOutcome),
    ) -> Response<Body> {
        // A refused request has cost the lane nothing that its budget stands for.
        if answer.head.status.is_success() {
            guard.deliver();
        }
        let body = match answer.body {
            AnswerBody::Whole(bytes) => {
                guard.settle(booking.0, Circumstances::default(), clock::now());
                request.end(booking.1);
                Body::Whole(Some(bytes))
            }
            AnswerBody::Running(running) => {
                let origin = Origin {
                    dialect: self.job.asked.dialect,
                    spoken: self.spoken(),
                    request_id: self.job.request_id.as_str().to_owned(),
                    passthrough: self.passes_credential(),
                    counters: Arc::clone(request.counters()),
                    shutdown: request.shutdown(),
                };
                let relay = Relay::new(running, origin, guard, request, booking);
                Body::Relay(Box::new(relay))
            }
        };
        let mut response = reply::relay(answer.head, body, &self.job.request_id);
        reply::mark(&mut response, &self.provenance());
        response
    }
}

/// True for a failure that the caller may see in the lane's own words: an error, short, and nothing
/// about the gateway's account or with its key in it.
fn may_relay(answer: &Answer, member: &Member, protocol: Protocol) -> bool {
    let status = answer.head.status;
    let is_error = status.is_client_error() || status.is_server_error();
    let is_of_account = matches!(status.as_u16(), 401..=403 | 407);
    let AnswerBody::Whole(bytes) = &answer.body else {
        return false;
    };
    let headers = member.lane.provider.credential.headers(protocol);
    is_error
        && !is_of_account
        && bytes.len() <= RELAYED_MAX_BYTES
        && headers.is_some_and(|headers| !headers.is_in(bytes))
}
