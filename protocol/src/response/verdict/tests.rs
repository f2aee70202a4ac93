//! The classification table, row by row, on bodies of the shapes the vendors send.

use std::io::Write;

use Disposition as D;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use serde_json::{Value, json};

use super::*;
use crate::dialect::Protocol;

const NOW: Duration = Duration::from_secs(784_111_777);

struct Case {
    protocol: Protocol,
    passthrough: bool,
    error_map: BTreeMap<String, ErrorMeaning>,
    headers: HeaderMap,
}

fn lane(protocol: Protocol) -> Case {
    Case {
        protocol,
        passthrough: false,
        error_map: BTreeMap::new(),
        headers: HeaderMap::new(),
    }
}

impl Case {
    fn passthrough(mut self) -> Self {
        self.passthrough = true;
        self
    }

    fn mapped(mut self, code: &str, meaning: ErrorMeaning) -> Self {
        self.error_map.insert(code.to_owned(), meaning);
        self
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.append(name, HeaderValue::from_static(value));
        self
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            vendor: crate::vendor(self.protocol),
            error_map: &self.error_map,
            passthrough: self.passthrough,
        }
    }

    fn bytes(&self, status: u16, body: &[u8]) -> Verdict {
        let status = StatusCode::from_u16(status).unwrap();
        response(self.rules(), status, &self.headers, body, NOW)
    }

    fn judge(&self, status: u16, body: &Value) -> Verdict {
        self.bytes(status, body.to_string().as_bytes())
    }
}

fn openai(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"})
}

fn gemini(status: &str, details: Value) -> Value {
    json!({"error": {"code": 400, "message": "m", "status": status, "details": details}})
}

const PROTOCOLS: [Protocol; 5] = [
    Protocol::Openai,
    Protocol::Responses,
    Protocol::Anthropic,
    Protocol::Gemini,
    Protocol::Cohere,
];

#[test]
fn the_status_alone_decides_where_the_body_says_nothing() {
    let rows: &[(u16, Disposition, CauseKind)] = &[
        (200, D::Success, CauseKind::Status),
        (204, D::Success, CauseKind::Status),
        (301, D::Transient, CauseKind::Redirect),
        (302, D::Transient, CauseKind::Redirect),
        (307, D::Transient, CauseKind::Redirect),
        (400, D::ClientFault, CauseKind::Status),
        (401, D::HardDownAuth, CauseKind::Auth),
        (402, D::HardDownBilling, CauseKind::Billing),
        (403, D::Transient, CauseKind::Status),
        (404, D::ClientFault, CauseKind::Status),
        (405, D::ClientFault, CauseKind::Status),
        (408, D::Transient, CauseKind::Status),
        (409, D::ClientFault, CauseKind::Status),
        (413, D::ClientFault, CauseKind::Status),
        (415, D::ClientFault, CauseKind::Status),
        (419, D::ClientFault, CauseKind::Status),
        (422, D::ClientFault, CauseKind::Status),
        (424, D::ClientFault, CauseKind::Status),
        (429, D::Transient, CauseKind::RateLimit),
        (451, D::ClientFault, CauseKind::Status),
        (499, D::ClientFault, CauseKind::Status),
        (500, D::Transient, CauseKind::Status),
        (503, D::Transient, CauseKind::Status),
        (529, D::Transient, CauseKind::Overloaded),
    ];
    for protocol in PROTOCOLS {
        for body in [
            &b""[..],
            b"null",
            b"[]",
            b"<html>busy</html>",
            b"{\"error\":",
            b"\xff\xfe",
        ] {
            for (status, disposition, kind) in rows {
                let verdict = lane(protocol).bytes(*status, body);
                assert_eq!(verdict.disposition, *disposition, "{protocol:?} {status}");
                assert_eq!(
                    verdict.cause,
                    Cause {
                        kind: *kind,
                        status: Some(*status)
                    }
                );
            }
        }
    }
}

/// Field report B23: edge networks have statuses of their own.
#[test]
fn every_5xx_is_transient_on_every_protocol() {
    for protocol in PROTOCOLS {
        for status in 500..600 {
            let verdict = lane(protocol).bytes(status, b"<html><body>edge</body></html>");
            assert_eq!(verdict.disposition, D::Transient, "{protocol:?} {status}");
        }
    }
}

