//! `model_list`: each entry is a lane, and entries of one `model_name` are a pool.

use crate::draft::{Draft, Key, clean, literal_key, variable_for};
use crate::ledger::{Verdict, View};
use crate::vendors::{self, Vendor};
use serde_json::{Map, Value, json};

/// How LiteLLM writes a reference to an environment variable.
const REFERENCE: &str = "os.environ/";
/// Longest that a field of the document takes, in seconds.
const DAY_SECS: f64 = 86_400.0;

/// Parameters of a deployment that say nothing of where it is.
const PARAMETERS: &[(&str, Verdict, &str)] = &[
    (
        "rpm",
        Verdict::Lost,
        "requests a minute are not limited; max_concurrent limits those at a time",
    ),
    ("tpm", Verdict::Lost, "tokens are not limited"),
    (
        "input_cost_per_token",
        Verdict::Lost,
        "costs are not counted",
    ),
    (
        "output_cost_per_token",
        Verdict::Lost,
        "costs are not counted",
    ),
    (
        "input_cost_per_second",
        Verdict::Lost,
        "costs are not counted",
    ),
    (
        "output_cost_per_second",
        Verdict::Lost,
        "costs are not counted",
    ),
    (
        "use_in_pass_through",
        Verdict::Dropped,
        "every route of the protocol is served",
    ),
    (
        "drop_params",
        Verdict::Lost,
        "parameters go to the provider as the caller sent them",
    ),
    (
        "temperature",
        Verdict::Lost,
        "bodies pass as callers send them: set it there",
    ),
    (
        "top_p",
        Verdict::Lost,
        "bodies pass as callers send them: set it there",
    ),
    (
        "extra_body",
        Verdict::Lost,
        "bodies pass as callers send them: set it there",
    ),
    ("tags", Verdict::Lost, "requests are not routed by tags"),
    (
        "mock_response",
        Verdict::Lost,
        "lanekeeper sim-provider answers without a model",
    ),
    (
        "stream",
        Verdict::Lost,
        "whether an answer streams is the caller's choice",
    ),
    ("max_budget", Verdict::Lost, "costs are not counted"),
    ("budget_duration", Verdict::Lost, "costs are not counted"),
    (
        "merge_reasoning_content_in_choices",
        Verdict::Lost,
        "bodies pass as they come",
    ),
];

/// Pools in the making, in the order of the file.
#[derive(Default)]
pub(super) struct Groups(Vec<(String, Vec<Value>, Option<u64>)>);

impl Groups {
    fn add(&mut self, name: &str, member: Value, retries: Option<u64>) {
        match self.0.iter_mut().find(|(known, ..)| known == name) {
            Some((_, members, known)) => {
                let is_twin = members
                    .iter()
                    .any(|it| it.get("target") == member.get("target"));
                if !is_twin {
                    members.push(member);
                }
                *known = (*known).max(retries);
            }
            None => self.0.push((name.to_owned(), vec![member], retries)),
        }
    }

    pub(super) fn into_pools(self, draft: &mut Draft) {
        for (name, members, retries) in self.0 {
            let mut pool = json!({"members": members});
            if let (Some(retries), Some(pool)) = (retries, pool.as_object_mut()) {
                let failover = json!({"same_lane_retries": retries.min(10)});
                pool.insert("failover".to_owned(), failover);
            }
            draft.pool(&name, pool);
        }
    }
}

/// What a deployment's model says of its provider.
struct Place {
    /// LiteLLM's name of the provider.
    name: String,
    vendor: &'static Vendor,
    upstream: String,
}

