//! What one frame of a streamed answer means: a sign of life, a beginning, content, an end, or an
//! error under status 200.
//!
//! Before the commit point every frame is parsed, as far as its few telling fields go. After it the
//! relay only watches for ends and errors, so frames are searched for those and parsed when one may
//! be there.

use lanekeeper_model::CauseKind;

use crate::dialect::{Dialect, Vendor};
use crate::reading::{End, FrameReading};
use crate::response::error_signal::ErrorSignal;
use crate::response::verdict::{Rules, Verdict, embedded};
use crate::sse::Frame;
use crate::sse::plain::is_ping;

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
#[must_use]
pub fn is_whole(vendor: &dyn Vendor, finished: bool, closed: bool) -> bool {
    closed || (finished && vendor.end() != End::Frame)
}

/// True when the frame that finishes the model's turn is also the protocol's closing frame.
#[must_use]
pub fn closes_by_finish(vendor: &dyn Vendor) -> bool {
    vendor.end() == End::Finish
}

/// True when the closing frame is a bare word: behind nothing it closes nothing.
#[must_use]
pub fn closes_by_word(vendor: &dyn Vendor) -> bool {
    vendor.end() == End::Done
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
        return done(rules.vendor);
    }
    // Every protocol's documents are objects, and a list could be read as one's members.
    if !data.trim_ascii_start().starts_with(b"{") {
        return error(rules, &data);
    }
    match rules.vendor.frame(dialect.operation(), event, &data) {
        FrameReading::Lifecycle if event.is_some_and(is_ping) => FrameKind::Ping,
        FrameReading::Lifecycle => FrameKind::Lifecycle,
        FrameReading::Ping => FrameKind::Ping,
        FrameReading::Content => FrameKind::Content,
        FrameReading::Finish { natural, content } => FrameKind::Finish { natural, content },
        FrameReading::Terminal { content } => FrameKind::Terminal { content },
        FrameReading::Failed => error(rules, &data),
    }
}

/// What `[DONE]` means. Servers of other protocols than OpenAI's may send it behind their own closing
/// frame, where nothing counts any more; in place of that frame it is an end with something missing.
fn done(vendor: &dyn Vendor) -> FrameKind {
    if closes_by_word(vendor) {
        FrameKind::Terminal { content: false }
    } else {
        FrameKind::Error(Box::new(Verdict::transient(CauseKind::Truncated)))
    }
}

/// Judges a frame after the commit point: as [`classify`], but frames that can neither end nor
/// fail the answer are taken for content unread.
///
/// Unread is also what its protocol does not know: a broken document passes on as it came. What it
/// says of ends and errors is never missed, however it is arranged, but for names spelled with
/// `\u` escapes, which no vendor writes.
#[must_use]
pub fn watch(rules: Rules<'_>, dialect: Dialect, frame: &Frame) -> FrameKind {
    if rules.vendor.is_plain(&frame.raw) {
        FrameKind::Content
    } else {
        classify(rules, dialect, frame)
    }
}

/// How many bytes at the start of `raw`, which begins with a frame, are whole frames of which
/// [`watch`] says that they are content unread.
#[must_use]
pub fn plain_run(vendor: &dyn Vendor, raw: &[u8]) -> usize {
    vendor.plain_run(raw)
}

/// An error frame, or one that is nothing its protocol knows: text, `null`, half a document.
fn error(rules: Rules<'_>, data: &[u8]) -> FrameKind {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else {
        return FrameKind::Error(Box::new(Verdict::transient(CauseKind::BadBody)));
    };
    let signal = ErrorSignal::from_value(rules.vendor, &value);
    if signal == ErrorSignal::default() {
        return FrameKind::Error(Box::new(Verdict::transient(CauseKind::ErrorFrame)));
    }
    FrameKind::Error(Box::new(embedded(rules, &signal)))
}

#[cfg(test)]
mod tests;
