//! `GET /api/v1/breaker-state/stream`: the view as server-sent events, a snapshot and then changes.

use super::breaker_state::{BreakerQuery, view};
use crate::app::{App, MAX_STREAMS, StreamOfToken};
use crate::auth::verify_for_reading;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::fleet_view::{FleetSnapshot, change, etag};
use crate::input::Query;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use lanekeeper_model::{FleetView, ViewQuery};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// An event keeps idle streams open through proxies, and tells a client that we are alive. A comment
/// would not: browsers keep those from their pages.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often an open stream asks whether its token is still good. With the memory of verdicts it
/// stays under the five seconds within which a revocation acts.
const RECHECK: Duration = Duration::from_secs(2);

/// Follow the fleet's breakers: one `snapshot` event, then a `change` event whenever the view
/// changes. After a reconnect a snapshot is sent first again.
#[utoipa::path(
    get,
    path = "/api/v1/breaker-state/stream",
    operation_id = "follow_breaker_state",
    tag = "fleet",
    params(BreakerQuery),
    responses(
        (status = 200, description = "Events: `snapshot` (a FleetView), `change` (a Change), \
         `heartbeat` after 10 s without another",
         body = String, content_type = "text/event-stream"),
        (status = 429, description = "This token has 16 streams open already"),
        (status = 503, description = "All event streams are in use"),
    )
)]
pub(crate) async fn follow(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<BreakerQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Error> {
    let query = query.parse()?;
    let share = app.streams_of.open(&caller.principal.id)?;
    let slot = Arc::clone(&app.streams)
        .try_acquire_owned()
        .map_err(|_| Error::TooManyStreams(MAX_STREAMS))?;
    let mut snapshots = app.fleet.follow();
    let snapshot = app.fleet.snapshot().await?;
    snapshots.mark_unchanged();
    let snapshot = view(&app, &snapshot, query.clone()).await?;
    let first = event("snapshot", &snapshot);
    let follower = Follower {
        shown: etag::timeless(snapshot),
        verified: clock::instant(),
        app,
        caller,
        query,
        snapshots,
        _slot: slot,
        _share: share,
    };
    let changes = stream::unfold(follower, Follower::next);
    let events = futures_util::StreamExt::chain(stream::iter([Ok(first)]), changes);
    let heartbeat = Event::default().event("heartbeat").data("{}");
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT).event(heartbeat)))
}

/// One open stream.
struct Follower {
    app: App,
    caller: Caller,
    query: ViewQuery,
    snapshots: watch::Receiver<Option<Arc<FleetSnapshot>>>,
    /// What the client was told, without what only the clock changes.
    shown: FleetView,
    verified: Instant,
    _slot: OwnedSemaphorePermit,
    _share: StreamOfToken,
}

impl Follower {
    /// Waits for the next change. The stream ends with the server, or with the token.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            self.app.fleet.look();
            let closing = self.app.closing.clone();
            tokio::select! {
                () = closing.cancelled() => return None,
                changed = self.snapshots.changed() => changed.ok()?,
                () = tokio::time::sleep(RECHECK) => {}
            }
            self.check_token().await?;
            let Some(snapshot) = self.snapshots.borrow_and_update().clone() else {
                continue;
            };
            let Ok(snapshot) = snapshot.usable() else {
                continue;
            };
            let now = view(&self.app, &snapshot, self.query.clone()).await.ok()?;
            if let Some((change, rest)) = change::between(&self.shown, now) {
                self.shown = rest;
                return Some((Ok(event("change", &change)), self));
            }
        }
    }

    /// `None` once the token is no longer good, or cannot be verified for longer than an outage of
    /// the store is bridged.
    async fn check_token(&mut self) -> Option<()> {
        let now = clock::instant();
        if now.saturating_duration_since(self.verified) < RECHECK {
            return Some(());
        }
        self.verified = now;
        verify_for_reading(&self.app, &self.caller.token)
            .await
            .ok()
            .map(|_| ())
    }
}

fn event(name: &str, data: &impl serde::Serialize) -> Event {
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().event(name).data(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_waits_for_heartbeats_as_often_as_they_come() {
        let page = include_str!("../../../web/src/live/stream.ts");
        let line = format!("const HEARTBEAT_MS = {};", HEARTBEAT.as_millis());
        assert!(page.contains(&line), "the page does not say: {line}");
        assert!(page.contains("addEventListener(\"heartbeat\""));
    }
}
