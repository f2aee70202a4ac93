//! The columns of each table, and how a value becomes a word in one.

use crate::args::Resource;
use crate::output;
use serde_json::Value;

/// A heading and the place in an entry.
pub(super) type Column = (&'static str, &'static str);

/// The columns of a resource's table.
fn columns(resource: Resource) -> &'static [Column] {
    match resource {
        Resource::Gateways => &[
            ("GATEWAY", "/name"),
            ("REVISION", "/revision"),
            ("UPDATED", "/updated_at"),
        ],
        Resource::Agents => &[
            ("AGENT", "/name"),
            ("GATEWAY", "/gateway"),
            ("STATE", "/state"),
            ("APPLIED", "/applied_revision"),
            ("TARGET", "/target_revision"),
            ("SOURCE", "/config_source"),
            ("REPORT AGE S", "/last_report_age_secs"),
            ("VERSION", "/version"),
            ("LAST ERROR", "/last_error/errors/0/message"),
        ],
        Resource::Breakers => &[
            ("GATEWAY", "/gateway"),
            ("POOL", "/pool"),
            ("LANE", "/lane"),
            ("PROVIDER", "/provider"),
            ("STATE", "/state"),
            ("SCOPE", "/scope"),
            ("OPEN", "/agents/open"),
            ("HALF-OPEN", "/agents/half_open"),
            ("CLOSED", "/agents/closed"),
            ("STALE", "/agents/stale"),
            ("UNUSABLE", "/unusable/agents"),
            ("CAUSE", "/cause/kind"),
            ("STATUS", "/cause/status"),
            ("NEXT PROBE S", "/next_probe_in_secs"),
        ],
        Resource::Pools => &[
            ("GATEWAY", "/gateway"),
            ("POOL", "/pool"),
            ("USABLE", "/usable_members/least"),
            ("EXHAUSTED ON", "/agents/exhausted_on"),
            ("AGENTS", "/agents/reporting"),
            ("WHY", "/exhausted_reasons"),
            ("REQUESTS", "/last_minute/requests"),
            ("ERRORS", "/last_minute/error_share"),
            ("FAILOVERS", "/last_minute/failovers"),
            ("P50 S", "/last_minute/first_content_p50_secs"),
            ("P99 S", "/last_minute/first_content_p99_secs"),
        ],
        Resource::Incidents => &[
            ("ID", "/id"),
            ("GATEWAY", "/gateway"),
            ("KIND", "/subject/kind"),
            ("NAME", "/subject/name"),
            ("STATE", "/state"),
            ("SCOPE", "/scope"),
            ("WIDEST", "/widest_scope"),
            ("AGENTS", "/agents_affected"),
            ("CAUSE", "/causes/0/kind"),
            ("STATUS", "/causes/0/status"),
            ("OPENED", "/opened_at"),
            ("DURATION S", "/duration_secs"),
        ],
        Resource::Revisions => &[
            ("REVISION", "/revision"),
            ("AUTHOR", "/author"),
            ("CREATED", "/created_at"),
            ("MESSAGE", "/message"),
        ],
        Resource::Rollouts => &[
            ("REVISION", "/revision"),
            ("STATE", "/state"),
            ("BASE", "/base_revision"),
            ("AUTHOR", "/author"),
            ("CREATED", "/created_at"),
            ("STOPPED BY", "/stop/kind"),
            ("ROLLED BACK BY", "/rollback_revision"),
        ],
        Resource::Overrides => &[
            ("ID", "/id"),
            ("ACTION", "/action"),
            ("POOL", "/pool"),
            ("LANE", "/lane"),
            ("PROVIDER", "/provider"),
            ("STATE", "/state"),
            ("APPLIED", "/agents_applied"),
            ("PENDING", "/agents_pending"),
            ("REMAINING S", "/remaining_secs"),
            ("ACTOR", "/actor"),
            ("REASON", "/reason"),
        ],
        Resource::Audit => &[
            ("ID", "/id"),
            ("AT", "/at"),
            ("ACTOR", "/actor"),
            ("ACTION", "/action"),
            ("RESOURCE", "/resource"),
            ("OUTCOME", "/outcome"),
            ("MESSAGE", "/message"),
        ],
        Resource::Identities => &[
            ("ID", "/id"),
            ("GATEWAY", "/gateway"),
            ("ORIGIN", "/origin"),
            ("NAME", "/name"),
            ("JOINED", "/joined_at"),
            ("EXPIRES", "/expires_at"),
            ("REVOKED", "/revoked_at"),
        ],
        Resource::Authorities => &[
            ("FINGERPRINT", "/fingerprint"),
            ("ADDED", "/added_at"),
            ("EXPIRES", "/expires_at"),
            ("RETIRES", "/retires_at"),
        ],
        Resource::Config | Resource::Plan => &[],
    }
}

