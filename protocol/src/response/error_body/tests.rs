//! Every error in every dialect, as the vendors' packages read it.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::dialect::Protocol;

const DIALECTS: [Dialect; 5] = [
    Dialect::OPENAI_CHAT,
    Dialect::RESPONSES,
    Dialect::ANTHROPIC,
    Dialect::GEMINI_GENERATE,
    Dialect::COHERE,
];

fn kinds() -> Vec<(ErrorKind, u16)> {
    let wait = Duration::from_millis(39_200);
    let model = || "gpt \"x\"".to_owned();
    let unreadable = |status| ErrorKind::UnreadableHead { status };
    vec![
        (
            ErrorKind::BadRequest {
                message: "no \"model\"".to_owned(),
                field: Some("model".to_owned()),
            },
            400,
        ),
        (ErrorKind::Unauthorized, 401),
        (ErrorKind::UpstreamAuth, 401),
        (ErrorKind::Forbidden { model: model() }, 403),
        (ErrorKind::NotFound { model: model() }, 404),
        (ErrorKind::NoRoute, 404),
        (ErrorKind::MethodNotAllowed { allow: "POST" }, 405),
        (unreadable(StatusCode::BAD_REQUEST), 400),
        (unreadable(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE), 431),
        (ErrorKind::RequestTimeout, 408),
        (ErrorKind::TooLarge { limit: 33_554_432 }, 413),
        (ErrorKind::UnsupportedCoding, 415),
        (ErrorKind::UpgradeRefused, 426),
        (ErrorKind::ForeignOrigin, 403),
        (ErrorKind::Loop, 508),
        (ErrorKind::Busy, 503),
        (ErrorKind::RateLimited { retry_after: wait }, 429),
        (ErrorKind::Internal, 500),
        (
            ErrorKind::Unsupported {
                message: "no".to_owned(),
            },
            501,
        ),
        (ErrorKind::BadGateway, 502),
        (
            ErrorKind::Exhausted {
                retry_after: wait,
                shortage: Shortage::CircuitOpen,
            },
            503,
        ),
        (ErrorKind::ShuttingDown, 503),
        (ErrorKind::Timeout, 504),
    ]
}

#[test]
fn every_error_has_its_status_and_its_dialects_shape() {
    for (kind, status) in kinds() {
        for dialect in DIALECTS {
            let (code, headers, body) = render(dialect, &kind, "req-1");
            assert_eq!(code.as_u16(), status, "{kind:?}");
            assert_eq!(headers.get(CONTENT_TYPE).unwrap(), "application/json");
            let body: Value = serde_json::from_slice(&body).unwrap();
            let message = match dialect.protocol() {
                Protocol::Openai | Protocol::Responses => {
                    assert!(body["error"]["type"].is_string());
                    assert!(body["error"]["code"].is_string());
                    assert!(body["error"].get("param").is_some());
                    &body["error"]["message"]
                }
                Protocol::Anthropic => {
                    assert_eq!(body["type"], "error");
                    assert_eq!(body["request_id"], "req-1");
                    assert_eq!(headers.get("request-id").unwrap(), "req-1");
                    assert!(body["error"]["type"].is_string());
                    &body["error"]["message"]
                }
                Protocol::Gemini => {
                    assert_eq!(body["error"]["code"], status);
                    assert!(body["error"]["status"].is_string());
                    &body["error"]["message"]
                }
                Protocol::Cohere => &body["message"],
            };
            assert_eq!(*message, kind.message());
        }
    }
}

#[test]
fn the_field_at_fault_is_named() {
    let kind = ErrorKind::BadRequest {
        message: "bad".to_owned(),
        field: Some("model".to_owned()),
    };
    let (_, _, body) = render(Dialect::OPENAI_CHAT, &kind, "r");
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["error"]["param"], "model");
}

#[test]
fn waits_are_whole_seconds_and_never_zero() {
    for (wait, seconds) in [(0, "1"), (1, "1"), (2_000, "2"), (39_200, "40")] {
        let retry_after = Duration::from_millis(wait);
        for kind in [
            ErrorKind::Exhausted {
                retry_after,
                shortage: Shortage::LanesBusy,
            },
            ErrorKind::RateLimited { retry_after },
        ] {
            let (_, headers, _) = render(Dialect::ANTHROPIC, &kind, "r");
            assert_eq!(headers.get(RETRY_AFTER).unwrap(), seconds);
        }
    }
    let (_, headers, _) = render(Dialect::ANTHROPIC, &ErrorKind::Internal, "r");
    assert!(!headers.contains_key(RETRY_AFTER));
}

#[test]
fn a_wrong_method_is_told_the_right_one() {
    let kind = ErrorKind::MethodNotAllowed { allow: "POST" };
    assert_eq!(
        render(Dialect::OPENAI_CHAT, &kind, "r")
            .1
            .get(ALLOW)
            .unwrap(),
        "POST"
    );
}

#[test]
fn stream_errors_have_their_dialects_event_and_no_terminator() {
    let wait = Duration::from_secs(2);
    for dialect in DIALECTS {
        let event = stream_event(
            dialect,
            &ErrorKind::Exhausted {
                retry_after: wait,
                shortage: Shortage::CircuitOpen,
            },
            "r",
        );
        let text = std::str::from_utf8(&event).unwrap();
        assert!(text.ends_with("\n\n") && !text.contains("[DONE]"));
        let (head, data) = text.trim_end().rsplit_once("data: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        let name = match dialect.protocol() {
            Protocol::Openai | Protocol::Gemini => {
                assert!(data["error"]["message"].is_string());
                ""
            }
            Protocol::Anthropic => {
                assert_eq!(data["error"]["type"], "overloaded_error");
                "event: error\n"
            }
            Protocol::Responses => {
                assert_eq!(data["response"]["status"], "failed");
                "event: response.failed\n"
            }
            Protocol::Cohere => {
                assert_eq!(data["delta"]["finish_reason"], "ERROR");
                "event: message-end\n"
            }
        };
        assert_eq!(head, name);
    }
}
