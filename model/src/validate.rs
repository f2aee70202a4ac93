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
use crate::ids::{GatewayName, LaneName, PoolName, ProviderName};
use crate::problem::{Problem, pointer};
use crate::{gateway, spec};
use salvage::Refused;

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
mod reach;
mod route;
mod salvage;
mod secret;
mod unserved;

/// Most pools of a gateway.
pub(crate) const POOLS_MAX: usize = 2_000;
/// Most members of all pools together. Each is a cell that every agent keeps and may have to
/// report: with the direct cells of [`LANES_MAX`] lanes they still fit into one report.
pub(crate) const MEMBERSHIPS_MAX: usize = 50_000;
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
    let refused = Refused::new(problems);
    let mut report = Report { problems, refused };

    known.check_counts(&mut report);
    let name = parts.gateway_name(&mut report);
    let labels = parts.labels(&mut report);
    let allowed = parts.allowed_hosts(&mut report);
    let defaults = parts.defaults(&mut report);
    let providers = parts.providers(allowed.as_ref(), &mut report);
    let lanes = parts.lanes(&known, &mut report);
    let pools = parts.pools(
        &pool::Context {
            known: &known,
            lanes: &lanes.entries,
            defaults: defaults.as_ref(),
        },
        &mut report,
    );
    fallback::refuse_cycles(&parts.fallbacks(), &mut report);
    unserved::refuse(document, &mut report);
    let clients = parts.clients(&known, &mut report);
    let routes = parts.routes(&known, &mut report);
    let cors = parts.cors(&mut report);
    let limits = parts.limits(&mut report);

    Some(Gateway {
        name: name?,
        labels: labels?,
        providers: providers.complete()?,
        lanes: lanes.complete()?,
        pools: pools.complete()?,
        direct_breaker: defaults?.policy,
        clients: clients?,
        routes: routes?,
        cors: cors?,
        limits: limits?,
    })
}

/// Refuses a document whose pools have too many members together. Asked before everything else:
/// looking closer at what no agent could carry would only cost time.
pub(crate) fn refuse_too_many_memberships(document: &Value) -> Result<(), Problem> {
    let pools = document.get("pools").and_then(Value::as_object);
    let count: usize = pools
        .into_iter()
        .flatten()
        .filter_map(|(_, pool)| pool.get("members")?.as_array())
        .map(Vec::len)
        .sum();
    if count > MEMBERSHIPS_MAX {
        return Err(Problem::new(
            "/pools",
            "too_many",
            format!(
                "the pools have {count} members together; at most {MEMBERSHIPS_MAX} are allowed"
            ),
        ));
    }
    Ok(())
}

/// Collects problems.
struct Report<'p> {
    problems: &'p mut Vec<Problem>,
    refused: Refused,
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

/// The resolved entries of a section.
struct Section<K, V> {
    entries: BTreeMap<K, Arc<V>>,
    is_complete: bool,
}

impl<K: Ord, V> Section<K, V> {
    fn complete(self) -> Option<BTreeMap<K, Arc<V>>> {
        self.is_complete.then_some(self.entries)
    }
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

