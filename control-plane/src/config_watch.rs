//! Follows the configuration database and tells sessions what their gateways' agents shall serve.
//!
//! A poll of revision numbers is the truth and hints only bring it forward, since hints get lost.
//! While the database is away the known revisions go on being served. Documents are read for
//! gateways that agents ask for, and stay known afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use lanekeeper_proto::limits;
use lanekeeper_store::{ConfigStore, Error, Hint, Revision};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::metrics::Metrics;
use crate::target::Target;

/// How far a poll may be from its time, as a share, so that replicas do not poll in step.
const POLL_JITTER: f64 = 0.2;
/// Shortest time between two polls, however many hints come.
const POLL_GAP: Duration = Duration::from_millis(20);
/// How long one poll may take.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Documents read at once.
const READERS: usize = 8;

/// What the database says of all gateways: name, revision, content hash.
type Heads = Vec<(String, u64, String)>;

/// The followed configuration.
pub(crate) struct ConfigWatch {
    store: ConfigStore,
    metrics: Arc<Metrics>,
    known: Mutex<Known>,
    /// The control epoch; empty until the first whole reading.
    epoch: watch::Sender<String>,
    wanted: Notify,
}

/// One gateway as a session sees it.
pub(crate) struct Subscription {
    /// The newest revision whose document is known, now and later.
    pub(crate) target: watch::Receiver<Option<Arc<Target>>>,
    /// The newest revision's number, whether or not its document is known; `None` when there is no
    /// such gateway.
    pub(crate) head: Option<u64>,
}

