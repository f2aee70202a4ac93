//! Whatever headers a caller or a provider sends: nothing of one hop, no foreign credential and no
//! header of the agent's own crosses, and no request of doubtful length is taken.

#![no_main]

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use lanekeeper_fuzz::dialect;
use lanekeeper_model::gateway::{BaseUrl, Scheme};
use lanekeeper_protocol::headers::{self, Credential, ProviderHeaders};
use libfuzzer_sys::fuzz_target;

const OWN_KEY: &str = "own-key";
/// What the caller's credentials are recognized by.
const SECRET: &str = "callers-secret";

/// Headers that speak about one connection (RFC 9110, 7.6.1), or that only a proxy may set.
const ONE_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-lanekeeper-lane",
];
const CREDENTIALS: [&str; 5] = [
    "authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
];

/// The lines `name: value` of a text, as far as HTTP can carry them.
fn map(text: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().map(HeaderName::from_bytes);
        let value = HeaderValue::from_bytes(parts.next().unwrap_or_default());
        if let (Some(Ok(name)), Ok(value)) = (name, value) {
            map.append(name, value);
        }
    }
    map
}

/// Names that `connection` declares to be of this hop.
fn named(map: &HeaderMap) -> Vec<String> {
    let values = map.get_all("connection").iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn holds(map: &HeaderMap, word: &str) -> bool {
    map.values().any(|value| {
        value
            .as_bytes()
            .windows(word.len())
            .any(|seen| seen == word.as_bytes())
    })
}

fuzz_target!(|data: &[u8]| {
    let [chosen, flags, text @ ..] = data else {
        return;
    };
    let vendor = dialect(*chosen).vendor();
    let base_url = BaseUrl {
        scheme: Scheme::Https,
        host: "api.example.com".to_owned(),
        port: 443,
        path_prefix: String::new(),
    };
    let provider = ProviderHeaders::new(vendor, &base_url, &[], Some(OWN_KEY))
        .expect("good headers of a provider");

    let mut caller = map(text);
    if holds(&caller, OWN_KEY) || holds(&caller, SECRET) {
        // Chance has spelled a key.
        return;
    }
    for (bit, name) in CREDENTIALS.into_iter().enumerate() {
        if flags & (1 << bit) != 0 {
            caller.insert(name, HeaderValue::from_static(SECRET));
        }
    }
    let of_this_hop = named(&caller);
    for credential in [Credential::Own, Credential::Passthrough] {
        let sent = headers::upstream_request(&caller, &provider, credential);
        assert_eq!(sent.get_all(HOST).iter().count(), 1);
        assert_eq!(sent[HOST], "api.example.com");
        assert!(!sent.contains_key(CONTENT_LENGTH));
        for name in ONE_HOP {
            assert!(!sent.contains_key(name), "{name} goes upstream");
        }
        for name in &of_this_hop {
            // What the agent itself sets is not the caller's.
            let is_own = matches!(
                name.as_str(),
                "host"
                    | "accept-encoding"
                    | "content-type"
                    | "anthropic-version"
                    | "authorization"
                    | "x-api-key"
                    | "x-goog-api-key"
            );
            assert!(
                is_own || !sent.contains_key(name.as_str()),
                "{name} is of this hop"
            );
        }
        for name in sent.keys() {
            let name = name.as_str();
            assert!(
                !name.starts_with("x-forwarded-") && name != "forwarded",
                "{name}"
            );
        }
        match credential {
            Credential::Own => {
                assert!(holds(&sent, OWN_KEY));
                assert!(
                    !holds(&sent, SECRET),
                    "the caller's key goes to the provider"
                );
            }
            Credential::Passthrough => {
                assert!(
                    !holds(&sent, OWN_KEY),
                    "the gateway's key goes with the caller's"
                );
                assert!(!sent.contains_key("cookie"));
            }
        }
    }

    let answer = map(text);
    let of_this_hop = named(&answer);
    let passed = headers::downstream_response(answer);
    for name in ONE_HOP.into_iter().chain(["set-cookie"]) {
        assert!(!passed.contains_key(name), "{name} goes to the caller");
    }
    for name in &of_this_hop {
        assert!(!passed.contains_key(name.as_str()), "{name} is of this hop");
    }
    assert_eq!(headers::downstream_response(passed.clone()), passed);

    let request = map(text);
    if headers::conflicting_length(&request).is_none() {
        let lengths: Vec<_> = request.get_all(CONTENT_LENGTH).iter().collect();
        let codings: Vec<_> = request.get_all(TRANSFER_ENCODING).iter().collect();
        assert!(lengths.is_empty() || codings.is_empty());
        assert!(lengths.windows(2).all(|pair| pair[0] == pair[1]));
        for length in lengths {
            let text = length.as_bytes();
            assert!(!text.is_empty() && text.iter().all(u8::is_ascii_digit));
        }
        assert!(codings.len() <= 1);
        for coding in codings {
            assert!(coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
        }
    }
    if headers::host_fault(Version::HTTP_11, &request).is_none() {
        assert_eq!(request.get_all(HOST).iter().count(), 1);
    }
});
