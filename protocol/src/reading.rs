//! What a vendor's readers find in a document, before anything is concluded from it.

/// What one frame of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameReading {
    /// A keep-alive.
    Ping,
    /// The answer began or moved on without showing anything.
    Lifecycle,
    /// Something the caller can use.
    Content,
    /// The model ended its turn.
    Finish {
        /// True when the model just stopped, and no limit, filter, refusal or tool call was why.
        natural: bool,
        /// True when the same frame also carries content.
        content: bool,
    },
    /// The protocol's closing frame.
    Terminal {
        /// True when this frame alone makes the answer one.
        content: bool,
    },
    /// An error, or nothing the protocol knows.
    Failed,
}

/// What a whole answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerReading {
    /// An answer with something in it.
    Good,
    /// A well-formed answer that says nothing and stopped of its own accord.
    Empty,
    /// The reason for its end is a failure of the provider.
    Failed,
    /// Nothing the protocol knows.
    Malformed,
}

impl AnswerReading {
    /// Of a well-formed answer: whether it holds anything.
    #[must_use]
    pub const fn good_if(good: bool) -> Self {
        if good { Self::Good } else { Self::Empty }
    }
}

/// What closes a protocol's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A closing frame: an end without it is a cut, however clean it looks.
    Frame,
    /// The bare word `[DONE]`, which many services that speak the protocol leave out: the end of the
    /// model's turn does as well. Behind nothing it closes nothing.
    Done,
    /// The frame that ends the model's turn; there is no other.
    Finish,
}

/// What an error object says beside its code and message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDetails<'a> {
    /// Codes that are finer than the object's own, in the order of the text.
    pub reasons: Vec<&'a str>,
    /// Requested delays, as protobuf's JSON writes a duration: seconds and the letter `s`.
    pub delays: Vec<&'a str>,
}

/// The names under which a vendor describes its answers.
#[derive(Clone, Copy, Debug)]
pub struct UsageNames {
    /// Members that may hold the description, beside the top of the document.
    pub scopes: &'static [&'static str],
    /// The model that answered.
    pub model: &'static str,
    /// The object that counts.
    pub usage: &'static str,
    /// The object within it that counts tokens, where it counts other things too.
    pub tokens: Option<&'static str>,
    /// Tokens of the prompt; several are added up.
    pub input: &'static [&'static str],
    /// Tokens of the answer; several are added up.
    pub output: &'static [&'static str],
}
