//! `lanekeeper get`

use super::columns;
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
        (Format::Yaml, _) | (Format::Table | Format::Wide, Resource::Config) => {
            output::yaml(&value)?;
        }
        (Format::Table, resource) => table(resource, &value, false),
        (Format::Wide, resource) => table(resource, &value, true),
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
pub(super) async fn list(
    api: &Api,
    path: &str,
    name: &str,
    filter: Option<String>,
) -> Result<Value, Failure> {
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

fn table(resource: Resource, value: &Value, wide: bool) {
    let entries: Vec<&Value> = ["gateways", "agents", "revisions", "cells"]
        .iter()
        .find_map(|name| value.get(name)?.as_array())
        .into_iter()
        .flatten()
        .collect();
    if entries.is_empty() {
        output::hint(match resource {
            Resource::Breakers => "every cell is closed on every agent that reports",
            _ => "there are none",
        });
    }
    columns::table(resource, entries, wide);
    if resource == Resource::Breakers {
        let count = |name: &str| columns::word(value.pointer(name));
        let (live, stale) = (count("/agents/live"), count("/agents/stale"));
        output::hint(&format!("agents: {live} live, {stale} stale"));
    }
}
