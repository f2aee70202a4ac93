//! What the handlers share.

use crate::clock;
use crate::error::Error;
use crate::event_hub::{EventHub, PAGES_MAX, PAGES_OF_TOKEN_MAX};
use crate::fleet_view::Fleet;
use crate::input::budget::BodyBudget;
use crate::managed::Managed;
use crate::token_cache::TokenCache;
use lanekeeper_model::GatewayName;
use lanekeeper_store::{Change, ConfigStore, Hint, LiveView, Principal};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// Event streams open at once. Each holds a connection and computes its own view when something
/// changes.
pub(crate) const MAX_STREAMS: usize = 256;
/// Event streams open at once with one token, so that no one takes them all.
pub(crate) const MAX_STREAMS_OF_TOKEN: usize = 16;
/// Questions after readers' tokens that go on when the readers wait no longer.
const MAX_ASKING: usize = 64;
/// Longest resource kept of a refused attempt, bytes.
const MAX_RESOURCE_BYTES: usize = 512;

/// The state behind every route. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

/// See [`App`].
pub(crate) struct Shared {
    /// The source of truth for configuration, tokens and audit.
    pub(crate) store: ConfigStore,
    /// What the agents last reported, and hints between replicas.
    pub(crate) live: Arc<dyn LiveView>,
    /// The latest snapshot of the fleet.
    pub(crate) fleet: Fleet,
    /// Tokens that were verified a moment ago.
    pub(crate) tokens: TokenCache,
    /// Places for questions after readers' tokens.
    pub(crate) asking: Arc<Semaphore>,
    /// Slots for event streams.
    pub(crate) streams: Arc<Semaphore>,
    /// How many of them each token has, by its id.
    pub(crate) streams_of: Arc<StreamCounts>,
    /// Gateways that come from files.
    pub(crate) managed: Managed,
    /// What bodies may hold.
    pub(crate) bodies: Arc<BodyBudget>,
    /// What changes for pages.
    pub(crate) events: Arc<EventHub>,
    /// Slots for pages.
    pub(crate) pages: Arc<Semaphore>,
    /// How many of them each token has, by its id.
    pub(crate) pages_of: Arc<StreamCounts>,
    /// Cancelled when the server ends: event streams end then.
    pub(crate) closing: CancellationToken,
}

/// Open event streams by the id of their token. Bounded by the slots for them.
pub(crate) struct StreamCounts {
    counts: Mutex<HashMap<String, usize>>,
    of_token_max: usize,
}

/// One stream of a token, until it is dropped.
pub(crate) struct StreamOfToken {
    counts: Arc<StreamCounts>,
    id: String,
}

impl StreamCounts {
    /// No streams; one token may have so many.
    fn new(of_token_max: usize) -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::default(),
            of_token_max,
        })
    }

    /// Counts one more stream of a token, if it may have one.
    pub(crate) fn open(self: &Arc<Self>, id: &str) -> Result<StreamOfToken, Error> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(id.to_owned()).or_default();
        if *count >= self.of_token_max {
            return Err(Error::TooManyStreamsOfToken(self.of_token_max));
        }
        *count += 1;
        Ok(StreamOfToken {
            counts: Arc::clone(self),
            id: id.to_owned(),
        })
    }
}

