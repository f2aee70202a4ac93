//! Which sessions are open here: a bound on their number, and one session per agent instance.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::outbox::Key;

/// The open sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<Key, Slot>>,
}

#[derive(Debug)]
struct Slot {
    session_epoch: u64,
    replaced: CancellationToken,
}

/// An entry in the register; it goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    sessions: Arc<Sessions>,
    key: Key,
    session_epoch: u64,
    /// Cancelled when the same instance opens a newer session.
    pub(crate) replaced: CancellationToken,
}

impl Sessions {
    /// Registers a session and tells the instance's earlier one, if any, to go: its connection is
    /// most likely dead without either end knowing.
    pub(crate) fn enter(self: &Arc<Self>, key: Key, session_epoch: u64) -> Entered {
        let replaced = CancellationToken::new();
        let slot = Slot {
            session_epoch,
            replaced: replaced.clone(),
        };
        if let Some(earlier) = self.open.lock().insert(key.clone(), slot) {
            earlier.replaced.cancel();
        }
        Entered {
            sessions: Arc::clone(self),
            key,
            session_epoch,
            replaced,
        }
    }
}

impl Entered {
    /// The agent instance.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// No newer session of this instance has been opened here.
    pub(crate) fn is_latest(&self) -> bool {
        self.sessions
            .open
            .lock()
            .get(&self.key)
            .is_some_and(|slot| slot.session_epoch == self.session_epoch)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut open = self.sessions.open.lock();
        if open
            .get(&self.key)
            .is_some_and(|slot| slot.session_epoch == self.session_epoch)
        {
            open.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_session_of_an_instance_replaces_the_earlier_one() {
        let sessions = Arc::new(Sessions::default());
        let key = ("edge".to_owned(), "one".to_owned());
        let earlier = sessions.enter(key.clone(), 1);
        let other = sessions.enter(("edge".to_owned(), "two".to_owned()), 2);
        let later = sessions.enter(key, 3);
        assert!(earlier.replaced.is_cancelled());
        assert!(!later.replaced.is_cancelled());
        assert!(!other.replaced.is_cancelled());
        drop(earlier);
        assert!(
            later.is_latest(),
            "leaving late does not remove the newer one"
        );
        drop(later);
        drop(other);
        assert!(sessions.open.lock().is_empty());
    }
}
