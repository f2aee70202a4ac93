//! A lane of one revision: where its attempts go, its cells, and the state behind its name.

pub(crate) mod state;

use crate::lanes::cells::CellSlot;
use crate::lanes::provider::Provider;
use http::{HeaderValue, Uri};
use lanekeeper_model::LaneName;
use lanekeeper_model::gateway::{Accepts, Timeouts};
use lanekeeper_protocol::state::LaneMark;
use lanekeeper_protocol::{Dialect, vendor};
use state::LaneState;
use std::sync::Arc;

/// A lane of one revision.
pub(crate) struct Lane {
    /// Its place in the snapshot's list of lanes.
    pub(crate) number: u32,
    pub(crate) state: Arc<LaneState>,
    pub(crate) provider: Arc<Provider>,
    pub(crate) upstream_model: String,
    /// What stands for the lane in ids that it gives out.
    pub(crate) mark: LaneMark,
    /// What the model takes where its protocol's documents leave it open.
    pub(crate) accepts: Accepts,
    /// What a translated request asks for where its protocol demands a limit and its caller gave none.
    pub(crate) max_output_tokens: u64,
    pub(crate) timeouts: Timeouts,
    /// The lane's name as an answer's header.
    pub(crate) header: HeaderValue,
    /// Upstream path and query of each operation the provider's protocols have.
    pub(crate) endpoints: Vec<(Dialect, Uri)>,
    /// Every cell of the lane, over all pools, endpoints and the direct route.
    pub(crate) cells: Vec<Arc<CellSlot>>,
}

impl Lane {
    /// The lane's name.
    pub(crate) fn name(&self) -> &LaneName {
        self.state.name()
    }

    /// True when what a caller of `dialect` asks can be put to it in translation.
    pub(crate) fn is_reached_by(&self, dialect: Dialect) -> bool {
        dialect.reaches(vendor(self.provider.protocols.primary()))
    }

    /// The upstream path and query of `dialect`.
    pub(crate) fn endpoint(&self, dialect: Dialect) -> Option<&Uri> {
        self.endpoints
            .iter()
            .find(|(candidate, _)| *candidate == dialect)
            .map(|(_, uri)| uri)
    }
}
