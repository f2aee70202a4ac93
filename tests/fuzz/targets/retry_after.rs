//! No text of a Retry-After hint panics, waits longer than the cap or shortens another hint.

#![no_main]

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue};
use lanekeeper_protocol::retry_after::{self, MAX_WAIT, RETRY_AFTER_MS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str, &str)| {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let (first, second, millis) = texts;
    let mut longest = None;
    for text in [first, second] {
        let wait = retry_after::parse(text, now);
        assert!(wait.is_none_or(|wait| wait <= MAX_WAIT && wait.subsec_nanos() == 0));
        if let Ok(seconds) = text.parse::<u32>()
            && text.bytes().all(|byte| byte.is_ascii_digit())
        {
            let asked = Duration::from_secs(seconds.into());
            assert_eq!(wait, Some(asked.min(MAX_WAIT)));
        }
        let delay = retry_after::parse_delay(text);
        assert!(delay.is_none_or(|wait| wait <= MAX_WAIT));
        longest = longest.max(wait);
    }
    let wait = retry_after::parse_millis(millis);
    assert!(wait.is_none_or(|wait| wait <= MAX_WAIT));
    longest = longest.max(wait);

    let mut headers = HeaderMap::new();
    let texts = [
        ("retry-after", first),
        ("retry-after", second),
        (RETRY_AFTER_MS, millis),
    ];
    let mut readable = true;
    for (name, text) in texts {
        match HeaderValue::from_str(text) {
            // A header's bytes are read as text only while they are ASCII.
            Ok(value) if value.to_str().is_ok() => {
                headers.append(name, value);
            }
            Ok(_) | Err(_) => readable = false,
        }
    }
    let found = retry_after::from_headers(&headers, now);
    if readable {
        assert_eq!(found, longest, "the longest hint counts");
    } else {
        assert!(found <= longest);
    }
});
