//! What one frame of a streamed answer means: a sign of life, a beginning, content, an end, or an
//! error under status 200.
//!
//! Before the commit point every frame is parsed, as far as its few telling fields go. After it the
//! relay only watches for ends and errors, so frames are searched for those and parsed when one may
//! be there.

mod plain;

use std::borrow::Cow;

use lanekeeper_model::CauseKind;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::output_says;
use super::classify::{Rules, Verdict, embedded};
use super::error_signal::ErrorSignal;
use super::fields::Fields;
use super::glance;
use super::sse::Frame;
use super::{Dialect, Protocol};

pub use plain::run as plain_run;

/// What a frame means.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameKind {
    /// A comment or keep-alive. No sign of progress.
    Ping,
    /// The answer began or moved on without showing anything: held back before the commit point.
    Lifecycle,
    /// Something the caller can use. The first one is the commit point.
    Content,
    /// The model ended its turn; the protocol's closing frame may still follow.
    Finish {
        /// True when the model just stopped: with no content before, that is an empty answer. A
        /// length limit, a filter, a refusal or a tool call is an answer even without text.
        natural: bool,
        /// True when the same frame also carries content.
        content: bool,
    },
    /// The protocol's closing frame: the answer is whole.
    Terminal {
        /// True when this frame alone makes the answer one: it tells of a limit or a tool call, or
        /// carries output that no frame before it has shown.
        content: bool,
    },
    /// The lane failed in mid-stream.
    Error(Box<Verdict>),
}

impl FrameKind {
    /// True when the frame makes what was answered so far more than nothing. An answer that was
    /// stopped by a limit, a filter or a tool call says something without any text.
    #[must_use]
    pub const fn says_something(&self) -> bool {
        match self {
            Self::Content => true,
            Self::Finish { natural, content } => *content || !*natural,
            Self::Terminal { content } => *content,
            Self::Ping | Self::Lifecycle | Self::Error(_) => false,
        }
    }
}

/// True when nothing is missing from an answer that ended, by what its frames have shown: `finished`
/// by [`FrameKind::Finish`], `closed` by [`FrameKind::Terminal`].
///
/// Many services that speak OpenAI's protocol leave `[DONE]` out, and Gemini has no closing frame.
/// Everywhere else an end without the closing frame is a cut, however clean it looks.
#[must_use]
pub const fn is_whole(protocol: Protocol, finished: bool, closed: bool) -> bool {
    closed || (finished && matches!(protocol, Protocol::Openai | Protocol::Gemini))
}

/// True when the frame that finishes the model's turn is also the protocol's closing frame.
#[must_use]
pub const fn closes_by_finish(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Gemini)
}

/// Judges a frame before the commit point.
#[must_use]
pub fn classify(rules: Rules<'_>, dialect: Dialect, frame: &Frame) -> FrameKind {
    let Some(data) = frame.data() else {
        return FrameKind::Ping;
    };
    let event = frame.event();
    if event == Some(b"error") {
        return error(rules, &data);
    }
    if data.trim_ascii() == b"[DONE]" {
        return done(rules.protocol);
    }
    // Every protocol's documents are objects, and a list could be read as one's members.
    if !data.trim_ascii_start().starts_with(b"{") {
        return error(rules, &data);
    }
    let kind = match rules.protocol {
        Protocol::Openai => openai(rules, dialect, &data),
        Protocol::Anthropic => anthropic(rules, &data),
        Protocol::Responses => responses(rules, event, &data),
        Protocol::Gemini => gemini(rules, &data),
        Protocol::Cohere => cohere(rules, event, &data),
    };
    match kind {
        FrameKind::Lifecycle if event.is_some_and(is_ping) => FrameKind::Ping,
        kind => kind,
    }
}

/// What OpenAI's `[DONE]` means. Servers of other protocols may send it behind their own closing
/// frame, where nothing counts any more; in place of that frame it is an end with something missing.
fn done(protocol: Protocol) -> FrameKind {
    match protocol {
        Protocol::Openai => FrameKind::Terminal { content: false },
        Protocol::Anthropic | Protocol::Responses | Protocol::Gemini | Protocol::Cohere => {
            FrameKind::Error(Box::new(Verdict::transient(CauseKind::Truncated)))
        }
    }
}