#[test]
fn a_5xx_is_an_outage_whatever_its_body_or_the_operator_says() {
    for code in [
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_api_key",
    ] {
        let mapped = lane(Protocol::Openai)
            .mapped(code, ErrorMeaning::ContextLength)
            .judge(500, &openai(code, "m"));
        assert_eq!(mapped.disposition, D::Transient, "{code}");
    }
    let prompt = anthropic(
        "invalid_request_error",
        "prompt is too long: 1 tokens > 0 maximum",
    );
    assert_eq!(
        lane(Protocol::Anthropic).judge(503, &prompt).disposition,
        D::Transient
    );
    let verdict = lane(Protocol::Anthropic).judge(500, &anthropic("overloaded_error", "busy"));
    assert_eq!(verdict.cause.kind, CauseKind::Overloaded);
}

/// Field reports B14, B18, B21.
#[test]
fn an_empty_purse_is_hard_down_whatever_status_carries_it() {
    let rows = [
        (
            Protocol::Openai,
            429,
            openai("insufficient_quota", "You exceeded your current quota"),
        ),
        (
            Protocol::Openai,
            429,
            json!({"error": {"type": "insufficient_quota", "message": "m"}}),
        ),
        (
            Protocol::Openai,
            400,
            openai("billing_hard_limit_reached", "m"),
        ),
        (Protocol::Responses, 429, openai("insufficient_quota", "m")),
        (
            Protocol::Openai,
            429,
            json!({"error": {"type": "billing_not_active", "code": "billing_not_active", "message": "m"}}),
        ),
        (Protocol::Gemini, 402, json!({})),
        (
            Protocol::Cohere,
            402,
            json!({"message": "payment required"}),
        ),
        (
            Protocol::Openai,
            402,
            json!({"error": {"code": 402, "message": "Insufficient credits"}}),
        ),
        (Protocol::Anthropic, 402, anthropic("billing_error", "m")),
        (
            Protocol::Anthropic,
            400,
            anthropic(
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans.",
            ),
        ),
    ];
    for (protocol, status, body) in rows {
        let verdict = lane(protocol).judge(status, &body);
        assert_eq!(verdict.disposition, D::HardDownBilling, "{body}");
        assert_eq!(verdict.cause.kind, CauseKind::Billing);
        assert_eq!(verdict.cause.status, Some(status));
    }
}

/// Field report B15: prose about quota and billing is no code.
#[test]
fn rate_limits_that_talk_of_quota_are_transient_with_their_wait() {
    let body = json!({"error": {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"},
        ],
    }});
    let verdict = lane(Protocol::Gemini).judge(429, &body);
    assert_eq!(verdict.disposition, D::Transient);
    assert_eq!(verdict.retry_after, Some(Duration::from_secs(7)));

    let verdict = lane(Protocol::Openai).header("retry-after", "3").judge(
        429,
        &openai("token_quota_exceeded", "Tokens per minute limit exceeded"),
    );
    assert_eq!(verdict.disposition, D::Transient);
    assert_eq!(verdict.retry_after, Some(Duration::from_secs(3)));

    let low = anthropic(
        "rate_limit_error",
        "Your credit balance is too low to be true",
    );
    assert_eq!(
        lane(Protocol::Anthropic).judge(429, &low).disposition,
        D::Transient
    );
}

/// Field report B07: header and body both count, the longer wins, and only Gemini's body does.
#[test]
fn geminis_wait_in_the_body_counts_beside_the_header() {
    let body = gemini(
        "RESOURCE_EXHAUSTED",
        json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "52.45s"}]),
    );
    let wait = |case: Case| {
        case.judge(429, &body)
            .retry_after
            .map(|wait| wait.as_secs())
    };
    assert_eq!(wait(lane(Protocol::Gemini)), Some(53));
    assert_eq!(
        wait(lane(Protocol::Gemini).header("retry-after", "10")),
        Some(53)
    );
    assert_eq!(
        wait(lane(Protocol::Gemini).header("retry-after", "90")),
        Some(90)
    );
    assert_eq!(wait(lane(Protocol::Openai)), None);
}