    /// Reads and resolves each entry of a section.
    fn section<T: DeserializeOwned, K: Ord + for<'a> From<&'a str>, V>(
        &self,
        section: &str,
        stand_ins: &[(&str, Value)],
        report: &mut Report<'_>,
        mut resolve: impl FnMut(&str, &T, &str, &mut Report<'_>) -> Option<V>,
    ) -> Section<K, V> {
        let mut resolved = Section {
            entries: BTreeMap::new(),
            is_complete: true,
        };
        for (name, value) in self.entries(section) {
            let place = pointer([section, name]);
            names::check(name, &place, report);
            let entry = read(value, &place, stand_ins, report, |spec: &T, report| {
                resolve(name, spec, &place, report)
            });
            match entry {
                Some(entry) => {
                    resolved.entries.insert(K::from(name), Arc::new(entry));
                }
                None => resolved.is_complete = false,
            }
        }
        resolved
    }

    fn gateway_name(&self, report: &mut Report<'_>) -> Option<GatewayName> {
        let name = self.root.get("gateway")?.as_str()?;
        names::check_gateway(name, "/gateway", report);
        Some(GatewayName::from(name))
    }

    fn labels(&self, report: &mut Report<'_>) -> Option<BTreeMap<String, String>> {
        let Some(value) = self.root.get("labels") else {
            return Some(BTreeMap::new());
        };
        read(value, "/labels", &[], report, |labels, report| {
            names::check_labels(labels, report);
            Some(labels.clone())
        })
    }

    fn allowed_hosts(&self, report: &mut Report<'_>) -> Option<AllowedHosts> {
        let place = "/allow_private_hosts";
        let Some(value) = self.root.get("allow_private_hosts") else {
            return Some(AllowedHosts::default());
        };
        read(
            value,
            place,
            &[],
            report,
            |entries: &Vec<String>, report| Some(hosts::allowed_hosts(entries, report)),
        )
    }

    fn defaults(&self, report: &mut Report<'_>) -> Option<Defaults> {
        let absent = Value::Object(Map::new());
        let value = self.root.get("defaults").unwrap_or(&absent);
        read(
            value,
            "/defaults",
            &[],
            report,
            |spec: &spec::Defaults, report| {
                Some(Defaults {
                    policy: Arc::new(breaker::policy(&spec.breaker, "/defaults/breaker", report)),
                    preset: spec.breaker.preset,
                })
            },
        )
    }

    fn providers(
        &self,
        allowed: Option<&AllowedHosts>,
        report: &mut Report<'_>,
    ) -> Section<ProviderName, gateway::Provider> {
        let stand_ins = [
            ("protocol", Value::from("openai")),
            ("base_url", Value::from("https://stand-in.invalid")),
        ];
        self.section(
            "providers",
            &stand_ins,
            report,
            |name, spec, place, report| provider::provider(name, spec, allowed, place, report),
        )
    }

    fn lanes(&self, known: &Known<'_>, report: &mut Report<'_>) -> Section<LaneName, Lane> {
        self.section("models", &[], report, |name, spec, place, report| {
            lane::lane(name, spec, known, place, report)
        })
    }

    fn pools(
        &self,
        context: &pool::Context<'_>,
        report: &mut Report<'_>,
    ) -> Section<PoolName, gateway::Pool> {
        for (name, _) in self.entries("pools") {
            if context.known.lanes.contains(name) {
                report.refuse(
                    pointer(["pools", name]),
                    "name_taken",
                    format!("a model is named `{name}` too; callers could not tell them apart"),
                );
            }
        }
        let stand_ins = [("members", Value::Array(Vec::new()))];
        self.section("pools", &stand_ins, report, |name, spec, place, report| {
            pool::pool(name, spec, context, place, report)
        })
    }

    /// Where each pool falls back to, even of pools that are wrong otherwise.
    fn fallbacks(&self) -> BTreeMap<&'d str, &'d str> {
        self.entries("pools")
            .filter_map(|(name, pool)| {
                let next = pool.get("on_exhausted")?.get("fallback_pool")?.as_str()?;
                Some((name, next))
            })
            .collect()
    }

    fn clients(&self, known: &Known<'_>, report: &mut Report<'_>) -> Option<Vec<gateway::Client>> {
        let mut seen = client::Seen::default();
        self.list("clients", CLIENTS_MAX, report, |spec, place, report| {
            client::client(spec, &mut seen, known, place, report)
        })
    }

    /// Reads and resolves each entry of a list. `None` when some entry could not be resolved.
    fn list<T: DeserializeOwned, V>(
        &self,
        section: &str,
        most: usize,
        report: &mut Report<'_>,
        mut resolve: impl FnMut(&T, &str, &mut Report<'_>) -> Option<V>,
    ) -> Option<Vec<V>> {
        let Some(value) = self.root.get(section) else {
            return Some(Vec::new());
        };
        let entries = value.as_array()?;
        if entries.len() > most {
            let message = format!("has {} entries; at most {most} are allowed", entries.len());
            report.refuse(format!("/{section}"), "too_many", message);
            return None;
        }
        let mut resolved = Vec::new();
        for (index, value) in entries.iter().enumerate() {
            let place = format!("/{section}/{index}");
            resolved.extend(read(value, &place, &[], report, |spec: &T, report| {
                resolve(spec, &place, report)
            }));
        }
        (resolved.len() == entries.len()).then_some(resolved)
    }

    fn limits(&self, report: &mut Report<'_>) -> Option<gateway::Limits> {
        match self.root.get("limits") {
            None => client::limits(&spec::Limits::default(), report),
            Some(value) => read(value, "/limits", &[], report, client::limits),
        }
    }

    fn routes(&self, known: &Known<'_>, report: &mut Report<'_>) -> Option<Vec<gateway::Route>> {
        let mut seen = BTreeSet::new();
        self.list(
            "routes",
            route::ROUTES_MAX,
            report,
            |spec, place, report| route::route(spec, &mut seen, known, place, report),
        )
    }

    fn cors(&self, report: &mut Report<'_>) -> Option<gateway::Cors> {
        match self.root.get("cors") {
            None => Some(gateway::Cors::Off),
            Some(value) => read(value, "/cors", &[], report, |spec, report| {
                Some(route::cors(spec, report))
            }),
        }
    }
}

/// Reads a part as its type and resolves it. Of a part whose shape is wrong the rest is resolved
/// too, for its problems only.
fn read<T: DeserializeOwned, R>(
    value: &Value,
    place: &str,
    stand_ins: &[(&str, Value)],
    report: &mut Report<'_>,
    resolve: impl FnOnce(&T, &mut Report<'_>) -> Option<R>,
) -> Option<R> {
    if let Some(refused) = report.refused.within(place) {
        let rest = salvage::salvage(value, place, refused, stand_ins)?;
        let part = T::deserialize(whole_numbers(&rest)).ok()?;
        let since = report.problems.len();
        resolve(&part, report);
        report.forget_comparisons(place, since);
        return None;
    }
    match T::deserialize(whole_numbers(value)) {
        Ok(part) => resolve(&part, report),
        // Whatever the schema admits can be read; were it not so, the reader's own message would
        // still have to be kept back, because it may show a secret.
        Err(_) => {
            report.refuse(place, "invalid", "cannot be read as what it should be");
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

/// Reports that a name is not declared, with the nearest one that is.
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
