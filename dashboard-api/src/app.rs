//! What the handlers share.

use crate::auth::TokenCache;
use crate::clock;
use crate::fleet::Fleet;
use lanekeeper_model::GatewayName;
use lanekeeper_store::{Change, ConfigStore, Hint, LiveView, Principal};
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// Event streams open at once. Each holds a connection and computes its own view when something
/// changes.
pub(crate) const MAX_STREAMS: usize = 256;
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
    /// The latest picture of the fleet.
    pub(crate) fleet: Fleet,
    /// Tokens that were verified a moment ago.
    pub(crate) tokens: TokenCache,
    /// Slots for event streams.
    pub(crate) streams: Arc<Semaphore>,
    /// Cancelled when the server ends: event streams end then.
    pub(crate) closing: CancellationToken,
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
        closing: CancellationToken,
    ) -> Self {
        Self(Arc::new(Shared {
            fleet: Fleet::default(),
            tokens: TokenCache::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
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
            tracing::warn!(%error, gateway, "the hint about a new revision is lost");
        }
        self.fleet.wake();
    }

    /// Forgets verdicts about tokens, here and at the other replicas.
    pub(crate) async fn announce_revocation(&self) {
        self.tokens.clear();
        if let Err(error) = self.live.publish(Hint::TokenRevoked).await {
            tracing::warn!(%error, "the hint about a revoked token is lost");
        }
    }

    /// Writes a refused attempt into the audit trail, if the store lets us.
    pub(crate) async fn record_refused(
        &self,
        principal: &Principal,
        action: &'static str,
        resource: &str,
    ) {
        let change = Change {
            actor: principal.name.clone(),
            message: String::new(),
            now_ms: clock::now_ms(),
        };
        let resource: String = resource.chars().take(MAX_RESOURCE_BYTES / 4).collect();
        let reason = "insufficient_role";
        if let Err(error) = self
            .store
            .record_refused(action, &resource, reason, &change)
            .await
        {
            tracing::warn!(%error, action, "a refused attempt is missing in the audit trail");
        }
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
                Ok(Hint::Revision { .. } | Hint::Report { .. }) => self.fleet.wake(),
                Err(RecvError::Lagged(_)) => {
                    self.tokens.clear();
                    self.fleet.wake();
                }
                Err(RecvError::Closed) => return,
            }
        }
    }
}
