//! From the document as written to the gateway it means, with everything that is wrong on the way.
//!
//! Each part has a file of its own. A part whose shape is wrong, which the schema has reported by
//! now, is skipped here, but its name still counts as known, so that one mistake is reported once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lanekeeper_breaker::Policy;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::gateway::{AllowedHosts, Gateway, Lane};
use crate::ids::{GatewayName, LaneName, PoolName};
use crate::problem::{Problem, pointer};
use crate::{gateway, spec};

mod base_url;
mod breaker;
mod client;
mod fallback;
mod headers;
mod hosts;
mod lane;
mod names;
mod pool;
mod provider;

/// Most pools of a gateway.
pub(crate) const POOLS_MAX: usize = 2_000;
/// Most lanes of a gateway.
pub(crate) const LANES_MAX: usize = 10_000;
/// Most providers of a gateway.
pub(crate) const PROVIDERS_MAX: usize = 10_000;
/// Most clients of a gateway.
pub(crate) const CLIENTS_MAX: usize = 10_000;
/// Most labels of a gateway.
pub(crate) const LABELS_MAX: usize = 64;

/// Resolves a document and adds what is wrong to the problems. `None` when some part could not be
/// resolved; even with `Some` the problems decide.
pub(crate) fn resolve(document: &Value, problems: &mut Vec<Problem>) -> Option<Gateway> {
    let root = document.as_object()?;
    let parts = Parts { root };
    let known = Known {
        providers: parts.names("providers"),
        lanes: parts.names("models"),
        pools: parts.names("pools"),
    };
    let mut report = Report { problems };

    known.check_counts(&mut report);
    let name = parts.gateway_name(&mut report);
    let labels = parts.labels(&mut report);
    let allowed = match parts.read::<Vec<String>>("allow_private_hosts", &mut report) {
        Read::Absent => Some(AllowedHosts::default()),
        Read::Wrong => None,
        Read::Good(entries) => Some(hosts::allowed_hosts(&entries, &mut report)),
    };
    let defaults = parts.defaults(&mut report);
    let providers = parts.providers(allowed.as_ref(), &mut report);
    let (lanes, lanes_complete) = parts.lanes(&known, &mut report);
    let (pools, pools_complete) = parts.pools(&known, &lanes, defaults.as_ref(), &mut report);
    fallback::refuse_cycles(&parts.pool_specs(), &mut report);
    let clients = parts.clients(&known, &mut report);
    let limits = match parts.read::<spec::Limits>("limits", &mut report) {
        Read::Absent => client::limits(&spec::Limits::default()),
        Read::Wrong => None,
        Read::Good(limits) => client::limits(&limits),
    };

    if !(lanes_complete && pools_complete) {
        return None;
    }
    Some(Gateway {
        name: name?,
        labels: labels?,
        providers: providers?,
        lanes,
        pools,
        direct_breaker: defaults?.policy,
        clients: clients?,
        limits: limits?,
    })
}

/// Collects problems.
struct Report<'p> {
    problems: &'p mut Vec<Problem>,
}

impl Report<'_> {
    fn refuse(
        &mut self,
        pointer: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.problems.push(Problem::new(pointer, code, message));
    }

    /// True when something at or below this place is wrong already.
    fn knows_of(&self, place: &str) -> bool {
        self.problems.iter().any(|problem| {
            problem
                .pointer
                .strip_prefix(place)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// The names a document declares, whether or not what they name is right.
struct Known<'d> {
    providers: BTreeSet<&'d str>,
    lanes: BTreeSet<&'d str>,
    pools: BTreeSet<&'d str>,
}

impl Known<'_> {
    fn check_counts(&self, report: &mut Report<'_>) {
        let counts = [
            ("/providers", self.providers.len(), PROVIDERS_MAX),
            ("/models", self.lanes.len(), LANES_MAX),
            ("/pools", self.pools.len(), POOLS_MAX),
        ];
        for (place, count, most) in counts {
            if count > most {
                report.refuse(
                    place,
                    "too_many",
                    format!("has {count} entries; at most {most} are allowed"),
                );
            }
        }
    }
}

/// The breaker of pools without one.
struct Defaults {
    policy: Arc<Policy>,
    preset: spec::Preset,
}

/// A part of the document as a type.
enum Read<T> {
    Absent,
    Wrong,
    Good(T),
}

/// The document's parts, read one by one.
struct Parts<'d> {
    root: &'d Map<String, Value>,
}

