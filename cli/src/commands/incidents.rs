//! `lanekeeper incidents`

use super::columns::{self, Column};
use super::get;
use crate::api::{Api, segment};
use crate::args::{Format, IncidentsArguments, IncidentsState, Resource};
use crate::exit::Failure;
use crate::{clock, output};
use serde_json::Value;

const AGENTS: &[Column] = &[
    ("AGENT", "/agent"),
    ("AFFECTED", "/affected"),
    ("FIRST", "/first_at"),
    ("CHANGED", "/changed_at"),
    ("OPENINGS", "/openings"),
    ("FAILED OVER", "/calls_failed_over"),
    ("FAILED", "/calls_failed"),
    ("INSTANCE", "/instance"),
];
const SCOPES: &[Column] = &[
    ("SINCE", "/at"),
    ("SCOPE", "/scope"),
    ("AGENTS", "/affected"),
    ("OF", "/fresh"),
];
const CONTEXT: &[Column] = &[
    ("AT", "/at"),
    ("SUSPECT", "/suspect"),
    ("WHAT", "/detail"),
    ("ACTOR", "/actor"),
    ("ENDED", "/ended_at"),
];

pub(crate) async fn run(arguments: IncidentsArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    if let Some(id) = &arguments.id {
        let path = format!("/api/v1/incidents/{}", segment(id));
        let detail = api.get(&path).await?.body;
        return show(&detail, arguments.output);
    }
    if let Some(name) = &arguments.gateway {
        // A filter that matches nothing looks healthy: a mistyped name has to be told apart.
        let path = format!("/admin/v1/gateways/{}", segment(name));
        api.get(&path).await?;
    }
    let since = arguments.since.map(clock::rfc3339_before);
    let state = match arguments.state {
        IncidentsState::All => None,
        IncidentsState::Open => Some("open"),
        IncidentsState::Closed => Some("closed"),
    };
    let filters = [
        ("gateway", arguments.gateway.as_deref()),
        ("state", state),
        ("from", since.as_deref()),
    ];
    let limit = arguments.limit as usize;
    let listed = get::list_some(&api, "/api/v1/incidents", "incidents", &filters, limit).await?;
    match arguments.output {
        Format::Json => output::json(&listed),
        Format::Yaml => output::yaml(&listed)?,
        Format::Table | Format::Wide => {
            let incidents = listed.get("incidents").and_then(Value::as_array);
            if incidents.is_none_or(Vec::is_empty) {
                output::hint("there are none");
            }
            let wide = arguments.output == Format::Wide;
            columns::table(Resource::Incidents, incidents.into_iter().flatten(), wide);
        }
    }
    Ok(())
}

fn show(detail: &Value, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(detail),
        Format::Yaml => output::yaml(detail)?,
        Format::Table | Format::Wide => {
            columns::table(Resource::Incidents, detail.get("incident"), true);
            for (title, name, shown) in [
                ("Scope over time", "scopes", SCOPES),
                ("What operators did", "context", CONTEXT),
                ("Agents", "agents", AGENTS),
            ] {
                let entries = detail.get(name).and_then(Value::as_array);
                if entries.is_some_and(|entries| !entries.is_empty()) {
                    output::line("");
                    output::line(title);
                    columns::rows(shown, entries.into_iter().flatten());
                }
            }
        }
    }
    Ok(())
}