pub(super) fn read(deployment: &View<'_>, draft: &mut Draft, groups: &mut Groups) {
    read_info(deployment);
    let Some(parameters) = deployment.get("litellm_params") else {
        deployment.lost("it has no litellm_params");
        return;
    };
    let (Some(name), Some(model)) = (deployment.get("model_name"), parameters.get("model")) else {
        deployment.lost("it has no model_name or no model");
        return;
    };
    let (Some(group), Some(wanted)) = (name.text(), model.text()) else {
        deployment.lost("its names are no texts");
        return;
    };
    if group.contains('*') || wanted.contains('*') {
        deployment.lost("a lane is one model: name each model that callers use");
        return;
    }
    let provider = parameters.get("custom_llm_provider").and_then(|it| {
        it.taken("providers");
        it.text()
    });
    let has_base = parameters
        .get("api_base")
        .or_else(|| parameters.get("base_url"));
    let place = match place(&wanted, provider.as_deref(), has_base.is_some()) {
        Ok(place) => place,
        Err(reason) => {
            deployment.lost(reason);
            return;
        }
    };
    let Some(provider) = read_provider(&parameters, &place, draft) else {
        deployment.lost("it is not known where its provider is");
        return;
    };
    let lane = read_lane(deployment, &parameters, &place, &provider, draft);
    model.taken(format!("models.{lane}"));
    let mut member = Map::new();
    member.insert("target".to_owned(), json!(lane));
    read_weight(&parameters, &mut member);
    let retries = read_retries(&parameters);
    let pool = clean(&group);
    if pool == group {
        name.taken(format!("pools.{pool}"));
    } else {
        name.changed(format!("pools.{pool}: callers must use this name"));
    }
    groups.add(&pool, Value::Object(member), retries);
    parameters.note(PARAMETERS);
}

/// Facts about the model.
fn read_info(deployment: &View<'_>) {
    if let Some(info) = deployment.get("model_info") {
        info.dropped("prices and facts for listings have no use here");
    }
    for key in ["model_id", "litellm_model_name", "description"] {
        if let Some(entry) = deployment.get(key) {
            entry.dropped("a name of LiteLLM's own");
        }
    }
}

fn read_retries(parameters: &View<'_>) -> Option<u64> {
    let entry = parameters
        .get("max_retries")
        .or_else(|| parameters.get("num_retries"))?;
    let retries = entry.number()?;
    if retries <= 0.0 {
        entry.taken("same_lane_retries is 0 by default");
        return None;
    }
    entry.changed("pools.*.failover.same_lane_retries, at most 10");
    entry.count()
}

/// Where a model is, by its name.
fn place(model: &str, provider: Option<&str>, has_base: bool) -> Result<Place, String> {
    let (name, upstream) = match (provider, model.split_once('/')) {
        (Some(provider), Some((first, rest))) if first == provider => (provider, rest),
        (Some(provider), _) => (provider, model),
        (None, Some((first, rest))) if is_provider(first) => (first, rest),
        (None, _) => match vendors::of_bare_model(model) {
            Some(vendor) => (vendor.names.first().copied().unwrap_or_default(), model),
            // LiteLLM takes anything with an address for a server like OpenAI's.
            None if has_base => ("openai", model),
            None => return Err(format!("the provider of '{model}' is not known")),
        },
    };
    if let Some(wants) = vendors::absent(name) {
        return Err(format!("{name} wants {wants}, which agents do not have"));
    }
    // Their paths differ; what they speak and how keys go is OpenAI's.
    let known = match name {
        "azure" | "azure_ai" | "azure_text" | "github" => "openai",
        other => other,
    };
    let vendor = vendors::find(known).ok_or_else(|| format!("the provider {name} is not known"))?;
    // A second prefix chooses a route of the same provider.
    let upstream = match name {
        "openai" | "azure" => upstream.strip_prefix("responses/").unwrap_or(upstream),
        _ => upstream,
    };
    Ok(Place {
        name: name.to_owned(),
        vendor,
        upstream: upstream.to_owned(),
    })
}

fn is_provider(name: &str) -> bool {
    let special = ["azure", "azure_ai", "azure_text", "github"];
    vendors::find(name).is_some() || vendors::absent(name).is_some() || special.contains(&name)
}

