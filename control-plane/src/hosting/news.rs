//! What a session learns while its stream is idle, and where it learns it.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::follow::drains::Drained;
use crate::follow::overrides::Subscription;
use crate::session::target::Targets;

/// Something that a session has to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "simulation"), allow(unreachable_pub))]
pub enum News {
    /// What the agent should serve may be something else.
    Targets,
    /// The overrides of the gateway have changed.
    Overrides,
    /// What the fleet advises has changed, or is confirmed.
    Advice,
    /// There are answers about probes.
    Leases,
    /// The list of agents that are out of service has changed.
    Drains,
    /// The agent's certificate no longer counts.
    AuthorizationLost,
    /// A living copy of the agent was turned away, here or elsewhere.
    Duplicate,
    /// The process stops.
    Shutdown,
    /// The instance opened a newer session.
    Replaced,
    /// The database has another history.
    ControlEpoch,
}

/// What a session follows.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    pub(crate) targets: watch::Receiver<Option<Arc<Targets>>>,
    pub(crate) overrides: Subscription,
    pub(crate) advice: crate::follow::advice::Subscription,
    pub(crate) drains: watch::Receiver<Option<Drained>>,
    pub(crate) control_epoch: watch::Receiver<String>,
    /// Cancelled when sessions must say goodbye.
    pub(crate) closing: CancellationToken,
}
