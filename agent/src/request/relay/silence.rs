//! How long an upstream has had nothing to give.

use crate::clock;
use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Measures how long the upstream has had nothing to give.
#[derive(Default)]
pub(super) struct Silence {
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Something came.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// Begins again, for a limit that may be shorter than the one before.
    pub(super) fn restart(&mut self) {
        self.since = None;
        self.timer = None;
    }

    /// True when there has been nothing for `limit`; else registers to be woken then.
    pub(super) fn exceeds(&mut self, limit: Duration, cx: &mut Context<'_>) -> bool {
        let since = *self.since.get_or_insert_with(clock::now);
        let until = since.checked_add(limit).unwrap_or(since);
        // The timer is not moved with every frame: when it goes off early it is set anew.
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until.into())));
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline().into_std() >= until {
                return true;
            }
            timer.as_mut().reset(until.into());
        }
        false
    }
}
