//! Field reports B04, B05, B07, B08, B10, B11: every form of a wait, and what is none.

use std::time::UNIX_EPOCH;

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// Sunday, 06 Nov 1994 08:49:37 GMT, the instant RFC 9110 uses for all three date forms.
fn rfc_instant() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_777)
}

#[test]
fn delta_seconds_round_up() {
    let cases = [
        ("20", 20),
        (" 20 ", 20),
        ("0", 0),
        ("1.5", 2),
        ("0.2", 1),
        ("20.4", 21),
        ("120.0", 120),
        ("007", 7),
    ];
    for (value, seconds) in cases {
        let wait = parse(value, rfc_instant());
        assert_eq!(wait, Some(Duration::from_secs(seconds)), "{value:?}");
    }
}

#[test]
fn all_three_date_forms_mean_the_same_wait() {
    let now = rfc_instant() - Duration::from_secs(20);
    for value in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        assert_eq!(parse(value, now), Some(Duration::from_secs(20)), "{value}");
        let late = rfc_instant() + Duration::from_secs(1);
        assert_eq!(
            parse(value, late),
            Some(Duration::ZERO),
            "a past date is zero: {value}"
        );
        let between = now + Duration::from_millis(400);
        assert_eq!(
            parse(value, between),
            Some(Duration::from_secs(20)),
            "rounded up: {value}"
        );
    }
}

#[test]
fn what_is_no_finite_wait_is_absent() {
    for value in [
        "",
        " ",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "infinity",
        "-1",
        "-0",
        "+5",
        "soon",
        "5s",
        "0x10",
        "1,2",
        "1 2",
        ".5",
        "5.",
        "1.2.3",
        "1e3",
        "1E3",
        "1e30",
        "1e999",
        "1_000",
        "1.5e1",
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "\u{661}\u{662}",
    ] {
        assert_eq!(parse(value, rfc_instant()), None, "{value:?}");
        assert_eq!(parse_millis(value), None, "{value:?}");
    }
}

#[test]
fn absurd_waits_are_capped() {
    for value in [
        "86401",
        "999999",
        "1000000001",
        "1780000000",
        "18446744073709551616",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        assert_eq!(parse(value, rfc_instant()), Some(MAX_WAIT), "{value:?}");
    }
    let digits = "9".repeat(400);
    assert_eq!(parse(&digits, rfc_instant()), Some(MAX_WAIT));
    assert_eq!(parse_millis(&digits), Some(MAX_WAIT));
}

#[test]
fn values_in_one_line_are_values_in_several() {
    let now = rfc_instant() - Duration::from_secs(20);
    for (values, seconds) in [
        (&["3", "7"][..], Some(7)),
        (&["7", "soon"], Some(7)),
        (&["1e9", "7.2"], Some(8)),
        (&["Sun, 06 Nov 1994 08:49:37 GMT", "7"], Some(20)),
        (&["30", "Sunday, 06-Nov-94 08:49:37 GMT"], Some(30)),
        (&["7", "Sun Nov  6 08:49:37 1994"], Some(20)),
        (&["soon", "later"], None),
        (&["", ""], None),
    ] {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        let several: HeaderMap = { values.iter() }
            .map(|text| (RETRY_AFTER, value(text)))
            .collect();
        let one = HeaderMap::from_iter([(RETRY_AFTER, value(&values.join(", ")))]);
        let expected = seconds.map(Duration::from_secs);
        assert_eq!(from_headers(&several, now), expected, "{values:?}");
        assert_eq!(from_headers(&one, now), expected, "{values:?}");
    }
}

#[test]
fn the_longest_hint_counts() {
    let mut headers = HeaderMap::new();
    assert_eq!(from_headers(&headers, rfc_instant()), None);
    headers.insert(RETRY_AFTER_MS, HeaderValue::from_static("45000"));
    assert_eq!(
        from_headers(&headers, rfc_instant()),
        Some(Duration::from_secs(45))
    );
    headers.append(RETRY_AFTER, HeaderValue::from_static("20"));
    assert_eq!(
        from_headers(&headers, rfc_instant()),
        Some(Duration::from_secs(45))
    );
    headers.append(RETRY_AFTER, HeaderValue::from_static("60"));
    assert_eq!(
        from_headers(&headers, rfc_instant()),
        Some(Duration::from_secs(60))
    );
    headers.append(RETRY_AFTER, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(
        from_headers(&headers, rfc_instant()),
        Some(Duration::from_secs(60))
    );
}

#[test]
fn zero_milliseconds_is_a_hint_of_zero() {
    assert_eq!(parse_millis("0"), Some(Duration::ZERO));
    assert_eq!(parse_millis("1500.2"), Some(Duration::from_millis(1501)));
}

#[test]
fn gemini_delays_are_seconds_with_a_unit() {
    let cases = [
        ("52s", Some(52)),
        ("52.45s", Some(53)),
        ("0s", Some(0)),
        ("-3s", None),
        ("abc", None),
        ("52", None),
    ];
    for (value, seconds) in cases {
        assert_eq!(
            parse_delay(value),
            seconds.map(Duration::from_secs),
            "{value}"
        );
    }
}

proptest! {
    #[test]
    fn any_text_gives_nothing_or_a_bounded_wait(value in "\\PC{0,60}", offset in any::<u32>()) {
        let now = UNIX_EPOCH + Duration::from_secs(offset.into());
        prop_assert!(parse(&value, now).unwrap_or_default() <= MAX_WAIT);
        prop_assert!(parse_millis(&value).unwrap_or_default() <= MAX_WAIT);
        prop_assert!(parse_delay(&value).unwrap_or_default() <= MAX_WAIT);
    }

    #[test]
    fn any_number_gives_a_bounded_wait(value in any::<f64>(), now in 0u64..4_000_000_000) {
        let now = UNIX_EPOCH + Duration::from_secs(now);
        let wait = parse(&value.to_string(), now);
        if value.is_sign_negative() || !value.is_finite() {
            prop_assert_eq!(wait, None);
        } else {
            let wait = wait.unwrap();
            prop_assert!(wait == MAX_WAIT || wait.as_secs_f64() >= value);
        }
    }
}
