//! Backends: where they are, what they speak, and by which key.

use super::{object, text};
use crate::draft::Draft;
use crate::ledger::{Verdict, View};
use serde_json::{Map, Value, json};

pub(super) fn read(
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
