//! What a caller speaks and what a vendor is: the operations, the one trait behind which everything
//! that is peculiar to a vendor lives, and the pair of both.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use http::HeaderMap;
use lanekeeper_model::gateway::ErrorMeaning;
use serde_json::{Map, Value};

use crate::error_kind::ErrorKind;
use crate::json::fields::Fields;
use crate::json::scan::LocateError;
use crate::reading::{AnswerReading, End, ErrorDetails, FrameReading, UsageNames};
use crate::translation::Translator;
use crate::translation::embeddings::Embedder;

pub use lanekeeper_model::gateway::Protocol;

/// An operation within a protocol, known from the request's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// One turn of a model, whatever the vendor calls it.
    Chat,
    /// The same as a stream, where the path and not the body asks for one.
    ChatStream,
    /// Plain text goes on.
    Completions,
    /// Vectors of texts.
    Embeddings,
    /// Vectors of several requests in one.
    EmbeddingsBatch,
    /// How many tokens a request has.
    CountTokens,
    /// Which names the caller may use. The agent answers it itself.
    Models,
    /// Another endpoint of the vendor's API, by its place in [`Vendor::others`]. Its answers are not
    /// read: the status alone judges them.
    Other(u8),
}

/// An endpoint that is passed through without being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherEndpoint {
    /// Its path below the version.
    pub path: &'static str,
    /// Its name where a breaker keeps a cell per endpoint.
    pub name: &'static str,
    /// It stands for things that the vendor keeps under an id, in one account, and for everything
    /// below them: any method, no model, and a path that goes on.
    pub is_collection: bool,
}

impl OtherEndpoint {
    /// One that takes a JSON document, which may name the model.
    pub(crate) const fn document(path: &'static str) -> Self {
        Self {
            path,
            name: path,
            is_collection: false,
        }
    }

    /// A collection.
    pub(crate) const fn collection(path: &'static str, name: &'static str) -> Self {
        Self {
            path,
            name,
            is_collection: true,
        }
    }
}

/// Everything the agent knows about one vendor's protocol. A vendor is one module that implements
/// this; all else in this crate asks through it.
///
/// The methods are pure. Documents reach them without content encoding.
pub trait Vendor: fmt::Debug + Send + Sync {
    /// The protocol's name, which no other vendor has.
    fn name(&self) -> &'static str;

    /// The protocol as the gateway document knows it.
    fn protocol(&self) -> Protocol;

    /// `gen_ai.provider.name` of the OpenTelemetry conventions.
    fn telemetry_name(&self) -> &'static str;

