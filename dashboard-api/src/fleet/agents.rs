//! `GET /api/v1/agents`: who serves what, and whether it is what it should be.

use crate::app::App;
use crate::clock;
use crate::error::Error;
use crate::input::{Path, Query, cursor};
use axum::extract::State;
use lanekeeper_model::fleet::AgentView;
use lanekeeper_model::{AgentRecord, AgentState};

/// Which agents to list.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AgentsQuery {
    /// Only agents of this gateway.
    gateway: Option<String>,
    /// Only agents that are `live`, `stale`, `gone` or `draining`.
    #[param(inline, value_type = Option<ListedState>)]
    state: Option<String>,
    /// Where to continue: `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Entries of the page, 1 to 250. Default 100.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
}

/// How an agent stands.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
pub(crate) enum ListedState {
    Live,
    Stale,
    Gone,
    Draining,
}

/// A page of agents, by gateway and instance.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct AgentPage {
    /// The agents.
    agents: Vec<AgentView>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// List agents.
#[utoipa::path(
    get,
    path = "/api/v1/agents",
    operation_id = "list_agents",
    tag = "fleet",
    params(AgentsQuery),
    responses((status = 200, description = "A page of agents, by gateway and instance",
               body = ref("#/components/schemas/AgentPage")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<AgentsQuery>,
) -> Result<axum::Json<AgentPage>, Error> {
    let limit = cursor::limit(query.limit.as_deref())?;
    let state = query.state.as_deref().map(state_of).transpose()?;
    let after = query.cursor.as_deref().map(place).transpose()?;
    let snapshot = app.fleet.snapshot().await?;
    let now_ms = clock::now_ms();
    let mut agents: Vec<AgentView> = snapshot
        .records
        .iter()
        .filter(|record| {
            query
                .gateway
                .as_ref()
                .is_none_or(|name| *record.gateway == **name)
        })
        .filter(|record| after.as_ref().is_none_or(|after| is_after(record, after)))
        .map(|record| snapshot.agent_view(record, now_ms))
        .filter(|agent| state.is_none_or(|state| agent.state == state))
        .take(limit as usize + 1)
        .collect();
    let next_cursor = cursor::cut(&mut agents, limit, |last| {
        format!("{}\n{}", last.gateway, last.instance)
    });
    Ok(axum::Json(AgentPage {
        agents,
        next_cursor,
    }))
}

/// Show one agent.
#[utoipa::path(
    get,
    path = "/api/v1/agents/{id}",
    operation_id = "show_agent",
    tag = "fleet",
    params(("id" = String, Path, description = "The agent's instance")),
    responses(
        (status = 200, description = "The agent", body = ref("#/components/schemas/AgentView")),
        (status = 404, description = "Not found among the agents of the last day"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<axum::Json<AgentView>, Error> {
    let snapshot = app.fleet.snapshot().await?;
    match snapshot.records.iter().find(|record| record.instance == id) {
        Some(record) => Ok(axum::Json(snapshot.agent_view(record, clock::now_ms()))),
        None => Err(Error::NotFound {
            kind: "agent",
            name: id,
        }),
    }
}

fn state_of(name: &str) -> Result<AgentState, Error> {
    [
        AgentState::Live,
        AgentState::Stale,
        AgentState::Gone,
        AgentState::Draining,
    ]
    .into_iter()
    .find(|state| state.as_str() == name)
    .ok_or_else(|| Error::InvalidParameter {
        name: "state".to_owned(),
        reason: "must be live, stale, gone or draining".to_owned(),
    })
}

/// The gateway and instance that a cursor stands for.
fn place(cursor: &str) -> Result<(String, String), Error> {
    let key = cursor::key(cursor)?;
    key.split_once('\n')
        .map(|(gateway, instance)| (gateway.to_owned(), instance.to_owned()))
        .ok_or_else(|| Error::InvalidParameter {
            name: "cursor".to_owned(),
            reason: "belongs to another list".to_owned(),
        })
}

fn is_after(record: &AgentRecord, (gateway, instance): &(String, String)) -> bool {
    (record.gateway.as_str(), record.instance.as_str()) > (gateway.as_str(), instance.as_str())
}
