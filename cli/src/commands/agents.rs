//! `lanekeeper agents`

use super::{columns, get};
use crate::api::{Api, segment};
use crate::args::{AgentsAction, AgentsArguments, Format, Resource};
use crate::exit::Failure;
use crate::output;
use serde_json::{Value, json};

pub(crate) async fn run(arguments: AgentsArguments) -> Result<(), Failure> {
    match arguments.action {
        AgentsAction::List {
            gateway,
            output,
            api,
        } => list(&Api::new(&api)?, gateway, output).await,
        AgentsAction::Show { id, output, api } => {
            let path = format!("/api/v1/agents/{}", segment(&id));
            let agent = Api::new(&api)?.get(&path).await?.body;
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
            let path = format!("/admin/v1/agents/{}/drain", segment(&id));
            let api = Api::new(&api)?;
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
            let path = format!("/admin/v1/agents/{}", segment(&id));
            Api::new(&api)?.delete(&path, message.as_deref()).await?;
            output::line(&format!("agent {id} forgotten"));
            Ok(())
        }
    }
}

async fn list(api: &Api, gateway: Option<String>, format: Format) -> Result<(), Failure> {
    // A filter that matches nothing looks like a fleet that is gone: a mistyped name has to be
    // told apart.
    if let Some(name) = &gateway {
        let path = format!("/admin/v1/gateways/{}", segment(name));
        api.get(&path).await?;
    }
    let filter = gateway.map(|name| format!("gateway={}", segment(&name)));
    let agents = get::list(api, "/api/v1/agents", "agents", filter).await?;
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
