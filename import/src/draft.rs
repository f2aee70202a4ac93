//! The document in the making: names made valid and unique, equal things made once.

use crate::Settings;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use url::Url;

/// Longest name of anything in a document, in bytes.
const NAME_LEN_MAX: usize = lanekeeper_model::ids::NAME_LEN_MAX;
/// Keys that stand where a program wants one and the server none.
const PLACEHOLDERS: [&str; 16] = [
    "",
    "none",
    "null",
    "na",
    "n/a",
    "dummy",
    "fake",
    "fake-key",
    "empty",
    "not-needed",
    "no-key",
    "anything",
    "xxx",
    "sk-1234",
    "sk-no-key-required",
    "ollama",
];

/// What a reader fills.
pub(crate) struct Draft {
    gateway: String,
    variables: BTreeMap<String, String>,
    providers: BTreeMap<String, Value>,
    lanes: BTreeMap<String, Value>,
    pools: BTreeMap<String, Value>,
    routes: Vec<Value>,
    clients: Vec<Value>,
    private_hosts: BTreeSet<String>,
    breaker: Map<String, Value>,
    body_max_bytes: Option<u64>,
}

/// What a key in a foreign file is, when it is no reference.
pub(crate) enum Key {
    /// No key is sent.
    None,
    /// The file holds the key itself, which the document must not.
    Literal,
}

impl Draft {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            gateway: settings.gateway.clone(),
            variables: settings.variables.clone(),
            providers: BTreeMap::new(),
            lanes: BTreeMap::new(),
            pools: BTreeMap::new(),
            routes: Vec::new(),
            clients: Vec::new(),
            private_hosts: BTreeSet::new(),
            breaker: Map::new(),
            body_max_bytes: None,
        }
    }

    /// The given value of an environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<&String> {
        self.variables.get(name)
    }

    /// A provider under this name, or the equal one that is there already.
    pub(crate) fn provider(&mut self, wanted: &str, value: Value) -> String {
        if let Some(url) = value.get("base_url").and_then(Value::as_str) {
            self.private_hosts.extend(private_host(url));
        }
        put(&mut self.providers, wanted, value)
    }

    /// A lane under this name, or the equal one that is there already.
    pub(crate) fn lane(&mut self, wanted: &str, value: Value) -> String {
        put(&mut self.lanes, wanted, value)
    }

    /// Puts a pool under exactly this name, made valid.
    pub(crate) fn pool(&mut self, name: &str, value: Value) -> String {
        let name = clean(name);
        self.pools.insert(name.clone(), value);
        name
    }

    pub(crate) fn has_pool(&self, name: &str) -> bool {
        self.pools.contains_key(name)
    }

    pub(crate) fn pool_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.pools.get_mut(name)
    }

    pub(crate) fn pool_names(&self) -> Vec<String> {
        self.pools.keys().cloned().collect()
    }

    /// A lane's value, to add to it.
    pub(crate) fn lane_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.lanes.get_mut(name)
    }

    /// All providers, to add to them.
    pub(crate) fn providers_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.providers.values_mut()
    }

    /// All lanes, to add to them.
    pub(crate) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.lanes.values_mut()
    }

    /// Another name that callers use for a pool.
    pub(crate) fn route(&mut self, pattern: &str, pool: &str) {
        self.routes.push(json!({"match": pattern, "pool": pool}));
    }

    /// A caller with a key, of which only the digest is kept.
    pub(crate) fn client(&mut self, name: &str, key: &str, pools: Option<Vec<String>>) {
        let mut digest = String::new();
        for byte in Sha256::digest(key.as_bytes()) {
            _ = write!(digest, "{byte:02x}");
        }
        let taken = |name: &str| self.clients.iter().any(|it| it["name"] == name);
        let base = clean(name);
        let name = free(&base, taken);
        let mut client = json!({"name": name, "key_sha256": digest});
        if let (Some(pools), Some(client)) = (pools, client.as_object_mut()) {
            client.insert("pools".to_owned(), json!(pools));
        }
        self.clients.push(client);
    }

    /// A field of `defaults.breaker`.
    pub(crate) fn breaker(&mut self, key: &str, value: Value) {
        self.breaker.insert(key.to_owned(), value);
    }

    pub(crate) fn body_max_bytes(&mut self, bytes: u64) {
        self.body_max_bytes = Some(bytes);
    }

    /// Whether there is nothing to serve.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(crate) fn finish(mut self) -> Value {
        self.part_names();
        let mut document = json!({
            "gateway": self.gateway,
            "providers": self.providers,
            "models": self.lanes,
            "pools": self.pools,
        });
        if let Some(document) = document.as_object_mut() {
            let mut add = |key: &str, value: Value, is_empty: bool| {
                if !is_empty {
                    document.insert(key.to_owned(), value);
                }
            };
            let breaker = json!({"breaker": self.breaker});
            add("defaults", breaker, self.breaker.is_empty());
            add("clients", json!(self.clients), self.clients.is_empty());
            add("routes", json!(self.routes), self.routes.is_empty());
            let limits = json!({"body_max_bytes": self.body_max_bytes});
            add("limits", limits, self.body_max_bytes.is_none());
            let hosts = json!(self.private_hosts);
            add("allow_private_hosts", hosts, self.private_hosts.is_empty());
        }
        document
    }
}

