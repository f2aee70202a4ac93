//! Scripted turns: what the provider answers to callers that use tools, one turn after the other.
//!
//! A script is neutral of dialects: texts and tool calls, worded by each dialect in its own way.
//! Which turn a request gets depends on nothing but the request: on the number of tool results in
//! its conversation. Callers may therefore repeat a request, and several may play one script at once.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Most turns of a script.
const MAX_TURNS: usize = 1_000;
/// Most tool calls of one turn.
const MAX_TOOL_CALLS: usize = 100;

/// Turns in the order they are played; every turn but the last calls tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    turns: Vec<Turn>,
}

/// One answer of the model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turn {
    /// Said before the tool calls; empty = nothing is.
    #[serde(default)]
    pub(crate) text: String,
    /// Called together.
    #[serde(default)]
    pub(crate) tool_calls: Vec<ToolCall>,
}

/// A call of one of the caller's tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
}

/// A turn and its place in the conversation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cue<'a> {
    pub(crate) turn: &'a Turn,
    /// Tool calls of the turns before; numbers the ids of this turn's.
    pub(crate) earlier_calls: usize,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It is not JSON of the right shape.
    #[error("the script cannot be read: {0}")]
    Shape(#[from] serde_json::Error),
    /// It is, and could not be played; each problem names its field.
    #[error("the script is not valid: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl Script {
    /// Reads a script from JSON, `{"turns": [{"text", "tool_calls": [{"name", "arguments"}]}]}`.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] with everything that is wrong with it.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ScriptError> {
        let script: Self = serde_json::from_slice(bytes)?;
        let problems = script.problems();
        if problems.is_empty() {
            Ok(script)
        } else {
            Err(ScriptError::Invalid(problems))
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.turns.is_empty() || self.turns.len() > MAX_TURNS {
            problems.push(format!("turns: must be from 1 to {MAX_TURNS}"));
        }
        let last = self.turns.len().saturating_sub(1);
        for (index, turn) in self.turns.iter().enumerate() {
            let calls = turn.tool_calls.len();
            if calls > MAX_TOOL_CALLS {
                problems.push(format!(
                    "turns[{index}].tool_calls: at most {MAX_TOOL_CALLS}"
                ));
            }
            if index == last && calls > 0 {
                problems.push(format!(
                    "turns[{index}].tool_calls: the last turn calls no tools"
                ));
            }
            if index == last && turn.text.is_empty() {
                problems.push(format!("turns[{index}].text: the last turn needs one"));
            }
            if index != last && calls == 0 {
                problems.push(format!(
                    "turns[{index}].tool_calls: every turn but the last needs one"
                ));
            }
            for (number, call) in turn.tool_calls.iter().enumerate() {
                if call.name.is_empty() {
                    problems.push(format!(
                        "turns[{index}].tool_calls[{number}].name: must not be empty"
                    ));
                }
            }
        }
        problems
    }

    /// The turn for a request that offers tools and holds the results of so many; `None` when it
    /// does not offer every tool that the script calls, as the side requests of coding agents
    /// (titles, summaries, searches) do not.
    pub(crate) fn turn(
        &self,
        offers: impl Fn(&str) -> bool,
        tool_results: usize,
    ) -> Option<Cue<'_>> {
        let mut calls = self.turns.iter().flat_map(|turn| &turn.tool_calls);
        if !calls.all(|call| offers(&call.name)) {
            return None;
        }
        let mut earlier_calls = 0;
        for turn in &self.turns {
            let answered = earlier_calls + turn.tool_calls.len();
            if turn.tool_calls.is_empty() || tool_results < answered {
                return Some(Cue {
                    turn,
                    earlier_calls,
                });
            }
            earlier_calls = answered;
        }
        None
    }
}

impl Turn {
    /// The text in pieces, one for each content frame of a stream.
    pub(crate) fn words(&self) -> impl ExactSizeIterator<Item = &str> {
        let words: Vec<&str> = self.text.split_inclusive(' ').collect();
        words.into_iter()
    }
}

impl ToolCall {
    /// The arguments as JSON text.
    pub(crate) fn arguments_text(&self) -> String {
        Value::Object(self.arguments.clone()).to_string()
    }

    /// The same in two pieces, as streams split it.
    pub(crate) fn argument_pieces(&self) -> [String; 2] {
        let text = self.arguments_text();
        let middle = text.chars().count() / 2;
        [
            text.chars().take(middle).collect(),
            text.chars().skip(middle).collect(),
        ]
    }
}

impl<'a> Cue<'a> {
    /// The tool calls with their numbers in the whole conversation.
    pub(crate) fn numbered_calls(self) -> impl ExactSizeIterator<Item = (usize, &'a ToolCall)> {
        let calls = self.turn.tool_calls.iter().enumerate();
        calls.map(move |(index, call)| (self.earlier_calls + index, call))
    }
}

#[cfg(test)]
mod tests;