    /// `gen_ai.operation.name` of a chat, by the same conventions.
    fn telemetry_chat(&self) -> &'static str {
        "chat"
    }

    /// The operations that its lanes serve.
    fn operations(&self) -> &'static [Operation];

    /// The operation that counts the tokens of a chat request.
    fn count_operation(&self) -> Operation {
        Operation::CountTokens
    }

    /// Its endpoints that are passed through without being read, which its lanes serve too.
    fn others(&self) -> &'static [OtherEndpoint] {
        &[]
    }

    /// The name of a chat where a breaker keeps a cell per endpoint.
    fn chat_name(&self) -> &'static str {
        "chat"
    }

    // Requests.

    /// The operation at `path`, and the model that the path names.
    fn route<'a>(&self, path: &'a str) -> Option<(Operation, Option<Cow<'a, str>>)>;

    /// True when the request has what only this vendor's packages send.
    fn is_caller(&self, headers: &HeaderMap, query: Option<&str>) -> bool {
        let _ = (headers, query);
        false
    }

    /// True when a path that nobody serves looks like one of this vendor's.
    fn resembles(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// Path and query of `operation` upstream; `base` is the path of the provider's base URL without
    /// a slash at its end, `model` the provider's name of the model.
    fn endpoint(&self, base: &str, operation: Operation, model: &str) -> String;

    /// True when the path and not the body names the model and asks for a stream.
    fn has_model_in_path(&self) -> bool {
        false
    }

    /// Where the body repeats the model that the path names, in order.
    ///
    /// # Errors
    ///
    /// Anything but one JSON object.
    fn model_names(&self, body: &[u8]) -> Result<Vec<Range<usize>>, LocateError> {
        let _ = body;
        Ok(Vec::new())
    }

    /// The header that carries a provider's key, in lower case, and what stands before the key in it.
    fn key_header(&self) -> (&'static str, &'static str);

    /// The parameter of the query in which its clients may put the key instead.
    fn key_parameter(&self) -> Option<&'static str> {
        None
    }

    /// True when the header, in lower case, is a credential that this vendor's clients send, or
    /// names the account that a credential acts for.
    fn owns_header(&self, name: &str) -> bool;

    /// As [`Self::owns_header`], of a parameter of the query.
    fn owns_parameter(&self, name: &str) -> bool {
        self.key_parameter() == Some(name)
    }

    /// True when a header that a caller sent may go to this vendor, beside those that may go to
    /// every vendor; `name` is in lower case. Credentials and what names an account pass by
    /// [`Self::owns_header`] alone, whatever is said here.
    fn passes_header(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// True when a parameter of a caller's query may go to this vendor, as
    /// [`Self::passes_header`] is of headers. None that chooses the answer's form may: the agent
    /// reads it.
    fn passes_parameter(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// A header that every request needs, and its value unless the caller or the operator has one.
    fn required_header(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// True when the caller asks for its stream as one JSON array and not as server-sent events.
    fn streams_array(&self, operation: Operation, query: Option<&str>) -> bool {
        let _ = (operation, query);
        false
    }

    /// The smallest real generation: its operation and body. The body names `model` where bodies do.
    fn probe(&self, model: &str) -> (Operation, Value);

    // Answers.

    /// What closes a stream.
    fn end(&self) -> End;

    /// Reads the data of a frame, which is an object or the beginning of one, before the commit
    /// point.
    fn frame(&self, operation: Operation, event: Option<&[u8]>, data: &[u8]) -> FrameReading;

    /// True when a frame can definitely neither end nor fail the answer. It is told without parsing.
    fn is_plain(&self, raw: &[u8]) -> bool;

    /// How many bytes at the start of `raw`, which begins with a frame, are whole frames that
    /// [`Self::is_plain`] is true of. It may overlook some, never count one too many.
    fn plain_run(&self, raw: &[u8]) -> usize;

    /// True when the whole body is definitely an answer with something in it. It is told in one pass;
    /// whatever needs a closer look is left to [`Self::answer`].
    fn is_definitely_good(&self, operation: Operation, body: &[u8]) -> bool {
        let _ = (operation, body);
        false
    }

    /// Reads a whole answer. `None` when a member that it must have is missing or something else.
    fn answer(&self, operation: Operation, document: &Fields<'_>) -> Option<AnswerReading>;

    /// The names under which answers count their tokens.
    fn usage(&self) -> &'static UsageNames;

    // Errors.

    /// What an error object says beside `code`, `type`, `status` and `message`.
    fn error_details<'a>(&self, error: &'a Map<String, Value>) -> ErrorDetails<'a> {
        let _ = error;
        ErrorDetails::default()
    }

    /// What a documented code means under a status below 500.
    fn known_code(&self, status: u16, code: &str) -> Option<ErrorMeaning> {
        let _ = (status, code);
        None
    }

    /// What a sentence means, where the vendor gives no code of its own. `text` is in lower case and
    /// `status` is 400 or 413. Complaints about the output limit are the caller's and must not match.
    fn known_message(&self, status: u16, text: &str) -> Option<ErrorMeaning> {
        let _ = (status, text);
        None
    }

    /// True when a sentence says that a model does not exist. `text` is in lower case and `status`
    /// is 400 or 404.
    fn says_model_missing(&self, status: u16, text: &str) -> bool {
        let _ = (status, text);
        false
    }

    /// The status for which a code stands when it travels inside a 200.
    fn status_of(&self, code: &str) -> Option<u16> {
        let _ = code;
        None
    }

    /// The body of an error that the agent makes.
    fn error_document(&self, kind: &ErrorKind, request_id: &str) -> Value;

    /// The event that ends a running stream in failure.
    fn error_event(&self, kind: &ErrorKind, request_id: &str) -> String {
        format!("data: {}\n\n", self.error_document(kind, request_id))
    }

    /// The header in which its packages look for the request's id, where it is not `x-request-id`.
    fn request_id_header(&self) -> Option<&'static str> {
        None
    }

    /// True when a later request can go on from an answer by its id.
    fn keeps_chats(&self) -> bool {
        false
    }

    /// How the ids begin of what it keeps for one account, and hands out in answers.
    fn kept_ids(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its half of the translation; `None` for a vendor that only callers of its own reach.
    fn translator(&self) -> Option<&'static dyn Translator> {
        None
    }

    /// Its half of the translation of embeddings; `None` for a vendor that has none.
    fn embedder(&self) -> Option<&'static dyn Embedder> {
        None
    }

    // Lists of models.

    /// The entry of one name.
    fn model_entry(&self, name: &str) -> Value;

    /// The list of such entries.
    fn model_list(&self, entries: Vec<Value>) -> Value;
}

/// What one caller speaks: a vendor's protocol and the operation within it. Each vendor's module
/// names its own.
#[derive(Clone, Copy)]
pub struct Dialect {
    vendor: &'static dyn Vendor,
    operation: Operation,
}

impl Dialect {
    /// An operation of a vendor.
    #[must_use]
    pub const fn new(vendor: &'static dyn Vendor, operation: Operation) -> Self {
        Self { vendor, operation }
    }

