//! `lanekeeper agents`

use super::{columns, get};
use crate::api::{Api, segment};
use crate::args::{AgentsAction, AgentsArguments, FilterArguments, Format, Resource};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};

pub(crate) async fn run(arguments: AgentsArguments) -> Result<(), Failure> {
    match arguments.action {
        AgentsAction::List {
            gateway,
            filter,
            output,
            api,
        } => list(&Api::new(&api)?, gateway, &filter, output).await,
        AgentsAction::Show { id, output, api } => {
            let api = Api::new(&api)?;
            let id = instance_of(&api, &id).await?;
            let path = format!("/api/v1/agents/{}", segment(&id));
            let agent = api.get(&path).await?.body;
            match output {
                Format::Json => output::json(&agent),
                Format::Yaml | Format::Table | Format::Wide => output::yaml(&agent)?,
            }
            Ok(())
        }
        AgentsAction::Drain {
            id,
            undo,
            message,
            api,
        } => {
            let api = Api::new(&api)?;
            let id = instance_of(&api, &id).await?;
            let path = format!("/admin/v1/agents/{}/drain", segment(&id));
            if undo {
                api.delete(&path, message.as_deref()).await?;
                output::line(&format!("agent {id} takes requests again"));
            } else {
                let path = crate::api::with_message(&path, message.as_deref());
                api.post(&path, &json!({})).await?;
                output::line(&format!("agent {id} drains"));
            }
            Ok(())
        }
        AgentsAction::Delete { id, message, api } => {
            let api = Api::new(&api)?;
            let id = instance_of(&api, &id).await?;
            let path = format!("/admin/v1/agents/{}", segment(&id));
            api.delete(&path, message.as_deref()).await?;
            output::line(&format!("agent {id} forgotten"));
            Ok(())
        }
    }
}

/// The id of the agent that a person means, who reads names in the list. A name is enough where one
/// agent has it, those that are gone aside; what is neither is left to the API to refuse.
async fn instance_of(api: &Api, given: &str) -> Result<String, Failure> {
    let path = format!("/api/v1/agents/{}", segment(given));
    if api.find(&path).await?.is_some() {
        return Ok(given.to_owned());
    }
    let agents = get::list(api, "/api/v1/agents", "agents", None).await?;
    named(&agents, given)
}

fn named(agents: &Value, given: &str) -> Result<String, Failure> {
    let agents = agents.get("agents").and_then(Value::as_array);
    let word = |agent: &Value, field: &str| agent.get(field)?.as_str().map(str::to_owned);
    let (gone, here): (Vec<&Value>, Vec<&Value>) = agents
        .into_iter()
        .flatten()
        .filter(|agent| word(agent, "name").as_deref() == Some(given))
        .partition(|agent| word(agent, "state").as_deref() == Some("gone"));
    let meant = if here.is_empty() { gone } else { here };
    let ids: Vec<String> = meant
        .into_iter()
        .filter_map(|agent| word(agent, "id"))
        .collect();
    match ids.as_slice() {
        [] => Ok(given.to_owned()),
        [id] => Ok(id.clone()),
        several => Err(Failure::new(
            Kind::Invalid,
            format!(
                "{} agents are named {given}; name one by its id: {}",
                several.len(),
                several.join(", ")
            ),
        )),
    }
}

async fn list(
    api: &Api,
    gateway: Option<String>,
    wanted: &FilterArguments,
    format: Format,
) -> Result<(), Failure> {
    // A filter that matches nothing looks like a fleet that is gone: a mistyped name has to be
    // told apart.
    if let Some(name) = &gateway {
        let path = format!("/admin/v1/gateways/{}", segment(name));
        api.get(&path).await?;
    }
    let filter = gateway.map(|name| format!("gateway={}", segment(&name)));
    let mut agents = get::list(api, "/api/v1/agents", "agents", filter).await?;
    get::filter::apply(Resource::Agents, &mut agents, wanted)?;
    let entries = || agents.get("agents").and_then(Value::as_array);
    match format {
        Format::Json => output::json(&agents),
        Format::Yaml => output::yaml(&agents)?,
        Format::Table | Format::Wide => {
            let wide = format == Format::Wide;
            columns::table(Resource::Agents, entries().into_iter().flatten(), wide);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_one_agent_that_has_it_and_is_not_gone() {
        let agents = json!({"agents": [
            {"id": "1", "name": "one", "state": "gone"},
            {"id": "2", "name": "one", "state": "live"},
            {"id": "3", "name": "two", "state": "live"},
            {"id": "4", "name": "two", "state": "stale"},
            {"id": "5", "name": "went", "state": "gone"},
        ]});
        assert_eq!(named(&agents, "one").unwrap(), "2");
        assert_eq!(named(&agents, "went").unwrap(), "5");
        assert_eq!(named(&agents, "nobody").unwrap(), "nobody");
        let several = named(&agents, "two").unwrap_err();
        assert_eq!(several.kind(), Kind::Invalid);
        assert!(several.to_string().contains("3, 4"), "{several}");
    }
}
