//! Every error the agent itself makes: its status, its code and its text.
//!
//! A 4xx says what to change; a 5xx hides what is inside.

use std::time::Duration;

use http::StatusCode;

use crate::coding::READABLE;

/// Retry-After of an agent that is being shut down: another one, or its successor, listens already.
const SHUTDOWN_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Retry-After of an agent without room: running requests end all the time.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// What gateways of this kind call themselves in `via`.
pub const PSEUDONYM: &str = "lanekeeper";

/// Why no lane served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The agent takes no request at the moment.
    Unready,
    /// No lane was asked: the breakers are open, budgets spent or keys missing.
    CircuitOpen,
    /// No lane was asked: all of them are at work.
    LanesBusy,
    /// Lanes were asked and failed.
    UpstreamFailed {
        /// The status of the last one, where it answered.
        status: Option<u16>,
    },
}

/// Something the agent has to tell the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// 400: the request cannot be understood.
    BadRequest {
        /// What is wrong and how to put it right.
        message: String,
        /// The field it is about.
        field: Option<String>,
    },
    /// 401: a key is needed, and it is missing or unknown.
    Unauthorized,
    /// 403: the key is known, but may not use this model.
    Forbidden {
        /// The model asked for.
        model: String,
    },
    /// 404: no pool or lane of this name.
    NotFound {
        /// The model asked for.
        model: String,
    },
    /// 404: no such path.
    NoRoute,
    /// 405: the path exists, the method does not.
    MethodNotAllowed {
        /// The methods that do, as the `allow` header wants them.
        allow: &'static str,
    },
    /// 400 or 431: the request's head is no HTTP, or larger than allowed.
    UnreadableHead {
        /// The status that says which.
        status: StatusCode,
    },
    /// 408: the caller's body did not arrive in time.
    RequestTimeout,
    /// 413: the body is larger than allowed.
    TooLarge {
        /// Largest body, in bytes.
        limit: usize,
    },
    /// 415: the body is in a content coding that cannot be read.
    UnsupportedCoding,
    /// 426: the caller wants a WebSocket, which no route has.
    UpgradeRefused,
    /// 403: a web page of another origin calls, which is not among those that may.
    ForeignOrigin,
    /// 508: the request has passed through gateways of this kind too often.
    Loop,
    /// 503: the agent itself has no room for the request; no lane was asked.
    Busy,
    /// 429: too many requests at a time, or every member answered so.
    RateLimited {
        /// When to come back.
        retry_after: Duration,
    },
    /// 501: the lane behind this model has no such operation.
    Unsupported {
        /// What it lacks.
        message: String,
    },
    /// 503: no member can serve.
    Exhausted {
        /// When the first one may be able to.
        retry_after: Duration,
        /// What is short.
        shortage: Shortage,
    },
    /// 504: the time for all attempts together is over.
    Timeout,
    /// 401: the gateway's own credential was refused by the provider.
    UpstreamAuth,
    /// A lane's own error, in words of another dialect.
    Upstream {
        /// Its status, where the caller's dialect has it.
        status: StatusCode,
        /// The vendor's message, without credentials and ids of the account.
        message: String,
    },
    /// 409: what the request names is kept at a lane that cannot serve now.
    StateElsewhere,
    /// 502: the answer of the last member was no answer.
    BadGateway,
    /// 503, or the end of a running stream: the agent is being shut down.
    ShuttingDown,
    /// 500: a fault of the agent.
    Internal,
}

