//! `lanekeeper rollout`

use super::document;
use crate::api::{Api, segment, with_message};
use crate::args::{
    Format, PlanArguments, RolloutCommand, RolloutOrder, RolloutTarget, StartArguments,
};
use crate::exit::{Failure, Kind};
use crate::output;
use lanekeeper_model::rollout::RolloutPlan;
use serde_json::{Map, Value, json};
use std::path::Path;

pub(crate) async fn run(command: RolloutCommand) -> Result<(), Failure> {
    match command {
        RolloutCommand::Status(target) => status(&target).await,
        RolloutCommand::Pause(order) => give(&order, "pause").await,
        RolloutCommand::Resume(order) => give(&order, "resume").await,
        RolloutCommand::Abort {
            no_rollback: false,
            order,
        } => give(&order, "abort").await,
        RolloutCommand::Abort {
            no_rollback: true,
            order,
        } => give(&order, "abort?rollback=false").await,
        RolloutCommand::Plan(arguments) => show_or_set(&arguments).await,
        RolloutCommand::Start(arguments) => start(&arguments).await,
    }
}

async fn show_or_set(arguments: &PlanArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    let path = format!(
        "/admin/v1/gateways/{}/rollout-plan",
        segment(&arguments.gateway)
    );
    let kept = match &arguments.file {
        Some(file) => {
            let path = with_message(&path, arguments.message.as_deref());
            api.put(&path, &plan(file)?, "*").await?.body
        }
        None => api.get(&path).await?.body,
    };
    match arguments.output {
        Format::Json => output::json(&kept),
        Format::Yaml | Format::Table | Format::Wide => output::yaml(&kept)?,
    }
    Ok(())
}

async fn status(target: &RolloutTarget) -> Result<(), Failure> {
    let api = Api::new(&target.api)?;
    let path = path_of(&api, target).await?;
    let rollout = api.get(&path).await?.body;
    print(&rollout, target.output)?;
    if matches!(target.output, Format::Table | Format::Wide) {
        agents(&rollout);
    }
    Ok(())
}

async fn give(order: &RolloutOrder, word: &str) -> Result<(), Failure> {
    let target = &order.target;
    let api = Api::new(&target.api)?;
    let path = format!("{}/{word}", path_of(&api, target).await?);
    let path = match (&order.message, word.contains('?')) {
        (Some(message), true) => format!("{path}&message={}", segment(message)),
        (message, _) => with_message(&path, message.as_deref()),
    };
    let rollout = api.post(&path, &json!({})).await?.body;
    print(&rollout, target.output)
}

async fn start(arguments: &StartArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    let gateway = segment(&arguments.gateway);
    let mut body = Map::new();
    let mut etag = "*".to_owned();
    if let Some(file) = &arguments.file {
        let checked = document::check(&document::read(file)?)
            .map_err(|problems| document::invalid(file, &problems))?;
        body.insert("document".to_owned(), checked.document);
        let config = format!("/admin/v1/gateways/{gateway}/config");
        etag = api.get(&config).await?.etag.unwrap_or(etag);
    }
    if let Some(revision) = arguments.revision {
        body.insert("revision".to_owned(), json!(revision));
    }
    if arguments.allow_empty {
        body.insert("allow_empty".to_owned(), json!(true));
    }
    let plan = match &arguments.plan {
        Some(file) => Some(plan(file)?),
        None => arguments.staged.then(|| json!({"strategy": "staged"})),
    };
    body.extend(plan.map(|plan| ("plan".to_owned(), plan)));
    let message = arguments.message.as_ref();
    body.extend(message.map(|message| ("message".to_owned(), json!(message))));
    let path = format!("/admin/v1/gateways/{gateway}/rollouts");
    let started = api.post_over(&path, &Value::Object(body), &etag).await?;
    print(&started.body, arguments.output)?;
    output::hint(&format!(
        "agents are applying it: lanekeeper rollout status {}",
        arguments.gateway
    ));
    Ok(())
}

/// A plan from a file, checked as the API would.
fn plan(file: &Path) -> Result<Value, Failure> {
    let text = document::read(file)?;
    let value: Value = serde_saphyr::from_str(&text)
        .map_err(|error| Failure::new(Kind::Invalid, format!("{}: {error}", file.display())))?;
    RolloutPlan::check(&value).map_err(|problems| document::invalid(file, &problems))?;
    Ok(value)
}

/// The path of the rollout meant: the newest when none was named.
async fn path_of(api: &Api, target: &RolloutTarget) -> Result<String, Failure> {
    let rollouts = format!("/admin/v1/gateways/{}/rollouts", segment(&target.gateway));
    let revision = match target.revision {
        Some(revision) => revision,
        None => {
            let page = api.get(&format!("{rollouts}?limit=1")).await?.body;
            let newest = page.pointer("/rollouts/0/revision").and_then(Value::as_u64);
            newest.ok_or_else(|| {
                let text = format!("gateway {} has no rollout", target.gateway);
                Failure::new(Kind::Missing, text)
            })?
        }
    };
    Ok(format!("{rollouts}/{revision}"))
}

