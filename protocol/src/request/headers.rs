//! Which headers cross the agent, in both directions.
//!
//! To a provider go those on a list of its vendor (`passing`), then the operator's own and the
//! provider's key. Of an answer's headers all pass but those of its hop.

use bytes::BytesMut;
use http::Version;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, GetAll, HOST, HeaderMap, HeaderName,
    HeaderValue, TRANSFER_ENCODING, VIA,
};
use lanekeeper_model::gateway::BaseUrl;

use crate::dialect::Vendor;
use crate::request::{passing, via};

/// What is wrong with a request that has both, as text for a 400 answer.
pub const BOTH_LENGTHS: &str = "the request has both content-length and transfer-encoding";
/// Prefix of the agent's own headers, which an upstream or a caller must not be able to forge.
pub const OWN_PREFIX: &str = "x-lanekeeper-";

/// A provider's headers that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A configured name is no header name.
    #[error("\"{0}\" is no valid header name")]
    Name(String),
    /// A configured value has bytes that no header can carry. The value is not shown.
    #[error("the value of header \"{0}\" has bytes that a header cannot carry")]
    Value(String),
    /// The key has bytes that no header can carry. It is not shown.
    #[error("the api key has bytes that a header cannot carry")]
    Credential,
}

/// The headers every request to a provider gets, made once per configuration.
#[derive(Clone, Debug)]
pub struct ProviderHeaders {
    vendor: &'static dyn Vendor,
    host: HeaderValue,
    extra: Vec<(HeaderName, HeaderValue)>,
    /// Marked sensitive, so that no debug output shows it.
    credential: Option<(HeaderName, HeaderValue)>,
}

impl ProviderHeaders {
    /// True when the provider's key stands somewhere in `text`.
    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        let key = self.credential.as_ref().map(|(_, value)| value.as_bytes());
        let key = key.and_then(|value| value.rsplit(|byte| *byte == b' ').next());
        key.is_some_and(|key| !key.is_empty() && memchr::memmem::find(text, key).is_some())
    }

    /// Prepares a provider's headers; `api_key` is the resolved secret, if there is one.
    ///
    /// # Errors
    ///
    /// A name or value that HTTP cannot carry.
    pub fn new(
        vendor: &'static dyn Vendor,
        base_url: &BaseUrl,
        extra: &[(String, String)],
        api_key: Option<&str>,
    ) -> Result<Self, HeaderError> {
        let authority = base_url.authority();
        let host =
            HeaderValue::from_str(&authority).map_err(|_| HeaderError::Value("host".to_owned()))?;
        let extra = extra
            .iter()
            .map(|(name, value)| {
                let value =
                    HeaderValue::from_str(value).map_err(|_| HeaderError::Value(name.clone()))?;
                let name = HeaderName::from_bytes(name.as_bytes())
                    .map_err(|_| HeaderError::Name(name.clone()))?;
                Ok((name, value))
            })
            .collect::<Result<Vec<_>, HeaderError>>()?;
        let credential = api_key
            .map(|key| credential(vendor, key.trim()))
            .transpose()?;
        Ok(Self {
            vendor,
            host,
            extra,
            credential,
        })
    }

    /// Sends `api_key` in the header `name`, behind `scheme` and a space where there is one, and
    /// not in the protocol's own.
    ///
    /// # Errors
    ///
    /// A name or value that HTTP cannot carry.
    pub fn with_key_in(
        mut self,
        name: &str,
        scheme: Option<&str>,
        api_key: &str,
    ) -> Result<Self, HeaderError> {
        let prefix = scheme
            .map(|scheme| format!("{scheme} "))
            .unwrap_or_default();
        let value = credential_value(&prefix, api_key.trim())?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| HeaderError::Name(name.to_owned()))?;
        self.credential = Some((name, value));
        Ok(self)
    }
}

fn credential(vendor: &dyn Vendor, key: &str) -> Result<(HeaderName, HeaderValue), HeaderError> {
    let (name, prefix) = vendor.key_header();
    let value = credential_value(prefix, key)?;
    Ok((HeaderName::from_static(name), value))
}

fn credential_value(prefix: &str, key: &str) -> Result<HeaderValue, HeaderError> {
    let mut value =
        HeaderValue::try_from(format!("{prefix}{key}")).map_err(|_| HeaderError::Credential)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whose credential a request carries upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The provider's configured key.
    Own,
    /// The caller's own key, in the header of the provider's protocol, and no other.
    Passthrough,
}

/// The headers of an upstream request. `content-length` is left to the body.
#[must_use]
pub fn upstream_request(
    caller: &HeaderMap,
    provider: &ProviderHeaders,
    credential: Credential,
) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(caller.len() + provider.extra.len() + 3);
    headers.insert(HOST, provider.host.clone());
    let named = Named::by_connection(caller);
    for (name, value) in caller {
        let text = name.as_str();
        if passing::may_pass(provider.vendor, text, credential) && !named.contains(text) {
            headers.append(name.clone(), value.clone());
        }
    }
    // A compressed stream could not be judged frame by frame.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in &provider.extra {
        let value = if is_list(name.as_str()) {
            merged(headers.get_all(name), value)
        } else {
            value.clone()
        };
        headers.insert(name.clone(), value);
    }
    headers.insert(VIA, via::upstream(caller));
    if let Some((name, value)) = provider.vendor.required_header()
        && !headers.contains_key(name)
    {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    if let (Credential::Own, Some((name, value))) = (credential, &provider.credential) {
        headers.insert(name.clone(), value.clone());
    }
    headers
}

