//! Names that a shell completes by asking the server, when it answers at once.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde_json::Value;
use std::time::Duration;

/// Longest that a key press waits for the server.
const TIMEOUT: Duration = Duration::from_millis(800);

/// Names of gateways.
pub(super) fn gateways() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names("/admin/v1/gateways", "gateways", "/name"))
}

/// Names of agents.
pub(super) fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names("/api/v1/agents", "agents", "/name"))
}

/// Names of pools.
pub(super) fn pools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names(CELLS, "cells", "/pool"))
}

/// Names of lanes.
pub(super) fn lanes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names(CELLS, "cells", "/lane"))
}

const CELLS: &str = "/api/v1/breaker-state?include=closed";

/// What stands at `place` of each entry of a list, each once. A server that is not there, or refuses,
/// has none.
fn names(path: &str, list: &str, place: &str) -> Vec<CompletionCandidate> {
    let found = ask(path).unwrap_or_default();
    let entries = found.get(list).and_then(Value::as_array);
    let names = entries.into_iter().flatten();
    let names = names.filter_map(|entry| entry.pointer(place)?.as_str());
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn ask(path: &str) -> Option<Value> {
    // Beside the command that is completed there is nothing yet: no runtime, no cryptography.
    _ = rustls::crypto::ring::default_provider().install_default();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let url = variable("LANEKEEPER_URL").unwrap_or_else(|| "http://127.0.0.1:7401".to_owned());
    let token = variable("LANEKEEPER_TOKEN").or_else(|| {
        let file = variable("LANEKEEPER_TOKEN_FILE")?;
        std::fs::read_to_string(file).ok()
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().timeout(TIMEOUT).build().ok()?;
        let url = format!("{}{path}", url.trim_end_matches('/'));
        let answer = client
            .get(url)
            .bearer_auth(token.trim())
            .send()
            .await
            .ok()?;
        answer.error_for_status().ok()?.json().await.ok()
    })
}
