//! Envoy AI Gateway: routes, backends and their credentials as Kubernetes objects.

mod backend;
mod policy;

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
            "BackendTrafficPolicy" => policy::read(view, draft),
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
    let provider = match backend::read(&backend, views, draft) {
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
