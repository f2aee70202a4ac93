//! Retries, cooldowns, breakers, timeouts, health checks and bounds.

use crate::draft::Draft;
use crate::ledger::{Verdict, View};
use serde_json::{Value, json};

fn each_pool(draft: &mut Draft, block: &str, key: &str, value: &Value) {
    for name in draft.pool_names() {
        if let Some(pool) = draft.pool_mut(&name).and_then(Value::as_object_mut) {
            let entry = pool.entry(block).or_insert_with(|| json!({}));
            if let Some(entry) = entry.as_object_mut() {
                entry.insert(key.to_owned(), value.clone());
            }
        }
    }
}

pub(super) fn read(view: &View<'_>, draft: &mut Draft) {
    if let Some(entry) = view.at(&["retry", "max_retries"])
        && let Some(number) = entry.number()
    {
        let hops = json!(number.clamp(0.0, 100.0) as u64);
        each_pool(draft, "failover", "max_hops", &hops);
        entry.taken("pools.*.failover.max_hops");
    }
    if let Some(retry) = view.get("retry") {
        retry.note(&[
            (
                "base_backoff_ms",
                Verdict::Dropped,
                "another lane is tried at once",
            ),
            (
                "max_backoff_ms",
                Verdict::Dropped,
                "another lane is tried at once",
            ),
        ]);
    }
    if let Some(entry) = view.at(&["cooldown", "base_secs"])
        && let Some(secs) = entry.number().filter(|secs| *secs >= 0.0)
    {
        draft.breaker("park_secs", json!(secs.min(60.0)));
        entry.taken("defaults.breaker.park_secs");
    }
    if let Some(entry) = view.at(&["cooldown", "max_secs"]) {
        entry.dropped("a Retry-After is bounded by the breaker");
    }
    if let Some(breaker) = view.get("breaker") {
        if breaker.get("enabled").and_then(|it| it.flag()) == Some(true) {
            draft.breaker("preset", json!("rolter"));
            if let Some(entry) = breaker.get("failure_threshold")
                && let Some(count) = entry.count()
            {
                let trip = json!({"mode": "consecutive", "consecutive_n": count});
                draft.breaker("trip", trip);
            }
            if let Some(secs) = breaker.get("open_secs").and_then(|it| it.number()) {
                draft.breaker("base_cooldown_secs", json!(secs.max(1.0)));
                draft.breaker("max_cooldown_secs", json!(secs.max(1.0)));
            }
            breaker.taken("defaults.breaker: the preset rolter");
        } else {
            breaker.changed(
                "breakers are on here, by the preset default; defaults.breaker.mode: off ends that",
            );
        }
    }
    if let Some(entry) = view.at(&["timeouts", "connect_secs"])
        && let Some(secs) = entry.number().filter(|secs| *secs > 0.0)
    {
        for provider in draft.providers_mut().filter_map(Value::as_object_mut) {
            provider.insert("connect_timeout_secs".to_owned(), json!(secs));
        }
        entry.taken("providers.*.connect_timeout_secs");
    }
    if let Some(entry) = view.at(&["timeouts", "request_secs"])
        && let Some(secs) = entry.number().filter(|secs| *secs > 0.0)
    {
        for lane in draft.lanes_mut().filter_map(Value::as_object_mut) {
            let millis = (secs.min(86_400.0) * 1000.0).round() as u64;
            lane.insert("attempt_timeout_ms".to_owned(), json!(millis.max(1)));
        }
        entry.taken("models.*.attempt_timeout_ms");
    }
    if let Some(health) = view.get("health") {
        if health.get("enabled").and_then(|it| it.flag()) == Some(true) {
            for provider in draft.providers_mut().filter_map(Value::as_object_mut) {
                provider.insert("health".to_owned(), json!({"mode": "dead"}));
            }
            health.changed("providers.*.health: one small billed call to lanes that are open, in place of a GET");
        } else {
            health.dropped("it is off");
        }
    }
    read_server(view, draft);
}

fn read_server(view: &View<'_>, draft: &mut Draft) {
    if let Some(entry) = view.at(&["server", "max_body_bytes"])
        && let Some(bytes) = entry.count()
    {
        draft.body_max_bytes(bytes.min(1_073_741_824));
        entry.taken("limits.body_max_bytes");
    }
    if let Some(server) = view.get("server") {
        server.note(&[
            ("host", Verdict::Dropped, "agent --listen"),
            ("port", Verdict::Dropped, "agent --listen"),
            (
                "metrics_path",
                Verdict::Dropped,
                "metrics are on the ops listener: agent --ops-listen",
            ),
            ("key_pepper", Verdict::Dropped, "clients hold digests"),
        ]);
    }
    if let Some(egress) = view.get("egress") {
        egress.changed("private addresses are refused unless allow_private_hosts lists them");
    }
}