/// True for the names that keep-alive events go by.
fn is_ping(name: &[u8]) -> bool {
    matches!(name, b"ping" | b"keepalive")
}

/// Judges a frame after the commit point: as [`classify`], but frames that can neither end nor
/// fail the answer are taken for content unread.
///
/// Unread is also what its protocol does not know: a broken document passes on as it came. What it
/// says of ends and errors is never missed, however it is arranged, but for names spelled with
/// `\u` escapes, which no vendor writes.
#[must_use]
pub fn watch(rules: Rules<'_>, dialect: Dialect, frame: &Frame) -> FrameKind {
    if plain::is_plain(rules.protocol, &frame.raw) {
        FrameKind::Content
    } else {
        classify(rules, dialect, frame)
    }
}

/// True when the word "error" stands in `raw` as a string of its own, as a name or a value.
pub(super) fn names_error(raw: &[u8]) -> bool {
    plain::names_error(raw)
}

fn openai(rules: Rules<'_>, dialect: Dialect, data: &[u8]) -> FrameKind {
    if let Some(kind) = glance::chunk(dialect, data) {
        return kind;
    }
    read_chunk(rules, dialect, data)
}

/// Judges a chunk by reading its parts.
fn read_chunk(rules: Rules<'_>, dialect: Dialect, data: &[u8]) -> FrameKind {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        choices: Option<Vec<Choice<'a>>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        delta: Option<Fields<'a>>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }

    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
        return error(rules, data);
    };
    if filled(chunk.error) {
        return error(rules, data);
    }
    // Azure's prompt filter results and a last usage report come with no choice or without any.
    let choices = chunk.choices.unwrap_or_default();
    if choices
        .iter()
        .any(|choice| choice.finish_reason.as_deref() == Some("error"))
    {
        return error(rules, data);
    }
    let content = choices.iter().any(|choice| match dialect {
        Dialect::OpenAiCompletions => filled(choice.text),
        // Any field of a delta that holds something counts, but for the role: text, tool calls,
        // refusals, audio, and the names other vendors give to reasoning.
        _ => choice
            .delta
            .iter()
            .flat_map(Fields::iter)
            .any(|(key, value)| key != "role" && filled(Some(value))),
    });
    let reason = choices
        .iter()
        .find_map(|choice| choice.finish_reason.as_deref());
    match reason {
        Some(reason) => FrameKind::Finish {
            natural: reason == "stop",
            content,
        },
        None if content => FrameKind::Content,
        None => FrameKind::Lifecycle,
    }
}

fn anthropic(rules: Rules<'_>, data: &[u8]) -> FrameKind {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        delta: Option<Delta<'a>>,
        #[serde(borrow)]
        content_block: Option<Block<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        stop_reason: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        thinking: Option<&'a RawValue>,
    }

    let Ok(parsed) = serde_json::from_slice::<Event<'_>>(data) else {
        return error(rules, data);
    };
    if filled(parsed.error) {
        return error(rules, data);
    }
    match parsed.kind.as_ref() {
        "ping" | "keepalive" => FrameKind::Ping,
        "error" => error(rules, data),
        "content_block_delta" => FrameKind::Content,
        // Text and thinking begin empty; a tool call begins with its name, which is content.
        "content_block_start" => match parsed.content_block {
            Some(block) if matches!(block.kind.as_ref(), "text" | "thinking") => {
                if filled(block.text) || filled(block.thinking) {
                    FrameKind::Content
                } else {
                    FrameKind::Lifecycle
                }
            }
            Some(_) => FrameKind::Content,
            None => FrameKind::Lifecycle,
        },
        "message_delta" => match parsed.delta.and_then(|delta| delta.stop_reason) {
            Some(reason) => FrameKind::Finish {
                natural: matches!(reason.as_ref(), "end_turn" | "stop_sequence"),
                content: false,
            },
            None => FrameKind::Lifecycle,
        },
        "message_stop" => FrameKind::Terminal { content: false },
        _ => FrameKind::Lifecycle,
    }
}

