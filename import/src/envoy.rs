//! Envoy AI Gateway: routes, backends and their credentials as Kubernetes objects.

use crate::draft::{Draft, clean};
use crate::ledger::{Verdict, View};
use serde_json::{Map, Value, json};

/// Headers by which a rule names a model.
const MODEL_HEADERS: [&str; 2] = ["x-ai-eg-model", "x-aigateway-model"];

/// Kinds that are read together with the routes that name them, or are about something else.
const KINDS: &[(&str, Verdict, &str)] = &[
    (
        "GatewayClass",
        Verdict::Dropped,
        "agents are their own listener",
    ),
    (
        "Gateway",
        Verdict::Dropped,
        "agent --listen; in Kubernetes the Service lanekeeper",
    ),
    ("EnvoyProxy", Verdict::Dropped, "of Envoy's own"),
    ("GatewayConfig", Verdict::Dropped, "of Envoy's own"),
    (
        "ClientTrafficPolicy",
        Verdict::Dropped,
        "limits of the document bound what callers send",
    ),
    (
        "BackendTLSPolicy",
        Verdict::Dropped,
        "https is what base_url says; SSL_CERT_FILE names more authorities",
    ),
    (
        "HTTPRouteFilter",
        Verdict::Lost,
        "requests are not rewritten",
    ),
    (
        "EnvoyExtensionPolicy",
        Verdict::Lost,
        "there are no extensions",
    ),
    ("EnvoyPatchPolicy", Verdict::Lost, "there are no extensions"),
    (
        "SecurityPolicy",
        Verdict::Lost,
        "callers are known by keys: clients",
    ),
    ("MCPRoute", Verdict::Lost, "tools are not served"),
    (
        "InferencePool",
        Verdict::Lost,
        "name each server as a provider",
    ),
    (
        "InferenceObjective",
        Verdict::Lost,
        "requests have no priorities",
    ),
    ("HTTPRoute", Verdict::Lost, "only models are served"),
    ("Deployment", Verdict::Dropped, "no part of the gateway"),
    ("Service", Verdict::Dropped, "no part of the gateway"),
    ("ServiceAccount", Verdict::Dropped, "no part of the gateway"),
    ("ConfigMap", Verdict::Dropped, "no part of the gateway"),
    ("Namespace", Verdict::Dropped, "no part of the gateway"),
    ("Role", Verdict::Dropped, "no part of the gateway"),
    ("RoleBinding", Verdict::Dropped, "no part of the gateway"),
    ("ClusterRole", Verdict::Dropped, "no part of the gateway"),
    (
        "ClusterRoleBinding",
        Verdict::Dropped,
        "no part of the gateway",
    ),
    ("ReferenceGrant", Verdict::Dropped, "no part of the gateway"),
    (
        "Secret",
        Verdict::Dropped,
        "keys stay in Secrets: mount them at /keys",
    ),
];

pub(crate) fn read(views: &[View<'_>], draft: &mut Draft) {
    // The whole of an object is said for by its kind, unless one of its entries says otherwise.
    for view in views {
        let kind = text(view, &["kind"]);
        if let Some((_, verdict, note)) = KINDS.iter().find(|it| it.0 == kind) {
            match verdict {
                Verdict::Lost => view.lost(*note),
                _ => view.dropped(*note),
            }
            continue;
        }
        for key in ["apiVersion", "kind", "metadata", "status"] {
            if let Some(entry) = view.get(key) {
                entry.dropped("of Kubernetes");
            }
        }
    }
    for view in views {
        match text(view, &["kind"]).as_str() {
            "AIGatewayRoute" | "AIRoute" | "LLMRoute" => read_route(view, views, draft),
            _ => {}
        }
    }
    for view in views {
        match text(view, &["kind"]).as_str() {
            "BackendTrafficPolicy" => read_policy(view, draft),
            // What was read of one has marks of its own by now.
            "Backend"
            | "AIServiceBackend"
            | "AIBackend"
            | "LLMBackend"
            | "BackendSecurityPolicy" => {
                if let Some(spec) = view.get("spec") {
                    spec.unless_marked("no model that was taken uses it");
                }
            }
            _ => {}
        }
    }
}

fn text(view: &View<'_>, keys: &[&str]) -> String {
    view.at(keys).and_then(|it| it.text()).unwrap_or_default()
}

/// The object of one of these kinds and this name.
fn object<'a>(views: &[View<'a>], kinds: &[&str], name: &str) -> Option<View<'a>> {
    let mut found = views.iter().filter(|view| {
        kinds.contains(&text(view, &["kind"]).as_str()) && text(view, &["metadata", "name"]) == name
    });
    found.next().cloned()
}

