//! Names as small numbers, and what one agent reports of one cell in a few words of memory.

use std::collections::{BTreeMap, HashMap};

use crate::ids::CellOwner;
use crate::report::{CauseReport, CellState};

/// What one agent reports of one cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mention {
    pub(super) cell: u32,
    pub(super) cause: Option<u32>,
    pub(super) cause_count: u64,
    pub(super) override_: Option<u32>,
    pub(super) state: CellState,
    /// It refuses because an operator said so.
    pub(super) is_forced_open: bool,
    pub(super) advisory: bool,
    pub(super) spared: u64,
    pub(super) reopens: u32,
    pub(super) trips: u64,
    pub(super) state_age_ms: u64,
    pub(super) open_age_ms: u64,
    pub(super) cooldown_ms: u64,
    pub(super) parked_ms: u64,
}

impl Mention {
    pub(super) fn is_parked(&self, since_report_ms: u64) -> bool {
        self.state == CellState::Closed && self.parked_ms > since_report_ms
    }

    pub(super) fn age_ms(&self, since_report_ms: u64) -> u64 {
        self.state_age_ms.saturating_add(since_report_ms)
    }

    pub(super) fn not_closed_for_ms(&self, since_report_ms: u64) -> u64 {
        self.open_age_ms
            .max(self.state_age_ms)
            .saturating_add(since_report_ms)
    }

    pub(super) fn cooldown_ms(&self, since_report_ms: u64) -> u64 {
        self.cooldown_ms.saturating_sub(since_report_ms)
    }
}

/// The cells of one gateway by number.
#[derive(Debug, Default)]
pub(super) struct Cells {
    names: Vec<CellKey>,
    numbers: HashMap<CellOwner, BTreeMap<Option<String>, u32>>,
    /// How many of them the current revision has; these come first.
    pub(super) configured: usize,
}

/// Names one cell within a gateway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellKey {
    pub(super) owner: CellOwner,
    pub(super) endpoint: Option<String>,
}

impl Cells {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn keys(&self) -> &[CellKey] {
        &self.names
    }

    /// The number of a cell that has one.
    pub(super) fn find(&self, owner: &CellOwner, endpoint: Option<&str>) -> Option<u32> {
        let endpoints = self.numbers.get(owner)?;
        match endpoint {
            None => endpoints.get(&None),
            Some(wanted) => endpoints
                .iter()
                .find(|(endpoint, _)| endpoint.as_deref() == Some(wanted))
                .map(|(_, number)| number),
        }
        .copied()
    }

    /// The number of a cell, and whether it is new.
    pub(super) fn number(&mut self, owner: &CellOwner, endpoint: Option<&str>) -> (u32, bool) {
        if let Some(number) = self.find(owner, endpoint) {
            return (number, false);
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let endpoint = endpoint.map(str::to_owned);
        self.names.push(CellKey {
            owner: owner.clone(),
            endpoint: endpoint.clone(),
        });
        let endpoints = self.numbers.entry(owner.clone()).or_default();
        endpoints.insert(endpoint, number);
        (number, true)
    }
}

/// Causes by number.
#[derive(Debug, Default)]
pub(super) struct Causes {
    names: Vec<(String, Option<u16>)>,
    numbers: HashMap<String, BTreeMap<Option<u16>, u32>>,
}

impl Causes {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn get(&self, number: u32) -> Option<&(String, Option<u16>)> {
        self.names.get(number as usize)
    }

    pub(super) fn number(&mut self, cause: &CauseReport) -> u32 {
        let of_kind = self.numbers.get(cause.kind.as_str());
        if let Some(number) = of_kind.and_then(|statuses| statuses.get(&cause.status)) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push((cause.kind.clone(), cause.status));
        let statuses = self.numbers.entry(cause.kind.clone()).or_default();
        statuses.insert(cause.status, number);
        number
    }
}

/// Plain names by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn get(&self, number: u32) -> Option<&String> {
        self.names.get(number as usize)
    }

    /// The number of a name that has one.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}
