//! A provider of one revision: its address, its credential and its own cells.

use crate::lanes::cells::{CellSet, CellSlot};
use crate::secrets::{self, Resolved};
use crate::upstream::Target;
use arc_swap::ArcSwap;
use lanekeeper_model::ProviderName;
use lanekeeper_model::gateway::{
    self, Auth, BaseUrl, EmptyAnswer, ErrorMeaning, Health, Protocol, Protocols,
};
use lanekeeper_protocol::headers::{HeaderError, ProviderHeaders};
use lanekeeper_protocol::vendor;
use secrecy::ExposeSecret as _;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A provider of one revision.
pub(crate) struct Provider {
    pub(crate) name: ProviderName,
    /// The protocols that are native there.
    pub(crate) protocols: Protocols,
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
        self.target.is_ok() && self.has_key(passthrough)
    }

    /// True when requests can be sent with the key that they need. With `passthrough` it is the
    /// caller's.
    pub(crate) fn has_key(&self, passthrough: bool) -> bool {
        let current = self.credential.current.load();
        current.headers.is_ok() && (passthrough || current.missing.is_none())
    }
}

/// A provider's credential: what it refers to, and what that was when last read.
pub(crate) struct Credential {
    declared: Arc<gateway::Provider>,
    current: ArcSwap<Current>,
}

struct Current {
    resolved: Option<Resolved>,
    /// The headers of every request in each native protocol, the key among them if there is one.
    headers: Result<Vec<(Protocol, Arc<ProviderHeaders>)>, String>,
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

    /// The headers every request to the provider in `protocol` carries, the key among them.
    pub(crate) fn headers(&self, protocol: Protocol) -> Option<Arc<ProviderHeaders>> {
        let current = self.current.load();
        let mut headers = current.headers.as_ref().ok()?.iter();
        let found = headers.find(|(spoken, _)| *spoken == protocol);
        found.map(|(_, headers)| Arc::clone(headers))
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
        let (key, mut missing) = match resolved.as_ref().map(|resolved| &resolved.secret) {
            None => (None, None),
            Some(Ok(key)) => (Some(key), None),
            Some(Err(reason)) => (None, Some(reason.clone())),
        };
        let mut extra = Vec::with_capacity(declared.headers.len());
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
        let key = key.map(secrecy::ExposeSecret::expose_secret);
        Self {
            headers: headers(declared, &extra, key),
            missing,
            resolved,
        }
    }
}

/// The headers in each of a provider's protocols, or why none can be sent.
fn headers(
    declared: &gateway::Provider,
    extra: &[(String, String)],
    key: Option<&str>,
) -> Result<Vec<(Protocol, Arc<ProviderHeaders>)>, String> {
    let base_url = &declared.base_url;
    let of = |protocol: Protocol| -> Result<ProviderHeaders, HeaderError> {
        let vendor = vendor(protocol);
        match (&declared.auth, key) {
            (Auth::Header { name, scheme }, Some(key)) => ProviderHeaders::new(
                vendor, base_url, extra, None,
            )?
            .with_key_in(name, scheme.as_deref(), key),
            _ => ProviderHeaders::new(vendor, base_url, extra, key),
        }
    };
    let unserved = |kind: &str| Err(format!("auth kind {kind} is not served by this version"));
    match declared.auth {
        Auth::Google => return unserved("google"),
        Auth::Aws { .. } => return unserved("aws"),
        Auth::Protocol | Auth::Header { .. } => {}
    }
    { declared.protocols.iter() }
        .map(|protocol| Ok((protocol, Arc::new(of(protocol)?))))
        .collect::<Result<_, HeaderError>>()
        .map_err(|error| error.to_string())
}
