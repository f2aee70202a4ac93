//! Scripted turns as generated content.

use super::super::Framing;
use super::super::played::{Manner, Played, tokens};
use super::{candidates, frame};
use crate::script::Cue;
use serde_json::{Value, json};

pub(in crate::dialect) fn play(cue: Cue<'_>, manner: &Manner<'_>) -> Played {
    let words = cue.turn.words().map(|word| json!({"text": word}));
    let calls = { cue.numbered_calls() }
        .map(|(_, call)| json!({"functionCall": {"name": call.name, "args": call.arguments}}));
    let calls: Vec<Value> = calls.collect();
    let document =
        |parts: &Value, reason: Option<&str>| candidates(manner.model, parts, reason, tokens(cue));
    let content: Vec<String> = words
        .chain(calls.iter().cloned())
        .enumerate()
        .map(|(index, part)| frame(&document(&json!([part]), None), index == 0, manner.framing))
        .collect();
    let mut parts = calls;
    if !cue.turn.text.is_empty() {
        parts.insert(0, json!({"text": cue.turn.text}));
    }
    let last = document(&json!([{"text": ""}]), Some("STOP"));
    let mut closing = frame(&last, false, manner.framing);
    if manner.framing == Framing::Array {
        closing += "\n]";
    }
    Played {
        whole: document(&json!(parts), Some("STOP")),
        opening: String::new(),
        content,
        closing,
    }
}
