//! Who calls, and whether they may: bearer tokens, browser sessions, roles.
//!
//! Every route of the table names its [`Access`]; [`guard`] stands before each handler, so a route
//! without a rule cannot be written. Roles are ordered: viewer < operator < admin.

mod origin;
pub(crate) mod session;

use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::idempotency;
use crate::input::query;
use crate::problem::Failure;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use lanekeeper_store::{Principal, Role, is_sign_in};
use std::sync::Arc;
use std::time::Duration;

/// Longest token that is looked up, bytes; ours have well under 100.
const MAX_TOKEN_BYTES: usize = 256;
/// Longest wait for the store's verdict when a reader's last one may stand in for it. A store whose
/// connections all wait for locks answers late rather than not at all.
const VERDICT_PATIENCE: Duration = Duration::from_millis(500);

/// What is said of a token or session that lets nobody in, whatever the reason.
const UNKNOWN: &str = "invalid or expired token";

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone who reaches the port: documentation, pages, sign-in, probes.
    Public,
    /// A token of at least this role.
    Needs(Role),
}

/// What guards one route.
#[derive(Clone)]
pub(crate) struct Guard {
    /// The query parameters the route documents; `None` where the query is not looked at.
    pub(crate) parameters: Option<Arc<[String]>>,
    /// The server's state.
    pub(crate) app: App,
    /// Who may pass.
    pub(crate) access: Access,
    /// What a refused attempt is called in the audit trail; `None` for reads.
    pub(crate) action: Option<&'static str>,
}

