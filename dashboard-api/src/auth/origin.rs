//! Tells a request of this server's own pages from one that another site's page caused.
//!
//! The session cookie is `SameSite=Strict`; this is the second lock, for browsers and sibling hosts
//! where that is not enough.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

/// True when the browser says that the request comes from a page of this server.
///
/// Modern browsers send `Sec-Fetch-Site`, all send `Origin` with a write. A request with neither
/// is refused: a client that is no browser has no need of a cookie.
pub(crate) fn is_own(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (text(&ORIGIN), text(&HOST)) {
        (Some(origin), Some(host)) => origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority == host),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn own(headers: &[(&'static str, &str)]) -> bool {
        is_own(
            &headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect(),
        )
    }

    #[test]
    fn the_browsers_verdict_decides_where_there_is_one() {
        assert!(own(&[("sec-fetch-site", "same-origin")]));
        for site in ["same-site", "cross-site", "none"] {
            let headers = [
                ("sec-fetch-site", site),
                ("origin", "http://a:1"),
                ("host", "a:1"),
            ];
            assert!(!own(&headers), "{site}");
        }
    }

    #[test]
    fn otherwise_origin_and_host_must_agree_to_the_port() {
        assert!(own(&[
            ("origin", "http://127.0.0.1:7401"),
            ("host", "127.0.0.1:7401")
        ]));
        assert!(!own(&[
            ("origin", "http://127.0.0.1:7402"),
            ("host", "127.0.0.1:7401")
        ]));
        assert!(!own(&[("origin", "null"), ("host", "127.0.0.1:7401")]));
        assert!(!own(&[("host", "127.0.0.1:7401")]));
    }
}
