//! Rolter's `rolter.toml`.

mod behaviour;

use crate::draft::{Draft, Key, clean, literal_key, variable_for};
use crate::ledger::{Verdict, View};
use crate::vendors;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Blocks that are about other things than routing, or have no reader below.
const BLOCKS: &[(&str, Verdict, &str)] = &[
    (
        "logging",
        Verdict::Lost,
        "requests are not logged one by one; agents have traces",
    ),
    ("usage_recording", Verdict::Dropped, "costs are not counted"),
    ("model_prices", Verdict::Lost, "costs are not counted"),
    ("currency", Verdict::Lost, "costs are not counted"),
    ("budgets", Verdict::Lost, "budgets are not kept"),
    ("unpriced_policy", Verdict::Lost, "budgets are not kept"),
    (
        "rate_limits",
        Verdict::Lost,
        "rates are not limited; max_concurrent of a client limits requests at a time",
    ),
    ("cache", Verdict::Lost, "answers are not cached"),
    ("guardrails", Verdict::Lost, "contents are not inspected"),
    (
        "guardrail_webhook",
        Verdict::Lost,
        "contents are not inspected",
    ),
    ("pii_sanitizer", Verdict::Lost, "contents are not inspected"),
    (
        "prompt_templates",
        Verdict::Lost,
        "prompts are the caller's",
    ),
    ("realtime", Verdict::Lost, "WebSockets are not served"),
    (
        "metrics_scrape",
        Verdict::Lost,
        "lanes are chosen by what agents see themselves",
    ),
    (
        "queue",
        Verdict::Lost,
        "a pool's on_exhausted: {queue: …} waits for a lane's permit",
    ),
    ("plugins", Verdict::Lost, "there are no plugins"),
    ("mcp", Verdict::Lost, "tools are not served"),
    (
        "tls",
        Verdict::Lost,
        "SSL_CERT_FILE of the agent names more authorities",
    ),
    ("models", Verdict::Lost, "put them under routes first"),
    (
        "provider_groups",
        Verdict::Lost,
        "a pool per model of the group",
    ),
];

pub(crate) fn read(views: &[View<'_>], draft: &mut Draft) {
    for view in views {
        let mut providers = BTreeMap::new();
        for entry in view
            .get("providers")
            .map(|it| tiers(&it))
            .unwrap_or_default()
        {
            read_provider(&entry, draft, &mut providers);
        }
        for route in view.get("routes").map(|it| tiers(&it)).unwrap_or_default() {
            read_route(&route, &providers, draft);
        }
        for key in view
            .get("virtual_keys")
            .map(|it| it.items())
            .unwrap_or_default()
        {
            read_client(&key, draft);
        }
        behaviour::read(view, draft);
        view.note(BLOCKS);
    }
}

/// A list, or one in the two tiers that the newer form has.
fn tiers<'a>(list: &View<'a>) -> Vec<View<'a>> {
    if !list.is_map() {
        return list.items();
    }
    let tiers = ["readonly", "default"]
        .iter()
        .filter_map(|tier| list.get(tier));
    tiers.flat_map(|tier| tier.items()).collect()
}