fn read_route(route: &View<'_>, views: &[View<'_>], draft: &mut Draft) {
    let Some(spec) = route.get("spec") else {
        return;
    };
    spec.note(&[
        (
            "parentRefs",
            Verdict::Dropped,
            "agents are their own listener",
        ),
        (
            "targetRefs",
            Verdict::Dropped,
            "agents are their own listener",
        ),
        (
            "schema",
            Verdict::Dropped,
            "agents speak five protocols to callers",
        ),
        ("hostnames", Verdict::Lost, "agents answer to every name"),
        ("llmRequestCosts", Verdict::Lost, "tokens are not counted"),
        ("filterConfig", Verdict::Dropped, "of Envoy's own"),
    ]);
    for rule in spec.get("rules").map(|it| it.items()).unwrap_or_default() {
        read_rule(&rule, views, draft);
    }
}

/// The model names that a rule matches, each with whether it is a pattern.
fn names(rule: &View<'_>) -> Vec<(String, bool)> {
    let mut names = Vec::new();
    for matched in rule.get("matches").map(|it| it.items()).unwrap_or_default() {
        for header in matched
            .get("headers")
            .map(|it| it.items())
            .unwrap_or_default()
        {
            if !MODEL_HEADERS.contains(&text(&header, &["name"]).to_ascii_lowercase().as_str()) {
                header.lost("requests are routed by their model alone");
                continue;
            }
            let value = text(&header, &["value"]);
            match text(&header, &["type"]).as_str() {
                "RegularExpression" => match pattern(&value) {
                    Some(pattern) => {
                        header.taken(format!("routes: {pattern}"));
                        names.push((pattern, true));
                    }
                    None => header.lost("a route's pattern has * and nothing else"),
                },
                _ => {
                    header.taken(format!("pools.{}", clean(&value)));
                    names.push((value, false));
                }
            }
        }
        if let Some(path) = matched.get("path") {
            path.dropped("every path of a model is served");
        }
    }
    names
}

/// A regular expression as a pattern of ours, when it is one of the simple kind.
fn pattern(expression: &str) -> Option<String> {
    let inner = expression.trim_start_matches('^').trim_end_matches('$');
    let pattern = inner
        .replace(".*", "*")
        .replace(".+", "*")
        .replace("\\.", ".");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+*".contains(c);
    let is_simple = !pattern.is_empty() && pattern.chars().all(is_plain);
    // A dot that was no escaped one stands for any character.
    let dots = inner.replace(".*", "").replace(".+", "").replace("\\.", "");
    (is_simple && !dots.contains('.')).then_some(pattern)
}

