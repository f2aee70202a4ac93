//! Everything that can go wrong with a request, in terms of what its sender can do about it.
//!
//! `problem.rs` is the one place that maps these to HTTP.

use lanekeeper_store::Role;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The body is not JSON.
    #[error("the body is not valid JSON: {reason} at line {line} column {column}")]
    MalformedJson {
        reason: String,
        line: usize,
        column: usize,
    },
    /// The body is JSON, but not what the route takes.
    #[error("the body has {} field(s) that cannot be used", .0.len())]
    InvalidBody(Vec<Fault>),
    /// The gateway document breaks rules; each is listed.
    #[error("the gateway document has errors: {}", counted(.0))]
    InvalidDocument(Vec<lanekeeper_model::Problem>),
    /// A query parameter the route does not know.
    #[error("unknown query parameter '{name}'; this route knows: {known}")]
    UnknownParameter { name: String, known: String },
    /// A query or path parameter that cannot be used.
    #[error("parameter '{name}': {reason}")]
    InvalidParameter { name: String, reason: String },
    /// A header that cannot be used.
    #[error("header '{name}': {reason}")]
    InvalidHeader { name: &'static str, reason: String },
    /// No token, or one that is unknown, revoked or expired. Which of them is not said.
    #[error("{0}")]
    Unauthenticated(&'static str),
    /// The token's role does not reach.
    #[error("this requires the role '{}'; the token '{name}' has '{}'", .needed.as_str(), .has.as_str())]
    InsufficientRole {
        needed: Role,
        has: Role,
        name: String,
    },
    /// A cookie session was used for a write from another site's page.
    #[error("a browser session may write only from this server's own pages")]
    CrossOrigin,
    /// No such route.
    #[error("not found: no such route")]
    UnknownRoute,
    /// The named thing does not exist.
    #[error("{kind} '{name}' not found")]
    NotFound { kind: &'static str, name: String },
    /// The route exists, the method does not.
    #[error("method {0} is not allowed on this route")]
    MethodNotAllowed(String),
    /// The body was not received in time.
    #[error("the body was not received within {0} s")]
    BodyTimeout(u64),
    /// The caller, or all callers together, send as much at once as may be held.
    #[error("too many large request bodies at once; try again")]
    BodiesBusy,
    /// The body broke off.
    #[error("the body ended before it was complete")]
    BodyCut,
    /// The gateway comes from a file.
    #[error(
        "gateway '{gateway}' comes from the file '{file}' of this server's documents folder: change \
         it there"
    )]
    Managed { gateway: String, file: String },
    /// Somebody else wrote in between.
    #[error("the current revision is {current}; read it and apply the change to it")]
    RevisionMismatch { current: u64 },
    /// The body is larger than the route takes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The body's type or coding is not one the route takes.
    #[error("{0}")]
    UnsupportedMedia(String),
    /// A write to a configuration must say what it is based on.
    #[error("send If-Match with the ETag of the configuration this change is based on")]
    NoIfMatch,
    /// The key of a write was used for another one.
    #[error("this Idempotency-Key was already used for a different request within the last day")]
    IdempotencyKeyReused,
    /// A repeated write whose first answer is gone and cannot be made again: it held a secret.
    #[error(
        "an earlier request with this key already changed '{resource}'; its response was given \
         once and is not stored"
    )]
    AlreadyDone { resource: String },
    /// The process that an agent was has ended; it will obey no order.
    #[error("this agent has ended; a restarted process is a new agent")]
    AgentGone,
    /// Every slot for streaming readers is taken.
    #[error("all {0} event streams are in use")]
    TooManyStreams(usize),
    /// The token has as many event streams open as one may.
    #[error("this token already has {0} event streams open, which is the limit")]
    TooManyStreamsOfToken(usize),
    /// A gateway with live agents is deleted only knowingly.
    #[error(
        "{live} agent(s) serve this gateway now; to delete it anyway, send If-Match with its \
         ETag, or *"
    )]
    GatewayInUse { live: usize },
    /// The document would leave a gateway that serves without any usable pool.
    #[error(
        "this would leave the gateway without any usable pool, and every call would fail: send \
         allow_empty to do it anyway"
    )]
    EmptyGateway { pointer: &'static str },
    /// An order would leave pools without a member that takes requests.
    #[error(
        "this would leave no usable member in {} pool(s): send \"allow_empty\": true to do it anyway",
        .0.len()
    )]
    LastUsableMember(Vec<lanekeeper_model::PoolName>),
    /// The orders of the gateway changed each time they were looked at.
    #[error("concurrent changes to the overrides of this gateway; try again")]
    OverridesBusy,
    /// The document changed each time a change was made on it.
    #[error("concurrent changes to the configuration of this gateway; try again")]
    ConfigBusy,
    /// The configuration store or the live view refused, or does not answer.
    #[error(transparent)]
    Store(lanekeeper_store::Error),
    /// The request took longer than the server gives one.
    #[error("the request took too long")]
    Overdue,
    /// The fleet has not been read yet.
    #[error("the fleet has not been read yet")]
    NotReady,
    /// The server has begun to run before its database.
    #[error("the server is waiting for its configuration database")]
    NoDatabaseYet,
    /// A library refused the request before any handler of ours saw it.
    #[error("the request cannot be served: {0}")]
    Refused(http::StatusCode),
    /// The request's head is no HTTP, or larger than allowed.
    #[error("the request's head cannot be read: {0}; the limits are 64 KiB and 100 headers")]
    UnreadableHead(http::StatusCode),
    /// A fault of this server.
    #[error("internal error")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How many problems there are, and that the list is cut where it is.
