//! Who may call: callers known by the digest of their key.

use http::HeaderMap;
use http::header::{AUTHORIZATION, Entry, HeaderName, HeaderValue};
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
    /// On the heap, because a caller is part of several futures.
    admitted: Option<Box<Admitted>>,
}

struct Admitted {
    known: Arc<KnownClient>,
    /// What let the caller in.
    key: Box<[u8]>,
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
            return Ok(Caller { admitted: None });
        }
        // The table is searched by digest, so how long it takes says nothing about a key.
        let admitted = |key: &[u8]| {
            let digest: [u8; 32] = Sha256::digest(key).into();
            let known = Arc::clone(self.by_key.get(&digest)?);
            let key = key.into();
            Some(Box::new(Admitted { known, key }))
        };
        let admitted = keys(headers)
            .find_map(admitted)
            .or_else(|| admitted(query::key(query?)?.as_bytes()))
            .ok_or(Refused::Unknown)?;
        let known = &admitted.known;
        let most = known.client.max_concurrent.unwrap_or(u32::MAX);
        known
            .load
            .inflight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |running| {
                (running < most).then(|| running.saturating_add(1))
            })
            .map_err(|_| Refused::Busy)?;
        Ok(Caller {
            admitted: Some(admitted),
        })
    }
}

impl Caller {
    /// True when the caller may use the pool or lane of this name.
    pub(crate) fn may_use(&self, name: &str) -> bool {
        self.admitted
            .as_ref()
            .is_none_or(|admitted| admitted.known.client.may_use(name))
    }

    /// Takes the key that let the caller in out of its headers, wherever it stands. It is the
    /// gateway's business alone, also where callers' other keys are passed on.
    pub(crate) fn withhold_key(&self, headers: &mut HeaderMap) {
        let Some(admitted) = &self.admitted else {
            return;
        };
        let key = &admitted.key;
        let names: Vec<HeaderName> = headers
            .iter()
            .filter(|(_, value)| query::holds(value.as_bytes(), key))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            if let Entry::Occupied(entry) = headers.entry(name) {
                let (name, values) = entry.remove_entry_mult();
                let kept: Vec<HeaderValue> = values
                    .filter(|value| !query::holds(value.as_bytes(), key))
                    .collect();
                for value in kept {
                    headers.append(name.clone(), value);
                }
            }
        }
    }

    /// The query without that key, and without what it is in.
    pub(crate) fn query_without_key(&self, query: Option<&str>) -> Option<String> {
        match &self.admitted {
            Some(admitted) => query::without(query?, &admitted.key),
            None => query.map(str::to_owned),
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(admitted) = &self.admitted {
            admitted.known.load.inflight.fetch_sub(1, Ordering::AcqRel);
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
        .map(HeaderValue::as_bytes);
    bearer.into_iter().chain(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            with("api-key", "sesame"),
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
    fn key_that_let_the_caller_in_is_withheld_wherever_it_stands() {
        let clients = clients(None);
        for (name, value) in [
            ("authorization", "Bearer sesame"),
            ("x-api-key", "sesame"),
            ("x-goog-api-key", "sesame"),
            ("api-key", "sesame"),
        ] {
            let mut headers = with(name, value);
            for (name, value, _) in ELSEWHERE {
                headers.append(name, HeaderValue::from_static(value));
            }
            let caller = clients.admit(&headers, None).expect("let in");
            let query = "key=s%65same&sesame&x=Bearer+sesame&alt=sse";
            let query = caller.query_without_key(Some(query));
            assert_eq!(query.as_deref(), Some("alt=sse"));
            caller.withhold_key(&mut headers);
            let mut kept: Vec<_> = headers.values().map(HeaderValue::as_bytes).collect();
            kept.sort_unstable();
            let expected = ELSEWHERE.iter().filter(|(.., kept)| *kept);
            let mut expected: Vec<_> = expected.map(|(_, value, _)| value.as_bytes()).collect();
            expected.sort_unstable();
            assert_eq!(kept, expected, "{name}");
        }
        let caller = clients.admit(&HeaderMap::new(), Some("key=sesame"));
        let caller = caller.expect("let in");
        let query = caller.query_without_key(Some("key=sesame"));
        assert_eq!(query, None);
    }

    /// Other headers, and whether they stay.
    const ELSEWHERE: [(&str, &str, bool); 5] = [
        ("x-title", "my key is sesame.", false),
        ("x-other", "sk-other", true),
        ("x-other", "Token sesame", false),
        ("x-other", "\"sesame\"", false),
        ("user-agent", "sesameseed/1", true),
    ];

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