/// The provider of a deployment; none when its address is not known.
fn read_provider(parameters: &View<'_>, place: &Place, draft: &mut Draft) -> Option<String> {
    let is_azure = place.name == "azure";
    let entry = parameters
        .get("api_base")
        .or_else(|| parameters.get("base_url"));
    let mut base = match &entry {
        Some(entry) => resolve(entry, draft)?,
        None if place.name == "github" => "https://models.github.ai/inference".to_owned(),
        None if place.vendor.base_url.is_empty() || is_azure => {
            parameters.lost(format!(
                "api_base is missing: {} may be anywhere",
                place.name
            ));
            return None;
        }
        None => place.vendor.base_url.to_owned(),
    };
    let mut provider = Map::new();
    if is_azure {
        base = azure_base(&base);
        let version = match parameters.get("api_version") {
            Some(entry) => resolve(&entry, draft),
            None => None,
        };
        let version = version.unwrap_or_else(|| "2024-10-21".to_owned());
        provider.insert("query".to_owned(), json!({"api-version": version}));
        provider.insert(
            "auth".to_owned(),
            json!({"kind": "header", "name": "api-key"}),
        );
    } else if place.name == "azure_ai" {
        provider.insert(
            "auth".to_owned(),
            json!({"kind": "header", "name": "api-key"}),
        );
        if let Some(version) = parameters
            .get("api_version")
            .and_then(|it| resolve(&it, draft))
        {
            provider.insert("query".to_owned(), json!({"api-version": version}));
        }
    } else if place.name.starts_with("ollama") && !base.trim_end_matches('/').ends_with("/v1") {
        // Its own protocol is beside the one that it has in common with OpenAI.
        base = format!("{}/v1", base.trim_end_matches('/'));
    }
    if let Some(entry) = &entry {
        entry.taken("providers.*.base_url");
    }
    provider.insert("protocol".to_owned(), json!(place.vendor.protocol));
    provider.insert("base_url".to_owned(), json!(base.trim_end_matches('/')));
    provider.insert(
        "api_key".to_owned(),
        read_key(parameters, place, entry.is_some()),
    );
    read_headers(parameters, &mut provider);
    Some(draft.provider(&place.name, Value::Object(provider)))
}

/// The path below which Azure has a deployment.
fn azure_base(base: &str) -> String {
    let base = base.trim_end_matches('/');
    if base.contains("/deployments/") || base.ends_with("/openai/v1") {
        return base.to_owned();
    }
    let root = base.trim_end_matches("/openai");
    format!("{root}/openai/deployments/{{model}}")
}

/// Headers that go with every request.
fn read_headers(parameters: &View<'_>, provider: &mut Map<String, Value>) {
    let Some(headers) = parameters
        .get("extra_headers")
        .or_else(|| parameters.get("headers"))
    else {
        return;
    };
    let mut taken = Map::new();
    for (name, entry) in headers.entries() {
        let Some(value) = entry.text() else { continue };
        if let Some(variable) = value.strip_prefix(REFERENCE) {
            taken.insert(name.clone(), json!({"env": variable}));
            entry.taken(format!("providers.*.headers.{name}"));
        } else if lanekeeper_model::credentials::is_credential_name(&name) {
            entry.lost("a credential must not stand in a document: use a reference");
        } else {
            taken.insert(name.clone(), json!(value));
            entry.taken(format!("providers.*.headers.{name}"));
        }
    }
    if !taken.is_empty() {
        provider.insert("headers".to_owned(), Value::Object(taken));
    }
    if let Some(organisation) = parameters.get("organization") {
        organisation.lost("set the header openai-organization of the provider");
    }
}

/// Text in place of which a variable may be named.
fn resolve(entry: &View<'_>, draft: &Draft) -> Option<String> {
    let text = entry.text()?;
    let Some(variable) = text.strip_prefix(REFERENCE) else {
        return Some(text);
    };
    let value = draft.variable(variable);
    if value.is_none() {
        entry.lost(format!(
            "an address is no secret: give it by --set {variable}=…"
        ));
    }
    value.cloned()
}

