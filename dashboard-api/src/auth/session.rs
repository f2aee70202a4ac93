//! Browser sessions: for a token, posted once, comes a cookie that scripts cannot read.
//!
//! The cookie carries a secret of its own whose hash is in the store, so that any replica serves the
//! session, a sign-out ends it everywhere, and the token itself is in no browser. The token's
//! revocation ends its sessions as well.

use super::{UNKNOWN, origin, verify};
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::input::Json;
use crate::input::body::{Fields, Form};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{COOKIE, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use lanekeeper_store::{ExposeSecret, is_sign_in};

/// The session cookie's name.
const COOKIE_NAME: &str = "lanekeeper_session";
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

/// What a request's session cookie holds.
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
        (status = 403, description = "The request comes from another site's page"),
        (status = 401, description = "Invalid or expired token"),
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
    // A session makes no further one: it would never end.
    if is_sign_in(form.token.trim()) {
        return Err(Error::Unauthenticated(UNKNOWN));
    }
    let principal = verify(&app, form.token.trim()).await?;
    let now_ms = clock::now_ms();
    let signed_in = app.store.sign_in(&principal, now_ms).await?;
    let (secret, end_ms) = signed_in.ok_or(Error::Unauthenticated(UNKNOWN))?;
    let max_age_secs = end_ms.saturating_sub(now_ms) / 1000;
    let cookie = cookie(secret.expose_secret(), max_age_secs, &headers)?;
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
pub(crate) async fn show(caller: Caller) -> axum::Json<Session> {
    axum::Json(Session {
        name: caller.principal.name,
        role: caller.principal.role.as_str(),
    })
}

/// End the browser session, here and on every replica.
#[utoipa::path(
    delete,
    path = "/session",
    operation_id = "sign_out",
    tag = "session",
    security(()),
    responses(
        (status = 204, description = "The session has ended and the cookie is cleared"),
        (status = 403, description = "The request comes from another site's page"),
        (status = 503, description = "The store is unavailable: the cookie is cleared, but the session has \
         not ended"),
    )
)]
pub(crate) async fn sign_out(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    if !origin::is_own(&headers) && headers.contains_key(ORIGIN) {
        return Err(Error::CrossOrigin);
    }
    let ended = match token(&headers) {
        Some(token) => app.store.sign_out(token).await,
        None => Ok(false),
    };
    if matches!(ended, Ok(true)) {
        app.announce_revocation().await;
    }
    let mut response = match ended {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        // The browser forgets it all the same; that it has not ended is said by the status.
        Err(error) => Error::Store(error).into_response(),
    };
    let cookie = cookie("", 0, &headers)?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

fn cookie(token: &str, max_age_secs: u64, headers: &HeaderMap) -> Result<HeaderValue, Error> {
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