    /// Whose protocol it is.
    #[must_use]
    pub const fn vendor(self) -> &'static dyn Vendor {
        self.vendor
    }

    /// The operation.
    #[must_use]
    pub const fn operation(self) -> Operation {
        self.operation
    }

    /// The protocol a lane must speak to serve this dialect without translation.
    #[must_use]
    pub fn protocol(self) -> Protocol {
        self.vendor.protocol()
    }

    /// The operation's name, used where a breaker keeps a cell per endpoint.
    #[must_use]
    pub fn endpoint_name(self) -> &'static str {
        match self.operation {
            Operation::Chat | Operation::ChatStream => self.vendor.chat_name(),
            Operation::Completions => "completions",
            Operation::Embeddings | Operation::EmbeddingsBatch => "embeddings",
            Operation::CountTokens => "count_tokens",
            Operation::Models => "models",
            Operation::Other(_) => self.other().map_or("other", |endpoint| endpoint.name),
        }
    }

    /// `gen_ai.operation.name` of the OpenTelemetry conventions, which have none for counting tokens,
    /// listing models and other endpoints.
    #[must_use]
    pub fn telemetry_name(self) -> &'static str {
        match self.operation {
            Operation::Chat | Operation::ChatStream => self.vendor.telemetry_chat(),
            Operation::Completions => "text_completion",
            Operation::Embeddings | Operation::EmbeddingsBatch => "embeddings",
            Operation::CountTokens => "count_tokens",
            Operation::Models => "list_models",
            Operation::Other(_) => self.other().map_or("other", |endpoint| endpoint.name),
        }
    }

    /// True when the tokens of a chat request are to be counted.
    #[must_use]
    pub fn counts_tokens(self) -> bool {
        self.operation == self.vendor.count_operation()
    }

    /// True when answers may name things that the vendor keeps for one account.
    #[must_use]
    pub fn gives_out_ids(self) -> bool {
        let is_kept = match self.operation {
            Operation::Chat | Operation::ChatStream => self.vendor.keeps_chats(),
            Operation::Other(_) => true,
            _ => false,
        };
        is_kept && !self.vendor.kept_ids().is_empty()
    }

    /// True when lanes of `lane`, another vendor, can be asked this in translation.
    #[must_use]
    pub fn reaches(self, lane: &dyn Vendor) -> bool {
        let speaks = self.vendor.translator().is_some() && lane.translator().is_some();
        match self.operation {
            Operation::Chat | Operation::ChatStream => speaks,
            _ if self.counts_tokens() => speaks,
            Operation::Embeddings | Operation::EmbeddingsBatch => {
                self.vendor.embedder().is_some() && lane.embedder().is_some()
            }
            _ => false,
        }
    }

    /// True when the answer may be an event stream.
    #[must_use]
    pub fn can_stream(self) -> bool {
        match self.operation {
            Operation::Chat => !self.vendor.has_model_in_path(),
            Operation::ChatStream | Operation::Completions => true,
            Operation::Embeddings
            | Operation::EmbeddingsBatch
            | Operation::CountTokens
            | Operation::Models
            | Operation::Other(_) => false,
        }
    }

    /// True when the caller asks for its stream as one JSON array and not as server-sent events.
    #[must_use]
    pub fn streams_array(self, query: Option<&str>) -> bool {
        self.vendor.streams_array(self.operation, query)
    }

    /// True when the path and not the body names the model.
    #[must_use]
    pub fn has_model_in_path(self) -> bool {
        self.vendor.has_model_in_path() && !self.lists_models()
    }

    /// True when the status alone says how an answer is; its body may be anything.
    #[must_use]
    pub const fn is_judged_by_status(self) -> bool {
        matches!(self.operation, Operation::Other(_))
    }

    /// The endpoint that is passed through, if it is one of those.
    #[must_use]
    pub fn other(self) -> Option<&'static OtherEndpoint> {
        match self.operation {
            Operation::Other(place) => self.vendor.others().get(usize::from(place)),
            _ => None,
        }
    }

    /// True for what a vendor keeps under ids.
    #[must_use]
    pub fn is_collection(self) -> bool {
        self.other().is_some_and(|endpoint| endpoint.is_collection)
    }

    /// What follows the collection in the caller's `path`: empty, or with a leading slash. Empty for
    /// other operations.
    #[must_use]
    pub fn below_collection(self, path: &str) -> &str {
        let Some(endpoint) = self.other().filter(|endpoint| endpoint.is_collection) else {
            return "";
        };
        let own = endpoint.path;
        let after = |(at, _): (usize, &str)| path.get(at..)?.strip_prefix('/')?.strip_prefix(own);
        let tail = |tail: &&str| tail.is_empty() || tail.starts_with('/');
        { path.match_indices('/') }
            .filter_map(after)
            .find(tail)
            .unwrap_or_default()
    }

    /// True when the caller asks which names it may use, which the agent answers itself.
    #[must_use]
    pub const fn lists_models(self) -> bool {
        matches!(self.operation, Operation::Models)
    }
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.operation == other.operation && self.vendor.name() == other.vendor.name()
    }
}

impl Eq for Dialect {}

impl Hash for Dialect {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.vendor.name().hash(state);
        self.operation.hash(state);
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{:?}", self.vendor.name(), self.operation)
    }
}