impl ConfigWatch {
    pub(crate) fn new(store: ConfigStore, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store,
            metrics,
            known: Mutex::new(Known::default()),
            epoch: watch::Sender::new(String::new()),
            wanted: Notify::new(),
        })
    }

    /// The control epoch, now and later; empty until everything was read once.
    pub(crate) fn epoch(&self) -> watch::Receiver<String> {
        self.epoch.subscribe()
    }

    /// Everything was read once.
    pub(crate) fn is_ready(&self) -> bool {
        !self.epoch.borrow().is_empty()
    }

    /// Follows a gateway, existing or not.
    pub(crate) fn subscribe(&self, gateway: &str) -> Subscription {
        let mut known = self.known.lock();
        let entry = known.gateways.entry(gateway.to_owned()).or_default();
        let subscription = Subscription {
            target: entry.target.subscribe(),
            head: entry.head.as_ref().map(|head| head.0),
        };
        if entry.lacks_document() {
            self.wanted.notify_one();
        }
        subscription
    }

    /// Polls until told to stop.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut hints: broadcast::Receiver<Hint>,
        interval: Duration,
        shutdown: CancellationToken,
    ) {
        let mut healthy = true;
        let mut hinting = true;
        loop {
            // What was hinted at until now is covered by the poll that follows.
            hints = hints.resubscribe();
            let polled = match tokio::time::timeout(POLL_TIMEOUT, self.poll()).await {
                Ok(polled) => polled.map_err(|error| format!("{error:?}")),
                Err(_) => Err("no answer in time".to_owned()),
            };
            self.metrics.polled(polled.is_ok());
            match (&polled, healthy) {
                (Err(error), true) => {
                    tracing::warn!(
                        error,
                        "the configuration cannot be read; serving what is known"
                    );
                }
                (Ok(()), false) => tracing::info!("the configuration can be read again"),
                (Ok(()), true) | (Err(_), false) => {}
            }
            healthy = polled.is_ok();

            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(clock::jittered(interval, POLL_JITTER)) => {}
                () = self.wanted.notified() => {}
                open = revision_hint(&mut hints), if hinting => hinting = open,
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL_GAP) => {}
            }
        }
    }

    async fn poll(&self) -> Result<(), Error> {
        let epoch = self.store.control_epoch().await?;
        let heads = self.store.heads().await?;
        let restored = *self.epoch.borrow() != epoch;
        let lacking = {
            let mut known = self.known.lock();
            known.take_heads(heads, restored);
            known.lacking()
        };
        let read = self.read(lacking).await;
        // Last, so that whoever sees the new epoch sees its revisions too.
        self.epoch.send_if_modified(|current| {
            let changed = *current != epoch;
            *current = epoch;
            changed
        });
        read
    }

    /// Reads documents. One that cannot be read does not keep the others.
    async fn read(&self, gateways: Vec<String>) -> Result<(), Error> {
        let mut read = stream::iter(gateways)
            .map(async |gateway| {
                let revision = self.store.current(&gateway).await;
                (gateway, revision)
            })
            .buffer_unordered(READERS);
        let mut result = Ok(());
        while let Some((gateway, revision)) = read.next().await {
            match revision {
                Ok(Some(revision)) => self.known.lock().take_document(&gateway, revision),
                Ok(None) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }
}

/// Waits for news of a revision; false when no more hints will come.
async fn revision_hint(hints: &mut broadcast::Receiver<Hint>) -> bool {
    loop {
        match hints.recv().await {
            Ok(Hint::Revision { .. }) | Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Ok(Hint::Report { .. } | Hint::TokenRevoked) => {}
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}

/// What is known of all gateways.
#[derive(Default)]
struct Known {
    gateways: BTreeMap<String, Entry>,
}

#[derive(Default)]
struct Entry {
    /// Newest revision and its hash.
    head: Option<(u64, String)>,
    target: watch::Sender<Option<Arc<Target>>>,
    /// A head whose document can never be sent, so that it is not read again and again.
    unfit: Option<(u64, String)>,
}

impl Entry {
    fn lacks_document(&self) -> bool {
        let Some(head) = &self.head else {
            return false;
        };
        let target = self.target.borrow();
        let followed = self.target.receiver_count() > 0 || target.is_some();
        let has = target
            .as_ref()
            .is_some_and(|target| target.revision == head.0 && target.hash == head.1);
        followed && !has && self.unfit.as_ref() != Some(head)
    }
}

impl Known {
    /// Takes what the database says. Numbers only grow unless the database was restored: a lower
    /// one otherwise comes from a copy that lags behind.
    fn take_heads(&mut self, heads: Heads, restored: bool) {
        let mut heads: BTreeMap<String, (u64, String)> = heads
            .into_iter()
            .map(|(gateway, revision, hash)| (gateway, (revision, hash)))
            .collect();
        self.gateways.retain(|gateway, entry| {
            match heads.remove(gateway) {
                Some(head) => {
                    let lower = entry.head.as_ref().is_some_and(|known| head.0 < known.0);
                    if restored || !lower {
                        entry.head = Some(head);
                    }
                }
                None => {
                    entry.head = None;
                    entry
                        .target
                        .send_if_modified(|target| target.take().is_some());
                }
            }
            entry.head.is_some() || entry.target.receiver_count() > 0
        });
        for (gateway, head) in heads {
            self.gateways.entry(gateway).or_default().head = Some(head);
        }
    }

    fn lacking(&self) -> Vec<String> {
        self.gateways
            .iter()
            .filter(|(_, entry)| entry.lacks_document())
            .map(|(gateway, _)| gateway.clone())
            .collect()
    }

    fn take_document(&mut self, gateway: &str, revision: Revision) {
        let Some(entry) = self.gateways.get_mut(gateway) else {
            return;
        };
        let Some(head) = &entry.head else {
            return;
        };
        if revision.number < head.0 {
            return;
        }
        let document = match serde_json::to_vec(&revision.document) {
            Ok(document) if document.len() <= limits::DOCUMENT_BYTES_MAX => document,
            Ok(document) => {
                tracing::error!(
                    gateway,
                    revision = revision.number,
                    bytes = document.len(),
                    "the document is too large to be pushed"
                );
                entry.unfit = Some((revision.number, revision.hash));
                return;
            }
            Err(error) => {
                tracing::error!(gateway, %error, "the document cannot be encoded");
                entry.unfit = Some((revision.number, revision.hash));
                return;
            }
        };
        entry.target.send_replace(Some(Arc::new(Target {
            revision: revision.number,
            hash: revision.hash,
            document: document.into(),
        })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(gateway: &str, revision: u64) -> (String, u64, String) {
        (gateway.to_owned(), revision, format!("hash-{revision}"))
    }

    fn revision(gateway: &str, number: u64) -> Revision {
        Revision {
            gateway: gateway.to_owned(),
            number,
            document: serde_json::json!({ "number": number }),
            hash: format!("hash-{number}"),
            author: String::new(),
            message: String::new(),
            created_ms: 0,
            parent: None,
        }
    }

    fn follow(known: &mut Known, gateway: &str) -> watch::Receiver<Option<Arc<Target>>> {
        let entry = known.gateways.entry(gateway.to_owned()).or_default();
        entry.target.subscribe()
    }

    fn served(target: &watch::Receiver<Option<Arc<Target>>>) -> Option<u64> {
        target.borrow().as_ref().map(|target| target.revision)
    }

    #[test]
    fn documents_are_read_only_for_gateways_that_agents_follow() {
        let mut known = Known::default();
        let _target = follow(&mut known, "edge");
        known.take_heads(vec![head("edge", 1), head("lab", 1)], false);
        assert_eq!(known.lacking(), ["edge"]);
        known.take_document("edge", revision("edge", 1));
        assert!(known.lacking().is_empty());
    }

    #[test]
    fn followed_gateway_that_comes_later_reaches_its_followers() {
        let mut known = Known::default();
        let target = follow(&mut known, "edge");
        known.take_heads(Vec::new(), false);
        assert_eq!(served(&target), None);
        known.take_heads(vec![head("edge", 1)], false);
        known.take_document("edge", revision("edge", 1));
        assert_eq!(served(&target), Some(1));
    }

    #[test]
    fn lower_head_within_one_epoch_is_a_lagging_copy() {
        let mut known = Known::default();
        let target = follow(&mut known, "edge");
        known.take_heads(vec![head("edge", 5)], false);
        known.take_document("edge", revision("edge", 5));
        known.take_heads(vec![head("edge", 3)], false);
        assert!(known.lacking().is_empty());
        known.take_document("edge", revision("edge", 3));
        assert_eq!(served(&target), Some(5));
    }

    #[test]
    fn restored_database_goes_back() {
        let mut known = Known::default();
        let target = follow(&mut known, "edge");
        known.take_heads(vec![head("edge", 5)], false);
        known.take_document("edge", revision("edge", 5));
        known.take_heads(vec![head("edge", 3)], true);
        assert_eq!(known.lacking(), ["edge"]);
        known.take_document("edge", revision("edge", 3));
        assert_eq!(served(&target), Some(3));
    }

    #[test]
    fn names_nobody_follows_and_nobody_made_are_forgotten() {
        let mut known = Known::default();
        drop(follow(&mut known, "typo"));
        known.take_heads(vec![head("edge", 1)], false);
        assert_eq!(known.gateways.keys().collect::<Vec<_>>(), ["edge"]);
    }

    #[test]
    fn document_too_large_to_push_is_read_once() {
        let mut known = Known::default();
        let target = follow(&mut known, "edge");
        known.take_heads(vec![head("edge", 1)], false);
        let mut huge = revision("edge", 1);
        huge.document = serde_json::json!("x".repeat(limits::DOCUMENT_BYTES_MAX));
        known.take_document("edge", huge);
        assert!(known.lacking().is_empty());
        assert_eq!(served(&target), None);
    }
}
