//! Browser sessions: a token, posted once, comes back as a cookie that scripts cannot read.
//!
//! The cookie carries the token itself, so any replica can serve the session, and revoking the
//! token ends it everywhere.

use super::{origin, verify};
use crate::app::App;
use crate::error::Error;
use crate::input::Json;
use crate::input::body::{Fields, Form};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{COOKIE, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use http::{HeaderMap, StatusCode};

/// The session cookie's name.
const COOKIE_NAME: &str = "lanekeeper_session";
/// How long a browser keeps the session, seconds; the token may end earlier.
const MAX_AGE_SECS: u32 = 12 * 60 * 60;
/// What a proxy that ends TLS in front of this server says about the browser's side.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A token to sign in with.
#[derive(utoipa::ToSchema)]
pub(crate) struct SignIn {
    /// An API token, `id.secret`.
    token: String,
}

impl Form for SignIn {
    const FIELDS: &'static [&'static str] = &["token"];

    fn read(fields: &mut Fields) -> Option<Self> {
        Some(Self {
            token: fields.text("token")?,
        })
    }
}

/// Who is signed in.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Session {
    /// The token's name.
    name: String,
    /// `viewer`, `operator` or `admin`.
    role: &'static str,
}

/// The token in a request's session cookie.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, token)| token)
        .filter(|token| !token.is_empty())
}

/// Start a browser session from a token.
#[utoipa::path(
    post,
    path = "/session",
    operation_id = "sign_in",
    tag = "session",
    security(()),
    request_body = SignIn,
    responses(
        (status = 200, description = "Signed in; the session is in the cookie", body = Session),
        (status = 403, description = "The page that asks is not this server's",
         body = crate::problem::ProblemDocument, content_type = "application/problem+json"),
        (status = 401, description = "The token is unknown, revoked or expired",
         body = crate::problem::ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    Json(form): Json<SignIn>,
) -> Result<Response, Error> {
    if headers.contains_key(ORIGIN) && !origin::is_own(&headers) {
        return Err(Error::CrossOrigin);
    }
    let principal = verify(&app, form.token.trim()).await?;
    let cookie = cookie(form.token.trim(), MAX_AGE_SECS, &headers)?;
    let session = Session {
        name: principal.name,
        role: principal.role.as_str(),
    };
    Ok(([(SET_COOKIE, cookie)], axum::Json(session)).into_response())
}

/// Show who is signed in.
#[utoipa::path(
    get,
    path = "/session",
    operation_id = "show_session",
    tag = "session",
    responses((status = 200, description = "The token's name and role", body = Session))
)]
pub(crate) async fn show(caller: super::Caller) -> axum::Json<Session> {
    axum::Json(Session {
        name: caller.0.name,
        role: caller.0.role.as_str(),
    })
}

/// End the browser session.
#[utoipa::path(
    delete,
    path = "/session",
    operation_id = "sign_out",
    tag = "session",
    security(()),
    responses(
        (status = 204, description = "The cookie is gone"),
        (status = 403, description = "The page that asks is not this server's",
         body = crate::problem::ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn sign_out(headers: HeaderMap) -> Result<Response, Error> {
    if !origin::is_own(&headers) && headers.contains_key(ORIGIN) {
        return Err(Error::CrossOrigin);
    }
    Ok((
        StatusCode::NO_CONTENT,
        [(SET_COOKIE, cookie("", 0, &headers)?)],
    )
        .into_response())
}

fn cookie(token: &str, max_age_secs: u32, headers: &HeaderMap) -> Result<HeaderValue, Error> {
    let secure = headers
        .get(FORWARDED_PROTO)
        .is_some_and(|proto| proto == "https");
    let secure = if secure { "; Secure" } else { "" };
    HeaderValue::from_str(&format!(
        "{COOKIE_NAME}={token}; Path=/; Max-Age={max_age_secs}; HttpOnly; SameSite=Strict{secure}"
    ))
    .map_err(|error| Error::Internal(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let headers = HeaderMap::from_iter([(
            COOKIE,
            HeaderValue::from_static("theme=dark; lanekeeper_session=a.b; x=y"),
        )]);
        assert_eq!(token(&headers), Some("a.b"));
        assert_eq!(token(&HeaderMap::new()), None);
    }

    #[test]
    fn the_cookie_is_out_of_reach_of_scripts_and_other_sites() {
        let plain = cookie("a.b", 60, &HeaderMap::new()).unwrap();
        assert_eq!(
            plain,
            "lanekeeper_session=a.b; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"
        );
        let behind_tls =
            HeaderMap::from_iter([(FORWARDED_PROTO, HeaderValue::from_static("https"))]);
        let cookie = cookie("a.b", 60, &behind_tls).unwrap();
        assert!(cookie.to_str().unwrap().ends_with("; Secure"));
    }
}
