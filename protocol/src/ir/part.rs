//! The parts that messages and answers are made of.

use std::borrow::Cow;

use lanekeeper_model::gateway::Protocol;

use super::Arguments;

/// Where a part stands in the caller's document, for messages about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The message's index.
    pub message: usize,
    /// The part's index within the message, or [`Self::WHOLE`].
    pub part: usize,
}

impl Place {
    /// In place of a part's index: the part is the message itself.
    pub const WHOLE: usize = usize::MAX;
}

/// One part of a message or an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<'a> {
    /// What it is.
    pub body: PartBody<'a>,
    /// Everything up to here may be kept in the vendor's prompt cache.
    pub cache: Option<CacheMark<'a>>,
    /// Where the caller put it.
    pub at: Place,
}

impl<'a> Part<'a> {
    /// A part without a cache mark.
    #[must_use]
    pub const fn new(body: PartBody<'a>, at: Place) -> Self {
        Self {
            body,
            cache: None,
            at,
        }
    }

    /// A part that no caller put anywhere.
    #[must_use]
    pub fn unplaced(body: PartBody<'a>) -> Self {
        Self::new(body, Place::default())
    }

    /// Plain text that no caller put anywhere.
    #[must_use]
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::unplaced(PartBody::Text(text.into()))
    }
}

/// What a part is.
#[derive(Clone, Debug, PartialEq)]
pub enum PartBody<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// A picture.
    Image(Media<'a>),
    /// A document, such as a PDF or a text with a name.
    Document(Media<'a>),
    /// Sound.
    Audio(Media<'a>),
    /// The model calls a tool.
    ToolCall(ToolCall<'a>),
    /// What a tool gave.
    ToolResult(ToolResult<'a>),
    /// What the model thought.
    Reasoning(Reasoning<'a>),
    /// The model declines, in its words.
    Refusal(Cow<'a, str>),
    /// A part that only the caller's own protocol has: no other lane can serve a request with it.
    Foreign {
        /// What the caller calls it.
        kind: Cow<'a, str>,
    },
}

/// A mark of the prompt cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheMark<'a> {
    /// How long the entry lives, as the vendor writes it: `5m`, `1h`.
    pub ttl: Option<Cow<'a, str>>,
}

/// A picture, a document or sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media<'a> {
    /// Where its bytes are.
    pub source: MediaSource<'a>,
    /// Its name, for documents.
    pub name: Option<Cow<'a, str>>,
    /// How closely a picture is looked at: `low`, `high`, `auto`.
    pub detail: Option<Cow<'a, str>>,
}

/// Where bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSource<'a> {
    /// Here.
    Base64 {
        /// The media type in lower case, without parameters; `image/jpg` is written `image/jpeg`.
        media_type: Cow<'a, str>,
        /// The bytes in standard base64.
        data: Cow<'a, str>,
    },
    /// At an address that the vendor would fetch. The agent never does.
    Url(Cow<'a, str>),
    /// Plain text, which some dialects take as a document.
    Text(Cow<'a, str>),
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall<'a> {
    /// The id that its result names. Empty where the dialect has none, until one is made.
    pub id: Cow<'a, str>,
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// What it is called with.
    pub arguments: Arguments<'a>,
    /// What the vendor wants back with the call, to trust its own reasoning.
    pub proof: Option<Proof<'a>>,
    /// It calls a tool that takes free text.
    pub is_custom: bool,
}

/// What a tool gave.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult<'a> {
    /// The id of the call.
    pub call_id: Cow<'a, str>,
    /// The tool's name; readers whose dialect does not say it leave it empty, and it is looked up.
    pub name: Cow<'a, str>,
    /// Text, pictures and documents.
    pub content: Vec<Part<'a>>,
    /// The tool failed.
    pub is_error: bool,
    /// It answers a call of a tool that takes free text.
    pub is_custom: bool,
}

/// What the model thought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning<'a> {
    /// The text, where it is shown.
    pub text: Cow<'a, str>,
    /// What proves to its vendor that it is unchanged.
    pub proof: Option<Proof<'a>>,
}

/// A signature or an encrypted thought. It means something to the vendor that made it and to
/// nobody else, so it goes back to that vendor alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof<'a> {
    /// Whose it is.
    pub protocol: Protocol,
    /// The opaque text.
    pub text: Cow<'a, str>,
    /// The thought itself is hidden in it: Anthropic's `redacted_thinking`.
    pub is_redacted: bool,
}

impl Proof<'_> {
    /// The same without what it borrows.
    #[must_use]
    pub fn into_owned(self) -> Proof<'static> {
        Proof {
            protocol: self.protocol,
            text: Cow::Owned(self.text.into_owned()),
            is_redacted: self.is_redacted,
        }
    }
}
