//! The server and the fleet behind it, by its API alone.

use super::Findings;
use crate::api::Api;
use crate::commands::get;
use crate::exit::Kind;
use serde_json::Value;

/// Clocks that are further apart than this confuse ages and certificates, in seconds.
const SKEW_MAX_SECS: f64 = 5.0;
/// Agents that are named one by one; the others are counted.
const NAMED_MAX: usize = 10;
/// Days before its end at which an authority should have a successor.
const AUTHORITY_DAYS: f64 = 60.0;

pub(super) async fn look(api: &Api, findings: &mut Findings) {
    if !server(api, findings).await {
        return;
    }
    agents(api, findings).await;
    view(api, findings).await;
    authorities(api, findings).await;
}

/// Whether the server is there, and who we are to it. False when nothing further can be asked.
async fn server(api: &Api, findings: &mut Findings) -> bool {
    match api.get("/openapi.json").await {
        Ok(answer) => {
            let theirs = answer.body.pointer("/info/version").and_then(Value::as_str);
            let (theirs, ours) = (theirs.unwrap_or("?"), env!("CARGO_PKG_VERSION"));
            if theirs == ours {
                findings.good("server", format!("{} is {theirs}", api.base()));
            } else {
                findings.warning(
                    "server",
                    format!("{} is {theirs}, this command {ours}", api.base()),
                    "one release apart is fine; further apart, fields may be missing",
                );
            }
            if let Some(skew) = answer.clock_skew_secs
                && skew.abs() > SKEW_MAX_SECS
            {
                findings.warning(
                    "clocks",
                    format!("the server's clock is {skew:.0} s from this machine's"),
                    "run a time service on both: certificates and ages go by it",
                );
            }
        }
        Err(failure) => {
            let advice = match failure.kind() {
                Kind::Unreachable => {
                    "is lanekeeper-server running, and is --url its HTTP address (7401)?"
                }
                _ => "is this the HTTP address of a lanekeeper server (7401), not an agent's?",
            };
            findings.bad("server", failure.to_string(), advice);
            return false;
        }
    }
    match api.get("/readyz").await {
        Ok(_) => findings.good("stores", "the server has read its database and the fleet"),
        Err(failure) => findings.bad(
            "stores",
            failure.to_string(),
            "its log says which store it waits for",
        ),
    }
    match api.get("/session").await {
        Ok(answer) => {
            let word = |name: &str| answer.body.get(name).and_then(Value::as_str).unwrap_or("?");
            findings.good(
                "token",
                format!("'{}', role {}", word("name"), word("role")),
            );
            true
        }
        Err(failure) => {
            findings.bad(
                "token",
                failure.to_string(),
                "lanekeeper token create makes one, with an admin's token",
            );
            false
        }
    }
}

async fn agents(api: &Api, findings: &mut Findings) {
    let listed = match get::list(api, "/api/v1/agents", "agents", None).await {
        Ok(listed) => listed,
        Err(failure) => {
            findings.bad("agents", failure.to_string(), "");
            return;
        }
    };
    let agents: Vec<&Value> = listed
        .get("agents")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|agent| agent.get("state").and_then(Value::as_str) != Some("gone"))
        .collect();
    if agents.is_empty() {
        findings.warning(
            "agents",
            "none has joined",
            "lanekeeper join-token create GATEWAY, then docs/systemd.md",
        );
        return;
    }
    let mut found = Vec::new();
    for agent in &agents {
        troubles(agent, &mut found);
    }
    let count = agents.len();
    if found.is_empty() {
        findings.good(
            "agents",
            format!("{count} report, apply what they should and have no problems"),
        );
    }
    let more = found.len().saturating_sub(NAMED_MAX);
    for (name, seen, advice) in found.into_iter().take(NAMED_MAX) {
        findings.warning(&format!("agent {name}"), seen, advice);
    }
    if more > 0 {
        findings.warning(
            "agents",
            format!("{more} more findings"),
            "lanekeeper get agents -o wide",
        );
    }
}

/// What is wrong with one agent.
fn troubles(agent: &Value, found: &mut Vec<(String, String, &'static str)>) {
    let word = |name: &str| agent.get(name).and_then(Value::as_str).unwrap_or_default();
    let name = word("name").to_owned();
    let mut add = |seen: String, advice: &'static str| found.push((name.clone(), seen, advice));
    match word("state") {
        "stale" => add(
            "does not report".to_owned(),
            "its log; the way to port 7400",
        ),
        "draining" => add(
            "drains".to_owned(),
            "lanekeeper agents drain NAME --undo takes it back",
        ),
        _ => {}
    }
    if agent.get("converged") == Some(&Value::Bool(false)) {
        let number = |name: &str| agent.get(name).map(Value::to_string).unwrap_or_default();
        let seen = format!(
            "has revision {} and should have {}",
            number("applied_revision"),
            number("target_revision")
        );
        add(
            seen,
            "lanekeeper rollout status GATEWAY; lanekeeper agents show NAME",
        );
    }
    if let Some(error) = agent
        .pointer("/last_error/errors/0/message")
        .and_then(Value::as_str)
    {
        add(
            format!("refused a revision: {error}"),
            "an older release meets a new field: upgrade it",
        );
    }
    for problem in agent
        .get("problems")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        add(
            problem.as_str().unwrap_or_default().to_owned(),
            "docs/troubleshooting.md",
        );
    }
    let skew = agent
        .get("clock_skew_secs")
        .and_then(Value::as_f64)
        .unwrap_or_default();
    if skew.abs() > SKEW_MAX_SECS {
        add(
            format!("its clock is {skew:.0} s off"),
            "run a time service there",
        );
    }
    let version = word("version");
    if !version.is_empty() && version != env!("CARGO_PKG_VERSION") {
        add(format!("is release {version}"), "docs/upgrading.md");
    }
}

async fn view(api: &Api, findings: &mut Findings) {
    let Ok(answer) = api.get("/api/v1/breaker-state").await else {
        return;
    };
    if answer.body.get("partial") == Some(&Value::Bool(true)) {
        findings.warning(
            "view",
            "a part of the fleet is not known now",
            "Redis, or a control plane that ended without a goodbye",
        );
    }
    let cells = answer.body.get("cells").and_then(Value::as_array);
    let open = cells
        .into_iter()
        .flatten()
        .filter(|cell| cell.get("state").and_then(Value::as_str) == Some("open"));
    match open.count() {
        0 => findings.good("breakers", "none is open"),
        count => findings.warning(
            "breakers",
            format!("{count} lanes are open on some agent"),
            "lanekeeper get breakers --state open",
        ),
    }
}

async fn authorities(api: &Api, findings: &mut Findings) {
    let Ok(answer) = api.get("/admin/v1/authorities").await else {
        return;
    };
    let authorities = answer.body.get("authorities").and_then(Value::as_array);
    let newest = authorities
        .into_iter()
        .flatten()
        .find(|it| it.get("retires_at").is_some_and(Value::is_null));
    let ends = newest.and_then(|it| it.get("expires_at")?.as_str());
    let Some(ends) = ends else { return };
    let Some(days) = crate::clock::days_until(ends) else {
        return;
    };
    if days < AUTHORITY_DAYS {
        findings.warning(
            "authority",
            format!("ends in {days:.0} days"),
            "lanekeeper ca rotate, docs/security.md",
        );
    } else {
        findings.good(
            "authority",
            format!("agents' certificates come from one that lasts {days:.0} days"),
        );
    }
}
