//! A turn of a script in the words of a dialect, whole and as a stream.

use super::Framing;
use super::{Dialect, anthropic, cohere, gemini, openai, responses};
use crate::script::Cue;
use serde_json::Value;

/// Both forms of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Played {
    pub(super) whole: Value,
    /// Frames before the first content.
    pub(super) opening: String,
    /// Content frames: a word of the text or a piece of a tool call, with the frames around it.
    pub(super) content: Vec<String>,
    /// Frames behind the last content.
    pub(super) closing: String,
}

/// What the wording of a turn depends on beside the turn.
pub(super) struct Manner<'a> {
    pub(super) model: &'a str,
    pub(super) framing: Framing,
    pub(super) include_usage: bool,
}

pub(super) fn play(dialect: Dialect, cue: Cue<'_>, manner: &Manner<'_>) -> Played {
    match dialect {
        Dialect::OpenAi => openai::turn::play(cue, manner),
        Dialect::Responses => responses::turn::play(cue, manner),
        Dialect::Anthropic => anthropic::turn::play(cue, manner),
        Dialect::Gemini => gemini::turn::play(cue, manner),
        Dialect::Cohere => cohere::turn::play(cue),
    }
}

/// The length of a turn as its usage has it.
pub(super) fn tokens(cue: Cue<'_>) -> usize {
    let arguments = cue.turn.tool_calls.iter();
    let called: usize = arguments.map(|call| 1 + call.arguments.len()).sum();
    cue.turn.words().len() + called
}

#[cfg(test)]
mod tests;