impl Drop for StreamOfToken {
    fn drop(&mut self) {
        let mut counts = self
            .counts
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.id);
            }
        }
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// The state of one server.
    pub(crate) fn new(
        store: ConfigStore,
        live: Arc<dyn LiveView>,
        managed: Managed,
        closing: CancellationToken,
    ) -> Self {
        Self(Arc::new(Shared {
            fleet: Fleet::default(),
            tokens: TokenCache::default(),
            asking: Arc::new(Semaphore::new(MAX_ASKING)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            streams_of: StreamCounts::new(MAX_STREAMS_OF_TOKEN),
            managed,
            events: Arc::default(),
            pages: Arc::new(Semaphore::new(PAGES_MAX)),
            pages_of: StreamCounts::new(PAGES_OF_TOKEN_MAX),
            bodies: Arc::default(),
            store,
            live,
            closing,
        }))
    }

    /// Tells the control planes about a new revision. The hint may be lost: they poll as well.
    pub(crate) async fn announce_revision(&self, gateway: &str) {
        let hint = Hint::Revision {
            gateway: GatewayName::new(gateway),
        };
        if let Err(error) = self.live.publish(hint).await {
            tracing::warn!(%error, gateway, "failed to publish the hint about a new revision");
        }
        self.fleet.wake();
    }

    /// Tells the control planes about a change of a gateway's orders. The hint may be lost: they poll
    /// as well.
    pub(crate) async fn announce_overrides(&self, gateway: &str) {
        let hint = Hint::Overrides {
            gateway: GatewayName::new(gateway),
        };
        if let Err(error) = self.live.publish(hint).await {
            tracing::warn!(%error, gateway, "failed to publish the hint about overrides");
        }
        self.fleet.wake();
    }

    /// Forgets verdicts about tokens, here and at the other replicas.
    pub(crate) async fn announce_revocation(&self) {
        self.tokens.clear();
        if let Err(error) = self.live.publish(Hint::TokenRevoked).await {
            tracing::warn!(%error, "failed to publish the hint about a revoked token");
        }
    }

    /// Tells the control planes that certificates of agents no longer count. The hint may be lost:
    /// they poll as well.
    pub(crate) async fn announce_identity_revocation(&self) {
        if let Err(error) = self.live.publish(Hint::Revocation).await {
            tracing::warn!(%error, "failed to publish the hint about a revoked identity");
        }
    }

    /// Writes an attempt that failed into the audit trail. Its sender may be gone by then.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when the store does not let us: the attempt is not on record.
    pub(crate) async fn record_refused(
        &self,
        principal: &Principal,
        action: &'static str,
        path: &str,
        reason: &'static str,
    ) -> Result<(), Error> {
        let change = Change {
            actor: principal.name.clone(),
            actor_id: principal.id.clone(),
            message: String::new(),
            now_ms: clock::now_ms(),
            idempotency: None,
        };
        let resource: String = resource_of(path)
            .chars()
            .take(MAX_RESOURCE_BYTES / 4)
            .collect();
        let store = self.store.clone();
        let recording = tokio::spawn(async move {
            let recorded = store.record_refused(action, &resource, reason, &change);
            let recorded = recorded.await;
            if let Err(error) = &recorded {
                tracing::warn!(%error, action, "failed to record a refused attempt in the audit trail");
            }
            recorded
        });
        let recorded = recording
            .await
            .map_err(|error| Error::Internal(error.into()))?;
        Ok(recorded?)
    }

    /// Follows the hints of other replicas until the server ends.
    pub(crate) async fn follow_hints(self) {
        let mut hints = self.live.subscribe();
        loop {
            let hint = tokio::select! {
                () = self.closing.cancelled() => return,
                hint = hints.recv() => hint,
            };
            match hint {
                Ok(Hint::TokenRevoked) => self.tokens.clear(),
                Ok(Hint::Revocation | Hint::Duplicate { .. } | Hint::ProbeVerdict { .. }) => {}
                Ok(
                    Hint::Revision { .. }
                    | Hint::Rollout { .. }
                    | Hint::Incident { .. }
                    | Hint::Overrides { .. }
                    | Hint::Report { .. },
                ) => {
                    self.fleet.wake();
                }
                Err(RecvError::Lagged(_)) => {
                    self.tokens.clear();
                    self.fleet.wake();
                }
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// What a path of the admin API is about, as the store words it: `gateways/edge`, `tokens/ID`.
fn resource_of(path: &str) -> String {
    path.trim_start_matches("/admin/v1/")
        .split('/')
        .take(2)
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_names_its_resource_as_a_change_does() {
        for (path, resource) in [
            ("/admin/v1/gateways", "gateways"),
            ("/admin/v1/gateways/edge", "gateways/edge"),
            ("/admin/v1/gateways/edge/config", "gateways/edge"),
            (
                "/admin/v1/gateways/edge/revisions/3/rollback",
                "gateways/edge",
            ),
            ("/admin/v1/tokens/abc", "tokens/abc"),
        ] {
            assert_eq!(resource_of(path), resource);
        }
    }

    #[test]
    fn one_token_has_its_share_of_streams_and_no_more() {
        let counts = StreamCounts::new(MAX_STREAMS_OF_TOKEN);
        let mut open: Vec<_> = (0..MAX_STREAMS_OF_TOKEN)
            .map(|_| counts.open("a").unwrap())
            .collect();
        assert!(matches!(
            counts.open("a"),
            Err(Error::TooManyStreamsOfToken(MAX_STREAMS_OF_TOKEN))
        ));
        assert!(counts.open("b").is_ok());
        open.pop();
        assert!(counts.open("a").is_ok());
        drop(open);
        assert!(counts.counts.lock().unwrap().is_empty());
    }
}