fn read_rule(rule: &View<'_>, views: &[View<'_>], draft: &mut Draft) {
    let names = names(rule);
    // Backends in the order of their priority; those of one priority share the traffic.
    let mut levels: Vec<(i64, Vec<Value>)> = Vec::new();
    for reference in rule
        .get("backendRefs")
        .map(|it| it.items())
        .unwrap_or_default()
    {
        let priority = reference.get("priority").and_then(|it| {
            it.taken("pools.*.on_exhausted.fallback_pool");
            it.number()
        });
        let priority = priority.unwrap_or_default() as i64;
        let fallback = names
            .first()
            .map(|(name, _)| name.clone())
            .unwrap_or_default();
        let Some(member) = read_reference(&reference, &fallback, views, draft) else {
            continue;
        };
        match levels.iter_mut().find(|(known, _)| *known == priority) {
            Some((_, members)) => members.push(member),
            None => levels.push((priority, vec![member])),
        }
    }
    levels.sort_by_key(|(priority, _)| *priority);
    if levels.is_empty() {
        return;
    }
    let mut failover = Map::new();
    for key in ["request", "backendRequest"] {
        if let Some(entry) = rule.at(&["timeouts", key])
            && let Some(secs) = entry.text().and_then(|it| duration(&it))
        {
            failover.insert("timeout_secs".to_owned(), json!(secs));
            entry.changed("pools.*.failover.timeout_secs: the time to the first content");
        }
    }
    rule.note(&[
        (
            "modelsOwnedBy",
            Verdict::Dropped,
            "lists of models name the gateway",
        ),
        (
            "modelsCreatedAt",
            Verdict::Dropped,
            "lists of models name the gateway",
        ),
        ("name", Verdict::Dropped, "metrics name the pool"),
        (
            "headerMutation",
            Verdict::Lost,
            "headers of a provider are added to every request",
        ),
        (
            "bodyMutation",
            Verdict::Lost,
            "bodies pass as callers send them",
        ),
    ]);
    let first = names.iter().find(|(_, is_pattern)| !is_pattern);
    let base = match first {
        Some((name, _)) => name.clone(),
        None => "default".to_owned(),
    };
    // From the last resort to the first choice, so that each names the next.
    let mut next: Option<String> = None;
    for (index, (_, members)) in levels.into_iter().enumerate().rev() {
        let name = if index == 0 {
            base.clone()
        } else {
            let start: String = base.chars().take(48).collect();
            format!("{start}+fallback-{index}")
        };
        let mut pool = Map::new();
        pool.insert("members".to_owned(), Value::Array(members));
        if !failover.is_empty() {
            pool.insert("failover".to_owned(), Value::Object(failover.clone()));
        }
        if let Some(next) = &next {
            pool.insert("on_exhausted".to_owned(), json!({"fallback_pool": next}));
        }
        next = Some(draft.pool(&name, Value::Object(pool)));
    }
    let Some(pool) = next else { return };
    let is_only_default = names.is_empty();
    for (name, is_pattern) in names {
        if is_pattern || clean(&name) != pool {
            draft.route(&name, &pool);
        }
    }
    if is_only_default {
        draft.route("*", &pool);
    }
}

