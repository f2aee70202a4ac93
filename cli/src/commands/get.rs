//! `lanekeeper get`

use crate::api::Api;
use crate::args::{Format, GetArguments, Resource};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::Value;

/// Pages followed of one list, so that a server that never ends a list cannot hold a command.
const MAX_PAGES: usize = 1000;

pub(crate) async fn run(arguments: GetArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    let value = read(&api, &arguments).await?;
    match (arguments.output, arguments.resource) {
        (Format::Json, _) => output::json(&value),
        // A document is read as YAML; as a table it would say nothing.
        (Format::Yaml, _) | (Format::Table, Resource::Config) => output::yaml(&value)?,
        (Format::Table, resource) => table(resource, &value),
    }
    Ok(())
}

async fn read(api: &Api, arguments: &GetArguments) -> Result<Value, Failure> {
    let gateway = || {
        arguments.gateway.as_deref().ok_or_else(|| {
            Failure::new(Kind::Usage, "name the gateway: lanekeeper get config NAME")
        })
    };
    let filter = arguments
        .gateway
        .as_ref()
        .map(|name| format!("gateway={name}"));
    // A filter that matches nothing looks healthy: a mistyped name has to be told apart.
    if let (Resource::Agents | Resource::Breakers, Some(name)) =
        (arguments.resource, &arguments.gateway)
    {
        api.get(&format!("/admin/v1/gateways/{name}")).await?;
    }
    match arguments.resource {
        Resource::Gateways => list(api, "/admin/v1/gateways", "gateways", None).await,
        Resource::Agents => list(api, "/api/v1/agents", "agents", filter).await,
        Resource::Revisions => {
            let path = format!("/admin/v1/gateways/{}/revisions", gateway()?);
            list(api, &path, "revisions", None).await
        }
        Resource::Config => Ok(api
            .get(&format!("/admin/v1/gateways/{}/config", gateway()?))
            .await?
            .body),
        Resource::Breakers => {
            let closed = arguments.closed.then(|| "include=closed".to_owned());
            let query: Vec<String> = filter.into_iter().chain(closed).collect();
            Ok(api
                .get(&format!("/api/v1/breaker-state?{}", query.join("&")))
                .await?
                .body)
        }
    }
}

/// A whole list, page by page, under the name it has in each page.
async fn list(api: &Api, path: &str, name: &str, filter: Option<String>) -> Result<Value, Failure> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let after = cursor.take().map(|cursor| format!("cursor={cursor}"));
        let query: Vec<String> = filter.clone().into_iter().chain(after).collect();
        let mut page = api.get(&format!("{path}?{}", query.join("&"))).await?.body;
        if let Some(Value::Array(found)) = page.get_mut(name).map(Value::take) {
            items.extend(found);
        }
        cursor = page
            .get("next_cursor")
            .and_then(Value::as_str)
            .map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok(serde_json::json!({ (name): items }))
}

/// The columns of each table: a heading and the place in an entry.
fn columns(resource: Resource) -> &'static [(&'static str, &'static str)] {
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
            ("STATE", "/state"),
            ("SCOPE", "/scope"),
            ("OPEN", "/agents/open"),
            ("HALF-OPEN", "/agents/half_open"),
            ("CLOSED", "/agents/closed"),
            ("STALE", "/agents/stale"),
            ("CAUSE", "/cause/kind"),
            ("STATUS", "/cause/status"),
            ("NEXT PROBE S", "/next_probe_in_secs"),
        ],
        Resource::Revisions => &[
            ("REVISION", "/revision"),
            ("AUTHOR", "/author"),
            ("CREATED", "/created_at"),
            ("MESSAGE", "/message"),
        ],
        Resource::Config => &[],
    }
}

fn table(resource: Resource, value: &Value) {
    let entries = ["gateways", "agents", "revisions", "cells"]
        .iter()
        .find_map(|name| value.get(name)?.as_array());
    let columns = columns(resource);
    let heading: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let rows: Vec<Vec<String>> = entries
        .into_iter()
        .flatten()
        .map(|entry| {
            columns
                .iter()
                .map(|(_, place)| word(entry.pointer(place)))
                .collect()
        })
        .collect();
    if rows.is_empty() {
        output::hint(match resource {
            Resource::Breakers => "every cell is closed on every agent that reports",
            _ => "there are none",
        });
    }
    output::table(&heading, &rows);
    if resource == Resource::Breakers {
        let count = |name: &str| word(value.pointer(name));
        let (live, stale) = (count("/agents/live"), count("/agents/stale"));
        output::hint(&format!("agents: {live} live, {stale} stale"));
    }
}

fn word(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.1}"),
            _ => number.to_string(),
        },
        Some(other) => other.to_string(),
    }
}
