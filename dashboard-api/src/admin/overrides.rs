//! Overrides: operators' orders on the cells of a lane, with an end, and what the agents say of them.

use super::{ChangeQuery, change, config};
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::{Error, Fault};
use crate::fleet_view::FleetSnapshot;
use crate::input::{Json, Path, Query, cursor};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use lanekeeper_model::fleet::{AckState, Acknowledgement, OverrideTimes, acknowledgements};
use lanekeeper_model::{
    ActiveOverride, Gateway, LaneName, OverrideAction, PoolName, ProviderName, check_json,
    emptied_pools,
};
use lanekeeper_store::{NewOverride, OverrideRow};
use std::collections::BTreeMap;

mod form;

pub(crate) use form::{MAX_REASON_BYTES, MAX_TTL_SECS};

use form::{OrderedAction, OverrideForm};

/// How long a reset waits for agents that are not connected, unless the operator says otherwise,
/// seconds.
const RESET_TTL_SECS: u64 = 60;
/// Acknowledgements told of one order; the counts are of all.
const MAX_ACKS: usize = 1000;
/// Times the orders are looked at anew when others change them meanwhile.
const ATTEMPTS: usize = 8;

/// Where an override is in its life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OverrideState {
    /// In force, or on its way.
    Standing,
    /// Ended by an operator.
    Released,
    /// Ended by itself.
    Expired,
}

/// One override.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct OverrideInfo {
    /// Names the override in paths.
    id: String,
    /// The gateway.
    gateway: String,
    /// What it does.
    #[schema(value_type = OrderedAction)]
    action: OverrideAction,
    /// The pool whose cells are meant; empty for direct routes, null for all.
    pool: Option<String>,
    /// The lane; null when a provider's own cell is meant.
    lane: Option<String>,
    /// The provider whose own cell is meant; null when a lane's cells are.
    provider: Option<String>,
    /// Labels an agent must have; empty = every agent.
    agents: BTreeMap<String, String>,
    /// Why.
    reason: String,
    /// Who created it: a token's name.
    actor: String,
    /// When it was created, RFC 3339.
    created_at: String,
    /// When it ends by itself, RFC 3339.
    expires_at: String,
    /// Seconds until then; 0 when it is over.
    remaining_secs: f64,
    /// When it was released, RFC 3339; null when it was not.
    released_at: Option<String>,
    /// Where it is in its life cycle.
    state: OverrideState,
    /// Agents it has not reached.
    agents_pending: usize,
    /// Agents it is in force on, or was carried out on.
    agents_applied: usize,
    /// The acknowledgement of each agent, the pending ones first, at most 1,000. Of a released override: the
    /// agents that have not received its release.
    #[schema(value_type = Vec<Ack>)]
    acks: Vec<Acknowledgement>,
}

/// One agent's acknowledgement of an override.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
pub(crate) struct Ack {
    /// The agent's name.
    agent: String,
    /// The agent's instance.
    instance: String,
    /// Whether it has applied the override.
    state: AckWord,
    /// Seconds since it was applied; for a pending one since it was given, for one that is gone
    /// since its last sign.
    age_secs: f64,
    /// Why it is still pending, where that is known.
    reason: Option<String>,
}

/// Whether an agent has applied an override.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
pub(crate) enum AckWord {
    /// It has not said that the order took effect.
    Pending,
    /// The order took effect there.
    Applied,
    /// It left, or has been silent for long, since the order was given.
    Gone,
}

impl OverrideInfo {
    fn new(row: OverrideRow, snapshot: &FleetSnapshot) -> Self {
        let now_ms = clock::now_ms();
        let times = OverrideTimes {
            created_ms: row.created_ms,
            released_ms: row.released_ms,
            now_ms,
        };
        let records = snapshot.records_of(&row.gateway);
        let mut acks = acknowledgements(&row.order, times, records, snapshot.windows());
        let count = |state| acks.iter().filter(|ack| ack.state == state).count();
        let (pending, applied) = (count(AckState::Pending), count(AckState::Applied));
        acks.truncate(MAX_ACKS);
        let remaining_ms = row.order.expires_ms.saturating_sub(now_ms);
        let state = match row.released_ms {
            Some(_) => OverrideState::Released,
            None if remaining_ms == 0 => OverrideState::Expired,
            None => OverrideState::Standing,
        };
        let remaining_ms = match state {
            OverrideState::Standing => remaining_ms,
            OverrideState::Released | OverrideState::Expired => 0,
        };
        Self {
            id: row.order.id,
            gateway: row.gateway,
            action: row.order.action,
            pool: row.order.pool.map(|pool| pool.to_string()),
            lane: row
                .order
                .provider
                .is_none()
                .then(|| row.order.lane.to_string()),
            provider: row.order.provider.map(|provider| provider.to_string()),
            agents: row.order.agents,
            reason: row.reason,
            actor: row.actor,
            created_at: clock::rfc3339(row.created_ms),
            expires_at: clock::rfc3339(row.order.expires_ms),
            remaining_secs: remaining_ms as f64 / 1000.0,
            released_at: row.released_ms.map(clock::rfc3339),
            state,
            agents_pending: pending,
            agents_applied: applied,
            acks,
        }
    }
}