fn read_provider(entry: &View<'_>, draft: &mut Draft, known: &mut BTreeMap<String, String>) {
    let (Some(name), Some(kind)) = (entry.get("name"), entry.get("kind")) else {
        entry.lost("it has no name or no kind");
        return;
    };
    let (wanted, kind_name) = (
        name.text().unwrap_or_default(),
        kind.text().unwrap_or_default(),
    );
    let vendor = match kind_name.as_str() {
        // By this kind Gemini is spoken to as OpenAI is.
        "gemini" | "azure_openai" => vendors::find("openai_compatible"),
        other => vendors::find(other),
    };
    let Some(vendor) = vendor else {
        let wants = vendors::absent(&kind_name).unwrap_or("a protocol of its own");
        entry.lost(format!(
            "{kind_name} wants {wants}, which agents do not have"
        ));
        return;
    };
    let base = match entry.get("api_base") {
        Some(base) => {
            base.taken("providers.*.base_url");
            base.text().unwrap_or_default()
        }
        None => vendor.base_url.to_owned(),
    };
    if base.is_empty() {
        entry.lost("it has no api_base");
        return;
    }
    kind.taken(format!("providers.{wanted}.protocol"));
    name.taken(format!("providers.{wanted}"));
    let mut provider = Map::new();
    provider.insert("protocol".to_owned(), json!(vendor.protocol));
    provider.insert("base_url".to_owned(), json!(base.trim_end_matches('/')));
    if kind_name == "azure_openai" {
        provider.insert(
            "auth".to_owned(),
            json!({"kind": "header", "name": "api-key"}),
        );
    }
    provider.insert("api_key".to_owned(), read_key(entry, &wanted));
    if let Some(proxy) = entry.get("egress_proxy") {
        let url = proxy.text().unwrap_or_default();
        if url.starts_with("http://") || url.starts_with("https://") {
            provider.insert("proxy".to_owned(), json!(url));
            proxy.taken(format!("providers.{wanted}.proxy"));
        } else {
            proxy.lost("a proxy is spoken to by HTTP");
        }
    }
    entry.note(&[
        ("egress_proxies", Verdict::Lost, "a provider has one proxy"),
        (
            "ca_bundles",
            Verdict::Lost,
            "SSL_CERT_FILE of the agent names more authorities",
        ),
        (
            "allow_custom_api_base",
            Verdict::Dropped,
            "a provider is where base_url says",
        ),
        (
            "kv_events",
            Verdict::Lost,
            "lanes are not chosen by their caches",
        ),
        (
            "lmcache",
            Verdict::Lost,
            "lanes are not chosen by their caches",
        ),
        (
            "role_profile",
            Verdict::Lost,
            "bodies pass as callers send them",
        ),
        (
            "model_role_profiles",
            Verdict::Lost,
            "bodies pass as callers send them",
        ),
        ("slug", Verdict::Dropped, "a provider has one name"),
    ]);
    let name = draft.provider(&wanted, Value::Object(provider));
    known.insert(wanted, name);
}

fn read_key(entry: &View<'_>, provider: &str) -> Value {
    if let Some(variable) = entry.get("api_key_env") {
        variable.taken(format!("providers.{provider}.api_key"));
        return json!({"env": variable.text()});
    }
    if let Some(list) = entry.get("api_keys").or_else(|| entry.get("keys")) {
        list.lost("a provider has one key");
    }
    let Some(key) = entry.get("api_key") else {
        return Value::Null;
    };
    match literal_key(&key.text().unwrap_or_default()) {
        Key::None => {
            key.changed("a placeholder: no key is sent");
            Value::Null
        }
        Key::Literal => {
            let variable = variable_for(provider);
            key.changed(format!(
                "a document holds no key: put it into the agents' {variable}"
            ));
            json!({"env": variable})
        }
    }
}

fn read_route(route: &View<'_>, providers: &BTreeMap<String, String>, draft: &mut Draft) {
    let Some(model) = route.get("model") else {
        route.lost("it has no model");
        return;
    };
    let public = model.text().unwrap_or_default();
    if public.contains('*') {
        route.lost("a lane is one model: name each model that callers use");
        return;
    }
    let strategy = route
        .get("strategy")
        .map(|it| (it.text().unwrap_or_default(), it));
    let even = matches!(&strategy, Some((name, _)) if name == "round_robin" || name == "random");
    let mut members = Vec::new();
    for target in route
        .get("targets")
        .map(|it| it.items())
        .unwrap_or_default()
    {
        members.extend(read_target(&target, &public, even, None, providers, draft));
    }
    for variant in route
        .get("variants")
        .map(|it| it.items())
        .unwrap_or_default()
    {
        let weight = variant.get("weight");
        for target in variant
            .get("targets")
            .map(|it| it.items())
            .unwrap_or_default()
        {
            let member = read_target(&target, &public, even, weight.as_ref(), providers, draft);
            members.extend(member);
        }
        variant.note(&[
            ("name", Verdict::Dropped, "metrics name the lane"),
            ("params", Verdict::Lost, "bodies pass as callers send them"),
        ]);
    }
    if members.is_empty() {
        route.lost("none of its targets was taken");
        return;
    }
    let mut pool = Map::new();
    pool.insert("members".to_owned(), Value::Array(members));
    if let Some((name, entry)) = &strategy {
        match name.as_str() {
            "round_robin" | "random" | "weighted" | "weighted_round_robin" => {
                entry.taken("pools.*.strategy: weighted");
            }
            "power_of_two" | "least_busy" | "least_loaded" | "least_connections" => {
                pool.insert("strategy".to_owned(), json!("least_loaded"));
                entry.taken("pools.*.strategy: least_loaded");
            }
            "latency" | "latency_based" | "lowest_latency" => {
                pool.insert("strategy".to_owned(), json!("fastest"));
                entry.taken("pools.*.strategy: fastest");
            }
            "cache_aware" | "consistent_hash" => {
                pool.insert("affinity".to_owned(), json!({"mode": "session"}));
                entry.changed("pools.*.affinity: by the header x-session-id, not by the prompt");
            }
            other => entry.lost(format!("{other}: the pool is weighted")),
        }
    }
    // What Rolter does when every target is open.
    pool.insert("on_exhausted".to_owned(), json!("fail_open"));
    let name = draft.pool(&public, Value::Object(pool));
    if name == public {
        model.taken(format!("pools.{name}"));
    } else {
        model.changed(format!("pools.{name}: callers must use this name"));
    }
    for alias in route
        .get("aliases")
        .map(|it| it.items())
        .unwrap_or_default()
    {
        draft.route(&alias.text().unwrap_or_default(), &name);
        alias.taken("routes");
    }
    route.note(&[
        ("params", Verdict::Lost, "bodies pass as callers send them"),
        (
            "param_policy",
            Verdict::Lost,
            "bodies pass as callers send them",
        ),
        ("cache", Verdict::Lost, "answers are not cached"),
        ("advanced", Verdict::Lost, "contents are not inspected"),
        (
            "fallbacks",
            Verdict::Lost,
            "a chain of pools: on_exhausted.fallback_pool",
        ),
        ("hooks", Verdict::Lost, "there are no hooks"),
    ]);
}

