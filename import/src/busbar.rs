//! Busbar's `config.yaml` and `providers.yaml`, whose words are mostly those of a gateway document.

use crate::draft::{Draft, Key, clean, literal_key, variable_for};
use crate::ledger::{Verdict, View};
use crate::vendors;
use serde_json::{Map, Value, json};

/// Fields of a breaker that both systems call the same and mean the same.
const BREAKER: &[&str] = &[
    "base_cooldown_secs",
    "max_cooldown_secs",
    "hard_down_cooldown_secs",
    "jitter_ratio",
];
const TRIP: &[&str] = &[
    "mode",
    "window_secs",
    "threshold",
    "min_requests",
    "consecutive_n",
];

/// Blocks that are about other things than routing.
const BLOCKS: &[(&str, Verdict, &str)] = &[
    ("limits", Verdict::Lost, "bodies pass as callers send them"),
    ("listen", Verdict::Dropped, "agent --listen"),
    (
        "tls",
        Verdict::Lost,
        "agents speak HTTP/1.1; TLS belongs before them",
    ),
    (
        "admin_listen",
        Verdict::Dropped,
        "the HTTP API is the server's: --http-listen",
    ),
    (
        "admin_tls",
        Verdict::Dropped,
        "the HTTP API has no TLS of its own: put it behind an ingress",
    ),
    (
        "admin_require_mtls",
        Verdict::Dropped,
        "the HTTP API is the server's",
    ),
    ("auth", Verdict::Lost, "callers are known by keys: clients"),
    (
        "identity-providers",
        Verdict::Lost,
        "callers are known by keys: clients",
    ),
    ("oauth_as", Verdict::Lost, "not served"),
    ("governance", Verdict::Lost, "budgets are not kept"),
    (
        "groups",
        Verdict::Lost,
        "budgets and rate limits are not kept",
    ),
    ("rate_card", Verdict::Lost, "costs are not counted"),
    ("per_request_fee", Verdict::Lost, "costs are not counted"),
    ("hooks", Verdict::Lost, "there are no hooks"),
    ("mcp", Verdict::Lost, "tools are not served"),
    ("tools", Verdict::Lost, "tools are not served"),
    ("agents", Verdict::Lost, "agents' protocols are not served"),
    (
        "store",
        Verdict::Dropped,
        "the server keeps its own: --database-url, --redis-url",
    ),
    ("plugins", Verdict::Lost, "there are no plugins"),
    (
        "secrets",
        Verdict::Lost,
        "references are {env: NAME} and {file: PATH}",
    ),
    ("advanced", Verdict::Dropped, "bounds are fixed"),
    ("config_format", Verdict::Dropped, "of Busbar's own"),
];

pub(crate) fn read(views: &[View<'_>], draft: &mut Draft) {
    for view in views {
        // The newer form has the models among the pools.
        let models = view.get("models").or_else(|| view.at(&["pools", "models"]));
        if let Some(models) = models {
            for (name, model) in models.entries() {
                read_model(&name, &model, views, draft);
            }
        }
    }
    for view in views {
        if let Some(pools) = view.get("pools") {
            let credentials = pools.get("upstream_credentials").and_then(|it| {
                it.taken("pools.*.upstream_credentials");
                it.text()
            });
            for (name, pool) in pools.entries() {
                match name.as_str() {
                    "upstream_credentials" | "models" => {}
                    "hooks" => pool.lost("there are no hooks"),
                    _ => read_pool(&name, &pool, credentials.as_deref(), draft),
                }
            }
        }
        read_exports(view);
        view.note(BLOCKS);
        if let Some(providers) = view.get("providers") {
            // What was read of one has marks of its own by now.
            providers.dropped("no model that was taken uses it");
        }
    }
    // A pool may fall back on one that comes later in the file, or that was not taken.
    for name in draft.pool_names() {
        let target = draft.pool_mut(&name).and_then(|pool| {
            let target = pool.pointer("/on_exhausted/fallback_pool")?;
            target.as_str().map(str::to_owned)
        });
        if target.is_some_and(|target| !draft.has_pool(&target))
            && let Some(pool) = draft.pool_mut(&name).and_then(Value::as_object_mut)
        {
            pool.remove("on_exhausted");
        }
    }
}

fn read_exports(view: &View<'_>) {
    for key in ["export", "observability"] {
        let Some(exports) = view.get(key) else {
            continue;
        };
        for (name, export) in exports.entries() {
            let module = export
                .get("module")
                .and_then(|it| it.text())
                .unwrap_or(name);
            match module.as_str() {
                "prometheus" => export.dropped("/metrics of every agent has it"),
                "otlp" => export.dropped("agent --otlp-endpoint"),
                _ => export.lost("requests are not exported one by one"),
            }
        }
    }
}

/// A provider's entry in any of the files, the deployment's own before the catalogue's.
fn entries_of<'a>(provider: &str, views: &[View<'a>]) -> Vec<View<'a>> {
    let found = views
        .iter()
        .filter_map(|view| view.at(&["providers", provider]));
    found.collect()
}

