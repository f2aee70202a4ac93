//! One revision, compiled for the request path: every name resolved to what serves it.
//!
//! A snapshot never changes, except for credentials, whose content lives outside the revision. A
//! request holds the one it began with until its answer ends.

pub(crate) mod compile;
pub(crate) mod live;

use crate::clients::Clients;
use crate::lanes::cells::{CellSet, CellSlot};
use crate::lanes::lane::LaneState;
use crate::lanes::pool::Pool;
use crate::plane::Applied;
use crate::secrets::{self, Resolved};
use crate::upstream::Target;
use arc_swap::ArcSwap;
use http::{HeaderValue, Uri};
use lanekeeper_model::gateway::{
    self, BaseUrl, EmptyAnswer, ErrorMeaning, Health, Limits, Protocol,
};
use lanekeeper_model::{LaneName, PoolName, ProviderName};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::headers::ProviderHeaders;
use secrecy::ExposeSecret as _;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A compiled revision.
pub(crate) struct Snapshot {
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

    /// Every cell of every lane.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Arc<CellSlot>> {
        self.lanes.iter().flat_map(|lane| &lane.cells)
    }

    /// Everything that keeps a part of the revision from working here.
    pub(crate) fn problems(&self) -> Vec<String> {
        let missing = self.providers.iter().filter_map(|provider| {
            let reason = provider.dead_reason(false)?;
            Some(format!("providers.{}: {reason}", provider.name))
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
    /// Every cell of the lane, over all pools, endpoints and the direct route.
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
    /// Where it is, or why that is no usable place.
    pub(crate) target: Result<Target, String>,
    pub(crate) error_map: BTreeMap<String, ErrorMeaning>,
    pub(crate) empty_answer: EmptyAnswer,
    pub(crate) credential: Credential,
    /// Its active probes.
    pub(crate) health: Health,
    /// The provider's own cells, where it has a policy of its own.
    pub(crate) cells: Option<CellSet>,
}

impl Provider {
    /// Why no request can go there until something outside the agent changes. With `passthrough`
    /// the caller's key is sent, so that a missing one here does not matter.
    pub(crate) fn dead_reason(&self, passthrough: bool) -> Option<String> {
        if let Err(reason) = &self.target {
            return Some(reason.clone());
        }
        let current = self.credential.current.load();
        match (&current.headers, &current.missing) {
            (Err(reason), _) => Some(reason.clone()),
            (Ok(_), Some(reason)) if !passthrough => Some(reason.clone()),
            (Ok(_), _) => None,
        }
    }

    /// The provider's own cell for requests of `endpoint`.
    pub(crate) fn cell(&self, endpoint: &str) -> Option<&Arc<CellSlot>> {
        self.cells.as_ref().map(|cells| cells.of(endpoint))
    }

    /// Every cell of the provider's own.
    pub(crate) fn own_cells(&self) -> impl Iterator<Item = &Arc<CellSlot>> {
        self.cells.iter().flat_map(CellSet::iter)
    }

    /// Where the document says it is.
    pub(crate) fn base_url(&self) -> &BaseUrl {
        &self.credential.declared.base_url
    }

    /// True when requests can go there.
    pub(crate) fn is_usable(&self, passthrough: bool) -> bool {
        let current = self.credential.current.load();
        self.target.is_ok() && current.headers.is_ok() && (passthrough || current.missing.is_none())
    }
}

/// A provider's credential: what it refers to, and what that was when last read.
pub(crate) struct Credential {
    declared: Arc<gateway::Provider>,
    current: ArcSwap<Current>,
}

struct Current {
    resolved: Option<Resolved>,
    /// The headers of every request, the key among them if there is one.
    headers: Result<Arc<ProviderHeaders>, String>,
    /// Why the configured key is not there.
    missing: Option<String>,
}

impl Credential {
    /// Resolves the provider's reference now.
    pub(crate) fn new(declared: &Arc<gateway::Provider>) -> Self {
        Self {
            current: ArcSwap::from_pointee(Current::read(declared)),
            declared: Arc::clone(declared),
        }
    }

    /// The headers every request to the provider carries, the key among them.
    pub(crate) fn headers(&self) -> Option<Arc<ProviderHeaders>> {
        self.current.load().headers.as_ref().ok().cloned()
    }

    /// Tells two keys apart; `None` when there is no key.
    pub(crate) fn fingerprint(&self) -> Option<[u8; 32]> {
        self.current.load().resolved.as_ref()?.fingerprint
    }

    /// Reads the secret again if its file looks different. True when it was read. This touches
    /// the file system: never on a request's path.
    pub(crate) fn refresh(&self) -> bool {
        let Some(reference) = self.declared.api_keys.first() else {
            return false;
        };
        let moved = self
            .current
            .load()
            .resolved
            .as_ref()
            .is_some_and(|resolved| secrets::has_moved(reference, resolved));
        if moved {
            self.current.store(Arc::new(Current::read(&self.declared)));
        }
        moved
    }
}

impl Current {
    fn read(declared: &gateway::Provider) -> Self {
        let resolved = declared.api_keys.first().map(secrets::resolve);
        let (key, missing) = match resolved.as_ref().map(|resolved| &resolved.secret) {
            None => (None, None),
            Some(Ok(key)) => (Some(key), None),
            Some(Err(reason)) => (None, Some(reason.clone())),
        };
        let mut extra = Vec::with_capacity(declared.headers.len());
        let mut missing = missing;
        for (name, value) in &declared.headers {
            match value {
                gateway::HeaderValue::Text(text) => extra.push((name.clone(), text.clone())),
                gateway::HeaderValue::Secret(reference) => {
                    match secrets::resolve(reference).secret {
                        Ok(secret) => extra.push((name.clone(), secret.expose_secret().to_owned())),
                        Err(reason) => missing = missing.or(Some(reason)),
                    }
                }
            }
        }
        let headers = ProviderHeaders::new(
            declared.protocols.primary(),
            &declared.base_url,
            &extra,
            key.map(|key| key.expose_secret()),
        );
        Self {
            headers: headers.map(Arc::new).map_err(|error| error.to_string()),
            missing,
            resolved,
        }
    }
}
