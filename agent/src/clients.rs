//! Who may call: callers known by the digest of their key.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use lanekeeper_model::gateway::Client;
use lanekeeper_protocol::query;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Headers that carry a bare key, by the vendors' own packages.
const KEY_HEADERS: [&str; 3] = ["x-api-key", "x-goog-api-key", "api-key"];
const BEARER: &[u8] = b"bearer ";

/// The callers of one revision.
#[derive(Default)]
pub(crate) struct Clients {
    by_key: HashMap<[u8; 32], Arc<KnownClient>>,
}

/// One configured caller.
pub(crate) struct KnownClient {
    client: Client,
    load: Arc<ClientLoad>,
}

/// A caller's running requests; it outlives revisions.
#[derive(Default)]
pub(crate) struct ClientLoad {
    inflight: AtomicU32,
}

/// Why a caller is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No key, or none that is known.
    Unknown,
    /// All of the caller's places are taken.
    Busy,
}

/// A caller that was let in; dropping it frees the caller's place.
pub(crate) struct Caller {
    known: Option<Arc<KnownClient>>,
}

impl Clients {
    /// Compiles the document's clients; `load` gives each name its running count.
    pub(crate) fn new(clients: Vec<Client>, mut load: impl FnMut(&str) -> Arc<ClientLoad>) -> Self {
        let by_key = clients
            .into_iter()
            .map(|client| {
                let load = load(&client.name);
                (client.key_sha256, Arc::new(KnownClient { client, load }))
            })
            .collect();
        Self { by_key }
    }

    /// Lets a caller in by the key in its headers or, where its dialect puts one there, in its
    /// query. Without configured clients anyone may call.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Caller, Refused> {
        if self.by_key.is_empty() {
            return Ok(Caller { known: None });
        }
        // The table is searched by digest, so how long it takes says nothing about a key.
        let known = |key: &[u8]| {
            let digest: [u8; 32] = Sha256::digest(key).into();
            self.by_key.get(&digest)
        };
        let known = keys(headers)
            .find_map(known)
            .or_else(|| known(query::key(query?)?.as_bytes()))
            .ok_or(Refused::Unknown)?;
        let most = known.client.max_concurrent.unwrap_or(u32::MAX);
        known
            .load
            .inflight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
                (running < most).then(|| running.saturating_add(1))
            })
            .map_err(|_| Refused::Busy)?;
        Ok(Caller {
            known: Some(Arc::clone(known)),
        })
    }
}

impl Caller {
    /// True when the caller may use the pool or lane of this name.
    pub(crate) fn may_use(&self, name: &str) -> bool {
        self.known
            .as_ref()
            .is_none_or(|known| known.client.may_use(name))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(known) = &self.known {
            known.load.inflight.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn keys(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(BEARER.len())?;
        scheme.eq_ignore_ascii_case(BEARER).then_some(key)
    });
    let bare = KEY_HEADERS
        .iter()
        .filter_map(|name| headers.get(*name))
        .map(http::HeaderValue::as_bytes);
    bearer.into_iter().chain(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn clients(max_concurrent: Option<u32>) -> Clients {
        let client = Client {
            name: "search-team".to_owned(),
            key_sha256: Sha256::digest(b"sesame").into(),
            pools: Some(["chat".into()].into()),
            max_concurrent,
        };
        Clients::new(vec![client], |_| Arc::default())
    }

    fn with(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn key_is_taken_from_any_of_the_vendors_headers() {
        let clients = clients(None);
        for headers in [
            with("authorization", "Bearer sesame"),
            with("authorization", "bearer sesame"),
            with("x-api-key", "sesame"),
            with("x-goog-api-key", "sesame"),
        ] {
            assert!(clients.admit(&headers, None).is_ok(), "{headers:?}");
        }
        for headers in [
            HeaderMap::new(),
            with("authorization", "Basic sesame"),
            with("authorization", "Bearer"),
            with("x-api-key", "Sesame"),
        ] {
            assert_eq!(clients.admit(&headers, None).err(), Some(Refused::Unknown));
            for (query, admitted) in [
                ("key=sesame", true),
                ("alt=sse&key=%73esame", true),
                ("key=Sesame", false),
                ("key", false),
                ("monkey=sesame", false),
            ] {
                let is_in = clients.admit(&headers, Some(query)).is_ok();
                assert_eq!(is_in, admitted, "{query}");
            }
        }
    }

    #[test]
    fn caller_is_bounded_to_its_places_and_pools() {
        let clients = clients(Some(1));
        let headers = with("x-api-key", "sesame");
        let first = clients.admit(&headers, None).expect("a place");
        assert!(first.may_use("chat") && !first.may_use("other"));
        assert_eq!(clients.admit(&headers, None).err(), Some(Refused::Busy));
        drop(first);
        assert!(clients.admit(&headers, None).is_ok());
    }

    #[test]
    fn anyone_may_call_when_no_client_is_configured() {
        let caller = Clients::default()
            .admit(&HeaderMap::new(), None)
            .expect("let in");
        assert!(caller.may_use("anything"));
    }
}
