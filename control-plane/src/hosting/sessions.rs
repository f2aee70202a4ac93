//! Which sessions are open here: a bound on their number, and one session per agent instance.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lanekeeper_model::lease::{ProbeAnswer, ProbeVerdict};
use lanekeeper_proto::limits::PROBE_LEASES_MAX;
use lanekeeper_proto::message::ProbeLease;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::publish::outbox::Key;

/// The open sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<Key, Slot>>,
}

#[derive(Debug)]
struct Slot {
    session_epoch: u64,
    replaced: CancellationToken,
    /// The agent at the other end has reported, so it knows its session epoch.
    heard: Arc<AtomicBool>,
    copied: watch::Sender<()>,
    leases: watch::Sender<ProbeLease>,
}

/// Another process holds a living session under the same instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Duplicate;

/// An entry in the register; it goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    sessions: Arc<Sessions>,
    key: Key,
    session_epoch: u64,
    /// Cancelled when the same instance opens a newer session.
    pub(crate) replaced: CancellationToken,
    /// Changes when a copy of the agent was turned away, here or elsewhere.
    pub(crate) copied: watch::Receiver<()>,
    /// Answers about probes that the session has not taken.
    pub(crate) leases: watch::Receiver<ProbeLease>,
    lease_answers: watch::Sender<ProbeLease>,
    heard: Arc<AtomicBool>,
}

impl Sessions {
    /// Registers a session and tells the instance's earlier one, if any, to go: its connection is
    /// most likely dead without either end knowing.
    ///
    /// # Errors
    ///
    /// [`Duplicate`] when the earlier session lives and `previous`, the epoch that the agent names
    /// as its last, is not that one's: the same process would know it, so this is another one, and
    /// letting it in would have the two push each other out for ever.
    pub(crate) fn enter(
        self: &Arc<Self>,
        key: Key,
        session_epoch: u64,
        previous: Option<u64>,
    ) -> Result<Entered, Duplicate> {
        let (replaced, heard) = (CancellationToken::new(), Arc::<AtomicBool>::default());
        let (sender, copied) = watch::channel(());
        let (lease_answers, leases) = watch::channel(ProbeLease::default());
        let slot = Slot {
            session_epoch,
            replaced: replaced.clone(),
            heard: Arc::clone(&heard),
            copied: sender,
            leases: lease_answers.clone(),
        };
        let mut open = self.open.lock();
        if open.get(&key).is_some_and(|earlier| {
            earlier.heard.load(Ordering::Relaxed)
                && previous.is_none_or(|previous| previous < earlier.session_epoch)
        }) {
            return Err(Duplicate);
        }
        if let Some(earlier) = open.insert(key.clone(), slot) {
            earlier.replaced.cancel();
        }
        drop(open);
        Ok(Entered {
            sessions: Arc::clone(self),
            key,
            session_epoch,
            replaced,
            copied,
            leases,
            lease_answers,
            heard,
        })
    }
}

impl Sessions {
    /// Tells a session that a copy of its agent was turned away.
    pub(crate) fn note_duplicate(&self, key: &Key) {
        if let Some(slot) = self.open.lock().get(key) {
            slot.copied.send_replace(());
        }
    }

    /// Hands an answer about probes to a session.
    pub(crate) fn answer_lease(&self, key: &Key, answer: ProbeAnswer) {
        if let Some(slot) = self.open.lock().get(key) {
            slot.leases.send_modify(|waiting| {
                if waiting.answers.len() < PROBE_LEASES_MAX {
                    waiting.answers.push(answer);
                }
            });
        }
    }

    /// Tells one session of a verdict, or all of a gateway.
    pub(crate) fn tell_verdict(&self, gateway: &str, instance: Option<&str>, it: &ProbeVerdict) {
        let open = self.open.lock();
        let meant = open.iter().filter(|((of, name), _)| {
            of == gateway && instance.is_none_or(|instance| instance == name)
        });
        for (_, slot) in meant {
            slot.leases.send_modify(|waiting| {
                if waiting.verdicts.len() < PROBE_LEASES_MAX {
                    waiting.verdicts.push(it.clone());
                }
            });
        }
    }

    /// Ends a session whose records the live view refuses: a later one of the same instance is
    /// elsewhere.
    pub(crate) fn outlived(&self, key: &Key, session_epoch: u64) {
        let open = self.open.lock();
        if let Some(slot) = open.get(key)
            && slot.session_epoch == session_epoch
        {
            slot.replaced.cancel();
        }
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }
}

impl Entered {
    /// The agent instance.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Takes the answers about probes.
    pub(crate) fn take_leases(&mut self) -> ProbeLease {
        // First, so that what comes meanwhile is news again.
        self.leases.mark_unchanged();
        let mut taken = ProbeLease::default();
        self.lease_answers.send_if_modified(|waiting| {
            taken = std::mem::take(waiting);
            false
        });
        taken
    }

    /// Notes that the agent has reported in this session.
    pub(crate) fn note_heard(&self) {
        self.heard.store(true, Ordering::Relaxed);
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
        let earlier = sessions.enter(key.clone(), 1, None).unwrap();
        let other = sessions
            .enter(("edge".to_owned(), "two".to_owned()), 2, None)
            .unwrap();
        let later = sessions.enter(key, 3, Some(1)).unwrap();
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

    #[test]
    fn only_who_knows_the_living_session_takes_its_place() {
        let sessions = Arc::new(Sessions::default());
        let key = ("edge".to_owned(), "one".to_owned());
        let first = sessions.enter(key.clone(), 5, None).unwrap();
        first.note_heard();
        for previous in [None, Some(4)] {
            let copy = sessions.enter(key.clone(), 6, previous);
            assert_eq!(copy.unwrap_err(), Duplicate);
        }
        assert!(!first.replaced.is_cancelled() && first.is_latest());
        // Back from another replica, where it had a later session.
        let again = sessions.enter(key.clone(), 9, Some(8)).unwrap();
        assert!(first.replaced.is_cancelled() && again.is_latest());
    }

    #[test]
    fn who_never_learnt_of_its_session_may_come_again() {
        let sessions = Arc::new(Sessions::default());
        let key = ("edge".to_owned(), "one".to_owned());
        let lost = sessions.enter(key.clone(), 5, None).unwrap();
        let again = sessions.enter(key, 6, None).unwrap();
        assert!(lost.replaced.is_cancelled() && again.is_latest());
    }
}