/// What the list of orders is asked.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OverridesQuery {
    /// Where to continue: `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Entries of the page, 1 to 250. Default 100.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
    /// `ended` lists released and expired overrides too.
    #[param(inline, value_type = Option<AlsoListed>)]
    include: Option<String>,
}

/// What is listed besides active overrides.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes a parameter to readers of the API")]
enum AlsoListed {
    Ended,
}

/// A page of overrides, the latest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct OverridePage {
    /// The overrides.
    overrides: Vec<OverrideInfo>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// List the active overrides of a gateway, the latest first.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/overrides",
    operation_id = "list_overrides",
    tag = "overrides",
    params(("gateway" = String, Path, description = "The gateway's name"), OverridesQuery),
    responses(
        (status = 200, description = "A page of overrides", body = OverridePage),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    Path(gateway): Path<String>,
    Query(query): Query<OverridesQuery>,
) -> Result<axum::Json<OverridePage>, Error> {
    let limit = cursor::limit(query.limit.as_deref())?;
    let before = cursor::parsed(query.cursor.as_deref())?;
    let standing_at_ms = match query.include.as_deref() {
        None => Some(clock::now_ms()),
        Some("ended") => None,
        Some(_) => {
            return Err(Error::InvalidParameter {
                name: "include".to_owned(),
                reason: "must be 'ended'".to_owned(),
            });
        }
    };
    check_gateway(&app, &gateway).await?;
    let mut rows = app
        .store
        .overrides(&gateway, before, standing_at_ms, limit + 1)
        .await?;
    let next_cursor = cursor::cut(&mut rows, limit, |row| row.order.number.to_string());
    let snapshot = app.fleet.snapshot().await?;
    Ok(axum::Json(OverridePage {
        overrides: rows
            .into_iter()
            .map(|row| OverrideInfo::new(row, &snapshot))
            .collect(),
        next_cursor,
    }))
}

/// Show one override with the acknowledgement of each agent.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/overrides/{id}",
    operation_id = "show_override",
    tag = "overrides",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("id" = String, Path, description = "The override's id")
    ),
    responses(
        (status = 200, description = "The override", body = OverrideInfo),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path((gateway, id)): Path<(String, String)>,
) -> Result<axum::Json<OverrideInfo>, Error> {
    let row = app.store.override_of(&gateway, &id).await?;
    let row = row.ok_or(Error::NotFound {
        kind: "override",
        name: id,
    })?;
    let snapshot = app.fleet.snapshot().await?;
    Ok(axum::Json(OverrideInfo::new(row, &snapshot)))
}

