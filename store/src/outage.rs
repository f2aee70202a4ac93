//! Remembers for a moment that a database does not answer.
//!
//! Finding that out takes the whole wait for a connection. While it is known, others are told at
//! once instead of waiting as long each; one of them looks again when the moment has passed.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long nobody looks again after a connection could not be had.
pub(crate) const MEMORY: Duration = Duration::from_secs(1);

/// What is known of an outage.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// Until when others are refused; `None` while the database answers.
    refused_until: Mutex<Option<Instant>>,
}

impl Outage {
    /// Whether to ask the database now. The one who may look again holds the others off for as long
    /// as `look` can take.
    pub(crate) fn may_ask(&self, now: Instant, look: Duration) -> bool {
        let mut refused_until = self.lock();
        match *refused_until {
            Some(until) if now < until => false,
            Some(_) => {
                *refused_until = Some(now + look);
                true
            }
            None => true,
        }
    }

    /// A connection could not be had.
    pub(crate) fn began(&self, now: Instant) {
        *self.lock() = Some(now + MEMORY);
    }

    /// A connection was had.
    pub(crate) fn ended(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.refused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_secs(5);

    #[test]
    fn one_looks_again_while_the_others_are_told_at_once() {
        #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
        let start = Instant::now();
        let outage = Outage::default();
        assert!(outage.may_ask(start, LOOK) && outage.may_ask(start, LOOK));
        outage.began(start);
        assert!(!outage.may_ask(start + MEMORY / 2, LOOK));
        assert!(outage.may_ask(start + MEMORY, LOOK));
        assert!(!outage.may_ask(start + MEMORY + LOOK / 2, LOOK));
        // The one that looked is gone without a word: the next may.
        assert!(outage.may_ask(start + MEMORY + LOOK, LOOK));
        outage.ended();
        assert!(outage.may_ask(start, LOOK) && outage.may_ask(start, LOOK));
    }
}