/// Field report B08.
#[test]
fn a_wait_counts_on_every_transient_status_and_on_no_other() {
    for status in [408, 429, 500, 502, 503, 524, 529] {
        let verdict = lane(Protocol::Openai)
            .header("retry-after", "120")
            .bytes(status, b"");
        assert_eq!(
            verdict.retry_after,
            Some(Duration::from_secs(120)),
            "{status}"
        );
    }
    for status in [200, 400, 401, 404, 422] {
        let verdict = lane(Protocol::Openai)
            .header("retry-after", "120")
            .bytes(status, b"");
        assert_eq!(verdict.retry_after, None, "{status}");
    }
    let dated = lane(Protocol::Openai).header("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT");
    assert_eq!(
        dated.bytes(503, b"").retry_after,
        Some(Duration::from_secs(20))
    );
    let millis = lane(Protocol::Openai).header("retry-after-ms", "1500");
    assert_eq!(
        millis.bytes(429, b"").retry_after,
        Some(Duration::from_millis(1500))
    );
}

/// Field report B16: the operator's word is before the built-in one.
#[test]
fn the_operators_map_wins_on_anything_but_a_5xx() {
    let quota = openai("insufficient_quota", "m");
    let mapped = lane(Protocol::Openai).mapped("insufficient_quota", ErrorMeaning::RateLimit);
    assert_eq!(mapped.judge(429, &quota).disposition, D::Transient);
    assert_eq!(mapped.judge(429, &quota).cause.kind, CauseKind::RateLimit);
    assert_eq!(
        lane(Protocol::Openai).judge(429, &quota).disposition,
        D::HardDownBilling
    );

    let rows = [
        (ErrorMeaning::Auth, D::HardDownAuth, CauseKind::Auth),
        (
            ErrorMeaning::Billing,
            D::HardDownBilling,
            CauseKind::Billing,
        ),
        (ErrorMeaning::RateLimit, D::Transient, CauseKind::RateLimit),
        (
            ErrorMeaning::Overloaded,
            D::Transient,
            CauseKind::Overloaded,
        ),
        (
            ErrorMeaning::ContextLength,
            D::ContextLength,
            CauseKind::Status,
        ),
        (ErrorMeaning::ClientFault, D::ClientFault, CauseKind::Status),
        (ErrorMeaning::Transient, D::Transient, CauseKind::Status),
    ];
    for status in [400, 401, 403, 404, 409, 418, 422, 429] {
        for (meaning, disposition, kind) in rows {
            let verdict = lane(Protocol::Openai)
                .mapped("odd_code", meaning)
                .judge(status, &openai("odd_code", "m"));
            assert_eq!(verdict.disposition, disposition, "{status} {meaning:?}");
            assert_eq!(verdict.cause.kind, kind);
            assert_eq!(verdict.code.as_deref(), Some("odd_code"));
        }
    }
    // Whole codes: neither a part of one nor the message.
    let part = lane(Protocol::Openai).mapped("odd", ErrorMeaning::Billing);
    assert_eq!(
        part.judge(400, &openai("odd_code", "odd")).disposition,
        D::ClientFault
    );
    // Numbers are codes too.
    let number = lane(Protocol::Openai).mapped("1302", ErrorMeaning::RateLimit);
    let body = json!({"error": {"code": 1302, "message": "m"}});
    assert_eq!(number.judge(400, &body).disposition, D::Transient);
}

/// Field reports B19, B20.
#[test]
fn a_dead_gemini_key_is_told_from_a_bad_argument() {
    let reason = |reason: &str| {
        gemini(
            "INVALID_ARGUMENT",
            json!([{"reason": reason, "domain": "googleapis.com"}]),
        )
    };
    let gemini_lane = lane(Protocol::Gemini);
    assert_eq!(
        gemini_lane
            .judge(400, &reason("API_KEY_INVALID"))
            .disposition,
        D::HardDownAuth
    );
    assert_eq!(
        gemini_lane.judge(400, &reason("OTHER")).disposition,
        D::ClientFault
    );
    let plain = gemini("INVALID_ARGUMENT", json!([]));
    assert_eq!(gemini_lane.judge(400, &plain).disposition, D::ClientFault);
    assert_eq!(
        gemini_lane
            .judge(403, &reason("SERVICE_DISABLED"))
            .disposition,
        D::HardDownAuth
    );
    let wrapped = json!([reason("API_KEY_INVALID")]);
    assert_eq!(
        gemini_lane.judge(400, &wrapped).disposition,
        D::HardDownAuth
    );
    // Another vendor's lane does not know that reason.
    let openai_lane = lane(Protocol::Openai);
    assert_eq!(
        openai_lane
            .judge(400, &reason("API_KEY_INVALID"))
            .disposition,
        D::ClientFault
    );
}