/// Create an override. Connected agents apply it within a second.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/overrides",
    operation_id = "create_override",
    tag = "overrides",
    params(("gateway" = String, Path, description = "The gateway's name")),
    request_body = OverrideForm,
    responses(
        (status = 201, description = "The override is active", body = OverrideInfo),
        (status = 400, description = "A field cannot be used, or names no pool, lane or provider with a \
         breaker; all are listed"),
        (status = 409, description = "A pool would be left without a usable member, or there are as \
         many orders as there may be"),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(gateway): Path<String>,
    Json(form): Json<OverrideForm>,
) -> Result<Response, Error> {
    let change = change(&caller, Some(form.reason.trim().to_owned()))?;
    let document = config::current(&app, &gateway).await?.document;
    let checked = tokio::task::spawn_blocking(move || check_json(&document))
        .await
        .map_err(|error| Error::Internal(error.into()))?
        .map_err(Error::InvalidDocument)?;
    let ttl_secs = form.ttl_secs.unwrap_or(RESET_TTL_SECS);
    let new = NewOverride {
        action: form.action,
        pool: form.pool.map(PoolName::from),
        lane: LaneName::from(form.lane),
        provider: form.provider.map(ProviderName::from),
        agents: form.agents,
        reason: change.message.clone(),
        expires_ms: change.now_ms.saturating_add(ttl_secs.saturating_mul(1000)),
    };
    check_references(&checked.gateway, &new)?;
    for _ in 0..ATTEMPTS {
        let standing = app
            .store
            .standing_overrides(&gateway, change.now_ms)
            .await?;
        if !form.allow_empty {
            let orders: Vec<ActiveOverride> =
                standing.rows.into_iter().map(|row| row.order).collect();
            let emptied = emptied_pools(&checked.gateway, &orders, &as_standing(&new));
            if !emptied.is_empty() {
                return Err(Error::LastUsableMember(emptied));
            }
        }
        let created = app
            .store
            .create_override(&gateway, &new, standing.generation, &change)
            .await?;
        if let Some(row) = created {
            app.announce_overrides(&gateway).await;
            let id = &row.order.id;
            let location = format!("/admin/v1/gateways/{gateway}/overrides/{id}");
            let snapshot = app.fleet.snapshot().await?;
            let body = axum::Json(OverrideInfo::new(row, &snapshot));
            return Ok((StatusCode::CREATED, [(LOCATION, location)], body).into_response());
        }
    }
    Err(Error::OverridesBusy)
}

/// Release an override before it expires. One that has already ended is left as it is; nothing is
/// written then, not even to the audit trail.
#[utoipa::path(
    delete,
    path = "/admin/v1/gateways/{gateway}/overrides/{id}",
    operation_id = "release_override",
    tag = "overrides",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("id" = String, Path, description = "The override's id"),
        ChangeQuery
    ),
    responses(
        (status = 200, description = "It had already ended, as shown; nothing was written",
         body = OverrideInfo),
        (status = 204, description = "Released; connected agents apply it within a second"),
    )
)]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    Path((gateway, id)): Path<(String, String)>,
    Query(query): Query<ChangeQuery>,
) -> Result<Response, Error> {
    let change = change(&caller, query.message)?;
    let row = app.store.release_override(&gateway, &id, &change).await?;
    if row.released_ms != Some(change.now_ms) {
        let snapshot = app.fleet.snapshot().await?;
        return Ok(axum::Json(OverrideInfo::new(row, &snapshot)).into_response());
    }
    app.announce_overrides(&gateway).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn check_gateway(app: &App, gateway: &str) -> Result<(), Error> {
    match app.store.gateway(gateway).await? {
        Some(_) => Ok(()),
        None => Err(Error::NotFound {
            kind: "gateway",
            name: gateway.to_owned(),
        }),
    }
}

/// Refuses an override of cells that the gateway does not have.
fn check_references(gateway: &Gateway, new: &NewOverride) -> Result<(), Error> {
    let mut faults = Vec::new();
    let unknown = |pointer: &str, message: String| Fault::at(pointer, "unknown_reference", message);
    if let Some(name) = &new.provider {
        let message = match gateway.providers.get(name) {
            Some(provider) if provider.breaker.is_some() => return Ok(()),
            Some(_) => format!("provider '{name}' has no breaker of its own"),
            None => format!("the gateway has no provider '{name}'"),
        };
        return Err(Error::InvalidBody(vec![unknown("/provider", message)]));
    }
    let lane_is_known = gateway.lanes.contains_key(&*new.lane);
    if !lane_is_known {
        let message = format!("the gateway has no lane '{}'", new.lane);
        faults.push(unknown("/lane", message));
    }
    if let Some(name) = new.pool.as_ref().filter(|pool| !pool.is_direct()) {
        match gateway.pools.get(&**name) {
            None => faults.push(unknown(
                "/pool",
                format!("the gateway has no pool '{name}'"),
            )),
            Some(pool) if lane_is_known => {
                if !pool.members.iter().any(|member| member.lane == new.lane) {
                    let message = format!("'{}' is no member of pool '{name}'", new.lane);
                    faults.push(unknown("/lane", message));
                }
            }
            Some(_) => {}
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::InvalidBody(faults))
    }
}

/// The order as the latest of those that stand.
fn as_standing(new: &NewOverride) -> ActiveOverride {
    ActiveOverride {
        id: String::new(),
        number: u64::MAX,
        action: new.action,
        pool: new.pool.clone(),
        lane: new.lane.clone(),
        provider: new.provider.clone(),
        agents: new.agents.clone(),
        expires_ms: new.expires_ms,
    }
}