fn print(rollout: &Value, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(rollout),
        Format::Yaml => output::yaml(rollout)?,
        Format::Table | Format::Wide => {
            output::line(&sentence(rollout));
            let stages = rollout.get("stages").and_then(Value::as_array);
            let rows: Vec<Vec<String>> = stages
                .into_iter()
                .flatten()
                .map(|stage| vec![word(stage, "name"), word(stage, "state")])
                .collect();
            output::table(&["STAGE", "STATE"], &rows);
        }
    }
    Ok(())
}

/// The rollout in one line, with why it stopped and what came of it.
pub(super) fn sentence(rollout: &Value) -> String {
    let mut text = format!(
        "rollout of revision {} of gateway {}: {}",
        number(rollout, "revision"),
        word(rollout, "gateway"),
        word(rollout, "state")
    );
    if let Some(stop) = rollout.get("stop").filter(|stop| !stop.is_null()) {
        text += &format!(" ({})", word(stop, "detail"));
    }
    if let Some(stage) = awaited(rollout) {
        text += &format!("; stage {stage} begins when a live agent is in it");
    }
    if rollout.get("rollback_revision").is_some_and(Value::is_u64) {
        text += &format!(
            "; the old content was restored as revision {}",
            number(rollout, "rollback_revision")
        );
    }
    text
}

/// The agents, as many as the API tells of.
fn agents(rollout: &Value) {
    let agents = rollout.get("agents").and_then(Value::as_array);
    let rows: Vec<Vec<String>> = agents
        .into_iter()
        .flatten()
        .map(|agent| {
            let error = agent.pointer("/last_error/errors/0/message");
            let error = error.or_else(|| agent.pointer("/new_problems/0"));
            vec![
                word(agent, "agent"),
                word(agent, "state"),
                stage_of(rollout, agent),
                number(agent, "applied_revision"),
                number(agent, "target_revision"),
                error.and_then(Value::as_str).unwrap_or("-").to_owned(),
            ]
        })
        .collect();
    let heading = ["AGENT", "STATE", "STAGE", "APPLIED", "TARGET", "ERROR"];
    output::table(&heading, &rows);
}

/// The name of the stage that an agent is in.
fn stage_of(rollout: &Value, agent: &Value) -> String {
    let index = agent.get("stage").and_then(Value::as_u64);
    index
        .and_then(|index| rollout.pointer(&format!("/stages/{index}/name")))
        .and_then(Value::as_str)
        .unwrap_or("-")
        .to_owned()
}

/// The stage that a running rollout stands before: the next one, while none is under way.
fn awaited(rollout: &Value) -> Option<&str> {
    if rollout.get("state")?.as_str()? != "running" {
        return None;
    }
    let stages = rollout.get("stages")?.as_array()?;
    let is =
        |stage: &&Value, state: &str| stage.get("state").and_then(Value::as_str) == Some(state);
    if stages.iter().any(|stage| is(&stage, "current")) {
        return None;
    }
    stages
        .iter()
        .find(|stage| is(stage, "waiting"))?
        .get("name")?
        .as_str()
}

fn word(value: &Value, name: &str) -> String {
    let word = value.get(name).and_then(Value::as_str);
    word.unwrap_or_default().to_owned()
}

fn number(value: &Value, name: &str) -> String {
    let number = value.get(name).and_then(Value::as_u64);
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_is_told_in_one_sentence() {
        let mut rollout = json!({"revision": 4, "gateway": "edge", "state": "running",
            "stop": null, "rollback_revision": null});
        let plain = "rollout of revision 4 of gateway edge: running";
        assert_eq!(sentence(&rollout), plain);
        rollout["stages"] = json!([{"name": "tier=canary", "state": "waiting"},
            {"name": "all", "state": "waiting"}]);
        let waits = "; stage tier=canary begins when a live agent is in it";
        assert_eq!(sentence(&rollout), format!("{plain}{waits}"));
        rollout["stages"][0]["state"] = json!("current");
        assert_eq!(sentence(&rollout), plain);
        assert_eq!(stage_of(&rollout, &json!({"stage": 0})), "tier=canary");
        assert_eq!(stage_of(&rollout, &json!({"stage": null})), "-");
        rollout["state"] = json!("rolled_back");
        rollout["stop"] = json!({"detail": "agent node-1 refused the revision"});
        rollout["rollback_revision"] = json!(5);
        assert_eq!(
            sentence(&rollout),
            "rollout of revision 4 of gateway edge: rolled_back (agent node-1 refused the \
             revision); the old content was restored as revision 5"
        );
    }
}
