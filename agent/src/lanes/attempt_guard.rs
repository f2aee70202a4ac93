//! Everything one attempt holds, in one value that gives it all back exactly once.
//!
//! A guard owns the permit, the spend of the lane's budget and the tickets of one or two cells.
//! Settling consumes it; dropping it on any other path (a caller that left, a panic, an error)
//! abandons the tickets, refunds the spend and frees the permit.

use crate::clock;
use crate::lanes::cells::CellSlot;
use crate::lanes::lane::Lane;
use crate::lanes::lane::state::{LaneState, Permit, Tally};
use crate::observe::trace::AttemptTrace;
use crate::proof::{Circumstances, Proof};
use lanekeeper_breaker::Ticket;
use std::sync::Arc;
use std::time::Instant;

/// The right to make one attempt on a lane.
pub(crate) struct AttemptGuard {
    lane: Arc<Lane>,
    cell: Arc<CellSlot>,
    ticket: Option<Ticket>,
    /// The provider's own cell and its ticket.
    provider: Option<(Arc<CellSlot>, Ticket)>,
    /// Held for its drop: it frees the lane's place when the attempt is over.
    _permit: Permit,
    /// Nothing the caller asked for has reached it, so the spend is given back.
    refundable: bool,
    /// The attempt's span, where somebody traces.
    trace: Option<Box<AttemptTrace>>,
}

impl AttemptGuard {
    /// A guard without tickets yet. The budget was already charged.
    pub(crate) fn new(lane: Arc<Lane>, cell: Arc<CellSlot>, permit: Permit) -> Self {
        Self {
            lane,
            cell,
            ticket: None,
            provider: None,
            _permit: permit,
            refundable: true,
            trace: None,
        }
    }

    /// Takes the ticket of the pool's cell.
    pub(crate) fn hold(&mut self, ticket: Ticket) {
        self.ticket = Some(ticket);
    }

    /// Takes the ticket of the provider's own cell.
    pub(crate) fn hold_provider(&mut self, cell: &Arc<CellSlot>, ticket: Ticket) {
        self.provider = Some((Arc::clone(cell), ticket));
    }

    /// The attempt is traced; its span ends with the guard.
    pub(crate) fn traced(&mut self, trace: AttemptTrace) {
        self.trace = Some(Box::new(trace));
    }

    /// The attempt's span.
    pub(crate) fn trace(&mut self) -> Option<&mut AttemptTrace> {
        self.trace.as_deref_mut()
    }

    /// The lane the attempt goes to.
    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// The first content is on its way to the caller.
    pub(crate) fn commit(&mut self, now: Instant) {
        self.refundable = false;
        if let Some(ticket) = &mut self.ticket {
            self.cell.commit(ticket, now);
        }
        if let Some((cell, ticket)) = &mut self.provider {
            cell.commit(ticket, now);
        }
    }

    /// The first content is on its way, and so is all the rest: [`AttemptGuard::settle`] follows at
    /// once.
    pub(crate) fn commit_whole(&mut self, now: Instant) {
        self.refundable = false;
        if let Some(ticket) = &self.ticket {
            self.cell.content_came(ticket, now);
        }
        if let Some((cell, ticket)) = &self.provider {
            cell.content_came(ticket, now);
        }
    }

    /// An answer that proves nothing yet goes to the caller.
    pub(crate) fn deliver(&mut self) {
        self.refundable = false;
    }

    /// Books what the attempt proved.
    pub(crate) fn settle(mut self, proof: Proof, circumstances: Circumstances, now: Instant) {
        self.lane.state.count_proof(proof);
        if let Some(trace) = self.trace() {
            trace.proved(proof);
        }
        let mut whole_lane = false;
        if let Some(ticket) = self.ticket.take() {
            whole_lane = self.cell.settle(ticket, proof, circumstances, now);
        }
        if let Some((cell, ticket)) = self.provider.take() {
            cell.settle(ticket, proof, circumstances, now);
        }
        if let (true, Proof::HardDown { cause }) = (whole_lane, proof) {
            for sibling in &self.lane.cells {
                if !Arc::ptr_eq(sibling, &self.cell) {
                    sibling.share_hard_down(cause, now);
                }
            }
        }
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        if self.refundable {
            self.lane.state.refund();
        }
        if self.ticket.is_none() && self.provider.is_none() {
            return;
        }
        let now = clock::now();
        if let Some(ticket) = self.ticket.take() {
            self.cell.abandon(ticket, now);
        }
        if let Some((cell, ticket)) = self.provider.take() {
            cell.abandon(ticket, now);
        }
    }
}

impl LaneState {
    /// Counts a finished attempt by what it proved; nothing proved, nothing counted.
    fn count_proof(&self, proof: Proof) {
        match proof {
            Proof::Success => self.count(Tally::Ok),
            Proof::Transient { .. } | Proof::HardDown { .. } => self.count(Tally::Failed),
            Proof::ClientFault { .. } => self.count(Tally::ClientFault),
            Proof::Neutral => {}
        }
    }
}
