//! The start page: sign in, then see the fleet live. Embedded, so that the binary is all it takes.

use crate::error::Error;
use crate::input::Path;
use crate::input::precondition::held;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};

/// What pages may load and do: nothing but this server's own files and API.
pub(crate) const PAGE_CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'none'; \
    base-uri 'none'; frame-ancestors 'none'";

/// Files under `/assets`, with their types.
const ASSETS: [(&str, &str, &str); 3] = [
    (
        "fleet.css",
        "text/css; charset=utf-8",
        include_str!("../page/fleet.css"),
    ),
    (
        "fleet.js",
        "text/javascript; charset=utf-8",
        include_str!("../page/fleet.js"),
    ),
    (
        "icon.svg",
        "image/svg+xml",
        include_str!("../page/icon.svg"),
    ),
];

/// `GET /`.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    serve(
        "text/html; charset=utf-8",
        include_str!("../page/index.html"),
        &headers,
    )
}

/// `GET /assets/{name}`.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Error> {
    ASSETS
        .iter()
        .find(|(known, _, _)| *known == name)
        .map(|(_, kind, text)| serve(kind, text, &headers))
        .ok_or(Error::UnknownRoute)
}

fn serve(kind: &'static str, text: &'static str, headers: &HeaderMap) -> Response {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("\"{hex}\"");
    let common = [
        (ETAG, tag.clone()),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (CONTENT_SECURITY_POLICY, PAGE_CSP.to_owned()),
    ];
    if held(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(CONTENT_TYPE, kind)], text).into_response()
}
