//! `lanekeeper apply`

use super::{document, failing};
use crate::api::{Api, segment, with_allow_empty, with_message};
use crate::args::{ApplyArguments, Format};
use crate::exit::{Failure, Kind};
use crate::{clock, output};
use lanekeeper_model::content_hash;
use serde_json::{Value, json};
use std::time::Duration;

/// How long a pool may serve nobody after its revision is applied everywhere before that counts: a
/// lane may just be busy.
const EXHAUSTED_MAX: Duration = Duration::from_secs(3);
/// Pause between two looks at the agents while waiting.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

pub(crate) async fn run(arguments: ApplyArguments) -> Result<(), Failure> {
    let documents = document::all(&arguments.files)?;
    let api = Api::new(&arguments.api)?;
    if arguments.if_revision.is_some() && documents.len() > 1 {
        let text = "--if-revision is for one document: each gateway has revisions of its own";
        return Err(Failure::new(Kind::Usage, text));
    }
    let mut results = Vec::new();
    let mut failed = None;
    let terms = Terms {
        allow_empty: arguments.allow_empty,
        message: arguments.message.as_deref(),
        if_revision: arguments.if_revision,
    };
    for checked in &documents {
        let gateway = checked.gateway.name.to_string();
        let done = if arguments.dry_run {
            dry_run(&api, &gateway, &checked.document, &terms).await
        } else {
            write(&api, &gateway, &checked.document, &terms).await
        };
        match done {
            Ok(result) => {
                if matches!(arguments.output, Format::Table | Format::Wide) {
                    output::line(&sentence(&result));
                }
                results.push((gateway, result));
            }
            // What was written before stays written, and is told of.
            Err(failure) => {
                failed = Some(failure.about(&format!("gateway {gateway}")));
                break;
            }
        }
    }
    if failed.is_none() && arguments.prune {
        let kept: Vec<&str> = results
            .iter()
            .map(|(gateway, _)| gateway.as_str())
            .collect();
        failed = prune(&api, &kept, &terms, arguments.output).await.err();
    }
    print(&results, documents.len() > 1, arguments.output)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let revisions = results
        .iter()
        .filter_map(|(gateway, result)| Some((gateway, revision(result)?)));
    for (gateway, revision) in revisions {
        if arguments.wait {
            wait(&api, gateway, revision, arguments.timeout_secs).await?;
            serves(&api, gateway, revision).await?;
        } else {
            output::hint(&format!(
                "agents are applying it: lanekeeper get agents {gateway}"
            ));
        }
    }
    Ok(())
}

/// Prints results for programs: one as it is, of several documents a list.
fn print(results: &[(String, Value)], is_list: bool, format: Format) -> Result<(), Failure> {
    let mut values = results.iter().map(|(_, result)| result.clone());
    let value = if is_list {
        Value::Array(values.collect())
    } else {
        match values.next() {
            Some(value) => value,
            None => return Ok(()),
        }
    };
    match format {
        Format::Json => output::json(&value),
        Format::Yaml => output::yaml(&value)?,
        Format::Table | Format::Wide => {}
    }
    Ok(())
}

/// What a write is made on.
struct Terms<'a> {
    allow_empty: bool,
    message: Option<&'a str>,
    if_revision: Option<u64>,
}

impl Terms<'_> {
    /// A path with what these say of a write.
    fn path(&self, path: &str) -> String {
        with_allow_empty(&with_message(path, self.message), self.allow_empty)
    }
}

/// Deletes the gateways that are in none of the files. One with live agents is refused.
async fn prune(api: &Api, kept: &[&str], terms: &Terms<'_>, format: Format) -> Result<(), Failure> {
    let gateways = super::get::list(api, "/admin/v1/gateways", "gateways", None).await?;
    let names = gateways.get("gateways").and_then(Value::as_array);
    let names = names.into_iter().flatten();
    for name in names.filter_map(|gateway| gateway.get("name")?.as_str()) {
        if !kept.contains(&name) {
            let deleted = super::delete::gateway(api, name, false, terms.message).await;
            deleted.map_err(|failure| failure.about(&format!("gateway {name}")))?;
            if matches!(format, Format::Table | Format::Wide) {
                output::line(&format!("gateway {name} deleted"));
            }
        }
    }
    Ok(())
}

async fn dry_run(
    api: &Api,
    gateway: &str,
    document: &Value,
    terms: &Terms<'_>,
) -> Result<Value, Failure> {
    let path = format!("/admin/v1/gateways/{}/config/validate", segment(gateway));
    let path = with_allow_empty(&path, terms.allow_empty);
    let answer = api.post(&path, document).await?.body;
    if answer.get("valid") == Some(&Value::Bool(true)) {
        return Ok(json!({"gateway": gateway, "action": "would be accepted"}));
    }
    Err(Failure::new(
        Kind::Invalid,
        format!("the server rejects it: {answer}"),
    ))
}

async fn write(
    api: &Api,
    gateway: &str,
    document: &Value,
    terms: &Terms<'_>,
) -> Result<Value, Failure> {
    let path = format!("/admin/v1/gateways/{}/config", segment(gateway));
    let Some(current) = api.find(&path).await? else {
        if let Some(wanted) = terms.if_revision.filter(|wanted| *wanted != 0) {
            let text = format!("there is no such gateway, and so no revision {wanted}");
            return Err(Failure::new(Kind::Conflict, text));
        }
        let answer = api
            .post(&terms.path("/admin/v1/gateways"), document)
            .await?;
        return Ok(done(gateway, "created", number(answer.etag.as_deref())));
    };
    let etag = current.etag.unwrap_or_default();
    let at = number(Some(&etag));
    if let Some(wanted) = terms.if_revision.filter(|wanted| Some(*wanted) != at) {
        let text = format!(
            "the current revision is {}, not {wanted}: lanekeeper diff shows what is different",
            at.unwrap_or_default()
        );
        return Err(Failure::new(Kind::Conflict, text));
    }
    if content_hash(&current.body) == content_hash(document) {
        return Ok(done(gateway, "unchanged", at));
    }
    let answer = api.put(&terms.path(&path), document, &etag).await?;
    Ok(done(gateway, "changed", number(answer.etag.as_deref())))
}