fn counted(problems: &[lanekeeper_model::Problem]) -> String {
    match problems.iter().find(|it| it.code == CUT_LIST) {
        Some(cut) => cut.message.clone(),
        None => problems.len().to_string(),
    }
}

/// The code of the entry with which the model ends a list that it cut.
const CUT_LIST: &str = "too_many_problems";

/// Longest text of an answer that repeats what a client sent, bytes: a key may be as long as a body.
const MAX_TEXT_BYTES: usize = 2048;

/// A text within its bound.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push('…');
    }
    text
}

/// One thing that is wrong with a body or a parameter. Its texts end after 2,048 bytes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Fault {
    /// Where in the body, as an RFC 6901 pointer; absent when it is not about the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pointer: Option<String>,
    /// Which query parameter or header; absent when it is about the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<String>,
    /// What kind of fault, in snake case, stable for programs.
    pub(crate) code: String,
    /// The fault, as a sentence for people.
    pub(crate) message: String,
}

impl Fault {
    /// A fault at `pointer` of the body.
    pub(crate) fn at(pointer: impl Into<String>, code: &str, message: impl Into<String>) -> Self {
        Self {
            pointer: Some(cut(pointer.into())),
            parameter: None,
            code: code.to_owned(),
            message: cut(message.into()),
        }
    }
}

impl From<lanekeeper_store::Error> for Error {
    fn from(error: lanekeeper_store::Error) -> Self {
        match error {
            lanekeeper_store::Error::Conflict { current } => Self::RevisionMismatch { current },
            other => Self::Store(other),
        }
    }
}

impl From<lanekeeper_model::Problem> for Fault {
    fn from(problem: lanekeeper_model::Problem) -> Self {
        Self {
            pointer: Some(cut(problem.pointer)),
            parameter: None,
            code: problem.code,
            message: cut(problem.message),
        }
    }
}

impl Error {
    /// The list for the `errors` member of the answer.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        match self {
            Self::InvalidBody(faults) => faults.clone(),
            Self::InvalidDocument(problems) => problems.iter().cloned().map(Fault::from).collect(),
            Self::EmptyGateway { pointer } => {
                let message = "no pool would have a member that can be selected";
                vec![Fault::at(*pointer, self.code(), message)]
            }
            Self::LastUsableMember(pools) => pools
                .iter()
                .map(|pool| {
                    let message = format!("pool '{pool}' would have no usable member");
                    Fault::at("/allow_empty", "last_usable_member", message)
                })
                .collect(),
            Self::UnknownParameter { name, .. } | Self::InvalidParameter { name, .. } => {
                vec![self.parameter_fault(name)]
            }
            Self::InvalidHeader { name, .. } => vec![self.parameter_fault(name)],
            Self::Store(lanekeeper_store::Error::Invalid { field, .. }) => {
                vec![Fault::at(
                    format!("/{field}"),
                    "invalid_value",
                    self.to_string(),
                )]
            }
            Self::MalformedJson { .. } => vec![Fault::at("", self.code(), self.to_string())],
            _ => Vec::new(),
        }
    }

    fn parameter_fault(&self, name: &str) -> Fault {
        Fault {
            pointer: None,
            parameter: Some(cut(name.to_owned())),
            code: self.code().to_owned(),
            message: cut(self.to_string()),
        }
    }
}
