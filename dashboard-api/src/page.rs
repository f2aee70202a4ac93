//! The page: one document for all of its addresses, and the hashed files that it loads. Embedded, so
//! that the binary is all it takes. The sources are in `web/`; `build.rs` embeds what they built.

use crate::error::Error;
use crate::input::Path;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY,
};
use http::{HeaderMap, HeaderName};

/// What pages may load and do: nothing but this server's own files and API.
pub(crate) const PAGE_CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'none'; \
    base-uri 'none'; frame-ancestors 'none'";

/// Addresses of the page, so that a link to what somebody sees works for a colleague. Its router is
/// in `web/src/app/router.tsx`.
pub(crate) const ADDRESSES: [&str; 10] = [
    "/",
    "/lanes",
    "/pools",
    "/pools/{gateway}/{pool}",
    "/gateways/{gateway}/edit",
    "/rollouts",
    "/rollouts/{gateway}/{revision}",
    "/agents",
    "/agents/{id}",
    "/access",
];

/// What stands in the document for a value that only this answer's styles carry.
const NONCE_MARK: &str = "STYLE-NONCE";
/// The name of a file holds its hash, so that it never changes.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// One embedded file.
struct Asset {
    /// Its path below the built page.
    name: &'static str,
    /// Its media type.
    kind: &'static str,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
}

static ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));
static UNBUILT: &str = include_str!("../page/unbuilt.html");

/// Any address of the page. The document is small and names the files of this version, so it is
/// asked for each time.
pub(crate) async fn document() -> Response {
    let index = ASSETS.iter().find(|asset| asset.name == "index.html");
    let text = index.and_then(|asset| std::str::from_utf8(asset.plain).ok());
    let html = [(CONTENT_TYPE, "text/html; charset=utf-8")];
    let Some(text) = text else {
        return (html, [(CONTENT_SECURITY_POLICY, PAGE_CSP)], UNBUILT).into_response();
    };
    // Two halves, each with more than 70 random bits.
    let half = || uuid::Uuid::now_v7().simple().to_string();
    let nonce = format!("{}{}", half(), half());
    let policy = PAGE_CSP.replace(
        "style-src 'self'",
        &format!("style-src 'self' 'nonce-{nonce}'"),
    );
    let policy = [(CONTENT_SECURITY_POLICY, policy)];
    (html, policy, text.replace(NONCE_MARK, &nonce)).into_response()
}

/// `GET /assets/{name}`.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Error> {
    let known = |asset: &&Asset| asset.name.strip_prefix("assets/") == Some(name.as_str());
    let asset = ASSETS.iter().find(known).ok_or(Error::UnknownRoute)?;
    let common = [
        (CONTENT_TYPE, asset.kind),
        (CACHE_CONTROL, FOREVER),
        (VARY, "accept-encoding"),
    ];
    Ok(match asset.form(&headers) {
        (Some(coding), bytes) => (common, [(CONTENT_ENCODING, coding)], bytes).into_response(),
        (None, bytes) => (common, bytes).into_response(),
    })
}

/// `GET /icon.svg`.
pub(crate) async fn icon() -> impl IntoResponse {
    const ICON: [(HeaderName, &str); 2] = [
        (CONTENT_TYPE, "image/svg+xml"),
        (CACHE_CONTROL, "public, max-age=86400"),
    ];
    (ICON, include_str!("../page/icon.svg"))
}

impl Asset {
    /// The smallest form that the client takes, with its coding.
    fn form(&self, headers: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
        for (coding, bytes) in [("br", self.brotli), ("gzip", self.gzip)] {
            if let Some(bytes) = bytes
                && takes(headers, coding)
            {
                return (Some(coding), bytes);
            }
        }
        (None, self.plain)
    }
}

/// Whether a client takes a coding: it names it, and not with a weight of 0.
fn takes(headers: &HeaderMap, coding: &str) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|offer| {
            let (name, weight) = offer.split_once(';').unwrap_or((offer, "q=1"));
            let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
            name.trim().eq_ignore_ascii_case(coding) && weight.parse().is_ok_and(|q: f32| q > 0.0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_client_gets_the_smallest_form_it_takes() {
        let asset = Asset {
            name: "assets/a.js",
            kind: "text/javascript",
            plain: b"plain",
            gzip: Some(b"gz"),
            brotli: Some(b"br"),
        };
        for (offer, coding) in [
            ("gzip, deflate, br", Some("br")),
            ("gzip, br;q=0", Some("gzip")),
            ("GZIP;q=0.5", Some("gzip")),
            ("identity", None),
            ("br;q=0, gzip;q=0.0", None),
        ] {
            let headers =
                HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(offer))]);
            assert_eq!(asset.form(&headers).0, coding, "{offer}");
        }
        assert_eq!(asset.form(&HeaderMap::new()), (None, &b"plain"[..]));
    }

    #[test]
    fn every_address_of_the_page_is_one_of_its_router() {
        let router = include_str!("../../web/src/app/router.tsx");
        for address in ADDRESSES {
            let path = address.replace('{', "$").replace('}', "");
            assert!(router.contains(&format!("path: \"{path}\"")), "{path}");
        }
        let routes = router.matches("path: \"").count();
        assert_eq!(routes, ADDRESSES.len());
    }

    #[test]
    fn the_built_page_runs_no_inline_script_and_marks_where_the_nonce_goes() {
        let source = include_str!("../../web/index.html");
        assert_eq!(source.matches(NONCE_MARK).count(), 1);
        for script in source.split("<script").skip(1) {
            assert!(script.contains("src="), "an inline script: {script}");
        }
    }
}
