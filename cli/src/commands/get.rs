//! `lanekeeper get`

pub(super) mod filter;

use super::{columns, failing};
use crate::api::{Api, segment};
use crate::args::{GetArguments, GetFormat, Resource};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};
use std::time::Duration;

/// Pages followed of one list, so that a server that never ends a list cannot hold a command.
const MAX_PAGES: usize = 1000;
/// Entries that one page holds at most.
const PAGE: usize = 250;
/// Pages of the audit trail that are shown: 10,000 entries.
const MAX_AUDIT_PAGES: usize = 100;
/// Pause between two looks of `--watch`.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) async fn run(arguments: GetArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    let mut shown = None;
    loop {
        let mut value = read(&api, &arguments).await?;
        filter::apply(arguments.resource, &mut value, &arguments.filter)?;
        // Ages grow by themselves; what a person sees decides whether something changed.
        if shown.as_ref() != Some(&without_ages(&value)) {
            if arguments.watch && output::is_terminal() {
                output::clear();
            }
            print(&value, &arguments)?;
            say_failing(&api, &arguments).await?;
            shown = Some(without_ages(&value));
        }
        if !arguments.watch || !output::try_flush() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Whatever of the fleet is looked at, people learn when callers are failed.
async fn say_failing(api: &Api, arguments: &GetArguments) -> Result<(), Failure> {
    let is_for_people = matches!(arguments.output, GetFormat::Table | GetFormat::Wide);
    let is_of_the_fleet = matches!(
        arguments.resource,
        Resource::Gateways | Resource::Agents | Resource::Breakers | Resource::Pools
    );
    if is_for_people && is_of_the_fleet {
        failing::hint(api, arguments.gateway.as_deref()).await?;
    }
    Ok(())
}

fn print(value: &Value, arguments: &GetArguments) -> Result<(), Failure> {
    match (arguments.output, arguments.resource) {
        (GetFormat::Name, Resource::Config | Resource::Plan) => {
            output::line(arguments.gateway.as_deref().unwrap_or_default());
        }
        (GetFormat::Name, resource) => {
            for entry in entries(value) {
                output::line(&columns::name(resource, entry));
            }
        }
        (GetFormat::Json, _) => output::json(value),
        // A document is read as YAML; as a table it would say nothing.
        (GetFormat::Yaml, _)
        | (GetFormat::Table | GetFormat::Wide, Resource::Config | Resource::Plan) => {
            output::yaml(value)?;
        }
        (GetFormat::Table, resource) => table(resource, value, false),
        (GetFormat::Wide, resource) => table(resource, value, true),
    }
    Ok(())
}

async fn read(api: &Api, arguments: &GetArguments) -> Result<Value, Failure> {
    let name = arguments.gateway.as_deref().map(segment);
    let gateway = name
        .as_ref()
        .map(|name| format!("/admin/v1/gateways/{name}"));
    let of_gateway = |part: &str| match &gateway {
        Some(gateway) => Ok(format!("{gateway}/{part}")),
        None => {
            let text = format!("name the gateway: lanekeeper get {part} NAME");
            Err(Failure::new(Kind::Usage, text))
        }
    };
    let filter = name.as_ref().map(|name| format!("gateway={name}"));
    // A filter that matches nothing looks healthy: a mistyped name has to be told apart.
    let is_filter = matches!(
        arguments.resource,
        Resource::Agents | Resource::Breakers | Resource::Pools | Resource::Incidents
    );
    if let (true, Some(gateway)) = (is_filter, &gateway) {
        api.get(gateway).await?;
    }
    if let Some(number) = arguments.revision {
        let path = of_gateway(&format!("revisions/{number}"))?;
        return match arguments.resource {
            Resource::Config => {
                let mut revision = api.get(&path).await?.body;
                Ok(revision
                    .get_mut("document")
                    .map(Value::take)
                    .unwrap_or_default())
            }
            Resource::Revisions => {
                let revision = api.get(&path).await?.body;
                Ok(json!({"revisions": [revision]}))
            }
            _ => {
                let text = "--revision is for config and revisions";
                Err(Failure::new(Kind::Usage, text))
            }
        };
    }
    match arguments.resource {
        Resource::Gateways => match &gateway {
            Some(gateway) => Ok(json!({"gateways": [api.get(gateway).await?.body]})),
            None => list(api, "/admin/v1/gateways", "gateways", None).await,
        },
        Resource::Agents => list(api, "/api/v1/agents", "agents", filter).await,
        Resource::Pools => list(api, failing::POOLS, "pools", filter).await,
        Resource::Revisions => list(api, &of_gateway("revisions")?, "revisions", None).await,
        Resource::Rollouts => list(api, &of_gateway("rollouts")?, "rollouts", None).await,
        Resource::Overrides => list(api, &of_gateway("overrides")?, "overrides", None).await,
        Resource::Config => Ok(api.get(&of_gateway("config")?).await?.body),
        Resource::Plan => match of_gateway("rollout-plan") {
            Ok(path) => Ok(api.get(&path).await?.body),
            Err(_) => {
                let text = "name the gateway: lanekeeper get plan NAME";
                Err(Failure::new(Kind::Usage, text))
            }
        },
        Resource::Audit => pages(api, "/admin/v1/audit", "entries", None, MAX_AUDIT_PAGES).await,
        Resource::Identities => list(api, "/admin/v1/identities", "identities", filter).await,
        Resource::Authorities => Ok(api.get("/admin/v1/authorities").await?.body),
        Resource::Incidents => {
            let open = (!arguments.closed).then(|| "state=open".to_owned());
            let query: Vec<String> = filter.into_iter().chain(open).collect();
            list(api, "/api/v1/incidents", "incidents", Some(query.join("&"))).await
        }
        Resource::Breakers => {
            let closed = arguments.closed.then(|| "include=closed".to_owned());
            let query: Vec<String> = filter.into_iter().chain(closed).collect();
            let path = format!("/api/v1/breaker-state?{}", query.join("&"));
            Ok(api.get(&path).await?.body)
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
    pages(api, path, name, filter, MAX_PAGES).await
}

async fn pages(
    api: &Api,
    path: &str,
    name: &str,
    filter: Option<String>,
    most: usize,
) -> Result<Value, Failure> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..most {
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
    Ok(json!({ (name): items }))
}

/// As much of a list as is wanted, the first pages of it, by filters that are there.
pub(super) async fn list_some(
    api: &Api,
    path: &str,
    name: &str,
    filters: &[(&str, Option<&str>)],
    wanted: usize,
) -> Result<Value, Failure> {
    let filters: Vec<String> = filters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", segment((*value)?))))
        .collect();
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    while items.len() < wanted {
        let limit = (wanted - items.len()).min(PAGE);
        let mut query = filters.clone();
        query.push(format!("limit={limit}"));
        query.extend(cursor.take().map(|cursor| format!("cursor={cursor}")));
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
    Ok(json!({ (name): items }))
}

/// The names that lists have.
const LISTS: [&str; 11] = [
    "incidents",
    "gateways",
    "agents",
    "revisions",
    "rollouts",
    "overrides",
    "cells",
    "entries",
    "identities",
    "authorities",
    "pools",
];

/// The entries of a list, whatever they are.
fn entries(value: &Value) -> Vec<&Value> {
    // The view of the breakers has its agents as numbers.
    LISTS
        .iter()
        .find_map(|name| value.get(name)?.as_array())
        .into_iter()
        .flatten()
        .collect()
}

/// The same list to change.
fn entries_mut(value: &mut Value) -> Option<&mut Vec<Value>> {
    let name = LISTS
        .iter()
        .find(|name| value.get(name).is_some_and(Value::is_array))?;
    value.get_mut(name)?.as_array_mut()
}

/// The value without what only the clock changes.
fn without_ages(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let is_age = |key: &str| {
                key == "generated_at"
                    || key == "duration_secs"
                    || key.ends_with("_age_secs")
                    || key.ends_with("_for_secs")
                    || key.ends_with("_in_secs")
                    || key.ends_with("remaining_secs")
            };
            let kept = entries.iter().filter(|(key, _)| !is_age(key));
            kept.map(|(key, value)| (key.clone(), without_ages(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_ages).collect(),
        other => other.clone(),
    }
}

fn table(resource: Resource, value: &Value, wide: bool) {
    let entries = entries(value);
    if entries.is_empty() {
        output::hint(match resource {
            Resource::Breakers => nothing_listed(value),
            Resource::Incidents => "no incident goes on",
            _ => "there are none",
        });
    }
    columns::table(resource, entries, wide);
    if resource == Resource::Breakers {
        let count = |name: &str| columns::word(value.pointer(name));
        let (live, stale) = (count("/agents/live"), count("/agents/stale"));
        output::hint(&format!("agents: {live} live, {stale} stale"));
        let is = |flag: &str| value.get(flag).and_then(Value::as_bool).unwrap_or_default();
        if is("rebuilding") {
            output::hint("the server has just started: not every agent is back yet");
        } else if is("partial") {
            output::hint("a share of the reports is missing");
        }
    }
}

/// What an empty list of breakers means.
fn nothing_listed(view: &Value) -> &'static str {
    let live = view.pointer("/agents/live").and_then(Value::as_u64);
    match live {
        Some(0) | None => "no agent reports, so nothing is known",
        Some(_) => "every cell is closed and usable on every agent that reports",
    }
}
