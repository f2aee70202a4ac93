//! A gateway's breakers per provider, in the small shape that dashboards of other gateways read.

use super::config::current;
use crate::app::App;
use crate::clock;
use crate::error::Error;
use crate::fleet::breaker_state;
use crate::input::Path;
use axum::extract::State;
use lanekeeper_model::fleet::{CellView, ViewState};
use lanekeeper_model::{ProviderName, ViewQuery};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// One provider that is not closed everywhere.
#[derive(Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub(crate) struct ProviderBreaker {
    /// The worst state of its cells: `half_open`, `open`, or `unknown` when no agent reports.
    #[schema(value_type = String)]
    state: ViewState,
    /// Failures behind the causes of its cells.
    failures: u64,
    /// When the first of its cells opened, unix seconds; null while nothing is known.
    opened_at: Option<u64>,
}

impl ProviderBreaker {
    fn of(cell: &CellView, now_ms: u64) -> Self {
        Self {
            state: cell.state,
            failures: cell.cause.as_ref().map_or(0, |cause| cause.count),
            opened_at: cell
                .opened_for_secs
                .map(|secs| (now_ms / 1000).saturating_sub(secs as u64)),
        }
    }

    fn with(&mut self, other: Self) {
        self.state = self.state.max(other.state);
        self.failures = self.failures.saturating_add(other.failures);
        self.opened_at = match (self.opened_at, other.opened_at) {
            (Some(one), Some(another)) => Some(one.min(another)),
            (one, another) => one.or(another),
        };
    }
}

/// Show a gateway's providers that are not closed.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/circuit-breaker",
    operation_id = "show_circuit_breaker",
    tag = "gateways",
    params(("gateway" = String, Path, description = "The gateway's name")),
    responses(
        (status = 200, description = "Providers by name; one that is not listed is closed",
         body = BTreeMap<String, ProviderBreaker>),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(gateway): Path<String>,
) -> Result<axum::Json<BTreeMap<ProviderName, ProviderBreaker>>, Error> {
    current(&app, &gateway).await?;
    let query = ViewQuery {
        gateway: Some(gateway.into()),
        // With the closed ones come those nobody reports, which are not closed.
        include_closed: true,
        ..ViewQuery::default()
    };
    let view = breaker_state::view(&app, &app.fleet.snapshot().await?, query).await?;
    Ok(axum::Json(by_provider(&view.cells, clock::now_ms())))
}

fn by_provider(cells: &[CellView], now_ms: u64) -> BTreeMap<ProviderName, ProviderBreaker> {
    let mut providers = BTreeMap::new();
    // A parked cell is listed in the view, and closed all the same.
    for cell in cells.iter().filter(|cell| cell.state != ViewState::Closed) {
        let breaker = ProviderBreaker::of(cell, now_ms);
        match providers.entry(cell.provider.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(breaker);
            }
            Entry::Occupied(mut entry) => entry.get_mut().with(breaker),
        }
    }
    providers
}