/// Field report B20: a vendor's statuses do not always follow "401 and 403 are the key". A region
/// that may not use the vendor is the caller's fault by default; an operator whose host is refused
/// says so once in the map.
#[test]
fn geminis_refusals_are_told_apart_by_reason_before_status() {
    let refusal = |code: u16, status: &str, reason: &str| {
        json!({"error": {"code": code, "status": status, "message": "User location is not supported",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
                "domain": "googleapis.com"}]}})
    };
    let location = json!({"error": {"code": 400, "status": "FAILED_PRECONDITION",
        "message": "User location is not supported for the API use."}});
    let rows = [
        (
            400,
            refusal(400, "INVALID_ARGUMENT", "API_KEY_INVALID"),
            D::HardDownAuth,
        ),
        (400, location.clone(), D::ClientFault),
        (
            403,
            refusal(403, "PERMISSION_DENIED", "SERVICE_DISABLED"),
            D::HardDownAuth,
        ),
        (
            403,
            refusal(403, "PERMISSION_DENIED", "API_KEY_SERVICE_BLOCKED"),
            D::HardDownAuth,
        ),
        (
            401,
            refusal(401, "UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED"),
            D::HardDownAuth,
        ),
    ];
    for (status, body, disposition) in rows {
        let verdict = lane(Protocol::Gemini).judge(status, &body);
        assert_eq!(verdict.disposition, disposition, "{body}");
    }
    let mapped = lane(Protocol::Gemini).mapped("FAILED_PRECONDITION", ErrorMeaning::Auth);
    assert_eq!(mapped.judge(400, &location).disposition, D::HardDownAuth);
}

/// Field report B17: a window spent for hours is a rate limit until the operator says otherwise;
/// waits in prose or in unknown fields are no hints.
#[test]
fn a_spent_subscription_window_is_a_rate_limit_unless_mapped() {
    let top = json!({"type": "usage_limit_reached", "resets_in_seconds": 18000});
    for body in [top.clone(), json!({"error": top})] {
        let verdict = lane(Protocol::Openai).judge(429, &body);
        assert_eq!(verdict.disposition, D::Transient);
        assert_eq!(verdict.retry_after, None);
        assert_eq!(verdict.code.as_deref(), Some("usage_limit_reached"));
        let mapped = lane(Protocol::Openai).mapped("usage_limit_reached", ErrorMeaning::Billing);
        assert_eq!(mapped.judge(429, &body).disposition, D::HardDownBilling);
    }
}

/// Field reports B21, B22: one flavour of a status is told from the others by the operator's map.
#[test]
fn a_mapped_code_takes_one_flavour_of_a_status_out_of_hard_down() {
    let rows = [
        (
            402,
            "output_too_expensive",
            ErrorMeaning::Transient,
            D::Transient,
        ),
        (
            403,
            "model_not_permitted",
            ErrorMeaning::ClientFault,
            D::ClientFault,
        ),
        (
            401,
            "token_rotating",
            ErrorMeaning::Overloaded,
            D::Transient,
        ),
    ];
    for (status, code, meaning, disposition) in rows {
        for protocol in [Protocol::Openai, Protocol::Responses, Protocol::Anthropic] {
            let body = json!({"type": "error", "error": {"code": code, "message": "m"}});
            let mapped = lane(protocol).mapped(code, meaning);
            assert_eq!(
                mapped.judge(status, &body).disposition,
                disposition,
                "{code}"
            );
            let plain = mapped.judge(status, &json!({"error": {"message": "m"}}));
            let expected = match status {
                401 => D::HardDownAuth,
                402 => D::HardDownBilling,
                _ => D::Transient,
            };
            assert_eq!(plain.disposition, expected, "{code}");
        }
    }
}

/// Field report B15 in every reader: whole codes decide, words in the text never do.
#[test]
fn words_about_money_in_the_text_bench_no_lane() {
    let text = "insufficient_quota: your credit balance and billing plan: quota exceeded, payment";
    for protocol in PROTOCOLS {
        for body in [
            json!({"error": {"message": text, "code": "slow_down"}}),
            json!({"message": text}),
            json!({"error": text}),
            json!({"detail": text}),
        ] {
            let verdict = lane(protocol).header("retry-after", "3").judge(429, &body);
            assert_eq!(verdict.disposition, D::Transient, "{protocol:?} {body}");
            assert_eq!(verdict.retry_after, Some(Duration::from_secs(3)));
            let verdict = lane(protocol).judge(400, &body);
            assert_eq!(verdict.disposition, D::ClientFault, "{protocol:?} {body}");
        }
    }
}