/// What `-o wide` adds.
fn more(resource: Resource) -> &'static [Column] {
    match resource {
        Resource::Gateways => &[
            ("CREATED", "/created_at"),
            ("LABELS", "/labels"),
            ("HASH", "/hash"),
        ],
        Resource::Agents => &[
            ("INSTANCE", "/instance"),
            ("LABELS", "/labels"),
            ("SKEW S", "/clock_skew_secs"),
            ("PROBLEMS", "/problems"),
        ],
        Resource::Breakers => &[
            ("ENDPOINT", "/endpoint"),
            ("PARKED", "/agents/parked"),
            ("WHY UNUSABLE", "/unusable/reasons"),
            ("OPEN FOR S", "/opened_for_secs"),
            ("FLAPS", "/flaps"),
            ("TRIPS", "/trips"),
            ("OVERRIDE", "/override/action"),
            ("ADVISORY", "/advisory/active"),
        ],
        Resource::Pools => &[
            ("IMPAIRED ON", "/agents/impaired_on"),
            ("STALE", "/agents/stale"),
            ("IN FLIGHT", "/in_flight"),
            ("QUEUED", "/queued"),
            ("REQUESTS 10 MIN", "/last_ten_minutes/requests"),
            ("ERRORS 10 MIN", "/last_ten_minutes/error_share"),
            ("P50 S 10 MIN", "/last_ten_minutes/first_content_p50_secs"),
            ("P99 S 10 MIN", "/last_ten_minutes/first_content_p99_secs"),
        ],
        Resource::Incidents => &[
            ("PROVIDER", "/provider"),
            ("POOLS", "/pools"),
            ("PEAK", "/peak/affected"),
            ("OF", "/peak/fresh"),
            ("FLAPS", "/flaps"),
            ("FAILED OVER", "/calls_failed_over"),
            ("FAILED", "/calls_failed"),
            ("ENDED", "/ended_at"),
            ("ENDING", "/ending"),
            ("SUSPECT", "/suspects/0/detail"),
        ],
        Resource::Revisions => &[("PARENT", "/parent"), ("HASH", "/hash")],
        Resource::Rollouts => &[("MESSAGE", "/message"), ("WHY", "/stop/detail")],
        Resource::Overrides => &[
            ("LABELS", "/agents"),
            ("CREATED", "/created_at"),
            ("EXPIRES", "/expires_at"),
            ("RELEASED", "/released_at"),
        ],
        Resource::Audit => &[
            ("BEFORE", "/before"),
            ("AFTER", "/after"),
            ("HASH", "/hash"),
        ],
        Resource::Config | Resource::Plan | Resource::Identities | Resource::Authorities => &[],
    }
}

/// All headings of a resource.
pub(super) fn headings(resource: Resource) -> Vec<&'static str> {
    let all = columns(resource).iter().chain(more(resource));
    all.map(|(name, _)| *name).collect()
}

/// The place of a column by its heading, in any case.
pub(super) fn place(resource: Resource, heading: &str) -> Option<&'static str> {
    let mut all = columns(resource).iter().chain(more(resource));
    let found = all.find(|(name, _)| name.eq_ignore_ascii_case(heading));
    found.map(|(_, place)| *place)
}

