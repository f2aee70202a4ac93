//! `GET /api/v1/timeline`: changes of breakers' states as agents reported them.

use crate::app::App;
use crate::clock;
use crate::error::Error;
use crate::input::{Query, cursor};
use axum::extract::State;
use lanekeeper_model::incident::{Incident, SubjectKind};
use lanekeeper_model::transition::{EntryKind, TimelineEntry, TransitionCause};
use lanekeeper_model::{CellState, GatewayName, LaneName, PoolName, ProviderName};
use lanekeeper_store::{TimelineFilter, TimelinePlace};

/// What of an incident's time shows beside it: its first change may have been reported a moment
/// before the record that opened it.
const MARGIN_MS: u64 = 1_000;

/// Which changes of state to list.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TimelineQuery {
    /// Only of this gateway.
    gateway: Option<String>,
    /// Only of this pool; empty for direct routes.
    pool: Option<String>,
    /// Only of this lane.
    lane: Option<String>,
    /// Only of lanes of this provider, and of its own cell.
    provider: Option<String>,
    /// Only of agents with this name or instance.
    agent: Option<String>,
    /// Only `opened`, `half_opened`, `closed` or `shed`.
    #[param(inline, value_type = Option<Kind>)]
    kind: Option<String>,
    /// Not earlier than this, RFC 3339.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<String>,
    /// Earlier than this, RFC 3339.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<String>,
    /// Only of this incident: its gateway, what failed, and its time.
    incident: Option<String>,
    /// Where to continue: `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Entries of the page, 1 to 250. Default 100.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
}

/// What an entry is about.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
enum Kind {
    Opened,
    HalfOpened,
    Closed,
    Shed,
}

/// A page of the timeline, the latest first.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct TimelinePage {
    /// The entries.
    entries: Vec<EntryInfo>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// One entry of the timeline: a change of a breaker's state on one agent, or that some are missing.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct EntryInfo {
    /// When it happened, RFC 3339, by the server's clock.
    at: String,
    /// What it is about.
    kind: EntryKind,
    /// The gateway.
    gateway: GatewayName,
    /// The pool; empty for direct routes, null for a provider's own cell and for shed ones.
    pool: Option<PoolName>,
    /// The lane; null for a provider's own cell and for shed ones.
    lane: Option<LaneName>,
    /// The lane's provider, or the one whose own cell it is; null when it is not known.
    provider: Option<ProviderName>,
    /// The endpoint, where the policy keeps a cell for each.
    endpoint: Option<String>,
    /// The agent's name.
    agent: String,
    /// The agent's instance.
    instance: String,
    /// Counts up within an instance: an instance and a number name an entry.
    sequence: u64,
    /// The state before; null for shed ones.
    from: Option<CellStateInfo>,
    /// The state after; null for shed ones.
    to: Option<CellStateInfo>,
    /// Which rule changed it, in snake case; empty for shed ones.
    reason: String,
    /// Failures behind the decision.
    failures: u32,
    /// Outcomes in the window at the decision.
    samples: u32,
    /// What failed last; null when nothing did.
    cause: Option<TransitionCause>,
    /// Seconds that it stays open at least; null when it did not open.
    cooldown_secs: Option<f64>,
    /// The cell only observes: nothing was refused.
    observed: bool,
    /// Changes of state that are missing here; 0 but for shed ones. The agent could not keep them
    /// until they were stored. Some of them may be listed nevertheless.
    missing: u64,
}

/// A breaker's state.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CellStateInfo {
    /// Passing.
    Closed,
    /// Probing.
    HalfOpen,
    /// Refusing.
    Open,
}

impl From<CellState> for CellStateInfo {
    fn from(state: CellState) -> Self {
        match state {
            CellState::Closed => Self::Closed,
            CellState::HalfOpen => Self::HalfOpen,
            CellState::Open => Self::Open,
        }
    }
}

impl From<TimelineEntry> for EntryInfo {
    fn from(entry: TimelineEntry) -> Self {
        let missing = entry.shed();
        let provider = entry.provider;
        let detail = entry.detail;
        let cooldown_ms = detail.cooldown_ms;
        Self {
            at: clock::rfc3339(entry.at_ms),
            kind: entry.kind,
            gateway: entry.gateway,
            pool: entry.pool,
            lane: entry.lane,
            provider: (!provider.is_empty()).then_some(provider),
            endpoint: detail.endpoint,
            agent: entry.agent,
            instance: entry.instance,
            sequence: entry.sequence,
            from: detail.from.map(Into::into),
            to: detail.to.map(Into::into),
            reason: detail.reason,
            failures: detail.failures,
            samples: detail.samples,
            cause: detail.cause,
            cooldown_secs: (cooldown_ms > 0).then_some(cooldown_ms as f64 / 1000.0),
            observed: detail.observed,
            missing,
        }
    }
}

