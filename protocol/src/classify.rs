//! Stage two of classification: what an answer proves about a lane.
//!
//! The order is fixed. An operator's `error_map` wins by whole codes on anything but a 5xx; then
//! the vendors' own codes; then the status. Prose is read only where a vendor gives nothing else,
//! and then only as an anchored phrase on the status that vendor uses: loose words such as "quota"
//! turn refillable limits into dead lanes. A 5xx is an outage whatever its body claims.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use lanekeeper_model::gateway::ErrorMeaning;
use lanekeeper_model::{Cause, CauseKind};

use super::error_signal::ErrorSignal;
use super::{Protocol, retry_after};

/// Status of Anthropic's and others' "overloaded".
const OVERLOADED: u16 = 529;

/// What classification needs to know about the lane and the pool.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// What the provider speaks.
    pub protocol: Protocol,
    /// The provider's own codes, by the operator.
    pub error_map: &'a BTreeMap<String, ErrorMeaning>,
    /// True when the caller's own credential went upstream, so that a refused credential or an
    /// empty purse is the caller's.
    pub passthrough: bool,
}

/// What happens because of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// Relay it; the lane works.
    Success,
    /// The lane failed; try another member.
    Transient,
    /// The gateway's credential is refused; try another member.
    HardDownAuth,
    /// No money left; try another member, never relay.
    HardDownBilling,
    /// Too long for this model; try a larger member, no penalty.
    ContextLength,
    /// The caller's mistake; relay it, nothing recorded.
    ClientFault,
    /// A well-formed answer that says nothing.
    Empty,
}

/// The judgement on one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What happens because of it.
    pub disposition: Disposition,
    /// Why, for cells, metrics and reports.
    pub cause: Cause,
    /// How long the upstream asked to be left alone; only with a transient disposition.
    pub retry_after: Option<Duration>,
    /// The vendor's code that decided, else its most telling one.
    pub code: Option<String>,
    /// The answer's status, or the one an error inside a 200 stands for.
    pub status: Option<u16>,
}

impl Verdict {
    /// A verdict about something that is no answer: a cut stream, a stalled one, a bad body.
    #[must_use]
    pub const fn transient(kind: CauseKind) -> Self {
        Self {
            disposition: Disposition::Transient,
            cause: Cause { kind, status: None },
            retry_after: None,
            code: None,
            status: None,
        }
    }
}

/// Judges an answer by its status, headers and the first bytes of its body. `unix_now` is the wall
/// clock since the epoch. A 2xx is a success here; its body is judged by [`super::answer`] and
/// [`super::frames`].
#[must_use]
pub fn response(
    rules: Rules<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    unix_now: Duration,
) -> Verdict {
    if status.is_success() {
        return Verdict {
            disposition: Disposition::Success,
            cause: Cause {
                kind: CauseKind::Status,
                status: Some(status.as_u16()),
            },
            retry_after: None,
            code: None,
            status: Some(status.as_u16()),
        };
    }
    let signal = ErrorSignal::from_body(rules.protocol, headers, body);
    let now = UNIX_EPOCH.checked_add(unix_now).unwrap_or(UNIX_EPOCH);
    let hint = retry_after::from_headers(headers, now).max(signal.retry_after);
    judge(rules, status.as_u16(), &signal, hint, CauseKind::Status)
}

/// Judges an error that came inside a 200: an error frame, or an error object as the whole body.
/// The status it stands for is its numeric code, else the one its vendor uses for its codes, else
/// it is a failure of the lane.
#[must_use]
pub fn embedded(rules: Rules<'_>, signal: &ErrorSignal) -> Verdict {
    let status = signal
        .codes
        .iter()
        .find_map(|code| status_of(code))
        .unwrap_or(502);
    judge(
        rules,
        status,
        signal,
        signal.retry_after,
        CauseKind::ErrorFrame,
    )
}

fn judge(
    rules: Rules<'_>,
    status: u16,
    signal: &ErrorSignal,
    hint: Option<Duration>,
    plain: CauseKind,
) -> Verdict {
    let (meaning, code) = meaning(rules, status, signal);
    let disposition = match meaning {
        ErrorMeaning::Auth if rules.passthrough => Disposition::ClientFault,
        ErrorMeaning::Billing if rules.passthrough => Disposition::ClientFault,
        ErrorMeaning::Auth => Disposition::HardDownAuth,
        ErrorMeaning::Billing => Disposition::HardDownBilling,
        ErrorMeaning::ContextLength => Disposition::ContextLength,
        ErrorMeaning::ClientFault => Disposition::ClientFault,
        ErrorMeaning::RateLimit | ErrorMeaning::Overloaded | ErrorMeaning::Transient => {
            Disposition::Transient
        }
    };
    let kind = match meaning {
        ErrorMeaning::Auth => CauseKind::Auth,
        ErrorMeaning::Billing => CauseKind::Billing,
        ErrorMeaning::RateLimit => CauseKind::RateLimit,
        ErrorMeaning::Overloaded => CauseKind::Overloaded,
        _ if (300..400).contains(&status) => CauseKind::Redirect,
        ErrorMeaning::ContextLength | ErrorMeaning::ClientFault | ErrorMeaning::Transient => plain,
    };
    Verdict {
        disposition,
        cause: Cause {
            kind,
            status: Some(status),
        },
        retry_after: hint.filter(|_| disposition == Disposition::Transient),
        code: code.or_else(|| signal.codes.first().cloned()),
        status: Some(status),
    }
}