fn read_model(name: &str, model: &View<'_>, views: &[View<'_>], draft: &mut Draft) {
    let Some(entry) = model.get("provider") else {
        model.lost("it has no provider");
        return;
    };
    let wanted = entry.text().unwrap_or_default();
    let provider = match read_provider(&wanted, &entries_of(&wanted, views), draft) {
        Ok(provider) => provider,
        Err(reason) => {
            model.lost(reason);
            return;
        }
    };
    entry.taken(format!("models.{name}.provider"));
    let mut lane = Map::new();
    lane.insert("provider".to_owned(), json!(provider));
    for key in ["upstream_model", "model"] {
        if let Some(entry) = model.get(key) {
            lane.insert("upstream_model".to_owned(), json!(entry.text()));
            entry.taken(format!("models.{name}.upstream_model"));
        }
    }
    for key in ["max_concurrent", "context_max", "attempt_timeout_ms"] {
        if let Some(entry) = model.get(key)
            && let Some(count) = entry.count()
        {
            lane.insert(key.to_owned(), json!(count));
            entry.taken(format!("models.{name}.{key}"));
        }
    }
    if let Some(entry) = model.get("default_max_tokens")
        && let Some(count) = entry.count()
    {
        lane.insert("max_output_tokens".to_owned(), json!(count));
        entry.taken(format!("models.{name}.max_output_tokens"));
    }
    if let Some(entry) = model.get("max_requests") {
        if let Some(count) = entry.count() {
            lane.insert("max_requests".to_owned(), json!(count));
        }
        entry.taken(format!("models.{name}.max_requests"));
    }
    model.note(&[
        (
            "reasoning",
            Verdict::Lost,
            "requests are not changed by what a model can",
        ),
        ("hooks", Verdict::Lost, "there are no hooks"),
        ("tags", Verdict::Lost, "requests are not routed by tags"),
    ]);
    let lane_name = clean(name);
    if lane_name != name {
        model.changed(format!("models.{lane_name}: callers must use this name"));
    }
    draft.lane(&lane_name, Value::Object(lane));
}

