//! Connections between two requests.
//!
//! The newest goes out first: under little load the rest grow old and are closed, and a young one
//! is the least likely to have been closed by the peer. Time is counted in sweeps, so the request
//! path reads no clock.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::http1::Link;
use super::target::TargetKey;

/// Idle connections kept for one target; the oldest beyond that is closed.
pub const MAX_IDLE_PER_TARGET: usize = 256;
/// A connection idle for this long is closed: below the 60 s after which common servers and
/// balancers close it themselves.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
/// Sweeps within [`IDLE_TIMEOUT`].
const SWEEPS: u32 = 5;

/// The idle connections of one worker.
#[derive(Debug, Default)]
pub(super) struct IdlePool {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stacks: HashMap<TargetKey, VecDeque<Idle>>,
    sweep: u64,
    sweeping: bool,
}

#[derive(Debug)]
struct Idle {
    link: Box<Link>,
    since: u64,
}

impl IdlePool {
    /// The newest idle connection that still looks alive.
    pub(super) fn take(&self, key: &TargetKey) -> Option<Box<Link>> {
        loop {
            let mut link = self.state.lock().stacks.get_mut(key)?.pop_back()?.link;
            if link.is_reusable() {
                return Some(link);
            }
        }
    }

    /// Takes back a connection whose answer was read to its end; closes it if it is of no more use.
    pub(super) fn put(self: &Arc<Self>, key: &TargetKey, mut link: Box<Link>) {
        // Without a runtime nobody would ever sweep.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if !link.is_reusable() {
            return;
        }
        let mut state = self.state.lock();
        let idle = Idle {
            link,
            since: state.sweep,
        };
        let stack = match state.stacks.get_mut(key) {
            Some(stack) => stack,
            None => state.stacks.entry(key.clone()).or_default(),
        };
        stack.push_back(idle);
        let oldest = if stack.len() > MAX_IDLE_PER_TARGET {
            stack.pop_front()
        } else {
            None
        };
        let start_sweeping = !std::mem::replace(&mut state.sweeping, true);
        drop(state);
        drop(oldest);
        if start_sweeping {
            runtime.spawn(sweep_until_empty(Arc::downgrade(self)));
        }
    }

    /// Closes what is too old or dead; false when nothing is left.
    pub(super) fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        state.sweep += 1;
        let now = state.sweep;
        for stack in state.stacks.values_mut() {
            stack
                .retain_mut(|idle| now - idle.since < u64::from(SWEEPS) && idle.link.is_reusable());
        }
        state.stacks.retain(|_, stack| !stack.is_empty());
        state.sweeping = !state.stacks.is_empty();
        state.sweeping
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state.lock().stacks.values().map(VecDeque::len).sum()
    }
}

async fn sweep_until_empty(pool: Weak<IdlePool>) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT / SWEEPS).await;
        match pool.upgrade() {
            Some(pool) if pool.sweep() => {}
            _ => return,
        }
    }
}
