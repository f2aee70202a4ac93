//! No frame panics a reader, and the quick look after the commit point misses no end and no error.

#![no_main]

use bytes::Bytes;
use lanekeeper_agent::protocol::classify::Disposition;
use lanekeeper_agent::protocol::frames::{self, FrameKind};
use lanekeeper_agent::protocol::sse::Frame;
use lanekeeper_fuzz::{dialect, rules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [chosen, flags, raw @ ..] = data else {
        return;
    };
    let dialect = dialect(*chosen);
    let rules = rules(dialect.protocol(), *flags);
    let frame = Frame {
        raw: Bytes::copy_from_slice(raw),
    };
    let full = frames::classify(rules, dialect, &frame);
    let quick = frames::watch(rules, dialect, &frame);
    if let FrameKind::Error(verdict) = &full {
        assert_ne!(verdict.disposition, Disposition::Success);
    }
    // Anything else may be taken for content once content was sent.
    if quick != FrameKind::Content {
        assert_eq!(quick, full);
    }
});
