//! The agent's desk for leases of probes: what cells ask for, what their probes proved, and whether
//! there is a control plane to tell. Cells write to it from requests; the session empties it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lanekeeper_model::lease::{ProbeAnswer, ProbeAsk, ProbeVerdict, ProbedLane};
use lanekeeper_proto::message::ProbeLeaseRequest;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::lanes::cells::CellSlot;
use crate::lanes::lane::Lane;

/// Most questions, and most verdicts, that wait for the session. A cell that finds no room probes
/// by itself.
const WAITING_MAX: usize = 10_000;

/// The desk.
#[derive(Debug, Default)]
pub(crate) struct LeaseDesk {
    connected: AtomicBool,
    waiting: Mutex<ProbeLeaseRequest>,
    wanted: Notify,
    /// Cells wait without end, to see that a simulation notices.
    #[cfg(feature = "simulation")]
    endless: AtomicBool,
}

impl LeaseDesk {
    /// A control plane that gives leases is there, or is not any more.
    pub(crate) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
        if !connected {
            *self.waiting.lock() = ProbeLeaseRequest::default();
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// How much longer than right cells wait: not at all.
    pub(crate) fn excess(&self) -> Duration {
        #[cfg(feature = "simulation")]
        if self.endless.load(Ordering::Relaxed) {
            return Duration::from_secs(3600);
        }
        Duration::ZERO
    }

    /// From now on cells wait without end.
    #[cfg(feature = "simulation")]
    pub(crate) fn wait_for_ever(&self) {
        self.endless.store(true, Ordering::Relaxed);
    }

    /// Notified when something waits.
    pub(crate) fn wanted(&self) -> &Notify {
        &self.wanted
    }

    /// Takes what waits.
    pub(crate) fn take(&self) -> ProbeLeaseRequest {
        std::mem::take(&mut self.waiting.lock())
    }

    /// Asks for a lane's lease, once however many cells want it.
    pub(crate) fn ask(&self, lane: ProbedLane, ttl: Duration) {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let mut waiting = self.waiting.lock();
        let is_asked = waiting.asks.iter().any(|ask| ask.lane == lane);
        if !is_asked && waiting.asks.len() < WAITING_MAX {
            waiting.asks.push(ProbeAsk { lane, ttl_ms });
        }
        drop(waiting);
        self.wanted.notify_one();
    }

    /// Gives a lease back with what its probe proved, or with nothing.
    pub(crate) fn settle(&self, lane: ProbedLane, verdict: Option<ProbeVerdict>) {
        let mut waiting = self.waiting.lock();
        match verdict {
            Some(verdict) if waiting.verdicts.len() < WAITING_MAX => waiting.verdicts.push(verdict),
            None if waiting.returned.len() < WAITING_MAX => waiting.returned.push(lane),
            // The lease ends by itself.
            Some(_) | None => {}
        }
        drop(waiting);
        self.wanted.notify_one();
    }
}

/// Distinguishes what a lane's probes are about: the place, the model and the credential. FNV-1a,
/// the same on every agent; nothing can be read back from it.
pub(crate) fn subject_of(lane: &Lane) -> u64 {
    let provider = &lane.provider;
    let place = match &provider.target {
        Ok(target) => format!("{}:{}", target.host(), target.port()),
        Err(_) => String::new(),
    };
    let path = lane.endpoints.first().map(|(_, uri)| uri.to_string());
    let credential = provider.credential.fingerprint().unwrap_or_default();
    let texts = [
        &*place,
        path.as_deref().unwrap_or_default(),
        &*lane.upstream_model,
    ];
    let texts = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    let bytes = texts.chain(credential);
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Hands the control plane's answers to the cells they are about. A lease is one cell's: the others
/// of the lane wait for it as other agents' cells do.
pub(crate) fn answer(
    cells: &[Arc<CellSlot>],
    answers: &[ProbeAnswer],
    verdicts: &[ProbeVerdict],
    now: Instant,
) {
    for answer in answers {
        let remaining = Duration::from_millis(answer.remaining_ms);
        let mut is_free = answer.granted;
        for cell in cells.iter().filter(|cell| cell.is_probed_as(&answer.lane)) {
            let takes = is_free && cell.lease_granted(remaining, now);
            is_free &= !takes;
            if !takes {
                cell.lease_denied(remaining, now);
            }
        }
    }
    for verdict in verdicts {
        for cell in cells.iter().filter(|cell| cell.is_probed_as(&verdict.lane)) {
            cell.learn_verdict(verdict, now);
        }
    }
}
