//! No body of a 200 panics the reader, and only JSON is ever a good answer.

#![no_main]

use lanekeeper_fuzz::{dialect, rules};
use lanekeeper_protocol::answer::{self, Answer};
use lanekeeper_protocol::verdict::Disposition;
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;

fuzz_target!(|data: &[u8]| {
    let [chosen, flags, body @ ..] = data else {
        return;
    };
    let dialect = dialect(*chosen);
    match answer::inspect(rules(dialect.protocol(), *flags), dialect, body) {
        Answer::Good | Answer::Empty => {
            assert!(serde_json::from_slice::<IgnoredAny>(body).is_ok());
        }
        Answer::Error(verdict) => assert_ne!(verdict.disposition, Disposition::Success),
        Answer::Malformed => {}
    }
});
