//! Why answers end, both ways: one table for whole answers and streams.

use std::borrow::Cow;

use crate::ir::Finish;

/// It has no counterpart elsewhere, and comes back unchanged.
const PAUSE: &str = "pause_turn";

/// What a `stop_reason` means.
pub(super) fn read<'a>(reason: Cow<'a, str>, sequence: Option<Cow<'a, str>>) -> Finish<'a> {
    match reason.as_ref() {
        "end_turn" => Finish::Stop,
        "stop_sequence" => Finish::StopSequence(sequence),
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "refusal" => Finish::Refusal,
        _ => Finish::Other(reason),
    }
}

/// The `stop_reason` and `stop_sequence` for a reason. `has_calls` is true when the answer calls
/// tools: clients go by the reason.
pub(super) fn write<'a>(finish: &'a Finish<'_>, has_calls: bool) -> (&'a str, Option<&'a str>) {
    match finish {
        Finish::Stop | Finish::ToolCalls if has_calls => ("tool_use", None),
        Finish::Stop | Finish::ToolCalls => ("end_turn", None),
        Finish::StopSequence(Some(sequence)) => ("stop_sequence", Some(sequence)),
        Finish::StopSequence(None) => ("end_turn", None),
        Finish::Length => ("max_tokens", None),
        Finish::Filter | Finish::Refusal => ("refusal", None),
        Finish::Other(reason) if reason == PAUSE => (PAUSE, None),
        Finish::Other(_) if has_calls => ("tool_use", None),
        Finish::Other(_) => ("end_turn", None),
    }
}