/// A backend as a member of a pool.
fn read_reference(
    reference: &View<'_>,
    model: &str,
    views: &[View<'_>],
    draft: &mut Draft,
) -> Option<Value> {
    let entry = reference.get("name")?;
    let name = entry.text().unwrap_or_default();
    let kinds = ["AIServiceBackend", "AIBackend", "LLMBackend"];
    let Some(backend) = object(views, &kinds, &name) else {
        reference.lost(format!(
            "there is no AIServiceBackend {name} in these files"
        ));
        return None;
    };
    let provider = match read_backend(&backend, views, draft) {
        Ok(provider) => provider,
        Err(reason) => {
            if let Some(spec) = backend.get("spec") {
                spec.lost(reason.clone());
            }
            reference.lost(reason);
            return None;
        }
    };
    entry.taken(format!("providers.{provider}"));
    let upstream = match reference.get("modelNameOverride") {
        Some(entry) => {
            entry.taken("models.*.upstream_model");
            entry.text().unwrap_or_default()
        }
        None => model.to_owned(),
    };
    if upstream.is_empty() || upstream.contains('*') {
        reference.lost("a lane is one model: give it a modelNameOverride");
        return None;
    }
    let lane = json!({"provider": provider, "upstream_model": upstream});
    let lane = draft.lane(&format!("{provider}/{upstream}"), lane);
    let mut member = Map::new();
    member.insert("target".to_owned(), json!(lane));
    if let Some(entry) = reference.get("weight")
        && let Some(weight) = entry.number().filter(|it| *it >= 0.0)
    {
        member.insert("weight".to_owned(), json!(weight as u64));
        entry.taken("pools.*.members[].weight");
    }
    reference.note(&[
        ("group", Verdict::Dropped, "of Kubernetes"),
        ("kind", Verdict::Dropped, "of Kubernetes"),
        ("namespace", Verdict::Dropped, "of Kubernetes"),
    ]);
    Some(Value::Object(member))
}

fn read_backend(
    backend: &View<'_>,
    views: &[View<'_>],
    draft: &mut Draft,
) -> Result<String, String> {
    let name = text(backend, &["metadata", "name"]);
    let spec = backend.get("spec").ok_or("it has no spec")?;
    let schema = spec.get("schema").ok_or("it has no schema")?;
    let version = text(&schema, &["version"]);
    let prefix = text(&schema, &["prefix"]);
    let (protocol, default_path) = match text(&schema, &["name"]).as_str() {
        "OpenAI" => ("openai", "/v1"),
        "Anthropic" => ("anthropic", "/v1"),
        "Cohere" => ("cohere", ""),
        "AzureOpenAI" => ("openai", "/openai/deployments/{model}"),
        other => {
            return Err(format!(
                "agents do not speak {other}, or have no way to sign for it"
            ));
        }
    };
    let reference = spec.get("backendRef").ok_or("it has no backendRef")?;
    let target = text(&reference, &["name"]);
    let is_azure = default_path.starts_with("/openai/");
    let path = match (prefix.as_str(), version.as_str()) {
        ("", "") => default_path.to_owned(),
        (prefix, "") => format!("/{}", prefix.trim_matches('/')),
        // An older form: the version is the path.
        (_, version) if !is_azure => format!("/{}", version.trim_matches('/')),
        _ => default_path.to_owned(),
    };
    let base = format!("{}{path}", address(&target, &reference, views)?);
    schema.taken("providers.*.protocol, base_url");
    if let Some(entry) = schema.get("capabilities") {
        entry.lost("what is translated is the gateway's own affair");
    }
    reference.taken("providers.*.base_url");
    let mut provider = Map::new();
    provider.insert("protocol".to_owned(), json!(protocol));
    provider.insert("base_url".to_owned(), json!(base));
    if is_azure {
        if !version.is_empty() {
            provider.insert("query".to_owned(), json!({"api-version": version}));
        }
        provider.insert(
            "auth".to_owned(),
            json!({"kind": "header", "name": "api-key"}),
        );
    }
    provider.insert(
        "api_key".to_owned(),
        read_credential(backend, &name, views)?,
    );
    spec.note(&[
        (
            "timeouts",
            Verdict::Lost,
            "timeouts are the pool's and the lane's",
        ),
        (
            "backendSecurityPolicyRef",
            Verdict::Taken,
            "providers.*.api_key",
        ),
        (
            "headerMutation",
            Verdict::Lost,
            "headers of a provider: providers.*.headers",
        ),
        (
            "bodyMutation",
            Verdict::Lost,
            "bodies pass as callers send them",
        ),
    ]);
    Ok(draft.provider(&name, Value::Object(provider)))
}

/// Scheme, host and port of a Backend or a Service.
fn address(name: &str, reference: &View<'_>, views: &[View<'_>]) -> Result<String, String> {
    let has_tls = views.iter().any(|view| {
        let targets = view
            .at(&["spec", "targetRefs"])
            .map(|it| it.items())
            .unwrap_or_default();
        text(view, &["kind"]) == "BackendTLSPolicy"
            && targets.iter().any(|target| text(target, &["name"]) == name)
    });
    let Some(backend) = object(views, &["Backend"], name) else {
        if text(reference, &["kind"]) == "Service" || text(reference, &["kind"]).is_empty() {
            let port = reference
                .get("port")
                .and_then(|it| it.count())
                .unwrap_or(80);
            return Ok(format!("http://{name}:{port}"));
        }
        return Err(format!("there is no Backend {name} in these files"));
    };
    let spec = backend.get("spec").ok_or("the Backend has no spec")?;
    let endpoints = spec
        .get("endpoints")
        .map(|it| it.items())
        .unwrap_or_default();
    let endpoint = endpoints.first().ok_or("the Backend has no endpoint")?;
    for other in endpoints.iter().skip(1) {
        other.lost("a provider has one address: make another provider of it");
    }
    let (host, port) = match (endpoint.get("fqdn"), endpoint.get("ip")) {
        (Some(fqdn), _) => (text(&fqdn, &["hostname"]), fqdn.get("port")),
        (None, Some(ip)) => (text(&ip, &["address"]), ip.get("port")),
        (None, None) => return Err("the Backend's endpoint is no name or address".to_owned()),
    };
    let port = port.and_then(|it| it.count()).unwrap_or(443);
    endpoint.taken("providers.*.base_url");
    if let Some(tls) = spec.get("tls") {
        tls.dropped("https is what base_url says");
    }
    let is_https = has_tls || spec.get("tls").is_some() || port == 443;
    let scheme = if is_https { "https" } else { "http" };
    let usual = if is_https { 443 } else { 80 };
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host
    };
    Ok(if port == usual {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}:{port}")
    })
}

