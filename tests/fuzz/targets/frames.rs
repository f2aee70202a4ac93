//! No frame panics a reader, and the quick look after the commit point misses no end and no error.

#![no_main]

use bytes::Bytes;
use lanekeeper_fuzz::{dialect, rules};
use lanekeeper_protocol::frame::{self, FrameKind};
use lanekeeper_protocol::sse::{Frame, SseReader};
use lanekeeper_protocol::usage;
use lanekeeper_protocol::verdict::{Disposition, Rules};
use lanekeeper_protocol::{Dialect, Protocol};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

/// True when a frame says that something failed, and is not merely broken.
fn carries_error(protocol: Protocol, frame: &Frame) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: Option<String>,
    }
    let word = b"\"error\"";
    let has_word = frame.raw.windows(word.len()).any(|seen| seen == word);
    let is_named = frame.event() == Some(b"error");
    let kind = || -> Option<String> { serde_json::from_slice::<Kind>(&frame.data()?).ok()?.kind };
    match protocol {
        Protocol::Openai | Protocol::Gemini => is_named || has_word,
        Protocol::Anthropic => is_named || kind().as_deref() == Some("error"),
        Protocol::Responses => {
            is_named
                || matches!(
                    kind().as_deref(),
                    Some("error" | "response.failed" | "response.error")
                )
        }
        Protocol::Cohere => is_named || matches!(kind().as_deref(), Some("error" | "message-end")),
    }
}

/// What passes unread is whole frames, each of which the quick look calls content.
fn passes_only_content(dialect: Dialect, rules: Rules<'_>, raw: &[u8]) {
    let run = frame::plain_run(rules.vendor, raw);
    let mut reader = SseReader::new();
    reader.push(Bytes::copy_from_slice(&raw[..run]));
    let mut whole = 0;
    while let Ok(Some(frame)) = reader.next_frame() {
        whole += frame.raw.len();
        assert_eq!(frame::watch(rules, dialect, &frame), FrameKind::Content);
    }
    assert_eq!(whole, run);
}

fuzz_target!(|data: &[u8]| {
    let [chosen, flags, raw @ ..] = data else {
        return;
    };
    let dialect = dialect(*chosen);
    let rules = rules(dialect.protocol(), *flags);
    let frame = Frame {
        raw: Bytes::copy_from_slice(raw),
    };
    let full = frame::classify(rules, dialect, &frame);
    let quick = frame::watch(rules, dialect, &frame);
    if let FrameKind::Error(verdict) = &full {
        assert_ne!(verdict.disposition, Disposition::Success);
    }
    // A name in escapes is left to the full reader.
    let is_escaped = raw.windows(2).any(|pair| pair == b"\\u");
    match (&quick, &full) {
        (FrameKind::Content, FrameKind::Content | FrameKind::Lifecycle) => {}
        (FrameKind::Content, FrameKind::Error(_))
            if !carries_error(rules.vendor.protocol(), &frame) => {}
        (FrameKind::Content, _) if is_escaped => {}
        _ => assert_eq!(quick, full),
    }
    if let Some(data) = frame.data() {
        _ = usage::read(rules.vendor, &data);
    }
    passes_only_content(dialect, rules, raw);
});
