//! No body of a failed answer panics a reader, hides an outage or makes a lane wait beyond the cap.

#![no_main]

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use lanekeeper_fuzz::{dialect, rules};
use lanekeeper_protocol::error_signal::ErrorSignal;
use lanekeeper_protocol::retry_after::MAX_WAIT;
use lanekeeper_protocol::verdict::{self, Disposition};
use libfuzzer_sys::fuzz_target;

/// Statuses worth a setting of their own; the rest are met often enough by these.
const STATUSES: [u16; 16] = [
    301, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529, 599,
];

const ENCODINGS: [&str; 4] = ["", "gzip", "deflate", "br"];

fuzz_target!(|data: &[u8]| {
    let [chosen, status, flags, body @ ..] = data else {
        return;
    };
    let protocol = dialect(*chosen).protocol();
    let rules = rules(protocol, *flags);
    let mut headers = HeaderMap::new();
    let encoding = ENCODINGS[usize::from(flags / 2) % ENCODINGS.len()];
    if !encoding.is_empty() {
        headers.insert("content-encoding", HeaderValue::from_static(encoding));
    }
    let status = StatusCode::from_u16(STATUSES[usize::from(*status) % STATUSES.len()])
        .expect("a legal status");
    let now = Duration::from_secs(1_800_000_000);
    let verdict = verdict::response(rules, status, &headers, body, now);
    assert_ne!(verdict.disposition, Disposition::Success);
    assert_ne!(verdict.disposition, Disposition::Empty);
    assert!(verdict.retry_after.is_none_or(|wait| wait <= MAX_WAIT));
    if status.is_server_error() || status.is_redirection() {
        assert_eq!(verdict.disposition, Disposition::Transient);
    }
    if rules.passthrough {
        assert!(!matches!(
            verdict.disposition,
            Disposition::HardDownAuth | Disposition::HardDownBilling
        ));
    }

    let signal = ErrorSignal::from_body(rules.vendor, &headers, body);
    assert!(signal.retry_after.is_none_or(|wait| wait <= MAX_WAIT));
    let verdict = verdict::embedded(rules, &signal);
    assert_ne!(verdict.disposition, Disposition::Success);
});
