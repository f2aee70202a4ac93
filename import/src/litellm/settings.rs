//! `router_settings`, `litellm_settings` and `general_settings`.

mod notes;

use self::notes::{GENERAL, NOTES, SERVED_CALLBACKS};
use super::deployments::millis;
use crate::draft::{Draft, clean};
use crate::ledger::View;
use serde_json::{Value, json};

pub(super) fn read(view: &View<'_>, draft: &mut Draft) {
    for key in ["router_settings", "litellm_settings"] {
        if let Some(settings) = view.get(key) {
            read_routing(&settings, draft);
            settings.note(NOTES);
        }
    }
    if let Some(settings) = view.get("general_settings") {
        read_general(&settings, draft);
        settings.note(GENERAL);
        settings.note(NOTES);
    }
}

fn each_pool(draft: &mut Draft, change: impl Fn(&mut serde_json::Map<String, Value>)) {
    for name in draft.pool_names() {
        if let Some(pool) = draft.pool_mut(&name).and_then(Value::as_object_mut) {
            change(pool);
        }
    }
}

/// A field of every pool's `failover`.
pub(crate) fn failover(draft: &mut Draft, key: &str, value: &Value) {
    each_pool(draft, |pool| {
        let block = pool.entry("failover").or_insert_with(|| json!({}));
        if let Some(block) = block.as_object_mut() {
            block.insert(key.to_owned(), value.clone());
        }
    });
}

fn read_routing(settings: &View<'_>, draft: &mut Draft) {
    if let Some(entry) = settings.get("routing_strategy") {
        let text = entry.text().unwrap_or_default();
        let strategy = match text.as_str() {
            "simple-shuffle" => {
                entry.taken("pools.*.strategy: weighted");
                None
            }
            "least-busy" => {
                entry.taken("pools.*.strategy: least_loaded");
                Some("least_loaded")
            }
            "latency-based-routing" => {
                entry.taken("pools.*.strategy: fastest");
                Some("fastest")
            }
            other => {
                entry.lost(format!(
                    "{other}: pools stay weighted, and neither usage nor costs are counted"
                ));
                None
            }
        };
        if let Some(strategy) = strategy {
            each_pool(draft, |pool| {
                pool.insert("strategy".to_owned(), json!(strategy));
            });
        }
    }
    if let Some(entry) = settings.get("num_retries")
        && let Some(hops) = entry.number().filter(|hops| *hops >= 0.0)
    {
        let hops = hops.min(100.0) as u64;
        failover(draft, "max_hops", &json!(hops));
        entry.changed("pools.*.failover.max_hops: each further try is on another lane");
    }
    for key in ["timeout", "request_timeout"] {
        if let Some(entry) = settings.get(key)
            && let Some(secs) = entry.number().filter(|secs| *secs > 0.0)
        {
            let secs = secs.min(86_400.0);
            failover(draft, "timeout_secs", &json!(secs));
            entry.changed(
                "pools.*.failover.timeout_secs: the time to the first content, over all tries",
            );
        }
    }
    if let Some(entry) = settings.get("stream_timeout")
        && let Some(secs) = entry.number().filter(|secs| *secs > 0.0)
    {
        for lane in draft.lanes_mut().filter_map(Value::as_object_mut) {
            let own = lane.entry("first_content_timeout_ms");
            own.or_insert_with(|| json!(millis(secs)));
        }
        entry.changed("models.*.first_content_timeout_ms");
    }
    read_breaker(settings, draft);
    read_callbacks(settings);
    read_names(settings, draft);
    read_fallbacks(settings, draft);
}

fn read_breaker(settings: &View<'_>, draft: &mut Draft) {
    if let Some(entry) = settings.get("allowed_fails")
        && let Some(fails) = entry.number().filter(|fails| *fails >= 0.0)
    {
        // LiteLLM counts failures of a minute and cools a deployment down at one more than these.
        let count = (fails + 1.0).min(1_000_000.0) as u64;
        let trip = json!({"mode": "count", "window_secs": 60, "failure_count": count});
        draft.breaker("trip", trip);
        entry.taken("defaults.breaker.trip: count, in 60 s");
    }
    if let Some(entry) = settings.get("cooldown_time")
        && let Some(secs) = entry.number().filter(|secs| *secs > 0.0)
    {
        // A cooldown of less than a second is none.
        let secs = secs.clamp(1.0, 3600.0);
        draft.breaker("base_cooldown_secs", json!(secs));
        draft.breaker("max_cooldown_secs", json!(secs.max(120.0)));
        entry.changed("defaults.breaker.base_cooldown_secs: it doubles while a lane stays down");
    }
    if let Some(entry) = settings.get("disable_cooldowns") {
        if entry.flag() == Some(true) {
            draft.breaker("mode", json!("off"));
        }
        entry.taken("defaults.breaker.mode");
    }
}