/// Prints entries of a resource as a table.
pub(super) fn table<'a>(
    resource: Resource,
    entries: impl IntoIterator<Item = &'a Value>,
    wide: bool,
) {
    let more = if wide { more(resource) } else { &[] };
    let columns: Vec<Column> = columns(resource).iter().chain(more).copied().collect();
    rows(&columns, entries);
}

/// Prints entries as a table of any columns.
pub(super) fn rows<'a>(columns: &[Column], entries: impl IntoIterator<Item = &'a Value>) {
    let heading: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let rows: Vec<Vec<String>> = entries
        .into_iter()
        .map(|entry| {
            let places = columns.iter().map(|(_, place)| *place);
            places.map(|place| word(entry.pointer(place))).collect()
        })
        .collect();
    output::table(&heading, &rows);
}

/// What other commands call an entry by.
pub(super) fn name(resource: Resource, entry: &Value) -> String {
    let places: &[&str] = match resource {
        Resource::Gateways | Resource::Config | Resource::Plan => &["/name"],
        Resource::Agents
        | Resource::Overrides
        | Resource::Audit
        | Resource::Identities
        | Resource::Incidents => &["/id"],
        Resource::Authorities => &["/fingerprint"],
        Resource::Revisions | Resource::Rollouts => &["/revision"],
        Resource::Pools => &["/gateway", "/pool"],
        Resource::Breakers => &["/gateway", "/pool", "/lane", "/endpoint"],
    };
    if resource == Resource::Breakers && entry.get("lane").is_none_or(Value::is_null) {
        let part = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = name_of_provider(part("gateway"), part("provider"), part("endpoint"));
        return output::plain(&name);
    }
    let words = places.iter().filter_map(|place| entry.pointer(place));
    let words = words.filter(|value| !value.is_null());
    let words: Vec<String> = words
        .map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), output::plain)
        })
        .collect();
    words.join("/")
}

/// What a provider's own cell is called.
pub(super) fn name_of_provider(gateway: &str, provider: &str, endpoint: &str) -> String {
    let endpoint = match endpoint {
        "" => String::new(),
        endpoint => format!("/{endpoint}"),
    };
    format!("{gateway}/provider={provider}{endpoint}")
}

/// A value as one word of a table.
pub(super) fn word(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match number.as_f64() {
            // What rounds to nothing has no sign.
            Some(float) if number.is_f64() && float.abs() < 0.05 => "0.0".to_owned(),
            Some(float) if number.is_f64() => format!("{float:.1}"),
            _ => number.to_string(),
        },
        Some(Value::Array(items)) if items.is_empty() => "-".to_owned(),
        Some(Value::Object(entries)) if entries.is_empty() => "-".to_owned(),
        Some(Value::Object(entries)) => {
            let pairs = entries
                .iter()
                .map(|(key, value)| format!("{key}={}", word(Some(value))));
            pairs.collect::<Vec<_>>().join(",")
        }
        Some(Value::Array(items)) => {
            let words = items.iter().map(|item| word(Some(item)));
            words.collect::<Vec<_>>().join("; ")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn breakers_are_called_by_pool_and_lane_or_by_provider() {
        let lane = json!({"gateway": "edge", "pool": "chat", "lane": "a", "provider": "east",
            "endpoint": null});
        assert_eq!(name(Resource::Breakers, &lane), "edge/chat/a");
        let own = json!({"gateway": "edge", "pool": null, "lane": null, "provider": "east",
            "endpoint": "chat"});
        assert_eq!(name(Resource::Breakers, &own), "edge/provider=east/chat");
    }

    #[test]
    fn every_value_is_one_word_that_says_what_it_is() {
        for (value, expected) in [
            (json!(null), "-"),
            (json!(""), "\"\""),
            (json!("edge"), "edge"),
            (json!(3), "3"),
            (json!(0.25), "0.2"),
            (json!(-0.002), "0.0"),
            (json!({}), "-"),
            (json!({"a": "b", "c": 1}), "a=b,c=1"),
            (json!(["x", "y"]), "x; y"),
        ] {
            assert_eq!(word(Some(&value)), expected);
        }
        assert_eq!(word(None), "-");
    }
}