fn done(gateway: &str, action: &str, revision: Option<u64>) -> Value {
    json!({"gateway": gateway, "action": action, "revision": revision})
}

/// The revision that an entity tag names.
fn number(etag: Option<&str>) -> Option<u64> {
    etag?.trim_matches('"').parse().ok()
}

fn revision(result: &Value) -> Option<u64> {
    result.get("revision")?.as_u64()
}

fn sentence(result: &Value) -> String {
    let word = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default();
    let (gateway, action) = (word("gateway"), word("action"));
    match revision(result) {
        Some(revision) => format!("gateway {gateway} {action}: revision {revision}"),
        None => format!("gateway {gateway} {action}"),
    }
}

/// How far a revision has come among the live agents.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Progress {
    live: usize,
    applied: usize,
    /// The first refusal seen.
    refused: Option<String>,
}

fn progress(agents: &Value, wanted: u64) -> Progress {
    let live: Vec<&Value> = agents
        .get("agents")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|agent| agent.get("state").and_then(Value::as_str) == Some("live"))
        .collect();
    let applied = |agent: &&&Value| {
        agent
            .get("applied_revision")
            .and_then(Value::as_u64)
            .is_some_and(|at| at >= wanted)
    };
    let refused = |agent: &&Value| {
        let error = agent.get("last_error")?;
        (error.get("revision")?.as_u64()? == wanted).then(|| {
            let name = agent
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            format!("{name} refuses it: {error}")
        })
    };
    Progress {
        live: live.len(),
        applied: live.iter().filter(applied).count(),
        refused: live.iter().find_map(refused),
    }
}

async fn wait(api: &Api, gateway: &str, revision: u64, timeout: Duration) -> Result<(), Failure> {
    let start = clock::now();
    let mut told = None;
    let name = segment(gateway);
    let rollout_path = format!("/admin/v1/gateways/{name}/rollouts/{revision}");
    loop {
        let rollout = api.find(&rollout_path).await?.map(|answer| answer.body);
        if let Some(rollout) = &rollout
            && let Some(end) = end_of(rollout)
        {
            return end;
        }
        let agents = api
            .get(&format!("/api/v1/agents?gateway={name}"))
            .await?
            .body;
        let now = progress(&agents, revision);
        if told.as_ref() != Some(&now) {
            output::hint(&format!(
                "applied on {} of {} live agents",
                now.applied, now.live
            ));
        }
        if let Some(refused) = now.refused {
            return Err(Failure::new(Kind::Invalid, refused));
        }
        if rollout.is_none() && now.applied == now.live {
            return Ok(());
        }
        if start.elapsed() >= timeout {
            let text = format!(
                "revision {revision} is applied on {} of {} live agents after {} s",
                now.applied,
                now.live,
                timeout.as_secs_f64()
            );
            return Err(Failure::new(Kind::Unreachable, text));
        }
        told = Some(now);
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Makes sure that the pools serve on the agents that applied a revision: one that is applied and
/// serves nobody is no success.
async fn serves(api: &Api, gateway: &str, revision: u64) -> Result<(), Failure> {
    let start = clock::now();
    loop {
        let exhausted = failing::exhausted(api, Some(gateway)).await?;
        let Some(first) = exhausted.first() else {
            return Ok(());
        };
        if start.elapsed() >= EXHAUSTED_MAX {
            let more = match exhausted.len() {
                1 => String::new(),
                several => format!(", and {} more", several - 1),
            };
            let text = format!("revision {revision} is applied, but {first}{more}");
            return Err(Failure::new(Kind::Other, text));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// How a rollout ended; `None` while it goes on or is held.
fn end_of(rollout: &Value) -> Option<Result<(), Failure>> {
    match rollout.get("state").and_then(Value::as_str)? {
        "running" | "paused" => None,
        "done" => Some(Ok(())),
        _ => Some(Err(Failure::new(
            Kind::Invalid,
            super::rollout::sentence(rollout),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(state: &str, applied: u64) -> Value {
        json!({"name": "node", "state": state, "applied_revision": applied, "last_error": null})
    }

    #[test]
    fn only_live_agents_are_waited_for() {
        let agents = json!({"agents": [agent("live", 3), agent("stale", 1), agent("live", 4)]});
        let expected = Progress {
            live: 2,
            applied: 2,
            refused: None,
        };
        assert_eq!(progress(&agents, 3), expected);
    }

    #[test]
    fn a_rollout_that_was_taken_back_is_no_success() {
        let rollout = |state: &str| json!({"state": state, "revision": 2, "gateway": "edge"});
        assert!(end_of(&rollout("running")).is_none());
        assert!(end_of(&rollout("done")).unwrap().is_ok());
        let failure = end_of(&rollout("rolled_back")).unwrap().unwrap_err();
        assert_eq!(failure.kind(), Kind::Invalid);
    }

    #[test]
    fn a_refusal_of_an_older_revision_does_not_count() {
        let mut refusing = agent("live", 1);
        refusing["last_error"] = json!({"revision": 2, "errors": []});
        let agents = json!({"agents": [refusing]});
        assert_eq!(progress(&agents, 3).refused, None);
        assert!(progress(&agents, 2).refused.unwrap().contains("node"));
    }
}
