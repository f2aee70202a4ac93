//! What a caller's HTTP asks for before any operation: balancers' probes, preflights of browsers,
//! upgrades, and whether a web page may call at all.
//!
//! An agent on loopback is within reach of every page that its user opens. A browser says which
//! page calls; programs say nothing of the kind. So a foreign page is refused unless the operator
//! lists its origin, and nothing else is.

use crate::request::reply::Body;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    ORIGIN, UPGRADE, VARY,
};
use http::{HeaderMap, Method, Response, StatusCode};
use lanekeeper_model::gateway::Cors;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How long a browser may remember a preflight's answer, in seconds: the longest that all of them
/// honour.
const PREFLIGHT_MAX_AGE_SECS: &str = "600";
/// What a page may read of an answer beside what every page may.
const EXPOSED: &str = "x-request-id, x-lanekeeper-lane, x-lanekeeper-attempts, \
                       x-lanekeeper-degraded, x-lanekeeper-upstream-request-id, \
                       x-lanekeeper-last-status, retry-after, request-id";
/// Paths that balancers probe.
const PROBED: [&str; 2] = ["/", "/healthz"];

/// Who calls, as far as a browser says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A program, or a page of the agent's own origin.
    Own,
    /// A page that may; the value lets its browser hand the answer on.
    Permitted(HeaderValue),
    /// A page that may not.
    Foreign,
}

impl Origin {
    /// Who sent this request. `cors` is asked only where a browser says something.
    pub(super) fn of(headers: &HeaderMap, cors: impl FnOnce() -> Cors) -> Self {
        let Some(origin) = headers.get(ORIGIN) else {
            // Some requests of pages carry no origin, and then this says where they come from.
            let is_foreign = headers
                .get(SEC_FETCH_SITE)
                .is_some_and(|site| site == "cross-site")
                && cors() != Cors::Any;
            return if is_foreign { Self::Foreign } else { Self::Own };
        };
        let text = origin.to_str().unwrap_or_default();
        match cors() {
            Cors::Any => return Self::Permitted(HeaderValue::from_static("*")),
            listed if listed.allows(text) => return Self::Permitted(origin.clone()),
            Cors::Off | Cors::Origins(_) => {}
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let of_host = text.split_once("://").map(|(_, authority)| authority);
        match (host, of_host) {
            (Some(host), Some(of_host)) if host.eq_ignore_ascii_case(of_host) => Self::Own,
            _ => Self::Foreign,
        }
    }

    /// Lets the browser hand an answer to its page.
    pub(super) fn permit(&self, headers: &mut HeaderMap) {
        if let Self::Permitted(value) = self {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, value.clone());
            headers.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(EXPOSED),
            );
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
    }
}

/// The answer to a balancer's probe of the traffic port.
pub(super) fn probe(method: &Method, path: &str) -> Option<Response<Body>> {
    let is_probe = matches!(*method, Method::GET | Method::HEAD) && PROBED.contains(&path);
    is_probe.then(|| {
        let body = Bytes::from_static(b"{\"status\":\"ok\"}");
        let mut response = Response::new(Body::Whole(Some(body)));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    })
}

/// The answer to `OPTIONS`, a preflight or not. `allow` are the methods of the path.
pub(super) fn options(headers: &HeaderMap, origin: &Origin, allow: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    let allow = HeaderValue::from_static(allow);
    answer.insert(ALLOW, allow.clone());
    if matches!(origin, Origin::Permitted(_)) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    {
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, allow);
        // The list of headers that cross to a provider is kept elsewhere; here a page asks only
        // whether its browser may send them.
        if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        let age = HeaderValue::from_static(PREFLIGHT_MAX_AGE_SECS);
        answer.insert(ACCESS_CONTROL_MAX_AGE, age);
    }
    response
}

/// True when the caller wants to leave HTTP for a WebSocket.
pub(super) fn wants_websocket(headers: &HeaderMap) -> bool {
    let lists = |name: HeaderName, wanted: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .any(|item| item.trim().eq_ignore_ascii_case(wanted))
    };
    headers.contains_key(UPGRADE) && lists(UPGRADE, "websocket") && lists(CONNECTION, "upgrade")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                let value = HeaderValue::from_static(value);
                (HeaderName::from_static(name), value)
            })
            .collect()
    }

    fn listed() -> Cors {
        Cors::Origins(vec!["https://app.example".to_owned()])
    }

    #[test]
    fn only_foreign_pages_are_refused() {
        let local = ("host", "127.0.0.1:7410");
        for (lines, expected) in [
            (vec![local], Origin::Own),
            (
                vec![local, ("origin", "http://127.0.0.1:7410")],
                Origin::Own,
            ),
            (vec![local, ("sec-fetch-site", "same-origin")], Origin::Own),
            (vec![local, ("sec-fetch-site", "none")], Origin::Own),
            (
                vec![local, ("sec-fetch-site", "cross-site")],
                Origin::Foreign,
            ),
            (
                vec![local, ("origin", "https://evil.example")],
                Origin::Foreign,
            ),
            (vec![local, ("origin", "null")], Origin::Foreign),
            (vec![("origin", "https://evil.example")], Origin::Foreign),
            (
                vec![local, ("origin", "https://app.example")],
                Origin::Permitted(HeaderValue::from_static("https://app.example")),
            ),
            (
                vec![local, ("origin", "https://app.example.evil.example")],
                Origin::Foreign,
            ),
        ] {
            assert_eq!(Origin::of(&headers(&lines), listed), expected, "{lines:?}");
        }
        let everyone = Origin::Permitted(HeaderValue::from_static("*"));
        assert_eq!(
            Origin::of(&headers(&[("origin", "null")]), || Cors::Any),
            everyone
        );
        let without = headers(&[("sec-fetch-site", "cross-site")]);
        assert_eq!(Origin::of(&without, || Cors::Any), Origin::Own);
    }

    #[test]
    fn preflight_of_a_listed_origin_is_permitted_and_no_other() {
        let asked = headers(&[
            ("origin", "https://app.example"),
            ("access-control-request-method", "POST"),
            (
                "access-control-request-headers",
                "authorization,content-type",
            ),
        ]);
        let origin = Origin::of(&asked, listed);
        let mut response = options(&asked, &origin, "POST, OPTIONS");
        origin.permit(response.headers_mut());
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        let answer = response.headers();
        assert_eq!(answer[ALLOW], "POST, OPTIONS");
        assert_eq!(answer[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
        assert_eq!(answer[ACCESS_CONTROL_ALLOW_METHODS], "POST, OPTIONS");
        assert_eq!(
            answer[ACCESS_CONTROL_ALLOW_HEADERS],
            "authorization,content-type"
        );
        assert_eq!(answer[VARY], "origin");
        let origin = Origin::of(&asked, Cors::default);
        let mut response = options(&asked, &origin, "POST, OPTIONS");
        origin.permit(response.headers_mut());
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        assert_eq!(response.headers().len(), 1, "{:?}", response.headers());
    }

    #[test]
    fn websocket_is_recognised_in_every_spelling() {
        for (connection, upgrade, expected) in [
            ("Upgrade", "websocket", true),
            ("keep-alive, Upgrade", "WebSocket", true),
            ("upgrade", "h2c, websocket", true),
            ("upgrade", "h2c", false),
            ("keep-alive", "websocket", false),
        ] {
            let headers = headers(&[("connection", connection), ("upgrade", upgrade)]);
            assert_eq!(
                wants_websocket(&headers),
                expected,
                "{connection} {upgrade}"
            );
        }
    }
}
