//! What requests and the passing of time do to an agent's cells.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{Admission, Cause, CauseKind, RefusalReason, Selectable, Ticket};
use lanekeeper_model::{CellReport, LaneName, PoolName};

use super::Agent;
use crate::lanes::cells::CellSlot;
use crate::proof::{Circumstances, Proof};

/// An admitted attempt.
pub struct Attempt {
    cell: Arc<CellSlot>,
    ticket: Ticket,
}

impl Attempt {
    /// Its result decides about a half-open cell.
    pub fn is_probe(&self) -> bool {
        self.ticket.is_probe()
    }

    /// The generation of the cell that admitted it.
    pub fn generation(&self) -> u64 {
        self.ticket.generation()
    }
}

impl Agent {
    /// What is done every second: overrides whose time is over end.
    pub fn end_overrides(&mut self, now: Instant) {
        if self.overrides.end_expired(now) {
            self.reach(now);
        }
        for (_, cell) in self.cells.values() {
            cell.end_override(now);
            cell.end_advisory(now);
        }
        self.stir(now);
    }

    /// Every cell as a report carries it.
    pub fn cells(&self, now: Instant) -> Vec<CellReport> {
        let cells = self.cells.values();
        cells
            .map(|(provider, cell)| cell.report(provider, now))
            .collect()
    }

    /// The member that a request of a pool goes to, drawn by `roll` in [0, 1): as selection does it,
    /// one that is parked or advised against only where no other can be had.
    pub fn pick(&self, pool: &str, roll: f64, now: Instant) -> Option<(PoolName, LaneName)> {
        let (mut leased, mut ready, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for (key, (_, cell)) in &self.cells {
            if key.0 == *pool {
                match cell.selectable(now).0 {
                    Selectable::Probe if cell.is_leased(now) => leased.push(key),
                    Selectable::Yes | Selectable::Probe => ready.push(key),
                    Selectable::SoftParked | Selectable::Advised => last.push(key),
                    Selectable::No { .. } => {}
                }
            }
        }
        let tiers = [leased, ready, last].into_iter();
        let tier = tiers.into_iter().find(|tier| !tier.is_empty())?;
        let place = (roll * tier.len() as f64) as usize;
        tier.get(place).map(|key| (*key).clone())
    }

    /// Asks a cell for an attempt.
    ///
    /// # Errors
    ///
    /// `None` when there is no such cell, otherwise why it refuses.
    pub fn admit(
        &mut self,
        cell: &(PoolName, LaneName),
        lease: Duration,
        now: Instant,
    ) -> Result<Attempt, Option<RefusalReason>> {
        let slot = self.cells.get(cell).map(|(_, slot)| Arc::clone(slot));
        let slot = slot.ok_or(None)?;
        let admission = slot.admit(now, lease);
        self.totals.requests += 1;
        self.stir(now);
        match admission {
            Admission::Pass(ticket) | Admission::Probe(ticket, _) => {
                Ok(Attempt { cell: slot, ticket })
            }
            Admission::Refuse(refusal) => Err(Some(refusal.reason)),
        }
    }

    /// Ends an attempt.
    pub fn settle(&mut self, attempt: Attempt, success: bool, now: Instant) {
        let proof = if success {
            self.totals.ok += 1;
            Proof::Success
        } else {
            self.totals.failed += 1;
            Proof::Transient {
                cause: Cause::new(CauseKind::Reset),
                retry_after: None,
            }
        };
        let Attempt { cell, ticket } = attempt;
        cell.settle(ticket, proof, Circumstances::default(), now);
        self.stir(now);
    }
}