/// Where a request's token came from.
enum Credential<'a> {
    Bearer(&'a str),
    Cookie(&'a str),
}

/// Lets a request through to its handler when the route's rule allows its sender.
pub(crate) async fn guard(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Result<Response, Error> {
    let Access::Needs(needed) = guard.access else {
        guard.check_query(request.uri())?;
        let share = guard.app.bodies.public_share();
        request.extensions_mut().insert(share);
        return Ok(next.run(request).await);
    };
    let caller = authenticate(&guard.app, request.method(), request.headers()).await?;
    let (path, principal) = (request.uri().path().to_owned(), caller.principal.clone());
    // Held until the answer: what a body was read into counts as long as it is worked on.
    let share = guard.app.bodies.share(&principal.id);
    request.extensions_mut().insert(share.clone());
    let answered = match guard.authorize(needed, &principal, request.uri()) {
        Ok(()) => match guard.check_managed(request).await {
            Ok(request) => guard.run(caller, request, next).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    drop(share);
    guard.audit(&principal, &path, refusal(&answered)).await?;
    answered
}

/// Who sent a request, by its token or its session.
async fn authenticate(app: &App, method: &Method, headers: &HeaderMap) -> Result<Caller, Error> {
    let token = match credential(headers)? {
        Credential::Cookie(_) if !method.is_safe() && !origin::is_own(headers) => {
            return Err(Error::CrossOrigin);
        }
        // Each in its place: a token in a cookie would be a session that no sign-out ends.
        Credential::Bearer(token) if is_sign_in(token) => {
            return Err(Error::Unauthenticated(UNKNOWN));
        }
        Credential::Cookie(token) if !is_sign_in(token) => {
            return Err(Error::Unauthenticated(
                "the session has ended: sign in again",
            ));
        }
        Credential::Bearer(token) | Credential::Cookie(token) => token,
    };
    let principal = if method.is_safe() {
        verify_for_reading(app, token).await?
    } else {
        verify(app, token).await?
    };
    Ok(Caller {
        principal,
        token: Arc::from(token),
        idempotency: None,
    })
}

/// The code of an answer by which a write was refused. A failure of this server is no refusal.
fn refusal(answered: &Result<Response, Error>) -> Option<&'static str> {
    let (status, code) = match answered {
        Err(error) => (error.status(), error.code()),
        Ok(response) => {
            let status = response.status();
            let failure = response.extensions().get::<Failure>();
            (status, failure.map_or("refused", |it| it.0.code()))
        }
    };
    status.is_client_error().then_some(code)
}

impl Guard {
    /// Refuses a sender whose role does not reach, and a query that the route does not know.
    fn authorize(&self, needed: Role, principal: &Principal, uri: &http::Uri) -> Result<(), Error> {
        if principal.role < needed {
            return Err(Error::InsufficientRole {
                needed,
                has: principal.role,
                name: principal.name.clone(),
            });
        }
        self.check_query(uri)
    }

    /// Refuses a change of a gateway that comes from a file.
    async fn check_managed(&self, request: Request) -> Result<Request, Error> {
        if !self.app.managed.concerns(self.action) {
            return Ok(request);
        }
        let (mut parts, body) = request.into_parts();
        // As the handler will read them, decoded.
        let parameters = RawPathParams::from_request_parts(&mut parts, &()).await;
        let parameters = parameters.map_err(|error| Error::Internal(error.into()))?;
        let mut named = parameters.iter().filter(|(name, _)| *name == "gateway");
        if let Some((_, gateway)) = named.next() {
            self.app.managed.check(gateway)?;
        }
        Ok(Request::from_parts(parts, body))
    }

    /// Runs the handler; a write at most once under its idempotency key.
    async fn run(
        &self,
        caller: Caller,
        mut request: Request,
        next: Next,
    ) -> Result<Response, Error> {
        if self.action.is_some() {
            return idempotency::run(&self.app, caller, request, next).await;
        }
        request.extensions_mut().insert(caller);
        Ok(next.run(request).await)
    }

    /// Records a refused write. The refusal is answered only once it is on record.
    async fn audit(
        &self,
        principal: &Principal,
        path: &str,
        refused_as: Option<&'static str>,
    ) -> Result<(), Error> {
        match (self.action, refused_as) {
            (Some(action), Some(reason)) => {
                let recorded = self.app.record_refused(principal, action, path, reason);
                recorded.await
            }
            _ => Ok(()),
        }
    }

    /// Refuses a query parameter that the route does not know.
    fn check_query(&self, uri: &http::Uri) -> Result<(), Error> {
        match &self.parameters {
            Some(known) => query::check_names(uri, known),
            None => Ok(()),
        }
    }
}

/// The principal of a token for a request that changes nothing. While the store does not answer, a
/// verdict of the last quarter of an hour is good enough: in an outage people look at the fleet.
pub(crate) async fn verify_for_reading(app: &App, token: &str) -> Result<Principal, Error> {
    let remembered = || {
        app.tokens
            .get_unverified(token, clock::instant(), clock::now_ms())
    };
    if remembered().is_none() {
        return verify(app, token).await;
    }
    let asking = {
        let (app, token) = (app.clone(), token.to_owned());
        async move { verify(&app, &token).await }
    };
    let verdict = match Arc::clone(&app.asking).try_acquire_owned() {
        // The question goes on when nobody waits any more: its failure is how the store's outage is
        // noticed, which later requests need not wait for.
        Ok(place) => {
            let asking = tokio::spawn(async move {
                let verdict = asking.await;
                drop(place);
                verdict
            });
            tokio::time::timeout(VERDICT_PATIENCE, async {
                asking
                    .await
                    .unwrap_or_else(|error| Err(Error::Internal(error.into())))
            })
            .await
        }
        Err(_) => tokio::time::timeout(VERDICT_PATIENCE, asking).await,
    };
    match verdict {
        Ok(Err(Error::Store(error))) => remembered().ok_or(Error::Store(error)),
        Ok(verdict) => verdict,
        Err(_) => remembered().ok_or(Error::Overdue),
    }
}

/// The principal of a token, or of the session that a cookie holds.
pub(crate) async fn verify(app: &App, token: &str) -> Result<Principal, Error> {
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
        return Err(Error::Unauthenticated(UNKNOWN));
    }
    if let Some(principal) = app.tokens.get(token, clock::instant()) {
        return Ok(principal);
    }
    // Taken before the store is asked: a revocation that falls between the two must win.
    let asked = clock::instant();
    let now_ms = clock::now_ms();
    let found = if is_sign_in(token) {
        app.store.signed_in(token, now_ms).await?
    } else {
        app.store.authenticate(token, now_ms).await?
    };
    match found {
        Some(principal) => {
            app.tokens.insert(token, principal.clone(), asked);
            Ok(principal)
        }
        None => Err(Error::Unauthenticated(UNKNOWN)),
    }
}

fn credential(headers: &HeaderMap) -> Result<Credential<'_>, Error> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    if let Some(value) = values.next() {
        if values.next().is_some() {
            return Err(Error::Unauthenticated(
                "send one Authorization header and not several",
            ));
        }
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        return token.map(Credential::Bearer).ok_or(Error::Unauthenticated(
            "the Authorization header must be 'Bearer TOKEN'",
        ));
    }
    session::token(headers)
        .map(Credential::Cookie)
        .ok_or(Error::Unauthenticated(
            "send a token as 'Authorization: Bearer TOKEN'",
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_bearer_token_wins_over_a_cookie() {
        let headers = HeaderMap::from_iter([
            (AUTHORIZATION, HeaderValue::from_static("bearer  a.b")),
            (
                http::header::COOKIE,
                HeaderValue::from_static("lanekeeper_session=c.d"),
            ),
        ]);
        assert!(matches!(
            credential(&headers),
            Ok(Credential::Bearer("a.b"))
        ));
    }

    #[test]
    fn another_scheme_is_refused_and_not_skipped() {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic x"))]);
        assert!(matches!(
            credential(&headers),
            Err(Error::Unauthenticated(_))
        ));
    }
}