/// Traffic finding T5: a 403 is about the key only by the provider's own word for it, and what is
/// about a request's content is its caller's.
#[test]
fn refusals_are_told_apart_by_what_they_say() {
    let gemini = |reason: &str, message: &str| {
        let details = if reason.is_empty() {
            json!([])
        } else {
            json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}])
        };
        json!({"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED",
            "details": details}})
    };
    let rows = [
        (
            Protocol::Openai,
            openai("unsupported_country_region_territory", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Openai,
            openai("account_deactivated", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Responses,
            openai("invalid_api_key", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Anthropic,
            anthropic("permission_error", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Gemini,
            gemini("API_KEY_SERVICE_BLOCKED", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Gemini,
            gemini("SERVICE_DISABLED", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Gemini,
            gemini("CONSUMER_SUSPENDED", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Gemini,
            gemini("BILLING_DISABLED", "m"),
            D::HardDownAuth,
        ),
        (
            Protocol::Openai,
            openai("content_policy_violation", "m"),
            D::ClientFault,
        ),
        (
            Protocol::Openai,
            json!({"error": {"code": 403, "message": "Your input was flagged by moderation"}}),
            D::ClientFault,
        ),
        (
            Protocol::Anthropic,
            anthropic("moderation_error", "m"),
            D::ClientFault,
        ),
        (
            Protocol::Gemini,
            gemini(
                "",
                "You do not have permission to access the File abc or it may not exist.",
            ),
            D::ClientFault,
        ),
        (
            Protocol::Gemini,
            gemini("", "CachedContent not found (or permission denied)"),
            D::ClientFault,
        ),
        (
            Protocol::Cohere,
            json!({"message": "blocked output: unsafe, safety"}),
            D::ClientFault,
        ),
        (
            Protocol::Openai,
            json!({"error": {"message": "Forbidden"}}),
            D::Transient,
        ),
        (
            Protocol::Anthropic,
            json!({"message": "Request blocked"}),
            D::Transient,
        ),
        (Protocol::Gemini, gemini("", "m"), D::Transient),
        (
            Protocol::Cohere,
            json!({"message": "forbidden"}),
            D::Transient,
        ),
    ];
    for (protocol, body, disposition) in rows {
        let verdict = lane(protocol).judge(403, &body);
        assert_eq!(verdict.disposition, disposition, "{protocol:?} {body}");
        let callers = lane(protocol).passthrough().judge(403, &body);
        assert_eq!(callers.disposition, D::Neutral, "{protocol:?} {body}");
    }
    for page in ["<html>Access denied: file moderation safety</html>", ""] {
        for protocol in PROTOCOLS {
            let verdict = lane(protocol).bytes(403, page.as_bytes());
            assert_eq!(verdict.disposition, D::Transient, "{protocol:?} {page}");
        }
    }
}

/// Traffic finding T4: the caller named the pool; the model is the operator's.
#[test]
fn missing_model_is_the_lanes_fault() {
    let gemini = json!({"error": {"code": 404, "status": "NOT_FOUND",
        "message": "models/g is not found for API version v1beta, or is not supported"}});
    let rows = [
        (Protocol::Openai, 404, openai("model_not_found", "m")),
        (Protocol::Openai, 400, openai("model_not_found", "m")),
        (Protocol::Openai, 404, openai("DeploymentNotFound", "m")),
        (Protocol::Openai, 400, openai("model_decommissioned", "m")),
        (Protocol::Responses, 404, openai("model_not_found", "m")),
        (
            Protocol::Openai,
            404,
            json!({"object": "error", "message": "The model `x` does not exist.", "code": 404}),
        ),
        (
            Protocol::Openai,
            404,
            json!({"error": {"message": "model 'x' not found"}}),
        ),
        (
            Protocol::Anthropic,
            404,
            anthropic("not_found_error", "model: claude-1"),
        ),
        (Protocol::Gemini, 404, gemini),
        (
            Protocol::Cohere,
            404,
            json!({"message": "model 'x' not found, make sure the correct model ID was used"}),
        ),
    ];
    for (protocol, status, body) in rows {
        let verdict = lane(protocol).judge(status, &body);
        assert_eq!(verdict.disposition, D::HardDownModel, "{protocol:?} {body}");
        assert_eq!(verdict.cause.kind, CauseKind::ModelMissing);
    }
    for (protocol, status, body) in [
        (
            Protocol::Openai,
            404,
            openai("not_found", "No such file: file-abc"),
        ),
        (
            Protocol::Openai,
            400,
            openai("invalid_request", "the model likes no such thing"),
        ),
        (
            Protocol::Anthropic,
            404,
            anthropic("not_found_error", "message batch not found"),
        ),
        (
            Protocol::Gemini,
            404,
            json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "Requested entity"}}),
        ),
    ] {
        let verdict = lane(protocol).judge(status, &body);
        assert_eq!(verdict.disposition, D::ClientFault, "{protocol:?} {body}");
    }
}

/// Field report B68: a caller's bad key must not bench a lane for everyone.
#[test]
fn the_callers_own_key_is_the_callers_fault() {
    let case = || lane(Protocol::Anthropic).passthrough();
    for status in [401, 402, 403] {
        let verdict = case().judge(status, &anthropic("authentication_error", "m"));
        assert_eq!(verdict.disposition, D::Neutral, "{status}");
    }
    let low = anthropic("invalid_request_error", "Your credit balance is too low");
    assert_eq!(case().judge(400, &low).disposition, D::Neutral);
    assert_eq!(
        case()
            .judge(429, &anthropic("rate_limit_error", "m"))
            .disposition,
        D::Neutral
    );
}

/// Field reports B31, B32.
#[test]
fn too_long_is_told_from_throttled_and_from_asking_for_too_much_output() {
    let bare = |message: &str| json!({"message": message});
    let positive = [
        (
            Protocol::Openai,
            400,
            openai("context_length_exceeded", "m"),
        ),
        (
            Protocol::Responses,
            400,
            openai("context_length_exceeded", "m"),
        ),
        (
            Protocol::Openai,
            413,
            openai("context_length_exceeded", "m"),
        ),
        (
            Protocol::Openai,
            400,
            openai("", "This model's maximum context length is 8192 tokens."),
        ),
        (
            Protocol::Openai,
            400,
            json!({"object": "error", "message":
                "The input (9000 tokens) is longer than the model's context length (8192 tokens)."}),
        ),
        (
            Protocol::Openai,
            400,
            bare("Input of 9000 tokens is longer than the model's context length of 8192."),
        ),
        (
            Protocol::Openai,
            400,
            bare("Prompt contains 40000 tokens, too large for model with 32768 maximum."),
        ),
        (
            Protocol::Anthropic,
            400,
            anthropic(
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
        ),
        (
            Protocol::Anthropic,
            413,
            anthropic("request_too_large", "Prompt is too long"),
        ),
        (
            Protocol::Gemini,
            400,
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}),
        ),
        (
            Protocol::Cohere,
            400,
            bare("too many tokens: total number of tokens in the prompt cannot exceed 4081"),
        ),
        (
            Protocol::Gemini,
            400,
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
                "Unable to submit request because the input token count is 1500000 but model only supports up to 1048576."}}),
        ),
        (
            Protocol::Anthropic,
            400,
            bare("Input is too long for requested model."),
        ),
        (
            Protocol::Openai,
            400,
            json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "m"}}),
        ),
        (
            Protocol::Openai,
            400,
            bare("request (9000 tokens) exceeds the available context size (8192 tokens)"),
        ),
        (
            Protocol::Openai,
            400,
            bare(
                "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            ),
        ),
        (
            Protocol::Openai,
            400,
            openai(
                "",
                "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000.",
            ),
        ),
        (
            Protocol::Openai,
            400,
            openai(
                "",
                "Invalid request: Your request exceeded model token limit: 8192",
            ),
        ),
        (
            Protocol::Openai,
            413,
            bare(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
            ),
        ),
        (
            Protocol::Openai,
            400,
            bare("The prompt is too long: 9000, model maximum context length: 8192"),
        ),
    ];
    for (protocol, status, body) in positive {
        let verdict = lane(protocol).judge(status, &body);
        assert_eq!(verdict.disposition, D::ContextLength, "{body}");
    }
    let negative = [
        (
            Protocol::Openai,
            429,
            openai("rate_limit_exceeded", "too many tokens"),
            D::Transient,
        ),
        (
            Protocol::Cohere,
            429,
            bare("too many tokens: slow down"),
            D::Transient,
        ),
        (
            Protocol::Anthropic,
            429,
            anthropic("rate_limit_error", "prompt is too long"),
            D::Transient,
        ),
        (
            Protocol::Openai,
            404,
            openai("context_length_exceeded", "m"),
            D::ClientFault,
        ),
        (
            Protocol::Openai,
            400,
            openai(
                "",
                "'max_tokens' is too large: 9000. This model's maximum context length is 8192 tokens",
            ),
            D::ClientFault,
        ),
        (
            Protocol::Gemini,
            429,
            gemini("RESOURCE_EXHAUSTED", json!([])),
            D::Transient,
        ),
        (
            Protocol::Gemini,
            400,
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
                "Unable to submit request because maxOutputTokens is out of range"}}),
            D::ClientFault,
        ),
        (
            Protocol::Cohere,
            500,
            bare("too many tokens: total number of tokens in the prompt cannot exceed 4081"),
            D::Transient,
        ),
        (
            Protocol::Openai,
            400,
            openai(
                "invalid_value",
                "max_tokens is too large: 100000. This model supports at most 16384",
            ),
            D::ClientFault,
        ),
        (
            Protocol::Anthropic,
            400,
            anthropic(
                "invalid_request_error",
                "max_tokens: 100000 > 8192, which is the maximum",
            ),
            D::ClientFault,
        ),
        (
            Protocol::Anthropic,
            400,
            anthropic(
                "invalid_request_error",
                "messages: why the prompt is too long is unclear",
            ),
            D::ClientFault,
        ),
        (
            Protocol::Anthropic,
            413,
            anthropic("request_too_large", "m"),
            D::ClientFault,
        ),
    ];
    for (protocol, status, body, disposition) in negative {
        assert_eq!(
            lane(protocol).judge(status, &body).disposition,
            disposition,
            "{body}"
        );
    }
    let mapped = lane(Protocol::Openai)
        .mapped("odd", ErrorMeaning::ContextLength)
        .judge(422, &openai("odd", "m"));
    assert_eq!(mapped.disposition, D::ContextLength);
}