/// What the answer means, and the code that decided.
fn meaning(rules: Rules<'_>, status: u16, signal: &ErrorSignal) -> (ErrorMeaning, Option<String>) {
    if status >= 500 {
        let overloaded =
            status == OVERLOADED || signal.codes.iter().any(|code| code == "overloaded_error");
        let meaning = if overloaded {
            ErrorMeaning::Overloaded
        } else {
            ErrorMeaning::Transient
        };
        return (meaning, None);
    }
    for code in &signal.codes {
        if let Some(meaning) = rules.error_map.get(code) {
            return (*meaning, Some(code.clone()));
        }
    }
    for code in &signal.codes {
        if let Some(meaning) = known_code(rules.protocol, status, code) {
            return (meaning, Some(code.clone()));
        }
    }
    if let Some(meaning) = known_message(rules.protocol, status, &signal.message) {
        return (meaning, None);
    }
    let by_status = match status {
        401 | 403 => ErrorMeaning::Auth,
        402 => ErrorMeaning::Billing,
        408 => ErrorMeaning::Transient,
        429 => ErrorMeaning::RateLimit,
        400..=499 => ErrorMeaning::ClientFault,
        _ => ErrorMeaning::Transient,
    };
    (by_status, None)
}

/// Codes the vendors document, as whole words.
fn known_code(protocol: Protocol, status: u16, code: &str) -> Option<ErrorMeaning> {
    match code {
        "insufficient_quota"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "billing_error" => Some(ErrorMeaning::Billing),
        "context_length_exceeded" | "exceed_context_size_error" if matches!(status, 400 | 413) => {
            Some(ErrorMeaning::ContextLength)
        }
        "API_KEY_INVALID" if protocol == Protocol::Gemini && status == 400 => {
            Some(ErrorMeaning::Auth)
        }
        _ => None,
    }
}

/// Phrases of vendors that give no code of their own.
fn known_message(protocol: Protocol, status: u16, message: &str) -> Option<ErrorMeaning> {
    if !matches!(status, 400 | 413) {
        return None;
    }
    let text = message.trim().to_ascii_lowercase();
    if protocol == Protocol::Anthropic
        && status == 400
        && text.starts_with("your credit balance is too low")
    {
        return Some(ErrorMeaning::Billing);
    }
    is_context_length(protocol, &text).then_some(ErrorMeaning::ContextLength)
}

/// True for the sentences with which vendors and self-hosted servers say that the input does not
/// fit. Complaints about the output limit are the caller's and must not match.
fn is_context_length(protocol: Protocol, text: &str) -> bool {
    let between = |start: &str, inner: &str| text.starts_with(start) && text.contains(inner);
    match protocol {
        Protocol::Anthropic => {
            text.starts_with("prompt is too long")
                || text.starts_with("input is too long for requested model")
                || text.starts_with("input length and `max_tokens` exceed context limit")
        }
        Protocol::Gemini => {
            between(
                "the input token count",
                "exceeds the maximum number of tokens allowed",
            ) || text.starts_with("unable to submit request because the input token count is")
        }
        Protocol::Cohere => text.starts_with("too many tokens:"),
        Protocol::Openai | Protocol::Responses => {
            text.starts_with("this model's maximum context length is")
                || text.starts_with("this model's maximum prompt length is")
                || text.starts_with("this endpoint's maximum context length is")
                || between("input of ", "longer than the model's context length")
                || between("the input (", "longer than the model's context length")
                || between("prompt contains ", "too large for model")
                || text.starts_with("your input exceeds the context window of this model")
                || text.starts_with("your request exceeded model token limit")
                || text.starts_with("invalid request: your request exceeded model token limit")
                || text.starts_with("the request exceeds the available context size")
                || between("request (", "exceeds the available context size")
                || between("input validation error: `inputs` tokens", "must be <=")
                || text.starts_with("prompt is too long")
                || text.starts_with("the prompt is too long")
        }
    }
}

/// The status an error code stands for when it travels inside a 200.
fn status_of(code: &str) -> Option<u16> {
    if let Ok(number) = code.parse::<u16>() {
        return (400..600).contains(&number).then_some(number);
    }
    Some(match code {
        "invalid_request_error"
        | "invalid_prompt"
        | "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION"
        | "context_length_exceeded"
        | "exceed_context_size_error" => 400,
        "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => 401,
        "billing_error" => 402,
        "permission_error" | "PERMISSION_DENIED" => 403,
        "not_found_error" | "model_not_found" | "NOT_FOUND" => 404,
        "request_too_large" => 413,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "insufficient_quota"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "RESOURCE_EXHAUSTED" => 429,
        "api_error" | "server_error" | "INTERNAL" => 500,
        "UNAVAILABLE" => 503,
        "timeout_error" | "DEADLINE_EXCEEDED" => 504,
        "overloaded_error" | "server_is_overloaded" => OVERLOADED,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
