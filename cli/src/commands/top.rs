//! `lanekeeper top`: whether callers are served, pool by pool and lane by lane, as it changes.

use super::columns::{self, Column};
use super::get;
use crate::api::{Api, segment};
use crate::args::{Format, TopArguments};
use crate::exit::Failure;
use crate::output;
use serde_json::Value;
use std::time::Duration;

const POOLS: &[Column] = &[
    ("GATEWAY", "/gateway"),
    ("POOL", "/pool"),
    ("AGENTS", "/agents/reporting"),
    ("EXHAUSTED ON", "/agents/exhausted_on"),
    ("USABLE", "/usable_members/least"),
    ("IN FLIGHT", "/in_flight"),
    ("QUEUED", "/queued"),
    ("CALLS/MIN", "/last_minute/requests"),
    ("ERRORS", "/last_minute/error_share"),
    ("P99 FIRST S", "/last_minute/first_content_p99_secs"),
];
const LANES: &[Column] = &[
    ("POOL", "/pool"),
    ("LANE", "/lane"),
    ("PROVIDER", "/provider"),
    ("STATE", "/state"),
    ("USABLE ON", "/usable_on"),
    ("SHARE", "/traffic_share"),
];

pub(crate) async fn run(arguments: TopArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    let filter = arguments
        .gateway
        .as_deref()
        .map(|name| format!("gateway={}", segment(name)));
    loop {
        let pools = get::list(&api, "/api/v1/pools", "pools", filter.clone()).await?;
        let goes_on = !arguments.once && output::is_terminal();
        if goes_on {
            output::clear();
        }
        print(&pools, arguments.output)?;
        if !goes_on || !output::try_flush() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(arguments.interval_secs)).await;
    }
}

fn print(pools: &Value, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(pools),
        Format::Yaml => output::yaml(pools)?,
        Format::Table | Format::Wide => {
            let entries = || {
                pools
                    .get("pools")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
            };
            columns::rows(POOLS, entries());
            output::line("");
            let lanes: Vec<Value> = entries().flat_map(lanes).collect();
            columns::rows(LANES, lanes.iter());
        }
    }
    Ok(())
}

/// The members of a pool, each with the pool's name.
fn lanes(pool: &Value) -> Vec<Value> {
    let name = pool.get("pool").cloned().unwrap_or_default();
    let members = pool.get("members").and_then(Value::as_array);
    let members = members.into_iter().flatten().cloned();
    members
        .map(|mut member| {
            if let Some(member) = member.as_object_mut() {
                member.insert("pool".to_owned(), name.clone());
            }
            member
        })
        .collect()
}