/// The key of a backend, as a file that its Secret is mounted as.
fn read_credential(backend: &View<'_>, name: &str, views: &[View<'_>]) -> Result<Value, String> {
    let by_backend = text(backend, &["spec", "backendSecurityPolicyRef", "name"]);
    let policy = views.iter().find(|view| {
        let targets = view
            .at(&["spec", "targetRefs"])
            .map(|it| it.items())
            .unwrap_or_default();
        text(view, &["kind"]) == "BackendSecurityPolicy"
            && (text(view, &["metadata", "name"]) == by_backend
                || targets.iter().any(|target| text(target, &["name"]) == name))
    });
    let Some(policy) = policy else {
        return Ok(Value::Null);
    };
    let spec = policy.get("spec").ok_or("the policy has no spec")?;
    let kind = text(&spec, &["type"]);
    let block = match kind.as_str() {
        "APIKey" => "apiKey",
        "AzureAPIKey" => "azureAPIKey",
        "AnthropicAPIKey" => "anthropicAPIKey",
        other => {
            spec.lost(format!(
                "{other} is a form of authentication that agents do not have"
            ));
            return Err(format!("it wants {other}, which agents do not have"));
        }
    };
    let secret = text(&spec, &[block, "secretRef", "name"]);
    if secret.is_empty() {
        return Err("its policy names no Secret".to_owned());
    }
    spec.changed(format!(
        "providers.*.api_key: put the value of Secret {secret} under the key {secret} of the Secret \
         lanekeeper-provider-keys"
    ));
    Ok(json!({"file": format!("/keys/{secret}")}))
}

fn read_policy(policy: &View<'_>, draft: &mut Draft) {
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

/// A duration as Kubernetes writes it: 1h30m, 250ms.
fn duration(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let (unit, left) = [("ms", 0.001), ("h", 3600.0), ("m", 60.0), ("s", 1.0)]
            .iter()
            .find_map(|(unit, secs)| Some((*secs, after.strip_prefix(unit)?)))?;
        total += number * unit;
        rest = left;
    }
    (total > 0.0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_expressions_are_read_or_refused() {
        for (text, secs) in [
            ("30s", Some(30.0)),
            ("1h30m", Some(5400.0)),
            ("250ms", Some(0.25)),
            ("0s", None),
            ("soon", None),
        ] {
            assert_eq!(duration(text), secs, "{text}");
        }
        for (expression, expected) in [
            (".*", Some("*")),
            ("^gpt-4.*$", Some("gpt-4*")),
            ("claude-3\\.5-.*", Some("claude-3.5-*")),
            ("gpt-(4|5)", None),
            ("gpt.4", None),
        ] {
            assert_eq!(pattern(expression).as_deref(), expected, "{expression}");
        }
    }
}
