//! Translation between dialects: one reader and one writer per protocol, and between them the passes
//! that are the same for all pairs.
//!
//! A request goes through [`request`]: the caller's protocol reads it, `fit` drops, cuts or refuses
//! what the lane's protocol has no place for, names and ids are made legal, the lane's protocol
//! writes it. The answer comes back the other way, whole ([`Exchange::answer`]) or event by event
//! ([`StreamTranslation`]). There are no pairs: a protocol that implements [`Translator`] speaks with
//! all others.

pub(crate) mod custom;
pub(crate) mod document;
pub mod embeddings;
mod exchange;
pub(crate) mod extent;
mod fit;
pub mod ids;
mod losses;
pub mod marks;
pub mod media;
pub(crate) mod members;
mod names;
mod proofs;
mod refusal;
pub(crate) mod schema;
mod stream;
mod takes;
mod tool_history;
pub(crate) mod writing;

use std::fmt;

use lanekeeper_model::gateway::{Accepts, Protocol};

use crate::ir::{Answer, Event, Place, Request};

pub use exchange::{Exchange, Translated, count_tokens, request};
pub use fit::CUSTOM_INPUT;
pub use ids::IdRule;
pub use losses::Losses;
pub use names::NameRule;
pub use refusal::Refusal;
pub use stream::{StreamError, StreamTranslation};
pub use takes::{Feature, Take};

/// What the writer of a request must know of the lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneFacts<'a> {
    /// The provider's name of the model.
    pub model: &'a str,
    /// What the model takes where its protocol's documents leave it open.
    pub accepts: Accepts,
    /// What is asked for where the protocol demands a limit and the caller gave none.
    pub max_output_tokens: u64,
}

/// What the writer of an answer must know of the request.
#[derive(Clone, Debug, Default)]
pub struct CallerFacts {
    /// The model as the caller named it.
    pub model: String,
    /// Seconds since 1970, for dialects whose answers carry a date.
    pub created: u64,
    /// An id that no other answer has, of letters and digits: what made-up ids are made of.
    pub unique: String,
    /// The stream ends with an event that counts tokens, where the dialect leaves the choice.
    pub stream_usage: bool,
    /// Names of the caller's tools that take free text.
    pub custom_tools: Vec<String>,
}

/// What a protocol's request for a lane is.
#[derive(Debug)]
pub struct Written {
    /// The document.
    pub body: Vec<u8>,
    /// The name of a tool that the writer made up to get an answer in the form that was asked for.
    pub answer_tool: Option<String>,
}

impl From<Vec<u8>> for Written {
    fn from(body: Vec<u8>) -> Self {
        Self {
            body,
            answer_tool: None,
        }
    }
}

/// One protocol's half of the translation: everything that is peculiar to it.
///
/// All methods are pure. Readers never fail on what they do not know: they name it.
pub trait Translator: fmt::Debug + Send + Sync {
    /// The protocol.
    fn protocol(&self) -> Protocol;

    /// What its lanes do with a feature of a request.
    fn takes(&self, feature: Feature) -> Take;

    /// Which ids of tool calls its lanes take.
    fn id_rule(&self) -> IdRule;

    /// Which names of tools its lanes take.
    fn name_rule(&self) -> NameRule;

    /// True when its callers hand back what proves a thought to its vendor. For others it rides in the
    /// id of the tool call that follows.
    fn keeps_proofs(&self) -> bool {
        true
    }

    /// True when its lanes want proofs back with the tool call, and not with the thought before it.
    fn has_proofs_on_calls(&self) -> bool {
        true
    }

    /// How its callers write the place of a part: `messages[1].content[0]`.
    fn place(&self, at: Place) -> String;