fn read_provider(name: &str, entries: &[View<'_>], draft: &mut Draft) -> Result<String, String> {
    if let Some(wants) = vendors::absent(name) {
        return Err(format!("{name} wants {wants}, which agents do not have"));
    }
    let vendor = vendors::find(name);
    let first = |key: &str| entries.iter().find_map(|entry| entry.get(key));
    let protocol = match first("protocol") {
        Some(entry) => {
            let text = entry.text().unwrap_or_default();
            match text.as_str() {
                "openai" | "responses" | "anthropic" | "gemini" | "cohere" => {
                    entry.taken("providers.*.protocol");
                    text
                }
                other => {
                    entry.lost(format!("agents do not speak {other}"));
                    return Err(format!("agents do not speak {other}"));
                }
            }
        }
        None => vendor.map(|it| it.protocol.to_owned()).unwrap_or_default(),
    };
    let base = match first("base_url") {
        Some(entry) => {
            entry.taken("providers.*.base_url");
            entry.text().unwrap_or_default()
        }
        None => vendor.map(|it| it.base_url.to_owned()).unwrap_or_default(),
    };
    if protocol.is_empty() || base.is_empty() {
        return Err(format!(
            "protocol or base_url of {name} is in another file: give providers.yaml too"
        ));
    }
    let mut provider = Map::new();
    provider.insert("protocol".to_owned(), json!(protocol));
    provider.insert("base_url".to_owned(), json!(base.trim_end_matches('/')));
    provider.insert("api_key".to_owned(), read_key(name, entries));
    if let Some(health) = first("health") {
        let mut taken = Map::new();
        for key in ["mode", "interval_secs", "timeout_secs"] {
            if let Some(entry) = health.get(key) {
                let value = entry
                    .number()
                    .map_or_else(|| json!(entry.text()), |it| json!(it));
                taken.insert(key.to_owned(), value);
                entry.taken(format!("providers.{name}.health.{key}"));
            }
        }
        provider.insert("health".to_owned(), Value::Object(taken));
    }
    if let Some(map) = first("error_map") {
        read_error_map(&map, &mut provider);
    }
    for entry in entries {
        entry.note(&[
            ("path", Verdict::Lost, "the protocol's own path is used"),
            (
                "auth",
                Verdict::Lost,
                "see auth of a provider in docs/document.md",
            ),
            ("display_name", Verdict::Dropped, "a name for people"),
            ("docs", Verdict::Dropped, "for people"),
        ]);
    }
    Ok(draft.provider(name, Value::Object(provider)))
}

fn read_error_map(map: &View<'_>, provider: &mut Map<String, Value>) {
    let mut taken = Map::new();
    for (code, entry) in map.entries() {
        let meaning = match entry.text().unwrap_or_default().as_str() {
            "auth" => "auth",
            "billing" => "billing",
            "rate_limit" => "rate_limit",
            "overloaded" => "overloaded",
            "context_length" => "context_length",
            "client_error" | "client_fault" => "client_fault",
            "server_error" | "transient" | "timeout" | "network" => "transient",
            other => {
                entry.lost(format!("'{other}' is no meaning that a document has"));
                continue;
            }
        };
        taken.insert(code.clone(), json!(meaning));
        entry.taken(format!("providers.*.error_map.{code}"));
    }
    provider.insert("error_map".to_owned(), Value::Object(taken));
}

fn read_key(name: &str, entries: &[View<'_>]) -> Value {
    let first = |key: &str| entries.iter().find_map(|entry| entry.get(key));
    if let Some(entry) = first("api_key_env") {
        entry.taken("providers.*.api_key");
        return json!({"env": entry.text()});
    }
    let Some(entry) = first("api_key") else {
        return Value::Null;
    };
    for kind in ["env", "file"] {
        if let Some(reference) = entry.get(kind) {
            reference.taken(format!("providers.{name}.api_key.{kind}"));
            return json!({kind: reference.text()});
        }
    }
    if entry.is_map() {
        entry.lost("agents read keys from variables and files");
        return json!({"env": variable_for(name)});
    }
    match literal_key(&entry.text().unwrap_or_default()) {
        Key::None => {
            entry.changed("a placeholder: no key is sent");
            Value::Null
        }
        Key::Literal => {
            let variable = variable_for(name);
            entry.changed(format!(
                "a document holds no key: put it into the agents' {variable}"
            ));
            json!({"env": variable})
        }
    }
}

fn read_pool(name: &str, pool: &View<'_>, credentials: Option<&str>, draft: &mut Draft) {
    let mut members = Vec::new();
    let weights = pool.get("weights");
    for entry in pool.get("members").map(|it| it.items()).unwrap_or_default() {
        let target = entry.get("model").or_else(|| entry.get("target"));
        let target = target.unwrap_or_else(|| entry.clone());
        let lane = clean(&target.text().unwrap_or_default());
        if draft.lane_mut(&lane).is_none() {
            entry.lost(format!("the model {lane} was not taken"));
            continue;
        }
        target.taken(format!("pools.{name}.members[].target"));
        let mut member = Map::new();
        member.insert("target".to_owned(), json!(lane));
        let by_name = weights.as_ref().and_then(|it| it.get(&lane));
        if let Some(weight) = entry.get("weight").or(by_name)
            && let Some(number) = weight.number().filter(|it| *it >= 0.0 && it.fract() == 0.0)
        {
            member.insert("weight".to_owned(), json!(number as u64));
            weight.taken(format!("pools.{name}.members[].weight"));
        }
        for key in ["context_max", "attempt_timeout_ms"] {
            let shared = pool.get(key).filter(|_| key == "attempt_timeout_ms");
            if let Some(field) = entry.get(key).or(shared)
                && let Some(count) = field.count()
            {
                member.insert(key.to_owned(), json!(count));
                field.taken(format!("pools.{name}.members[].{key}"));
            }
        }
        entry.note(&[("tier", Verdict::Lost, "requests are not routed by tiers")]);
        members.push(Value::Object(member));
    }
    if members.is_empty() {
        pool.lost("none of its models was taken");
        return;
    }
    let mut taken = Map::new();
    taken.insert("members".to_owned(), Value::Array(members));
    read_block(pool, "failover", &["timeout_secs", "max_hops"], &mut taken);
    if let Some(list) = pool.at(&["failover", "exclusions"]) {
        let names = list.items();
        let names: Vec<String> = names
            .iter()
            .filter_map(View::text)
            .map(|it| clean(&it))
            .collect();
        list.changed("failover.exclusions: no request is sent to them at all");
        let block = taken.entry("failover").or_insert_with(|| json!({}));
        if let Some(block) = block.as_object_mut() {
            block.insert("exclusions".to_owned(), json!(names));
        }
    }
    read_block(pool, "affinity", &["mode", "header_name"], &mut taken);
    read_breaker(pool, &mut taken);
    read_exhaustion(pool, &mut taken);
    let own = pool.get("upstream_credentials").and_then(|it| {
        it.taken(format!("pools.{name}.upstream_credentials"));
        it.text()
    });
    if let Some(value) = own.as_deref().or(credentials)
        && ["own", "passthrough"].contains(&value)
    {
        taken.insert("upstream_credentials".to_owned(), json!(value));
    }
    pool.note(&[
        ("hooks", Verdict::Lost, "there are no hooks"),
        ("route", Verdict::Lost, "there are no hooks"),
        ("policy", Verdict::Lost, "there are no hooks"),
        ("tier", Verdict::Lost, "requests are not routed by tiers"),
        ("tags", Verdict::Lost, "requests are not routed by tags"),
    ]);
    draft.pool(name, Value::Object(taken));
}

/// The fields of a block that are the same in both.
fn read_block(pool: &View<'_>, block: &str, keys: &[&str], taken: &mut Map<String, Value>) {
    let Some(entry) = pool.get(block) else { return };
    let mut fields = Map::new();
    for key in keys {
        if let Some(field) = entry.get(key) {
            let value = match field.number() {
                Some(number) if number.fract() == 0.0 => json!(number as i64),
                Some(number) => json!(number),
                None => json!(field.text()),
            };
            fields.insert((*key).to_owned(), value);
            field.taken(format!("pools.*.{block}.{key}"));
        }
    }
    if !fields.is_empty() {
        taken.insert(block.to_owned(), Value::Object(fields));
    }
}

fn read_breaker(pool: &View<'_>, taken: &mut Map<String, Value>) {
    read_block(pool, "breaker", BREAKER, taken);
    let mut trip = Map::new();
    if let Some(entry) = pool.at(&["breaker"]) {
        read_block(&entry, "trip", TRIP, &mut trip);
    }
    if let Some(trip) = trip.remove("trip") {
        let block = taken.entry("breaker").or_insert_with(|| json!({}));
        if let Some(block) = block.as_object_mut() {
            block.insert("trip".to_owned(), trip);
        }
    }
    // Without a block Busbar's own numbers hold, which are those of the default preset.
}

fn read_exhaustion(pool: &View<'_>, taken: &mut Map<String, Value>) {
    let Some(entry) = pool.get("on_exhausted") else {
        return;
    };
    let text = entry.text().unwrap_or_default();
    let target = entry.get("fallback_pool").and_then(|it| it.text());
    let target = target.or_else(|| text.strip_prefix("fallback_pool:").map(str::to_owned));
    let value = match (target, text.as_str()) {
        (Some(target), _) => json!({"fallback_pool": clean(target.trim())}),
        (None, "reject" | "status_503") => json!("reject"),
        (None, "least_bad") => json!("least_bad"),
        (None, other) => {
            entry.lost(format!("'{other}' is no policy that a document has"));
            return;
        }
    };
    entry.taken("pools.*.on_exhausted");
    taken.insert("on_exhausted".to_owned(), value);
}