/// The headers of an answer on their way back to the caller. `content-length` stays, but for event
/// streams, to which the agent may have to add an error event.
#[must_use]
pub fn downstream_response(mut headers: HeaderMap) -> HeaderMap {
    let named = Named::by_connection(&headers);
    let dropped: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let text = name.as_str();
            is_hop_by_hop(text)
                || named.contains(text)
                || text.starts_with(OWN_PREFIX)
                || matches!(text, "set-cookie" | "set-cookie2" | "alt-svc")
        })
        .cloned()
        .collect();
    for name in dropped {
        headers.remove(name);
    }
    if is_event_stream(&headers) {
        headers.remove(CONTENT_LENGTH);
    }
    headers
}

/// The headers in which vendors name their limits, of an answer that is not relayed itself.
#[must_use]
pub fn limits(answer: &HeaderMap) -> HeaderMap {
    let names_limit = |name: &str| {
        name.starts_with("x-ratelimit-")
            || name.starts_with("anthropic-ratelimit-")
            || name == "x-should-retry"
    };
    answer
        .iter()
        .filter(|(name, _)| names_limit(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Copies all values into one small piece of memory. As they came they are parts of a network buffer,
/// which is kept as long as one of them is.
pub fn detach(headers: &mut HeaderMap) {
    let len = headers.values().map(HeaderValue::len).sum();
    let mut joined = BytesMut::with_capacity(len);
    for value in headers.values() {
        joined.extend_from_slice(value.as_bytes());
    }
    let mut rest = joined.freeze();
    for value in headers.values_mut() {
        let copy = rest.split_to(value.len());
        if let Ok(mut copy) = HeaderValue::from_maybe_shared(copy) {
            copy.set_sensitive(value.is_sensitive());
            *value = copy;
        }
    }
}

/// True when the body is a server-sent event stream.
#[must_use]
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    is_of_type(headers, b"text/event-stream")
}

/// True when the body is a JSON document.
#[must_use]
pub fn is_json(headers: &HeaderMap) -> bool {
    is_of_type(headers, b"application/json")
}

fn is_of_type(headers: &HeaderMap, media_type: &[u8]) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let head = value.as_bytes().get(..media_type.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(media_type))
    })
}

/// Why a request's length cannot be trusted: two readers of it could see two bodies. The text is
/// fit for a 400 answer.
#[must_use]
pub fn conflicting_length(headers: &HeaderMap) -> Option<&'static str> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let first = lengths.next();
    if let Some(first) = first {
        if headers.contains_key(TRANSFER_ENCODING) {
            return Some(BOTH_LENGTHS);
        }
        if first.is_empty() || !first.as_bytes().iter().all(u8::is_ascii_digit) {
            return Some("content-length is not a number");
        }
        if lengths.any(|other| other != first) {
            return Some("the request has several content-length headers that differ");
        }
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(only), None) if chunked(only) => None,
        _ => Some("transfer-encoding must be exactly \"chunked\""),
    }
}

/// What is wrong with the request's `Host` (RFC 9112, 3.2): every HTTP/1.1 request names one host,
/// and none names two, or a proxy before the agent could have routed by another one. The text is
/// fit for a 400 answer.
#[must_use]
pub fn host_fault(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => Some("the request has no host header"),
        (Some(_), Some(_)) => Some("the request has several host headers"),
        _ => None,
    }
}

/// Headers that speak about one connection (RFC 9110, 7.6.1), and those a proxy must answer itself.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authentication-info"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
    )
}

/// Headers whose values are lists, to which caller and operator both add.
fn is_list(name: &str) -> bool {
    matches!(name, "anthropic-beta" | "openai-beta")
}

/// One line of the caller's items and then the operator's, each once.
fn merged(caller: GetAll<'_, HeaderValue>, operator: &HeaderValue) -> HeaderValue {
    let lines = caller.iter().chain([operator]).map(HeaderValue::as_bytes);
    let mut items: Vec<&[u8]> = Vec::new();
    for item in lines.flat_map(|line| line.split(|byte| *byte == b',')) {
        let item = item.trim_ascii();
        if !item.is_empty() && !items.contains(&item) {
            items.push(item);
        }
    }
    HeaderValue::from_bytes(&items.join(&b", "[..])).unwrap_or_else(|_| operator.clone())
}

/// What most connections say, which is no header name that is not hop-by-hop anyway.
const fn is_usual(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"keep-alive") || option.eq_ignore_ascii_case(b"close")
}

/// The header names that `Connection` declares to be of this hop.
struct Named(Vec<String>);

impl Named {
    fn by_connection(headers: &HeaderMap) -> Self {
        let names = headers
            .get_all(CONNECTION)
            .iter()
            // Nearly always it is one of these alone.
            .filter(|value| !is_usual(value.as_bytes()))
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            // Most requests name only these two, which are hop-by-hop or no header at all.
            .filter(|name| !name.is_empty() && !is_usual(name.as_bytes()))
            .map(str::to_ascii_lowercase);
        Self(names.collect())
    }

    fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|named| named == name)
    }
}

#[cfg(test)]
mod tests;
