//! Active probes: small requests of the agent's own that find a healed lane without a caller's
//! request, and in mode `active` a sick one before a caller meets it.
//!
//! A probe goes around selection, permits, budgets and tickets, but not around the address guard.
//! It holds nothing while it runs, so that one that is dropped leaves nothing behind. One
//! supervisor per agent runs them all, on whichever worker thread has its turn.

mod request;
mod schedule;
mod supervisor;

pub(crate) use supervisor::supervise;

use crate::clock;
use crate::lanes::cells::CellSlot;
use crate::lanes::lane::Lane;
use crate::lanes::lane::state::Tally;
use crate::observe::metrics::ProbeOutcome;
use crate::proof::Proof;
use crate::request::attempt::{self, Attempted, Bounds, Outbound};
use crate::upstream::Client;
use lanekeeper_model::LaneName;
use lanekeeper_model::gateway::HealthMode;
use lanekeeper_protocol::verdict::{Disposition, Verdict};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What the worker threads share about probes.
#[derive(Default)]
pub(crate) struct Probing {
    /// Held by the worker that runs the probes; the next one waits for it.
    turn: tokio::sync::Mutex<()>,
    /// Notified when another revision is served.
    configured: Notify,
    /// Lanes whose probe the provider refuses as a bad request.
    misconfigured: Mutex<BTreeMap<LaneName, String>>,
}

impl Probing {
    /// Another revision is served from now on.
    pub(crate) fn configured(&self) {
        self.configured.notify_one();
    }

    /// What is wrong with probes themselves.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.misconfigured.lock().values().cloned().collect()
    }
}

/// What a probe found, before it is booked.
struct Finding {
    outcome: ProbeOutcome,
    /// Why it is not well.
    verdict: Option<Verdict>,
}

/// Sends one probe and judges the answer. Nothing is booked.
async fn ask(client: &Client, lane: &Lane, timeout: Duration) -> Finding {
    let key = lane.provider.credential.fingerprint();
    let now = clock::now();
    let deadline = now.checked_add(timeout).unwrap_or(now);
    let bounds = Bounds {
        head: deadline,
        content: deadline,
        request: deadline,
        hold: Duration::ZERO,
    };
    let asked = request::of(lane.provider.protocols.primary(), &lane.upstream_model);
    let verdict = match attempt::attempt(client, lane, Outbound::native(&asked), bounds, None).await
    {
        // Stopped by its limit before any text, an answer is still an answer.
        Attempted::Content(_) | Attempted::Empty(_) => {
            return Finding {
                outcome: ProbeOutcome::Ok,
                verdict: None,
            };
        }
        Attempted::Failed(verdict, _) => verdict,
    };
    let outcome = match verdict.disposition {
        _ if key != lane.provider.credential.fingerprint() => ProbeOutcome::Void,
        // Without a key of its own the agent cannot say that the key is bad.
        Disposition::HardDownAuth if key.is_none() => ProbeOutcome::Misconfigured,
        Disposition::Transient
        | Disposition::HardDownAuth
        | Disposition::HardDownBilling
        | Disposition::HardDownModel => ProbeOutcome::Failed,
        Disposition::Local | Disposition::Neutral | Disposition::Misunderstood => {
            ProbeOutcome::Void
        }
        Disposition::ClientFault
        | Disposition::ContextLength
        | Disposition::Empty
        | Disposition::Success => ProbeOutcome::Misconfigured,
    };
    Finding {
        outcome,
        verdict: Some(verdict),
    }
}

/// True when a probe could change something for the lane.
fn is_wanted(lane: &Lane, mode: HealthMode, now: Instant) -> bool {
    match mode {
        HealthMode::None => false,
        HealthMode::Active => true,
        HealthMode::Dead => cells(lane).any(|cell| cell.is_ailing(now)),
    }
}

/// The lane's cells and its provider's own.
fn cells(lane: &Lane) -> impl Iterator<Item = &Arc<CellSlot>> {
    lane.cells.iter().chain(lane.provider.own_cells())
}

/// Books what a probe that began at `began` found.
fn book(lane: &Lane, mode: HealthMode, began: Instant, finding: &Finding) {
    let now = clock::now();
    match (finding.outcome, &finding.verdict) {
        (ProbeOutcome::Ok, _) => {
            lane.state.count(Tally::Ok);
            for cell in cells(lane) {
                cell.recover(began, now);
            }
        }
        (ProbeOutcome::Failed, Some(verdict)) => {
            lane.state.count(Tally::Failed);
            fail(lane, mode, Proof::of(verdict), now);
        }
        _ => {}
    }
}

/// Tells the cells of a failure. In mode `dead` those that are well are left to their own traffic.
fn fail(lane: &Lane, mode: HealthMode, proof: Proof, now: Instant) {
    let mut told = Vec::new();
    let mut whole_lane = false;
    let asked = request::dialect(lane.provider.protocols.primary()).endpoint_name();
    for cell in cells(lane) {
        // What one endpoint does says nothing about another.
        let concerns = cell.endpoint().is_none_or(|endpoint| endpoint == asked);
        if concerns && (mode == HealthMode::Active || cell.is_ailing(now)) {
            whole_lane |= cell.fail_probe(proof, now);
            told.push(Arc::as_ptr(cell));
        }
    }
    if let (true, Proof::HardDown { cause }) = (whole_lane, proof) {
        for cell in &lane.cells {
            if !told.contains(&Arc::as_ptr(cell)) {
                cell.share_hard_down(cause, now);
            }
        }
    }
}
