//! Follows which agents someone took out of service.
//!
//! The list is short and the same for all sessions, so it is read whole.

use std::collections::HashSet;
use std::sync::Arc;

use lanekeeper_store::{ConfigStore, Error, Hint};
use tokio::sync::{Notify, watch};

use crate::follow::poll::Polled;

/// The instances that are out of service.
pub(crate) type Drained = Arc<HashSet<String>>;

/// The followed list.
pub(crate) struct DrainWatch {
    store: ConfigStore,
    known: watch::Sender<Option<Drained>>,
    wanted: Notify,
}

impl DrainWatch {
    pub(crate) fn new(store: ConfigStore) -> Arc<Self> {
        Arc::new(Self {
            store,
            known: watch::Sender::default(),
            wanted: Notify::new(),
        })
    }

    /// The list, now and later; `None` while it has not been read.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Drained>> {
        self.known.subscribe()
    }
}

impl Polled for DrainWatch {
    const WHAT: &'static str = "the list of drained agents";

    fn heeds(hint: &Hint) -> bool {
        matches!(hint, Hint::Overrides { .. })
    }

    fn wanted(&self) -> &Notify {
        &self.wanted
    }

    async fn poll(&self) -> Result<(), Error> {
        let read: HashSet<String> = self.store.drained_agents().await?.into_iter().collect();
        self.known.send_if_modified(|known| {
            let changed = known.as_deref() != Some(&read);
            if changed {
                *known = Some(Arc::new(read));
            }
            changed
        });
        Ok(())
    }
}
