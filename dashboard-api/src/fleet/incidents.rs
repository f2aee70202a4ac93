//! `GET /api/v1/incidents`: outages as the whole fleet saw them, those that go on and past ones.

use super::timeline::{of_incident, time_of};
use crate::app::App;
use crate::clock;
use crate::error::Error;
use crate::input::{Path, Query, cursor};
use axum::extract::State;
use lanekeeper_model::incident::{IncidentDetail, IncidentView, SubjectKind};
use lanekeeper_model::transition::TimelineEntry;
use lanekeeper_store::{IncidentFilter, IncidentPlace, PAGE_MAX, TimelinePlace};

/// Most changes of state that are read for one incident's strip.
const STRIP_ENTRIES_MAX: usize = 5_000;

/// Which incidents to list.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct IncidentsQuery {
    /// Only of this gateway.
    gateway: Option<String>,
    /// Only of what is a `lane`, a `provider` or a `pool`.
    #[param(inline, value_type = Option<Kind>)]
    kind: Option<String>,
    /// Only of the lane, provider or pool with this name.
    name: Option<String>,
    /// Only `open` or `closed` ones.
    #[param(inline, value_type = Option<Openness>)]
    state: Option<String>,
    /// Begun not earlier than this, RFC 3339.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<String>,
    /// Begun earlier than this, RFC 3339.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<String>,
    /// Where to continue: `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Entries of the page, 1 to 250. Default 100.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
}

/// What failed.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
enum Kind {
    Lane,
    Provider,
    Pool,
}

/// Whether it goes on.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes a parameter to readers of the API")]
enum Openness {
    Open,
    Closed,
}

/// A page of incidents, the latest to begin first.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct IncidentPage {
    /// The incidents.
    incidents: Vec<IncidentView>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// List incidents, the latest to begin first. They are kept for ninety days after their end.
#[utoipa::path(
    get,
    path = "/api/v1/incidents",
    operation_id = "list_incidents",
    tag = "fleet",
    params(IncidentsQuery),
    responses((status = 200, description = "A page of incidents, the latest to begin first",
               body = ref("#/components/schemas/IncidentPage")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<IncidentsQuery>,
) -> Result<axum::Json<IncidentPage>, Error> {
    let limit = cursor::limit(query.limit.as_deref())?;
    let place = query.cursor.as_deref().map(place).transpose()?;
    let filter = IncidentFilter {
        gateway: query.gateway,
        kind: query.kind.as_deref().map(kind_of).transpose()?,
        name: query.name,
        open: query.state.as_deref().map(openness_of).transpose()?,
        from_ms: time_of("from", query.from.as_deref())?,
        until_ms: time_of("until", query.until.as_deref())?,
    };
    let mut stored = app
        .store
        .incidents(&filter, place.as_ref(), limit + 1)
        .await?;
    let next_cursor = cursor::cut(&mut stored, limit, |last| {
        format!("{}\n{}", last.incident.opened_ms, last.incident.id)
    });
    let now_ms = clock::now_ms();
    let views = stored.iter().map(|stored| stored.incident.view(now_ms));
    Ok(axum::Json(IncidentPage {
        incidents: views.collect(),
        next_cursor,
    }))
}

/// Show one incident with its scope over time, its agents, what operators did meanwhile, and each
/// agent's states over its time.
#[utoipa::path(
    get,
    path = "/api/v1/incidents/{id}",
    operation_id = "show_incident",
    tag = "fleet",
    params(("id" = String, Path, description = "The incident's id")),
    responses(
        (status = 200, description = "The incident",
         body = ref("#/components/schemas/IncidentDetail")),
        (status = 404, description = "No such incident"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<axum::Json<IncidentDetail>, Error> {
    let Some(stored) = app.store.incident(&id).await? else {
        return Err(Error::NotFound {
            kind: "incident",
            name: id,
        });
    };
    let filter = of_incident(&stored.incident);
    let mut entries = Vec::<TimelineEntry>::new();
    let mut place = None;
    let truncated = loop {
        let page = app
            .store
            .timeline(&filter, place.as_ref(), PAGE_MAX)
            .await?;
        let is_last = page.len() < PAGE_MAX as usize;
        place = page.last().map(|last| TimelinePlace {
            at_ms: last.at_ms,
            gateway: last.gateway.to_string(),
            instance: last.instance.clone(),
            sequence: last.sequence,
        });
        entries.extend(page);
        if is_last || entries.len() >= STRIP_ENTRIES_MAX {
            break !is_last;
        }
    };
    let detail = stored.incident.detail(&entries, truncated, clock::now_ms());
    Ok(axum::Json(detail))
}

fn kind_of(name: &str) -> Result<SubjectKind, Error> {
    SubjectKind::from_name(name).ok_or_else(|| Error::InvalidParameter {
        name: "kind".to_owned(),
        reason: "must be lane, provider or pool".to_owned(),
    })
}

fn openness_of(name: &str) -> Result<bool, Error> {
    match name {
        "open" => Ok(true),
        "closed" => Ok(false),
        _ => Err(Error::InvalidParameter {
            name: "state".to_owned(),
            reason: "must be open or closed".to_owned(),
        }),
    }
}

/// The place that a cursor stands for.
fn place(cursor: &str) -> Result<IncidentPlace, Error> {
    let key = cursor::key(cursor)?;
    let place = key.split_once('\n').and_then(|(opened_ms, id)| {
        Some(IncidentPlace {
            opened_ms: opened_ms.parse().ok()?,
            id: id.to_owned(),
        })
    });
    place.ok_or_else(|| Error::InvalidParameter {
        name: "cursor".to_owned(),
        reason: "belongs to another list".to_owned(),
    })
}
