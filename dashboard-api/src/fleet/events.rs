//! `GET /api/v1/events`: everything that a page lives by, as server-sent events.

use crate::app::{App, StreamOfToken};
use crate::auth::verify_for_reading;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::event_hub::{Next, OpenPage, PAGES_MAX, PageEvent, ResetEvent};
use crate::input::Query;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use http::HeaderMap;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// An event keeps idle streams open through proxies, and shows a page that we are alive.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often an open stream asks whether its token is still good. With the memory of verdicts it
/// stays under the five seconds within which a revocation acts.
const RECHECK: Duration = Duration::from_secs(2);
/// Longest wait for the first snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
/// The header with which browsers say where they were.
const LAST_EVENT_ID: &str = "last-event-id";

/// What to follow.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only this gateway. The summary is of the whole fleet nevertheless.
    gateway: Option<String>,
}

/// Follow all that a page shows. Every event but `heartbeat` has an id. The first one is `snapshot`
/// (a PageSnapshot). Then come `summary` (a Summary), `cells` (a CellsEvent), `agents` (an
/// AgentsEvent), `incidents` (an IncidentsEvent), `rollout` (a RolloutEvent), `overrides` (an
/// OverridesEvent) and `acknowledgements` (an AcknowledgementsEvent) as things change, and
/// `heartbeat` (`{}`) after 10 s without another. With `Last-Event-ID` the stream goes on after that
/// event; where that is not possible any more, or a reader is too slow, `reset` (a ResetEvent) and
/// another `snapshot` come.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    operation_id = "follow_events",
    tag = "fleet",
    params(
        EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event received"),
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 429, description = "This token has 100 pages open already"),
        (status = 503, description = "1,000 pages are open already"),
    )
)]
pub(crate) async fn follow(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Error> {
    let share = app.pages_of.open(&caller.principal.id)?;
    let slot = Arc::clone(&app.pages)
        .try_acquire_owned()
        .map_err(|_| Error::TooManyStreams(PAGES_MAX))?;
    // A snapshot that cannot be taken is a refusal, not a stream that stays silent.
    app.fleet.snapshot().await?;
    let mut follower = Follower {
        page: app.events.open(),
        published: app.events.published(),
        next: 0,
        ready: VecDeque::new(),
        verified: clock::instant(),
        gateway: query.gateway,
        app,
        caller,
        _slot: slot,
        _share: share,
    };
    let last = headers.get(LAST_EVENT_ID).map(|id| id.to_str().ok());
    follower.begin(last).await?;
    let events = stream::unfold(follower, Follower::next);
    let heartbeat = Event::default().event("heartbeat").data("{}");
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT).event(heartbeat)))
}

/// One open page.
struct Follower {
    app: App,
    caller: Caller,
    gateway: Option<String>,
    page: OpenPage,
    published: watch::Receiver<u64>,
    /// Number of the next change to send.
    next: u64,
    /// What is to be sent before that.
    ready: VecDeque<Event>,
    verified: Instant,
    _slot: OwnedSemaphorePermit,
    _share: StreamOfToken,
}

impl Follower {
    /// Goes on after the last event that the page has had, or begins with a snapshot.
    async fn begin(&mut self, last: Option<Option<&str>>) -> Result<(), Error> {
        let hub = self.page.hub();
        let resumed = last.flatten().and_then(|id| hub.after(id));
        if let Some(next) = resumed
            && let Next::Events(..) = hub.since(next, self.gateway())
        {
            self.next = next;
            return Ok(());
        }
        let deadline = clock::instant() + SNAPSHOT_TIMEOUT;
        loop {
            self.published.mark_unchanged();
            let reason = "the events after that one are not kept any more";
            if self.restart(last.is_some().then_some(reason)) {
                return Ok(());
            }
            let news = self.published.changed();
            match tokio::time::timeout_at(deadline.into(), news).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(Error::Overdue),
            }
        }
    }

    /// Begins anew with a snapshot, if there is one.
    fn restart(&mut self, reset: Option<&'static str>) -> bool {
        let hub = self.page.hub();
        let Some((snapshot, next)) = hub.snapshot(self.gateway()) else {
            return false;
        };
        let id = hub.id(next - 1);
        self.next = next;
        self.ready.clear();
        let reset = reset.map(|reason| event(&id, "reset", &ResetEvent { reason }));
        self.ready.extend(reset);
        self.ready.push_back(event(&id, "snapshot", &snapshot));
        true
    }

    /// Waits for the next event. The stream ends with the server, or with the token.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            self.published.mark_unchanged();
            match self.page.hub().since(self.next, self.gateway()) {
                Next::Events(events, next) => {
                    let hub = self.page.hub();
                    let ready: Vec<Event> = events
                        .iter()
                        .map(|it| sent(hub.id(it.number), it))
                        .collect();
                    self.next = next;
                    self.ready.extend(ready);
                    if !self.ready.is_empty() {
                        continue;
                    }
                }
                Next::Behind => {
                    if self.restart(Some("this reader was too slow")) {
                        continue;
                    }
                }
            }
            let closing = self.app.closing.clone();
            tokio::select! {
                () = closing.cancelled() => return None,
                changed = self.published.changed() => changed.ok()?,
                () = tokio::time::sleep(RECHECK) => {}
            }
            self.check_token().await?;
        }
    }

    fn gateway(&self) -> Option<&str> {
        self.gateway.as_deref()
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

fn sent(id: String, change: &PageEvent) -> Event {
    Event::default()
        .id(id)
        .event(change.name)
        .data(&change.data)
}

fn event(id: &str, name: &str, data: &impl serde::Serialize) -> Event {
    let data = serde_json::to_string(data).unwrap_or_default();
    Event::default().id(id).event(name).data(data)
}
