//! The cells of one (pool, lane) pair or of one provider: one, or one for each endpoint.

use super::CellSlot;
use std::sync::Arc;

/// One cell, or with `per_endpoint` one for every endpoint the provider has.
#[derive(Clone)]
pub(crate) struct CellSet {
    first: Arc<CellSlot>,
    rest: Box<[Arc<CellSlot>]>,
}

impl CellSet {
    /// One cell for everything.
    pub(crate) fn one(cell: Arc<CellSlot>) -> Self {
        Self {
            first: cell,
            rest: Box::default(),
        }
    }

    /// A cell for each of `endpoints`; `None` when there is no endpoint.
    pub(crate) fn per_endpoint(
        endpoints: &[&'static str],
        cell: impl FnMut(&'static str) -> Arc<CellSlot>,
    ) -> Option<Self> {
        let mut cells = endpoints.iter().copied().map(cell);
        Some(Self {
            first: cells.next()?,
            rest: cells.collect(),
        })
    }

    /// The cell that judges requests of `endpoint`.
    pub(crate) fn of(&self, endpoint: &str) -> &Arc<CellSlot> {
        self.rest
            .iter()
            .find(|cell| cell.endpoint() == Some(endpoint))
            .unwrap_or(&self.first)
    }

    /// Every cell.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<CellSlot>> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}
