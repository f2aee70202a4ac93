//! Stage two of classification: what an answer proves about a lane.
//!
//! The order is fixed. An operator's `error_map` wins by whole codes on anything but a 5xx; then
//! the vendors' own codes; then the status. Prose is read only where a vendor gives nothing else,
//! and then only as an anchored phrase on the status that vendor uses: loose words such as "quota"
//! turn refillable limits into dead lanes. A 5xx is an outage whatever its body claims.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use http::header::VIA;
use http::{HeaderMap, StatusCode};
use lanekeeper_model::gateway::ErrorMeaning;
use lanekeeper_model::{Cause, CauseKind};

use crate::dialect::Vendor;
use crate::error_kind::PSEUDONYM;
use crate::response::error_signal::ErrorSignal;
use crate::response::retry_after;
use crate::vendor;

/// Status of Anthropic's and others' "overloaded".
const OVERLOADED: u16 = 529;

/// What classification needs to know about the lane and the pool.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Whose protocol the provider speaks.
    pub vendor: &'a dyn Vendor,
    /// The provider's own codes, by the operator.
    pub error_map: &'a BTreeMap<String, ErrorMeaning>,
    /// True when the caller's own credential went upstream, so that whatever is said about a
    /// credential, an account or its limits is the caller's.
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
    /// The provider does not have the operator's model; try another member, relay when none is left.
    HardDownModel,
    /// Too long for this model; try a larger member, no penalty.
    ContextLength,
    /// The caller's mistake; relay it, nothing recorded.
    ClientFault,
    /// An answer about the caller's own account, or about the way that its request took: relay it,
    /// nothing recorded.
    Neutral,
    /// The agent itself failed; try another member, nothing recorded.
    Local,
    /// The lane refuses something that a translation put into the request; try another member,
    /// nothing recorded, relay when none is left.
    Misunderstood,
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
        Self::without_answer(Disposition::Transient, kind)
    }

    const fn without_answer(disposition: Disposition, kind: CauseKind) -> Self {
        Self {
            disposition,
            cause: Cause { kind, status: None },
            retry_after: None,
            code: None,
            status: None,
        }
    }

    /// A verdict about the agent: for want of descriptors, memory or ports no request went out.
    #[must_use]
    pub const fn local() -> Self {
        Self::without_answer(Disposition::Local, CauseKind::Connect)
    }

    /// A verdict about a request whose whole time was over while its lane lived.
    #[must_use]
    pub const fn out_of_time() -> Self {
        Self::without_answer(Disposition::Neutral, CauseKind::Timeout)
    }
}

/// Judges an answer by its status, headers and the first bytes of its body. `unix_now` is the wall
/// clock since the epoch. A 2xx is a success here; its body is judged by [`crate::answer`] and
/// [`crate::frame`].
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
    let signal = ErrorSignal::from_body(rules.vendor, headers, body);
    let now = UNIX_EPOCH.checked_add(unix_now).unwrap_or(UNIX_EPOCH);
    let hint = retry_after::from_headers(headers, now).max(signal.retry_after);
    let mut verdict = judge(rules, status.as_u16(), &signal, hint, CauseKind::Status);
    if is_loop(status, headers) {
        verdict.disposition = Disposition::Neutral;
        verdict.retry_after = None;
    }
    verdict
}

/// True for the answer of a gateway of this kind that has met the request before: the fault is the
/// way that it took.
fn is_loop(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::LOOP_DETECTED
        && headers
            .get_all(VIA)
            .iter()
            .any(|line| line.as_bytes().ends_with(PSEUDONYM.as_bytes()))
}

/// Judges an error that came inside a 200: an error frame, or an error object as the whole body.
/// The status it stands for is its numeric code, else the one its vendor uses for its codes, else
/// it is a failure of the lane.
#[must_use]
pub fn embedded(rules: Rules<'_>, signal: &ErrorSignal) -> Verdict {
    let status = signal
        .codes
        .iter()
        .find_map(|code| status_of(rules.vendor, code))
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
    let is_account = matches!(
        meaning,
        ErrorMeaning::Auth | ErrorMeaning::Billing | ErrorMeaning::RateLimit
    ) || matches!(status, 401 | 402 | 403 | 429);
    let disposition = match meaning {
        _ if rules.passthrough && is_account => Disposition::Neutral,
        ErrorMeaning::ClientFault if is_model_missing(rules.vendor, status, signal) => {
            Disposition::HardDownModel
        }
        ErrorMeaning::Auth => Disposition::HardDownAuth,
        ErrorMeaning::Billing => Disposition::HardDownBilling,
        ErrorMeaning::ContextLength => Disposition::ContextLength,
        ErrorMeaning::ClientFault => Disposition::ClientFault,
        ErrorMeaning::RateLimit | ErrorMeaning::Overloaded | ErrorMeaning::Transient => {
            Disposition::Transient
        }
    };
    let kind = match meaning {
        _ if disposition == Disposition::HardDownModel => CauseKind::ModelMissing,
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
        if let Some(meaning) = known_code(rules.vendor, status, code) {
            return (meaning, Some(code.clone()));
        }
    }
    if let Some(meaning) = known_message(rules.vendor, status, &signal.message) {
        return (meaning, None);
    }
    let by_status = match status {
        401 => ErrorMeaning::Auth,
        // Without the provider's own word that it is about the key or the account, a refusal may be
        // a firewall's, or about what the caller sent.
        403 if is_about_content(signal) => ErrorMeaning::ClientFault,
        403 => ErrorMeaning::Transient,
        402 => ErrorMeaning::Billing,
        408 => ErrorMeaning::Transient,
        429 => ErrorMeaning::RateLimit,
        400..=499 => ErrorMeaning::ClientFault,
        _ => ErrorMeaning::Transient,
    };
    (by_status, None)
}

