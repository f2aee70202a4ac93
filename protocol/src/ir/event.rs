//! A streamed answer, event by event.

use std::borrow::Cow;

use super::{Finish, Proof, Usage};

/// One event of a streamed answer.
///
/// Readers hold to this grammar, whatever the lane sends:
/// `Start (PartStart | piece | PartEnd | Usage | Finish | Ping)* End`. Parts are numbered from 0 in
/// the order in which they begin, each begins once and ends once, its pieces come in between, and
/// several may be open at a time. `Usage` replaces what an earlier one said. `Finish` comes at most
/// once and after it no part begins; `Usage` may still follow it. After `End` nothing comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// The answer begins.
    Start {
        /// The vendor's id of it; empty where it gave none.
        id: Cow<'a, str>,
        /// The model that answers, as the vendor names it.
        model: Cow<'a, str>,
    },
    /// A part begins.
    PartStart {
        /// Its number.
        part: usize,
        /// What it will be.
        start: PartStart<'a>,
    },
    /// More text of a text, reasoning or refusal part, or of a tool call's arguments.
    Piece {
        /// The part's number.
        part: usize,
        /// The text.
        text: Cow<'a, str>,
    },
    /// What proves a reasoning part to its vendor. That of a tool call comes with its beginning.
    Proof {
        /// The part's number.
        part: usize,
        /// The proof.
        proof: Proof<'a>,
    },
    /// A part is whole.
    PartEnd {
        /// Its number.
        part: usize,
    },
    /// What the answer cost so far.
    Usage(Usage),
    /// Why the answer ended.
    Finish(Finish<'a>),
    /// The lane lives.
    Ping,
    /// The answer is whole.
    End,
}

/// What a part will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartStart<'a> {
    /// Text.
    Text,
    /// Thoughts.
    Reasoning,
    /// The model's words for declining.
    Refusal,
    /// A call of a tool.
    ToolCall {
        /// The id that its result will name.
        id: Cow<'a, str>,
        /// The tool's name.
        name: Cow<'a, str>,
        /// What the vendor wants back with the call.
        proof: Option<Proof<'a>>,
    },
}
