//! BackendTrafficPolicy: retries, timeouts and ejection.

use super::duration;
use crate::draft::Draft;
use crate::ledger::{Verdict, View};
use serde_json::{Value, json};

pub(super) fn read(policy: &View<'_>, draft: &mut Draft) {
    let Some(spec) = policy.get("spec") else {
        return;
    };
    if let Some(targets) = spec.get("targetRefs").or_else(|| spec.get("targetRef")) {
        targets.changed("it counts for every pool of this gateway");
    }
    if let Some(entry) = spec.at(&["retry", "numRetries"])
        && let Some(number) = entry.number()
    {
        let hops = json!(number.clamp(0.0, 100.0) as u64);
        crate::litellm::failover(draft, "max_hops", &hops);
        entry.taken("pools.*.failover.max_hops");
    }
    if let Some(retry) = spec.get("retry") {
        if let Some(entry) = retry.at(&["perRetry", "timeout"])
            && let Some(secs) = entry.text().and_then(|it| duration(&it))
        {
            for lane in draft.lanes_mut().filter_map(Value::as_object_mut) {
                let millis = (secs * 1000.0).round().max(1.0) as u64;
                lane.insert("attempt_timeout_ms".to_owned(), json!(millis));
            }
            entry.taken("models.*.attempt_timeout_ms");
        }
        if let Some(entry) = retry.at(&["perRetry", "backOff"]) {
            entry.dropped("another lane is tried at once");
        }
        if let Some(entry) = retry.get("retryOn") {
            entry.changed("the classification decides which failures are tried elsewhere");
        }
    }
    if let Some(passive) = spec.at(&["healthCheck", "passive"]) {
        let failures = passive
            .get("consecutive5XxErrors")
            .and_then(|it| it.count());
        if let Some(count) = failures {
            draft.breaker(
                "trip",
                json!({"mode": "consecutive", "consecutive_n": count}),
            );
        }
        let ejection = passive.get("baseEjectionTime").and_then(|it| it.text());
        if let Some(secs) = ejection.and_then(|it| duration(&it)) {
            draft.breaker("base_cooldown_secs", json!(secs.max(1.0)));
            draft.breaker("max_cooldown_secs", json!(secs.max(120.0)));
        }
        passive.changed("defaults.breaker: in a row, and one probe before a lane is back");
    }
    if let Some(active) = spec.at(&["healthCheck", "active"]) {
        active.lost("providers.*.health probes lanes that are open");
    }
    spec.note(&[
        (
            "rateLimit",
            Verdict::Lost,
            "rates and tokens are not limited",
        ),
        (
            "circuitBreaker",
            Verdict::Lost,
            "max_concurrent of a lane and limits.inbound_max bound requests",
        ),
        (
            "timeout",
            Verdict::Lost,
            "timeouts are the pool's and the lane's",
        ),
        ("loadBalancer", Verdict::Lost, "a pool has a strategy"),
        ("connection", Verdict::Dropped, "buffers are bounded"),
        (
            "tcpKeepalive",
            Verdict::Dropped,
            "idle connections are closed",
        ),
        ("compression", Verdict::Lost, "answers pass as they come"),
        (
            "responseOverride",
            Verdict::Lost,
            "errors are in the caller's dialect",
        ),
    ]);
}
