//! Why answers end, both ways: one table for whole answers and streams.

use std::borrow::Cow;

use crate::ir::Finish;

/// What a `finishReason` means. Gemini ends a turn of calls as any other, and clients of other
/// dialects go by the reason.
pub(super) fn read(reason: Cow<'_, str>, has_calls: bool) -> Finish<'_> {
    match reason.as_ref() {
        "STOP" | "FINISH_REASON_UNSPECIFIED" if has_calls => Finish::ToolCalls,
        "STOP" | "FINISH_REASON_UNSPECIFIED" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR"
        | "ESCALATION" => Finish::Filter,
        _ => Finish::Other(reason),
    }
}

/// The `finishReason` for a reason.
pub(super) fn write(finish: &Finish<'_>) -> &'static str {
    match finish {
        Finish::Stop | Finish::StopSequence(_) | Finish::ToolCalls => "STOP",
        Finish::Length => "MAX_TOKENS",
        Finish::Filter | Finish::Refusal => "SAFETY",
        Finish::Other(_) => "OTHER",
    }
}