fn read_key(parameters: &View<'_>, place: &Place, has_base: bool) -> Value {
    let own = if place.vendor.variable.is_empty() || place.name.starts_with("azure") {
        variable_for(&place.name)
    } else {
        place.vendor.variable.to_owned()
    };
    let Some(entry) = parameters.get("api_key") else {
        // LiteLLM looks for the vendor's own variable then.
        let needs_one = !(place.vendor.variable.is_empty() || has_base && place.name == "openai");
        return if needs_one || place.name.starts_with("azure") {
            json!({"env": own})
        } else {
            Value::Null
        };
    };
    let text = entry.text().unwrap_or_default();
    if let Some(variable) = text.strip_prefix(REFERENCE) {
        entry.taken(format!("providers.*.api_key: {{env: {variable}}}"));
        return json!({"env": variable});
    }
    match literal_key(&text) {
        Key::None => {
            entry.changed("a placeholder: no key is sent");
            Value::Null
        }
        Key::Literal => {
            entry.changed(format!(
                "a document holds no key: put it into the agents' {own}"
            ));
            json!({"env": own})
        }
    }
}

fn read_lane(
    deployment: &View<'_>,
    parameters: &View<'_>,
    place: &Place,
    provider: &str,
    draft: &mut Draft,
) -> String {
    let mut lane = Map::new();
    lane.insert("provider".to_owned(), json!(provider));
    lane.insert("upstream_model".to_owned(), json!(place.upstream));
    if let Some(entry) = parameters.get("max_parallel_requests")
        && let Some(count) = entry.count()
    {
        lane.insert("max_concurrent".to_owned(), json!(count.min(1_000_000)));
        entry.taken("models.*.max_concurrent");
    }
    if let Some(entry) = parameters.get("max_tokens")
        && let Some(count) = entry.count()
    {
        lane.insert("max_output_tokens".to_owned(), json!(count));
        entry.changed("models.*.max_output_tokens: sent where the protocol demands a bound");
    }
    for (key, field) in [
        ("timeout", "attempt_timeout_ms"),
        ("stream_timeout", "first_content_timeout_ms"),
    ] {
        if let Some(entry) = parameters.get(key)
            && let Some(secs) = entry.number().filter(|secs| *secs > 0.0)
        {
            lane.insert(field.to_owned(), json!(millis(secs)));
            entry.changed(format!(
                "models.*.{field}: it bounds the wait for an answer's beginning"
            ));
        }
    }
    if let Some(entry) = deployment.at(&["model_info", "max_input_tokens"])
        && let Some(count) = entry.count()
    {
        lane.insert("context_max".to_owned(), json!(count));
        entry.taken("models.*.context_max");
    }
    let wanted = format!("{provider}/{}", place.upstream);
    draft.lane(&wanted, Value::Object(lane))
}

fn read_weight(parameters: &View<'_>, member: &mut Map<String, Value>) {
    if let Some(entry) = parameters.get("weight")
        && let Some(weight) = entry.number().filter(|weight| *weight >= 0.0)
    {
        if weight.fract() == 0.0 && weight <= 1_000_000.0 {
            member.insert("weight".to_owned(), json!(weight as u64));
            entry.taken("pools.*.members[].weight");
        } else {
            let weight = (weight * 100.0).round().clamp(1.0, 1_000_000.0);
            member.insert("weight".to_owned(), json!(weight as u64));
            entry.changed("pools.*.members[].weight: a whole number, a hundredfold");
        }
    }
    if let Some(entry) = parameters.get("order") {
        entry.lost("in turn means a chain of pools here: on_exhausted.fallback_pool");
    }
}

/// Seconds as whole milliseconds within what a document takes.
pub(super) fn millis(secs: f64) -> u64 {
    (secs.min(DAY_SECS) * 1000.0).round().max(1.0) as u64
}