#[test]
fn compressed_error_bodies_are_read() {
    let body = openai("insufficient_quota", "m").to_string();
    let gzip = {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(body.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let zlib = {
        let mut writer =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(body.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let deflate = {
        let mut writer =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(body.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    for (encoding, bytes) in [
        ("gzip", &gzip),
        ("x-gzip", &gzip),
        ("GZIP", &gzip),
        ("deflate", &zlib),
        ("deflate", &deflate),
    ] {
        let case = lane(Protocol::Openai).header("content-encoding", encoding);
        assert_eq!(
            case.bytes(429, bytes).disposition,
            D::HardDownBilling,
            "{encoding}"
        );
        // Half a body, another encoding, or one that is not there: the status decides.
        assert_eq!(case.bytes(429, &bytes[..10]).disposition, D::Transient);
    }
    for encoding in ["br", "zstd", "gzip", "deflate"] {
        let case = lane(Protocol::Openai).header("content-encoding", encoding);
        assert_eq!(
            case.bytes(429, b"\x00\x01garbage").disposition,
            D::Transient,
            "{encoding}"
        );
    }
}

#[test]
fn a_brotli_body_is_read() {
    // One uncompressed metablock: window bits 16, 54 bytes, then an empty last one.
    let body = openai("insufficient_quota", "m").to_string();
    let mut bytes = uncompressed_brotli(body.as_bytes());
    let case = lane(Protocol::Openai).header("content-encoding", "br");
    assert_eq!(case.bytes(429, &bytes).disposition, D::HardDownBilling);
    bytes.truncate(3);
    assert_eq!(case.bytes(429, &bytes).disposition, D::Transient);
}

/// RFC 7932: WBITS 16 is the bit 0; then ISLAST 0, MNIBBLES 4 (00), MLEN-1 in 16 bits,
/// ISUNCOMPRESSED 1, padding to a byte, the bytes, and ISLAST 1, ISLASTEMPTY 1.
fn uncompressed_brotli(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() - 1).unwrap();
    let head = len << 4 | 1 << 20;
    let mut bytes = head.to_le_bytes()[..3].to_vec();
    bytes.extend_from_slice(body);
    bytes.push(0b11);
    bytes
}

#[test]
fn a_decompression_bomb_is_cut_at_the_bound() {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(&vec![b'a'; 50 * 1024 * 1024]).unwrap();
    let bomb = writer.finish().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let plain = crate::error_signal::decoded(&headers, &bomb);
    assert_eq!(plain.len(), crate::error_signal::MAX_BODY_BYTES);
}

#[test]
fn errors_inside_a_200_stand_for_their_own_status() {
    let rows = [
        (
            Protocol::Anthropic,
            anthropic("overloaded_error", "m"),
            529,
            D::Transient,
            CauseKind::Overloaded,
        ),
        (
            Protocol::Anthropic,
            anthropic("rate_limit_error", "m"),
            429,
            D::Transient,
            CauseKind::RateLimit,
        ),
        (
            Protocol::Anthropic,
            anthropic("api_error", "m"),
            500,
            D::Transient,
            CauseKind::ErrorFrame,
        ),
        (
            Protocol::Anthropic,
            anthropic("authentication_error", "m"),
            401,
            D::HardDownAuth,
            CauseKind::Auth,
        ),
        (
            Protocol::Anthropic,
            anthropic("billing_error", "m"),
            402,
            D::HardDownBilling,
            CauseKind::Billing,
        ),
        (
            Protocol::Anthropic,
            anthropic("invalid_request_error", "m"),
            400,
            D::ClientFault,
            CauseKind::ErrorFrame,
        ),
        (
            Protocol::Anthropic,
            anthropic("brand_new_error", "m"),
            502,
            D::Transient,
            CauseKind::ErrorFrame,
        ),
        (
            Protocol::Openai,
            json!({"error": {"code": 502, "message": "m"}}),
            502,
            D::Transient,
            CauseKind::ErrorFrame,
        ),
        (
            Protocol::Openai,
            json!({"error": {"message": "x", "code": "rate_limit_exceeded"}}),
            429,
            D::Transient,
            CauseKind::RateLimit,
        ),
        (
            Protocol::Openai,
            json!({"error": "busy"}),
            502,
            D::Transient,
            CauseKind::ErrorFrame,
        ),
        (
            Protocol::Openai,
            openai("insufficient_quota", "m"),
            429,
            D::HardDownBilling,
            CauseKind::Billing,
        ),
        (
            Protocol::Responses,
            json!({"response": {"error": {"code": "server_error"}}}),
            500,
            D::Transient,
            CauseKind::ErrorFrame,
        ),
    ];
    for (protocol, body, status, disposition, kind) in rows {
        let case = lane(protocol);
        let verdict = embedded(
            case.rules(),
            &ErrorSignal::from_value(crate::vendor(protocol), &body),
        );
        assert_eq!(verdict.disposition, disposition, "{body}");
        assert_eq!(
            verdict.cause,
            Cause {
                kind,
                status: Some(status)
            },
            "{body}"
        );
    }
}

/// Field report B25: what an upstream says about itself is no inner signal.
#[test]
fn an_upstreams_own_exhausted_body_is_just_a_503() {
    let kind = crate::error_body::ErrorKind::Exhausted {
        shortage: crate::error_body::Shortage::CircuitOpen,
        retry_after: Duration::from_secs(9),
    };
    let (status, headers, body) =
        crate::error_body::render(crate::Dialect::OPENAI_CHAT, &kind, "r");
    let case = lane(Protocol::Openai);
    let verdict = response(case.rules(), status, &headers, &body, NOW);
    assert_eq!(verdict.disposition, D::Transient);
    assert_eq!(headers.get(RETRY_AFTER).unwrap(), "9");
    assert_eq!(verdict.retry_after, Some(Duration::from_secs(9)));
}

proptest::proptest! {
    #[test]
    fn no_body_and_no_header_panics(
        status in 100u16..600,
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        value in "[ -~]{0,40}",
        encoding in proptest::sample::select(vec!["gzip", "deflate", "br", "identity", "x"]),
    ) {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(&value).unwrap());
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        for protocol in PROTOCOLS {
            let case = lane(protocol);
            let status = StatusCode::from_u16(status).unwrap();
            let _ = response(case.rules(), status, &headers, &body, NOW);
        }
    }
}