/// List changes of breakers' states, the latest first. They are kept for 14 days, and at most two
/// million of them.
#[utoipa::path(
    get,
    path = "/api/v1/timeline",
    operation_id = "list_timeline",
    tag = "fleet",
    params(TimelineQuery),
    responses(
        (status = 200, description = "A page of the timeline, the latest first",
         body = ref("#/components/schemas/TimelinePage")),
        (status = 404, description = "No such incident"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<TimelineQuery>,
) -> Result<axum::Json<TimelinePage>, Error> {
    let limit = cursor::limit(query.limit.as_deref())?;
    let place = query.cursor.as_deref().map(place).transpose()?;
    let mut filter = TimelineFilter {
        gateway: query.gateway,
        pool: query.pool,
        lane: query.lane,
        provider: query.provider,
        own_cells: false,
        agent: query.agent,
        kind: query.kind.as_deref().map(kind_of).transpose()?,
        from_ms: time_of("from", query.from.as_deref())?,
        until_ms: time_of("until", query.until.as_deref())?,
    };
    if let Some(id) = query.incident {
        let stored = app.store.incident(&id).await?;
        let stored = stored.ok_or(Error::NotFound {
            kind: "incident",
            name: id,
        })?;
        let Some(narrowed) = narrow(filter, &stored.incident) else {
            return Ok(axum::Json(TimelinePage {
                entries: Vec::new(),
                next_cursor: None,
            }));
        };
        filter = narrowed;
    }
    let mut entries = app
        .store
        .timeline(&filter, place.as_ref(), limit + 1)
        .await?;
    let next_cursor = cursor::cut(&mut entries, limit, |last| {
        format!(
            "{}\n{}\n{}\n{}",
            last.at_ms, last.gateway, last.instance, last.sequence
        )
    });
    Ok(axum::Json(TimelinePage {
        entries: entries.into_iter().map(EntryInfo::from).collect(),
        next_cursor,
    }))
}

/// The changes of an incident among those that a filter lets through; `None` when it lets none.
fn narrow(filter: TimelineFilter, incident: &Incident) -> Option<TimelineFilter> {
    let of = of_incident(incident);
    let both = |asked: Option<String>, own: Option<String>| match (asked, own) {
        (Some(asked), Some(own)) if asked != own => None,
        (asked, own) => Some(own.or(asked)),
    };
    Some(TimelineFilter {
        gateway: both(filter.gateway, of.gateway)?,
        pool: both(filter.pool, of.pool)?,
        lane: both(filter.lane, of.lane)?,
        provider: both(filter.provider, of.provider)?,
        own_cells: of.own_cells,
        from_ms: filter.from_ms.max(of.from_ms),
        until_ms: match (filter.until_ms, of.until_ms) {
            (Some(asked), Some(own)) => Some(asked.min(own)),
            (asked, own) => asked.or(own),
        },
        ..filter
    })
}

/// The changes of state of an incident.
pub(super) fn of_incident(incident: &Incident) -> TimelineFilter {
    let name = || Some(incident.subject.name.clone());
    let (pool, lane, provider) = match incident.subject.kind {
        SubjectKind::Lane => (None, name(), None),
        SubjectKind::Provider => (None, None, name()),
        SubjectKind::Pool => (name(), None, None),
    };
    let closed_ms = incident.closed.map(|closed| closed.at_ms);
    TimelineFilter {
        gateway: Some(incident.gateway.to_string()),
        pool,
        lane,
        provider,
        own_cells: incident.subject.kind == SubjectKind::Provider,
        agent: None,
        kind: None,
        from_ms: Some(incident.opened_ms.saturating_sub(MARGIN_MS)),
        until_ms: closed_ms.map(|at_ms| at_ms.saturating_add(MARGIN_MS)),
    }
}

/// A time in a parameter.
pub(super) fn time_of(name: &str, text: Option<&str>) -> Result<Option<u64>, Error> {
    text.map(|text| {
        clock::parse_rfc3339(text).ok_or_else(|| Error::InvalidParameter {
            name: name.to_owned(),
            reason: "must be a time such as 2026-11-30T10:00:00Z (RFC 3339)".to_owned(),
        })
    })
    .transpose()
}

fn kind_of(name: &str) -> Result<EntryKind, Error> {
    EntryKind::from_name(name).ok_or_else(|| Error::InvalidParameter {
        name: "kind".to_owned(),
        reason: "must be opened, half_opened, closed or shed".to_owned(),
    })
}

/// The place that a cursor stands for.
fn place(cursor: &str) -> Result<TimelinePlace, Error> {
    let key = cursor::key(cursor)?;
    let mut parts = key.splitn(4, '\n');
    let mut next = || parts.next();
    let place = (|| {
        Some(TimelinePlace {
            at_ms: next()?.parse().ok()?,
            gateway: next()?.to_owned(),
            instance: next()?.to_owned(),
            sequence: next()?.parse().ok()?,
        })
    })();
    place.ok_or_else(|| Error::InvalidParameter {
        name: "cursor".to_owned(),
        reason: "belongs to another list".to_owned(),
    })
}