fn read_target(
    target: &View<'_>,
    public: &str,
    even: bool,
    shared_weight: Option<&View<'_>>,
    providers: &BTreeMap<String, String>,
    draft: &mut Draft,
) -> Option<Value> {
    let entry = target.get("provider")?;
    let named = entry.text().unwrap_or_default();
    let Some(provider) = providers.get(&named) else {
        target.lost(format!("the provider {named} was not taken"));
        return None;
    };
    entry.taken("models.*.provider");
    let upstream = match target.get("model") {
        Some(model) => {
            model.taken("models.*.upstream_model");
            model.text().unwrap_or_default()
        }
        None => public.to_owned(),
    };
    let lane = json!({"provider": provider, "upstream_model": upstream});
    let lane = draft.lane(&format!("{provider}/{upstream}"), lane);
    let mut member = Map::new();
    member.insert("target".to_owned(), json!(lane));
    if let Some(weight) = target.get("weight").or_else(|| shared_weight.cloned()) {
        if even {
            weight.dropped("each target has the same share under this strategy");
        } else if let Some(number) = weight.number().filter(|it| *it >= 0.0 && it.fract() == 0.0) {
            member.insert("weight".to_owned(), json!(number as u64));
            weight.taken("pools.*.members[].weight");
        }
    }
    Some(Value::Object(member))
}

fn read_client(key: &View<'_>, draft: &mut Draft) {
    if key.get("disabled").and_then(|it| it.flag()) == Some(true) {
        key.dropped("it is disabled");
        return;
    }
    let Some(secret) = key.get("key") else {
        key.lost("it has no key");
        return;
    };
    let name = key
        .get("name")
        .and_then(|it| it.text())
        .unwrap_or_else(|| "client".to_owned());
    let models = key.get("models").map(|it| it.items()).unwrap_or_default();
    let pools: Vec<String> = models
        .iter()
        .filter_map(View::text)
        .map(|it| clean(&it))
        .filter(|it| draft.has_pool(it))
        .collect();
    if pools.is_empty() && !models.is_empty() {
        key.lost("none of its models was taken");
        return;
    }
    if pools.len() < models.len()
        && let Some(list) = key.get("models")
    {
        list.changed("clients[].pools: those that were taken");
    } else if let Some(list) = key.get("models") {
        list.taken("clients[].pools");
    }
    draft.client(
        &name,
        &secret.text().unwrap_or_default(),
        (!pools.is_empty()).then_some(pools),
    );
    secret.taken("clients[].key_sha256: its digest");
    key.note(&[
        ("name", Verdict::Taken, "clients[].name"),
        ("disabled", Verdict::Taken, "it is not"),
        (
            "expires_at",
            Verdict::Lost,
            "keys of a document do not expire: take it out then",
        ),
        ("providers", Verdict::Lost, "a client may be bound to pools"),
        ("cache", Verdict::Lost, "answers are not cached"),
    ]);
}
