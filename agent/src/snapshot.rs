//! One revision, compiled for the request path: every name resolved to what serves it.
//!
//! A snapshot never changes, except for credentials, whose content lives outside the revision. A
//! request holds the one it began with until its answer ends.

pub(crate) mod compile;
pub(crate) mod live;

use crate::cells::CellSlot;
use crate::clients::Clients;
use crate::lane::LaneState;
use crate::plane::Applied;
use crate::pool::Pool;
use crate::protocol::Dialect;
use crate::protocol::headers::ProviderHeaders;
use crate::secrets::Resolved;
use crate::upstream::Target;
use arc_swap::ArcSwap;
use http::{HeaderValue, Uri};
use lanekeeper_model::gateway::{EmptyAnswer, ErrorMeaning, Limits, Protocol, SecretRef};
use lanekeeper_model::{GatewayName, LaneName, PoolName, ProviderName};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A compiled revision.
pub(crate) struct Snapshot {
    pub(crate) gateway: GatewayName,
    pub(crate) applied: Applied,
    /// What a caller may name as a model: pools, lanes, and `provider/lane`.
    pub(crate) names: HashMap<String, Arc<Pool>>,
    /// Pools with a name, sorted by it.
    pub(crate) pools: BTreeMap<PoolName, Arc<Pool>>,
    /// Lanes, sorted by name; a lane's number is its place here.
    pub(crate) lanes: Vec<Arc<Lane>>,
    pub(crate) providers: Vec<Arc<Provider>>,
    pub(crate) clients: Clients,
    pub(crate) limits: Limits,
    /// What this version does not do as the document says.
    pub(crate) unserved: Vec<String>,
}

impl Snapshot {
    /// What serves the model name of a caller.
    pub(crate) fn route(&self, model: &str) -> Option<&Arc<Pool>> {
        self.names.get(model)
    }

    /// Everything that keeps a part of the revision from working here.
    pub(crate) fn problems(&self) -> Vec<String> {
        let missing = self.providers.iter().filter_map(|provider| {
            let reason = provider.credential.dead_reason()?;
            Some(format!("providers.{}.api_key: {reason}", provider.name))
        });
        missing.chain(self.unserved.iter().cloned()).collect()
    }
}

/// A lane of one revision.
pub(crate) struct Lane {
    /// Its place in [`Snapshot::lanes`].
    pub(crate) number: u32,
    pub(crate) state: Arc<LaneState>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) upstream_model: String,
    pub(crate) idle_timeout: Duration,
    /// The lane's name as an answer's header.
    pub(crate) header: HeaderValue,
    /// Upstream path and query of each operation the provider's protocol has.
    pub(crate) endpoints: Vec<(Dialect, Uri)>,
    /// Every cell of the lane, over all pools and the direct route.
    pub(crate) cells: Vec<Arc<CellSlot>>,
}

impl Lane {
    /// The lane's name.
    pub(crate) fn name(&self) -> &LaneName {
        self.state.name()
    }

    /// The upstream path and query of `dialect`.
    pub(crate) fn endpoint(&self, dialect: Dialect) -> Option<&Uri> {
        self.endpoints
            .iter()
            .find(|(candidate, _)| *candidate == dialect)
            .map(|(_, uri)| uri)
    }
}

/// A provider of one revision.
pub(crate) struct Provider {
    pub(crate) name: ProviderName,
    pub(crate) protocol: Protocol,
    pub(crate) target: Target,
    pub(crate) error_map: BTreeMap<String, ErrorMeaning>,
    pub(crate) empty_answer: EmptyAnswer,
    pub(crate) credential: Credential,
    /// The provider's own cell, where it has a policy of its own.
    pub(crate) cell: Option<Arc<CellSlot>>,
}

/// A provider's credential: what it refers to, and what that was when last read.
pub(crate) struct Credential {
    reference: Option<SecretRef>,
    current: ArcSwap<Current>,
}

struct Current {
    resolved: Option<Resolved>,
    headers: Result<Arc<ProviderHeaders>, String>,
}

impl Credential {
    /// True when requests can go out with it.
    pub(crate) fn is_usable(&self) -> bool {
        self.current.load().headers.is_ok()
    }

    /// Why they cannot.
    pub(crate) fn dead_reason(&self) -> Option<String> {
        self.current.load().headers.as_ref().err().cloned()
    }

    /// The headers every request to the provider carries, the key among them.
    pub(crate) fn headers(&self) -> Option<Arc<ProviderHeaders>> {
        self.current.load().headers.as_ref().ok().cloned()
    }
}