    /// Reads a caller's chat request. `streams` is true when the path asks for a stream.
    ///
    /// # Errors
    ///
    /// The request breaks a rule of the dialect, so that its meaning is unknown.
    fn read_request<'a>(&self, body: &'a [u8], streams: bool) -> Result<Request<'a>, Refusal>;

    /// Writes a chat request for a lane. What [`Self::takes`] says is dropped or refused is gone
    /// already; what only shows while writing goes into `losses`.
    ///
    /// # Errors
    ///
    /// The protocol cannot say it.
    fn write_request(
        &self,
        request: &Request<'_>,
        lane: &LaneFacts<'_>,
        losses: &mut Losses,
    ) -> Result<Written, Refusal>;

    /// Reads a lane's whole chat answer. `None` when it is none.
    fn read_answer<'a>(&self, body: &'a [u8]) -> Option<Answer<'a>>;

    /// Writes a whole chat answer for a caller.
    fn write_answer(&self, answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8>;

    /// Reads a caller's request to count the tokens of a chat request.
    ///
    /// # Errors
    ///
    /// As [`Self::read_request`].
    fn read_count<'a>(&self, body: &'a [u8]) -> Result<Request<'a>, Refusal> {
        self.read_request(body, false)
    }

    /// Writes a request to count tokens for a lane.
    ///
    /// # Errors
    ///
    /// As [`Self::write_request`]; and the protocol has nothing that counts.
    fn write_count(
        &self,
        request: &Request<'_>,
        lane: &LaneFacts<'_>,
        losses: &mut Losses,
    ) -> Result<Vec<u8>, Refusal> {
        let _ = (request, lane, losses);
        Err(Refusal::new(
            "model",
            "is served by lanes that cannot count tokens",
        ))
    }

    /// Reads a lane's count. `None` when it is none.
    fn read_counted(&self, body: &[u8]) -> Option<u64> {
        let _ = body;
        None
    }

    /// Writes a count for a caller.
    fn write_counted(&self, tokens: u64) -> Vec<u8> {
        let _ = tokens;
        Vec::new()
    }

    /// A reader at the start of a lane's stream.
    fn stream_reader(&self) -> Box<dyn StreamReader>;

    /// A writer at the start of a caller's stream.
    fn stream_writer(&self, caller: &CallerFacts) -> Box<dyn StreamWriter>;
}

/// Reads a lane's stream.
pub trait StreamReader: fmt::Debug + Send + Sync {
    /// Reads the data of one frame and gives its events to `sink`, in the grammar of [`Event`]. Frames
    /// that report an error never come here.
    ///
    /// # Errors
    ///
    /// The frame is none of this protocol.
    fn read(
        &mut self,
        event: Option<&[u8]>,
        data: &[u8],
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), BadFrame>;

    /// The lane's stream has ended regularly: closes what is open. Gives [`Event::End`] unless a
    /// frame gave it.
    fn end(&mut self, sink: &mut dyn FnMut(Event<'_>));
}

/// Writes a caller's stream: whole server-sent events, appended to `out`.
pub trait StreamWriter: fmt::Debug + Send + Sync {
    /// Writes what an event says, or keeps it until its dialect has a place for it. At
    /// [`Event::End`] everything is written.
    ///
    /// # Errors
    ///
    /// More would have to be held back than [`HELD_MAX_BYTES`].
    fn write(&mut self, event: Event<'_>, out: &mut Vec<u8>) -> Result<(), HeldTooMuch>;

    /// The event with which the stream ends in failure, as it fits what was written: `event` is what
    /// the dialect has for it. `None` when that is right already.
    fn failure(&self, event: &[u8]) -> Option<Vec<u8>> {
        let _ = event;
        None
    }
}

/// Most bytes of one answer that are held back because the caller's dialect has no place for them
/// yet, such as pieces of a second tool call while a first one is open.
pub const HELD_MAX_BYTES: usize = 1024 * 1024;

/// A frame that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame is none of this protocol")]
pub struct BadFrame;

/// An answer cannot go on without more being held back than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more of the answer would be held back than may be")]
pub struct HeldTooMuch;