impl ErrorKind {
    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest { .. } => StatusCode::BAD_REQUEST,
            Self::Unauthorized | Self::UpstreamAuth => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } | Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::UnsupportedCoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::UpgradeRefused => StatusCode::UPGRADE_REQUIRED,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::StateElsewhere => StatusCode::CONFLICT,
            Self::NotFound { .. } | Self::NoRoute => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::UnreadableHead { status } | Self::Upstream { status, .. } => *status,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
            Self::Exhausted { .. } | Self::ShuttingDown | Self::Busy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::BadGateway => StatusCode::BAD_GATEWAY,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The vendor-neutral code, the same in every dialect that has a place for one.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadRequest { .. } => "invalid_request",
            Self::Unauthorized => "invalid_api_key",
            Self::Forbidden { .. } => "model_forbidden",
            Self::NotFound { .. } => "model_not_found",
            Self::NoRoute => "unknown_path",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::UnreadableHead { status } => match status.as_u16() {
                431 => "headers_too_large",
                _ => "unreadable_request",
            },
            Self::RequestTimeout => "request_timeout",
            Self::TooLarge { .. } => "request_too_large",
            Self::UnsupportedCoding => "unsupported_content_encoding",
            Self::UpgradeRefused => "upgrade_refused",
            Self::ForeignOrigin => "origin_forbidden",
            Self::Loop => "loop_detected",
            Self::StateElsewhere => "state_unavailable",
            Self::Busy => "busy",
            Self::RateLimited { .. } => "rate_limit_exceeded",
            Self::Unsupported { .. } => "unsupported_operation",
            Self::Exhausted { shortage, .. } => match shortage {
                Shortage::Unready => "no_lane_available",
                Shortage::CircuitOpen => "circuit_open",
                Shortage::LanesBusy => "lanes_busy",
                Shortage::UpstreamFailed { .. } => "upstream_failed",
            },
            Self::Timeout => "gateway_timeout",
            Self::UpstreamAuth => "upstream_credential_refused",
            Self::Upstream { .. } => "upstream_error",
            Self::BadGateway => "bad_gateway",
            Self::ShuttingDown => "shutting_down",
            Self::Internal => "internal_error",
        }
    }

    /// The text for people: what happened and what to do.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::BadRequest { message, .. }
            | Self::Unsupported { message }
            | Self::Upstream { message, .. } => message.clone(),
            Self::Unauthorized => "The API key is missing or unknown. Send a key of this gateway \
                                   in the header your client uses for its API key."
                .to_owned(),
            Self::Forbidden { model } => {
                format!("This key may not use \"{model}\". Ask the gateway's operator for access.")
            }
            Self::NotFound { model } => format!(
                "There is no pool or model named \"{model}\" here. GET /v1/models lists the names."
            ),
            Self::NoRoute => {
                "There is nothing at this path. Check the client's base URL.".to_owned()
            }
            Self::MethodNotAllowed { allow } => format!("Use {allow} on this path."),
            Self::UnreadableHead { status } => match status.as_u16() {
                431 => "The request's headers are larger than 64 KiB or more than 100. Send fewer.",
                _ => "The request cannot be read as HTTP/1.1. Check the client's headers and path.",
            }
            .to_owned(),
            Self::RequestTimeout => {
                "The request's body did not arrive in time. Send it again.".to_owned()
            }
            Self::TooLarge { limit } => {
                format!("The request is larger than the {limit} bytes allowed. Send a smaller one.")
            }
            Self::UnsupportedCoding => format!(
                "The body's content encoding is not supported. Use one of {READABLE}, or none."
            ),
            Self::UpgradeRefused => "WebSockets are not served here. Send the request over plain \
                                     HTTP; answers stream as server-sent events."
                .to_owned(),
            Self::ForeignOrigin => "Web pages of this origin may not call this gateway. Its \
                                    operator can list the origin under \"cors\"."
                .to_owned(),
            Self::Loop => "The request has passed through this gateway before: one of its \
                           providers leads back to it. Its operator must correct the base_url."
                .to_owned(),
            Self::Busy => "This gateway instance has no room for the request at the moment. Try \
                           again in 1 s."
                .to_owned(),
            Self::RateLimited { retry_after } => format!(
                "Too many requests. Try again in {} s.",
                whole_seconds(*retry_after)
            ),
            Self::Exhausted {
                retry_after,
                shortage,
            } => {
                let why = match shortage {
                    Shortage::Unready => "This gateway instance takes no request at the moment.",
                    Shortage::CircuitOpen => {
                        "Every lane of this model is benched by its breaker, out of budget or \
                         without a key; none was asked."
                    }
                    Shortage::LanesBusy => "Every lane of this model is busy; none was asked.",
                    Shortage::UpstreamFailed { status: None } => {
                        "Every lane of this model that was asked failed; the last one gave no \
                         answer."
                    }
                    Shortage::UpstreamFailed {
                        status: Some(status),
                    } => {
                        return format!(
                            "Every lane of this model that was asked failed; the last one \
                             answered {status}. Try again in {} s.",
                            whole_seconds(*retry_after)
                        );
                    }
                };
                format!("{why} Try again in {} s.", whole_seconds(*retry_after))
            }
            Self::Timeout => "No answer began within the time allowed. Try again.".to_owned(),
            Self::UpstreamAuth => "The provider refused the gateway's own credential for this \
                                   model. The gateway's operator must replace it; your key is not \
                                   the cause."
                .to_owned(),
            Self::StateElsewhere => {
                "The request names something that is kept at one lane's account, \
                                     and that lane is gone or cannot serve now. Try again later, \
                                     or send the whole conversation without the id."
                    .to_owned()
            }
            Self::BadGateway => {
                "The provider's answer was broken off or unusable. Try again.".to_owned()
            }
            Self::ShuttingDown => {
                "This gateway instance is shutting down. Send the request again.".to_owned()
            }
            Self::Internal => "The gateway failed. Try again, and give its operator the request \
                               id if it happens again."
                .to_owned(),
        }
    }

    /// When to come back, where that is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Exhausted { retry_after, .. } => {
                Some(*retry_after)
            }
            Self::ShuttingDown => Some(SHUTDOWN_RETRY_AFTER),
            Self::Busy => Some(BUSY_RETRY_AFTER),
            _ => None,
        }
    }

    /// The field of the request it is about.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::BadRequest { field, .. } => field.as_deref(),
            Self::NotFound { .. } | Self::Forbidden { .. } => Some("model"),
            _ => None,
        }
    }
}

/// Seconds for a `retry-after` header: rounded up, and never 0, which would ask for a busy loop.
#[must_use]
pub fn whole_seconds(wait: Duration) -> u64 {
    let up = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(up).max(1)
}