impl<'d> Parts<'d> {
    fn names(&self, section: &str) -> BTreeSet<&'d str> {
        self.entries(section).map(|(name, _)| name).collect()
    }

    fn entries(&self, section: &str) -> impl Iterator<Item = (&'d str, &'d Value)> + use<'d> {
        self.root
            .get(section)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value))
    }

    fn read<T: DeserializeOwned>(&self, key: &str, report: &mut Report<'_>) -> Read<T> {
        match self.root.get(key) {
            None => Read::Absent,
            Some(value) => match read(value, &pointer([key]), report) {
                Some(part) => Read::Good(part),
                None => Read::Wrong,
            },
        }
    }

    fn gateway_name(&self, report: &mut Report<'_>) -> Option<GatewayName> {
        let name = self.root.get("gateway")?.as_str()?;
        names::check_gateway(name, "/gateway", report);
        Some(GatewayName::from(name))
    }

    fn labels(&self, report: &mut Report<'_>) -> Option<BTreeMap<String, String>> {
        match self.read::<BTreeMap<String, String>>("labels", report) {
            Read::Absent => Some(BTreeMap::new()),
            Read::Wrong => None,
            Read::Good(labels) => {
                names::check_labels(&labels, report);
                Some(labels)
            }
        }
    }

    fn defaults(&self, report: &mut Report<'_>) -> Option<Defaults> {
        let spec = match self.read::<spec::Defaults>("defaults", report) {
            Read::Absent => spec::Defaults::default(),
            Read::Wrong => return None,
            Read::Good(defaults) => defaults,
        };
        Some(Defaults {
            policy: Arc::new(breaker::policy(&spec.breaker, "/defaults/breaker", report)),
            preset: spec.breaker.preset,
        })
    }

    fn providers(
        &self,
        allowed: Option<&AllowedHosts>,
        report: &mut Report<'_>,
    ) -> Option<BTreeMap<crate::ProviderName, Arc<gateway::Provider>>> {
        let mut providers = BTreeMap::new();
        let mut complete = allowed.is_some();
        for (name, value) in self.entries("providers") {
            let place = pointer(["providers", name]);
            names::check(name, &place, report);
            let provider = read::<spec::Provider>(value, &place, report)
                .and_then(|spec| provider::provider(name, &spec, allowed, &place, report));
            match provider {
                Some(provider) => {
                    providers.insert(provider.name.clone(), Arc::new(provider));
                }
                None => complete = false,
            }
        }
        complete.then_some(providers)
    }

    fn lanes(
        &self,
        known: &Known<'_>,
        report: &mut Report<'_>,
    ) -> (BTreeMap<LaneName, Arc<Lane>>, bool) {
        let mut lanes = BTreeMap::new();
        let mut complete = true;
        for (name, value) in self.entries("models") {
            let place = pointer(["models", name]);
            names::check(name, &place, report);
            match read::<spec::Model>(value, &place, report)
                .and_then(|spec| lane::lane(name, &spec, known, &place, report))
            {
                Some(lane) => {
                    lanes.insert(lane.name.clone(), Arc::new(lane));
                }
                None => complete = false,
            }
        }
        (lanes, complete)
    }

    fn pools(
        &self,
        known: &Known<'_>,
        lanes: &BTreeMap<LaneName, Arc<Lane>>,
        defaults: Option<&Defaults>,
        report: &mut Report<'_>,
    ) -> (BTreeMap<PoolName, Arc<gateway::Pool>>, bool) {
        let mut pools = BTreeMap::new();
        let mut complete = true;
        for (name, value) in self.entries("pools") {
            let place = pointer(["pools", name]);
            names::check(name, &place, report);
            if known.lanes.contains(name) {
                report.refuse(
                    &place,
                    "name_taken",
                    format!("a model is named `{name}` too; callers could not tell them apart"),
                );
            }
            let context = pool::Context {
                known,
                lanes,
                defaults,
            };
            match read::<spec::Pool>(value, &place, report)
                .and_then(|spec| pool::pool(name, &spec, &context, &place, report))
            {
                Some(pool) => {
                    pools.insert(pool.name.clone(), Arc::new(pool));
                }
                None => complete = false,
            }
        }
        (pools, complete)
    }

    /// Where each pool falls back to, even of pools that are wrong otherwise.
    fn pool_specs(&self) -> BTreeMap<&'d str, &'d str> {
        self.entries("pools")
            .filter_map(|(name, pool)| {
                let next = pool.get("on_exhausted")?.get("fallback_pool")?.as_str()?;
                Some((name, next))
            })
            .collect()
    }

    fn clients(&self, known: &Known<'_>, report: &mut Report<'_>) -> Option<Vec<gateway::Client>> {
        let Some(value) = self.root.get("clients") else {
            return Some(Vec::new());
        };
        let entries = value.as_array()?;
        if entries.len() > CLIENTS_MAX {
            let message = format!(
                "has {} entries; at most {CLIENTS_MAX} are allowed",
                entries.len()
            );
            report.refuse("/clients", "too_many", message);
            return None;
        }
        let mut complete = true;
        let mut specs = Vec::new();
        for (index, value) in entries.iter().enumerate() {
            let place = pointer(["clients", &index.to_string()]);
            match read::<spec::Client>(value, &place, report) {
                Some(client) => specs.push((place, client)),
                None => complete = false,
            }
        }
        let clients = client::clients(&specs, known, report);
        clients.filter(|_| complete)
    }
}

/// Reads a part as its type. A part that cannot be read has been reported by the schema; should it
/// not have been, it is reported here, without the reader's own message, which may show a secret.
fn read<T: DeserializeOwned>(value: &Value, place: &str, report: &mut Report<'_>) -> Option<T> {
    match T::deserialize(whole_numbers(value)) {
        Ok(part) => Some(part),
        Err(_) => {
            if !report.knows_of(place) {
                report.refuse(place, "invalid", "cannot be read as what it should be");
            }
            None
        }
    }
}

/// The same value with `5.0` as `5`: both are integers to JSON Schema, but not to the reader.
fn whole_numbers(value: &Value) -> Value {
    /// From here on not every integer is a double.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(real) if number.is_f64() && real.fract() == 0.0 && real.abs() < EXACT_MAX => {
                Value::Number(Number::from(real as i64))
            }
            Some(_) | None => value.clone(),
        },
        Value::Array(values) => Value::Array(values.iter().map(whole_numbers).collect()),
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), whole_numbers(value)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// Says that a name is not declared, with the nearest one that is.
fn refuse_unknown<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
    place: String,
    report: &mut Report<'_>,
) {
    let near = crate::nearest::nearest(name, known)
        .map(|near| format!("; the nearest is `{near}`"))
        .unwrap_or_default();
    report.refuse(
        place,
        "unknown_reference",
        format!("there is no {what} named `{name}`{near}"),
    );
}
