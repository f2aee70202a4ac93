//! What one attempt proved about a lane, and why.

use std::time::Duration;

use crate::names::names;

names! {
    /// The kind of evidence behind a failure.
    pub enum CauseKind {
        /// The upstream answered with a failing status.
        Status = "status",
        /// The upstream said to slow down.
        RateLimit = "rate_limit",
        /// The upstream said it is overloaded.
        Overloaded = "overloaded",
        /// The credential was refused.
        Auth = "auth",
        /// The account has no money left.
        Billing = "billing",
        /// The provider does not have the model that the operator named.
        ModelMissing = "model_missing",
        /// The name did not resolve.
        Dns = "dns",
        /// No connection could be made.
        Connect = "connect",
        /// The connect-time address guard refused the address.
        Blocked = "blocked",
        /// The TLS handshake failed.
        Tls = "tls",
        /// A time limit set by the operator passed.
        Timeout = "timeout",
        /// The connection was reset or closed under the request.
        Reset = "reset",
        /// The peer broke the HTTP protocol.
        Protocol = "protocol",
        /// The stream fell silent for longer than allowed.
        Stalled = "stalled",
        /// The stream ended without its terminal signal.
        Truncated = "truncated",
        /// The upstream answered with a redirect, which is never followed.
        Redirect = "redirect",
        /// A success whose body is no answer.
        BadBody = "bad_body",
        /// A success whose stream carried an error frame.
        ErrorFrame = "error_frame",
        /// A well-formed answer with nothing in it, where the provider counts that as a failure.
        EmptyAnswer = "empty_answer",
        /// The first content came later than the policy allows.
        Slow = "slow",
    }
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// The kind of evidence.
    pub kind: CauseKind,
    /// The HTTP status, when there was one.
    pub status: Option<u16>,
}

impl Cause {
    /// A cause without a status.
    pub const fn new(kind: CauseKind) -> Self {
        Self { kind, status: None }
    }

    /// A cause with the status it came with.
    pub const fn with_status(kind: CauseKind, status: u16) -> Self {
        Self {
            kind,
            status: Some(status),
        }
    }
}

/// What one attempt proved about its lane. Every admitted attempt has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer was delivered whole.
    Success,
    /// The lane failed in a way that time may heal.
    Transient {
        /// Why.
        cause: Cause,
        /// How long the server asked to be left alone, before the cap.
        retry_after: Option<Duration>,
    },
    /// The lane cannot serve until someone fixes its credential or account.
    HardDown {
        /// Why.
        cause: Cause,
    },
    /// The attempt proves nothing about the lane.
    Neutral,
}
