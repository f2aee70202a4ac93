//! The operators' overrides within one session: what the agent was sent, what it said of it, and
//! what it lacks. At most one set is unanswered; while it is, the newest one waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::fleet::HeldOverrides;
use lanekeeper_model::{ActiveOverride, Override};
use lanekeeper_proto::message::{Overrides, OverridesResult};

/// How long a set may go unanswered before a newer one may follow it. An agent obeys within
/// milliseconds; the rest is for a starved one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The active overrides of one gateway, shared by all its sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ActiveOverrides {
    /// The gateway's counter of changes.
    pub(crate) generation: u64,
    /// The overrides that were active when they were read, the earliest first.
    pub(crate) overrides: Vec<ActiveOverride>,
}

/// One session's share of the gateway's overrides.
#[derive(Debug)]
pub(super) struct SessionOverrides {
    /// What stands; `None` while it has not been read, which is not the same as nothing.
    active: Option<Arc<ActiveOverrides>>,
    /// The active set whose part for this agent was looked at last.
    seen: Option<u64>,
    /// The ids that were sent last, with their set; `None` before the first.
    sent: Option<(u64, Vec<String>)>,
    /// When the unanswered set was sent.
    in_flight: Option<Instant>,
}

/// What came of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Obeyed {
    /// From sending to the answer; `None` when the agent speaks of it again.
    pub(super) took: Option<Duration>,
    /// The record says something else now.
    pub(super) changed: bool,
}

impl SessionOverrides {
    pub(super) fn new(active: Option<Arc<ActiveOverrides>>) -> Self {
        Self {
            active,
            seen: None,
            sent: None,
            in_flight: None,
        }
    }

    pub(super) fn replace(&mut self, active: Option<Arc<ActiveOverrides>>) {
        self.active = active;
    }

    /// The set to send now. The first of a session is sent even when it is empty: the agent may
    /// hold overrides of an earlier session that are over. A change that does not concern the agent
    /// is not told.
    pub(super) fn next(
        &mut self,
        labels: &BTreeMap<String, String>,
        now: Instant,
        now_ms: u64,
    ) -> Option<Overrides> {
        let active = self.active.as_ref()?;
        if self.seen == Some(active.generation) {
            return None;
        }
        let waits = |sent: Instant| now.saturating_duration_since(sent) < ANSWER_TIMEOUT;
        if self.in_flight.is_some_and(waits) {
            return None;
        }
        let overrides: Vec<Override> = active
            .overrides
            .iter()
            .filter(|order| order.selects(labels))
            .filter_map(|order| order.at(now_ms))
            .collect();
        self.seen = Some(active.generation);
        let ids = overrides.iter().map(|order| &order.id);
        if self
            .sent
            .as_ref()
            .is_some_and(|(_, sent)| ids.clone().eq(sent))
        {
            return None;
        }
        self.sent = Some((active.generation, ids.cloned().collect()));
        self.in_flight = Some(now);
        Some(Overrides {
            generation: active.generation,
            entries: overrides,
            unreadable: Vec::new(),
        })
    }

    /// Takes an answer to the latest set; `None` for one to an earlier set.
    pub(super) fn answered(
        &mut self,
        result: OverridesResult,
        held: &mut HeldOverrides,
        now: Instant,
        now_ms: u64,
    ) -> Option<Obeyed> {
        let (generation, sent) = self.sent.as_ref()?;
        if result.generation != *generation {
            return None;
        }
        let applied = result
            .applied
            .into_iter()
            .filter(|id| sent.contains(id))
            .map(|id| {
                let since_ms = held.applied.get(&id).copied().unwrap_or(now_ms);
                (id, since_ms)
            });
        let refused = result
            .refused
            .into_iter()
            .filter(|refused| sent.contains(&refused.id))
            .map(|refused| (refused.id, refused.reason));
        let said = HeldOverrides {
            understood: true,
            generation: *generation,
            applied: applied.collect(),
            refused: refused.collect(),
        };
        let changed = *held != said;
        *held = said;
        let sent = self.in_flight.take();
        Some(Obeyed {
            took: sent.map(|sent| now.saturating_duration_since(sent)),
            changed,
        })
    }
}

#[cfg(test)]
mod tests;