fn read_callbacks(settings: &View<'_>) {
    for key in [
        "callbacks",
        "success_callback",
        "failure_callback",
        "service_callback",
    ] {
        let Some(entry) = settings.get(key) else {
            continue;
        };
        for callback in entry.items() {
            let name = callback.text().unwrap_or_default();
            match SERVED_CALLBACKS.iter().find(|it| it.0 == name) {
                Some((_, text)) => callback.dropped(*text),
                None => {
                    callback.lost("there are no callbacks; agents have metrics, traces and logs")
                }
            }
        }
    }
}

fn read_names(settings: &View<'_>, draft: &mut Draft) {
    let Some(aliases) = settings.get("model_group_alias") else {
        return;
    };
    for (alias, entry) in aliases.entries() {
        let target = entry.get("model").unwrap_or_else(|| entry.clone());
        let pool = clean(&target.text().unwrap_or_default());
        if draft.has_pool(&pool) {
            draft.route(&alias, &pool);
            entry.taken(format!("routes: {alias}"));
        } else {
            entry.lost(format!("there is no pool {pool}"));
        }
    }
}

/// Chains of pools: LiteLLM tries each group of a list in turn.
fn read_fallbacks(settings: &View<'_>, draft: &mut Draft) {
    if let Some(list) = settings.get("fallbacks") {
        for (name, entry) in list.items().iter().flat_map(View::entries) {
            chain(&clean(&name), &entry, draft);
        }
    }
    if let Some(list) = settings.get("default_fallbacks") {
        for name in draft.pool_names() {
            let has_own = draft
                .pool_mut(&name)
                .is_some_and(|pool| pool.get("on_exhausted").is_some());
            let is_link = name.contains("+fallback-");
            let is_target = list
                .items()
                .iter()
                .any(|it| clean(&it.text().unwrap_or_default()) == name);
            if !has_own && !is_link && !is_target {
                chain(&name, &list, draft);
            }
        }
    }
    for key in ["context_window_fallbacks", "context_window_fallback_dict"] {
        if let Some(entry) = settings.get(key) {
            entry.lost("put the larger model into the same pool and give lanes a context_max");
        }
    }
}

fn chain(from: &str, list: &View<'_>, draft: &mut Draft) {
    let mut last = from.to_owned();
    let mut links: u32 = 0;
    for entry in list.items() {
        let target = clean(&entry.text().unwrap_or_default());
        let members = draft
            .pool_mut(&target)
            .and_then(|pool| pool.get("members").cloned());
        let Some(members) = members.filter(|_| draft.has_pool(&last)) else {
            entry.lost(format!(
                "there is no pool {target}, or none that falls back on it"
            ));
            continue;
        };
        // A pool of its own: the target as callers name it may have a chain of its own, and both
        // may fall back on each other.
        links += 1;
        let mut link: String = from.chars().take(48).collect();
        link.push_str(&format!("+fallback-{links}"));
        let copy = draft.pool_mut(from).cloned();
        let mut pool = json!({"members": members});
        if let (Some(pool), Some(copy)) = (pool.as_object_mut(), copy) {
            for key in ["strategy", "failover"] {
                if let Some(value) = copy.get(key) {
                    pool.insert(key.to_owned(), value.clone());
                }
            }
        }
        let link = draft.pool(&link, pool);
        if let Some(pool) = draft.pool_mut(&last).and_then(Value::as_object_mut) {
            pool.insert("on_exhausted".to_owned(), json!({"fallback_pool": link}));
        }
        entry.taken(format!(
            "pools.{last}.on_exhausted.fallback_pool: the lanes of {target}"
        ));
        last = link;
    }
}

fn read_general(settings: &View<'_>, draft: &mut Draft) {
    let Some(entry) = settings.get("master_key") else {
        return;
    };
    let text = entry.text().unwrap_or_default();
    let (key, hint) = match text.strip_prefix("os.environ/") {
        Some(variable) => (draft.variable(variable).cloned(), variable.to_owned()),
        None => (Some(text), String::new()),
    };
    match key {
        Some(key) if !key.is_empty() => {
            draft.client("master", &key, None);
            entry.taken("clients: its digest; virtual keys of the database are not among them");
        }
        _ => entry.lost(format!(
            "without clients anybody who reaches the port may call: give the key by --set {hint}=…"
        )),
    }
}