/// Codes the vendors document, as whole words. Services of every protocol send some of them, whoever
/// coined them; the rest is the vendor's own.
fn known_code(vendor: &dyn Vendor, status: u16, code: &str) -> Option<ErrorMeaning> {
    match code {
        "insufficient_quota"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "billing_error" => Some(ErrorMeaning::Billing),
        "context_length_exceeded" | "exceed_context_size_error" if matches!(status, 400 | 413) => {
            Some(ErrorMeaning::ContextLength)
        }
        "invalid_api_key"
        | "permission_error"
        | "permission_denied"
        | "insufficient_permissions"
        | "authentication_error"
        | "account_deactivated"
        | "account_suspended"
        | "organization_deactivated"
        | "ip_not_authorized"
        | "unsupported_country_region_territory"
            if status == 403 =>
        {
            Some(ErrorMeaning::Auth)
        }
        _ => vendor.known_code(status, code),
    }
}

/// Codes and words of refusals for what was sent: moderation, safety, a file that is not there. They
/// decide nothing but whether a 403 is relayed.
const CONTENT_CODES: [&str; 9] = [
    "content_policy_violation",
    "content_filter",
    "moderation_blocked",
    "moderation_error",
    "moderation",
    "safety",
    "safety_violation",
    "prompt_blocked",
    "file_not_found",
];
const CONTENT_WORDS: [&str; 8] = [
    "moderation",
    "flagged",
    "content policy",
    "usage policy",
    "usage policies",
    "safety",
    "cached content",
    "file",
];

/// True when a 403 is about the content of a request. Only a document of the provider's says so: a
/// firewall's page has words as well.
fn is_about_content(signal: &ErrorSignal) -> bool {
    let mut codes = signal.codes.iter().map(String::as_str);
    let text = signal.message.to_ascii_lowercase();
    let words: Vec<&str> = text
        .split(|sign: char| !sign.is_ascii_alphanumeric())
        .collect();
    let words = format!(" {} ", words.join(" "));
    codes.any(|code| CONTENT_CODES.contains(&code))
        || CONTENT_WORDS
            .iter()
            .any(|phrase| words.contains(&format!(" {phrase} ")))
        || words.contains(" cachedcontent")
}

/// True when the answer says that the configured model does not exist, or no longer does. The caller
/// named the pool; the model is the operator's.
fn is_model_missing(vendor: &dyn Vendor, status: u16, signal: &ErrorSignal) -> bool {
    let text = signal.message.trim().to_ascii_lowercase();
    let is_coded = signal.codes.iter().any(|code| {
        matches!(
            code.as_str(),
            "model_not_found"
                | "model_not_available"
                | "model_decommissioned"
                | "model_deprecated"
                | "invalid_model"
                | "DeploymentNotFound"
                | "deployment_not_found"
        )
    });
    matches!(status, 400 | 404) && (is_coded || vendor.says_model_missing(status, &text))
}

/// Phrases of vendors that give no code of their own.
fn known_message(vendor: &dyn Vendor, status: u16, message: &str) -> Option<ErrorMeaning> {
    if !matches!(status, 400 | 413) {
        return None;
    }
    vendor.known_message(status, &message.trim().to_ascii_lowercase())
}

/// The status an error code stands for when it travels inside a 200. Proxies pass on the codes of the
/// vendor behind them, so those of the others count too; none of them means two things.
fn status_of(vendor: &dyn Vendor, code: &str) -> Option<u16> {
    if let Ok(number) = code.parse::<u16>() {
        return (400..600).contains(&number).then_some(number);
    }
    let of_others = || vendor::ALL.iter().find_map(|other| other.status_of(code));
    vendor.status_of(code).or_else(of_others)
}

#[cfg(test)]
mod tests;