impl Draft {
    /// Callers could not tell a lane from a pool of the same name: the lane gets another.
    fn part_names(&mut self) {
        let shared: Vec<String> = self
            .lanes
            .keys()
            .filter(|name| self.pools.contains_key(*name))
            .cloned()
            .collect();
        for name in shared {
            let mut base = name.clone();
            base.truncate(NAME_LEN_MAX - 5);
            base.push_str(":lane");
            let new = free(&base, |it| {
                self.lanes.contains_key(it) || self.pools.contains_key(it)
            });
            if let Some(lane) = self.lanes.remove(&name) {
                self.lanes.insert(new.clone(), lane);
            }
            for pool in self.pools.values_mut() {
                rename(pool, &name, &new);
            }
        }
    }
}

/// Puts a lane's new name wherever a pool names it.
fn rename(pool: &mut Value, name: &str, new: &str) {
    let members = pool.get_mut("members").and_then(Value::as_array_mut);
    for member in members.into_iter().flatten() {
        if member["target"] == name {
            member["target"] = json!(new);
        }
    }
    let exclusions = pool
        .pointer_mut("/failover/exclusions")
        .and_then(Value::as_array_mut);
    for excluded in exclusions.into_iter().flatten() {
        if *excluded == name {
            *excluded = json!(new);
        }
    }
}

/// Puts a value under a free name, or finds the equal one.
fn put(map: &mut BTreeMap<String, Value>, wanted: &str, value: Value) -> String {
    let base = clean(wanted);
    let mut names = map.iter();
    let twin = names.find(|(name, other)| {
        let is_of_name = **name == base || name.starts_with(&format!("{base}-"));
        is_of_name && **other == value
    });
    if let Some((name, _)) = twin {
        return name.clone();
    }
    let name = free(&base, |name| map.contains_key(name));
    map.insert(name.clone(), value);
    name
}

/// The name, or the first with a number behind it that is not taken.
fn free(base: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(base) {
        return base.to_owned();
    }
    // Ends: names that are taken are finitely many.
    let mut number: u64 = 2;
    loop {
        let ending = format!("-{number}");
        let mut name = base.to_owned();
        name.truncate(NAME_LEN_MAX.saturating_sub(ending.len()));
        name.push_str(&ending);
        if !taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// A name as a document takes it.
pub(crate) fn clean(name: &str) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    let mut cleaned: String = name
        .chars()
        .map(|c| if valid(c) { c } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .collect();
    cleaned.truncate(NAME_LEN_MAX);
    if cleaned.is_empty() {
        cleaned.push_str("unnamed");
    }
    cleaned
}

/// The host of an address that is not public, or is reached by plain http.
fn private_host(base_url: &str) -> Option<String> {
    let url = Url::parse(base_url).ok()?;
    let host = url.host()?;
    let text = url.host_str()?.trim_matches(['[', ']']).to_owned();
    let is_private = match host {
        url::Host::Ipv4(address) => {
            if address.is_loopback() {
                return None;
            }
            address.is_private() || address.is_link_local()
        }
        url::Host::Ipv6(address) => {
            if address.is_loopback() {
                return None;
            }
            address.is_unique_local() || address.is_unicast_link_local()
        }
        url::Host::Domain(name) => {
            if name == "localhost" {
                return None;
            }
            let inside = [".local", ".internal", ".lan", ".svc", ".test"];
            !name.contains('.') || inside.iter().any(|ending| name.ends_with(ending))
        }
    };
    (is_private || url.scheme() == "http").then_some(text)
}

/// What a foreign key means, when it is not a reference that its system knows.
pub(crate) fn literal_key(text: &str) -> Key {
    let text = text.trim();
    if PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str()) {
        Key::None
    } else {
        Key::Literal
    }
}

/// The name of an environment variable for a provider's key.
pub(crate) fn variable_for(provider: &str) -> String {
    let mut name: String = provider
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "KEY_");
    }
    name.push_str("_API_KEY");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_valid_and_unique() {
        assert_eq!(clean("meta llama/3.1 (fast)"), "meta-llama/3.1--fast-");
        assert_eq!(clean("*"), "unnamed");
        assert_eq!(clean(&"x".repeat(80)).len(), NAME_LEN_MAX);
        let mut map = BTreeMap::new();
        assert_eq!(put(&mut map, "a", json!(1)), "a");
        assert_eq!(put(&mut map, "a", json!(2)), "a-2");
        assert_eq!(put(&mut map, "a", json!(2)), "a-2");
    }

    #[test]
    fn only_hosts_that_need_it_are_allowed() {
        for (url, host) in [
            ("https://api.openai.com/v1", None),
            ("http://localhost:11434", None),
            ("http://127.0.0.1:1", None),
            ("http://vllm:8000/v1", Some("vllm")),
            ("https://10.0.0.7/v1", Some("10.0.0.7")),
            ("http://llm.example.com", Some("llm.example.com")),
            ("https://llm.corp.internal", Some("llm.corp.internal")),
        ] {
            assert_eq!(private_host(url).as_deref(), host, "{url}");
        }
    }
}
