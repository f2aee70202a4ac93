//! Segments of URL paths: percent-coding, and the version that a base URL may hold already.
//!
//! People paste the base URL their vendor's package wants, and the packages differ: OpenAI's wants
//! the version in it, Anthropic's adds `/v1` itself. Both spellings work here. Clouds have paths of
//! their own, which are taken as they are: Azure's deployments (`{model}`), Vertex AI's publishers.

use std::borrow::Cow;

use lanekeeper_model::gateway::BaseUrl;

/// What the path of a model garden has.
const PUBLISHERS: &str = "publishers/";

/// `operation` below `base`, with `version` between them unless the base ends with a version or is
/// a cloud's.
#[must_use]
pub fn below(base: &str, version: &str, operation: &str) -> String {
    join(base, ends_with_version(base), version, operation)
}

/// As [`below`], for services that keep their version anywhere in the path (`/openai/v1`,
/// `/v1beta/openai`, `/api/paas/v4`), and whose users give it whole.
#[must_use]
pub fn below_any_version(base: &str, version: &str, operation: &str) -> String {
    join(base, base.split('/').any(is_version), version, operation)
}

fn join(base: &str, versioned: bool, version: &str, operation: &str) -> String {
    if versioned || is_cloud(base) {
        format!("{base}/{operation}")
    } else {
        format!("{base}/{version}/{operation}")
    }
}

fn ends_with_version(base: &str) -> bool {
    base.rsplit('/').next().is_some_and(is_version)
}

fn is_cloud(base: &str) -> bool {
    base.contains(BaseUrl::MODEL_PLACEHOLDER) || base.contains(PUBLISHERS)
}

/// `v` and digits, with an optional word after it: `v1`, `v4`, `v1beta`, `v1beta2`.
fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v') else {
        return false;
    };
    let word = rest.trim_start_matches(|character: char| character.is_ascii_digit());
    word.len() < rest.len()
        && (word.is_empty() || word.starts_with("alpha") || word.starts_with("beta"))
}

/// Percent-encodes everything outside RFC 3986's unreserved characters.
#[must_use]
pub fn encode(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// Percent-decodes a name; what is no UTF-8 cannot be a configured name and stays as it is.
#[must_use]
pub fn decode(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return Cow::Borrowed(segment);
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let decoded = (*first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = decoded {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(segment), Cow::Owned)
}
