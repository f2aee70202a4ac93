//! How long an upstream has had nothing to give: no byte at all, or bytes without anything of the
//! answer in them. A model that works for minutes sends pings; one whose connection is dead sends
//! nothing.

use crate::clock;
use std::future::Future as _;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// The longest silences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Longest {
    /// Without a byte.
    pub(super) bytes: Duration,
    /// Without anything of the answer.
    pub(super) content: Duration,
}

/// Measures both silences, each from the moment the upstream had nothing to give.
#[derive(Default)]
pub(super) struct Silence {
    bytes_since: Option<Instant>,
    content_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Bytes came, whatever they say.
    pub(super) fn heard(&mut self) {
        self.bytes_since = None;
    }

    /// Something of the answer came.
    pub(super) fn end(&mut self) {
        self.bytes_since = None;
        self.content_since = None;
    }

    /// Begins again, for a limit that may be shorter than the one before.
    pub(super) fn restart(&mut self) {
        self.end();
        self.timer = None;
    }

    /// True when one of the silences is too long; else registers to be woken then.
    pub(super) fn exceeds(&mut self, longest: Longest, cx: &mut Context<'_>) -> bool {
        let now = || clock::now();
        let bytes = *self.bytes_since.get_or_insert_with(now);
        let content = *self.content_since.get_or_insert(bytes);
        let later = |since: Instant, by| since.checked_add(by).unwrap_or(since);
        let until = later(bytes, longest.bytes).min(later(content, longest.content));
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