fn responses(rules: Rules<'_>, event: Option<&[u8]>, data: &[u8]) -> FrameKind {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        response: Option<Response<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        output: Option<&'a RawValue>,
    }

    let Ok(parsed) = serde_json::from_slice::<Event<'_>>(data) else {
        return error(rules, data);
    };
    if filled(parsed.error) {
        return error(rules, data);
    }
    let named = event.map(String::from_utf8_lossy);
    match parsed.kind.or(named).as_deref() {
        Some("error" | "response.failed" | "response.error") => error(rules, data),
        Some("response.incomplete") => FrameKind::Terminal { content: true },
        Some("response.completed" | "response.cancelled") => FrameKind::Terminal {
            content: output_says(parsed.response.and_then(|response| response.output)),
        },
        Some(kind) if kind.ends_with(".delta") => FrameKind::Content,
        Some("ping" | "keepalive") => FrameKind::Ping,
        Some(_) => FrameKind::Lifecycle,
        None => error(rules, data),
    }
}

fn gemini(rules: Rules<'_>, data: &[u8]) -> FrameKind {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Chunk<'a> {
        #[serde(borrow)]
        candidates: Option<Vec<Candidate<'a>>>,
        #[serde(borrow)]
        prompt_feedback: Option<Feedback<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Candidate<'a> {
        #[serde(borrow)]
        content: Option<Content<'a>>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Option<Vec<Fields<'a>>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Feedback<'a> {
        #[serde(borrow)]
        block_reason: Option<&'a RawValue>,
    }

    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
        return error(rules, data);
    };
    if filled(chunk.error) {
        return error(rules, data);
    }
    if filled(
        chunk
            .prompt_feedback
            .and_then(|feedback| feedback.block_reason),
    ) {
        return FrameKind::Finish {
            natural: false,
            content: false,
        };
    }
    let candidates = chunk.candidates.unwrap_or_default();
    let content = candidates
        .iter()
        .filter_map(|candidate| candidate.content.as_ref()?.parts.as_ref())
        .flatten()
        .any(|part| {
            part.iter()
                .any(|(key, value)| key != "thought" && filled(Some(value)))
        });
    let reason = candidates
        .iter()
        .find_map(|candidate| candidate.finish_reason.as_deref());
    match reason {
        Some(reason) => FrameKind::Finish {
            natural: reason == "STOP",
            content,
        },
        None if content => FrameKind::Content,
        None => FrameKind::Lifecycle,
    }
}

fn cohere(rules: Rules<'_>, event: Option<&[u8]>, data: &[u8]) -> FrameKind {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        delta: Option<Delta<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }

    let Ok(parsed) = serde_json::from_slice::<Event<'_>>(data) else {
        return error(rules, data);
    };
    if filled(parsed.error) {
        return error(rules, data);
    }
    let named = event.map(String::from_utf8_lossy);
    match parsed.kind.or(named).as_deref() {
        Some("error") => error(rules, data),
        Some("message-end") => match parsed.delta {
            Some(delta) if filled(delta.error) => error(rules, data),
            delta => match delta.and_then(|delta| delta.finish_reason).as_deref() {
                Some("ERROR" | "TIMEOUT") => error(rules, data),
                reason => FrameKind::Terminal {
                    content: !matches!(reason, None | Some("COMPLETE" | "STOP_SEQUENCE")),
                },
            },
        },
        Some("content-delta" | "tool-plan-delta" | "tool-call-start" | "tool-call-delta") => {
            FrameKind::Content
        }
        Some("ping" | "keepalive") => FrameKind::Ping,
        Some(_) => FrameKind::Lifecycle,
        None => error(rules, data),
    }
}

/// An error frame, or one that is nothing its protocol knows: text, `null`, half a document.
fn error(rules: Rules<'_>, data: &[u8]) -> FrameKind {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else {
        return FrameKind::Error(Box::new(Verdict::transient(CauseKind::BadBody)));
    };
    let signal = ErrorSignal::from_value(rules.protocol, &value);
    if signal == ErrorSignal::default() {
        return FrameKind::Error(Box::new(Verdict::transient(CauseKind::ErrorFrame)));
    }
    FrameKind::Error(Box::new(embedded(rules, &signal)))
}

/// True when a JSON value holds anything.
pub(super) fn filled(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| is_filled(value.get().as_bytes()))
}

/// True when the JSON value that is spelled like this holds anything.
pub(super) fn is_filled(value: &[u8]) -> bool {
    !matches!(value, b"null" | b"\"\"" | b"[]" | b"{}" | b"false")
}

#[cfg(test)]
mod tests;
