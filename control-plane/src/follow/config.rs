//! Follows the configuration database and tells sessions what their gateways' agents must serve.
//!
//! A poll of revision numbers is the truth and hints only bring it forward, since hints get lost.
//! While the database is away the known revisions go on being served. Documents are read for
//! gateways that agents ask for, and stay known afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use lanekeeper_proto::limits;
use lanekeeper_store::{ConfigStore, Course, Error, Hint, Revision};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::follow::poll::Polled;
use crate::metrics::Metrics;
use crate::session::pools::DocumentNames;
use crate::session::target::{Target, Targets};

/// Documents read at once.
const READERS: usize = 8;

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
    /// What the gateway's agents must serve as far as documents are known, now and later.
    pub(crate) targets: watch::Receiver<Option<Arc<Targets>>>,
    /// The revision that the agent must serve, whether or not its document is known; `None` when
    /// there is no such gateway.
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

    /// The newest revision of each gateway whose document is known.
    pub(crate) fn newest(&self) -> Vec<(String, Arc<Target>)> {
        self.known.lock().newest()
    }

    /// Everything was read once.
    pub(crate) fn is_ready(&self) -> bool {
        !self.epoch.borrow().is_empty()
    }

    /// Follows a gateway, existing or not, for one of its agents.
    pub(crate) fn subscribe(
        &self,
        gateway: &str,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Subscription {
        let (subscription, lacks) = self.known.lock().subscribe(gateway, name, labels);
        if lacks {
            self.wanted.notify_one();
        }
        subscription
    }

    /// Reads documents. One that cannot be read does not keep the others.
    async fn read(&self, lacking: Vec<(String, u64)>) -> Result<(), Error> {
        let mut read = stream::iter(lacking)
            .map(async |(gateway, number)| {
                let revision = self.store.revision(&gateway, number).await;
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

impl Polled for ConfigWatch {
    const WHAT: &'static str = "the configuration";

    fn heeds(hint: &Hint) -> bool {
        matches!(hint, Hint::Revision { .. } | Hint::Rollout { .. })
    }

    fn wanted(&self) -> &Notify {
        &self.wanted
    }

    async fn poll(&self) -> Result<(), Error> {
        let epoch = self.store.control_epoch().await?;
        let courses = self.store.courses().await?;
        let restored = *self.epoch.borrow() != epoch;
        let lacking = {
            let mut known = self.known.lock();
            known.take_courses(courses, restored);
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

    fn polled(&self, ok: bool) {
        self.metrics.polled(ok);
    }
}

/// What is known of all gateways.
#[derive(Default)]
pub(crate) struct Known {
    gateways: BTreeMap<String, Entry>,
}

#[derive(Default)]
struct Entry {
    /// What the database says; `None` when there is no such gateway.
    course: Option<Course>,
    targets: watch::Sender<Option<Arc<Targets>>>,
    /// The documents that the course needs.
    documents: Vec<Arc<Target>>,
    /// A revision whose document can never be sent, so that it is not read again and again.
    unfit: Option<(u64, String)>,
}

impl Entry {
    /// The revisions that the course needs: the newest, and while it is rolled out the one that
    /// unreached agents keep.
    fn needed(&self) -> impl Iterator<Item = (u64, &str)> {
        let course = self.course.as_ref();
        let newest = course.map(|course| (course.revision, course.hash.as_str()));
        let base = course
            .and_then(|course| course.rollout.as_ref())
            .map(|rollout| (rollout.base, rollout.base_hash.as_str()));
        newest.into_iter().chain(base)
    }

    fn document(&self, (revision, hash): (u64, &str)) -> Option<&Arc<Target>> {
        self.documents
            .iter()
            .find(|target| target.revision == revision && target.hash == hash)
    }

    /// The numbers of the revisions to be read.
    fn lacking(&self) -> Vec<u64> {
        if self.targets.receiver_count() == 0 && self.targets.borrow().is_none() {
            return Vec::new();
        }
        let unfit = self.unfit.as_ref();
        self.needed()
            .filter(|needed| self.document(*needed).is_none())
            .filter(|(revision, hash)| {
                unfit.is_none_or(|unfit| unfit.0 != *revision || unfit.1 != *hash)
            })
            .map(|(revision, _)| revision)
            .collect()
    }

    /// Tells the sessions once every document they may need is known. Until then they go on with
    /// what they have.
    fn publish(&mut self) {
        let needed: Vec<Arc<Target>> = self
            .needed()
            .filter_map(|needed| self.document(needed).cloned())
            .collect();
        let complete = needed.len() == self.needed().count();
        let (Some(course), true) = (&self.course, complete) else {
            return;
        };
        let mut documents = needed.iter().cloned();
        let Some(newest) = documents.next() else {
            return;
        };
        let rollout = course.rollout.clone().zip(documents.next());
        let targets = Targets { newest, rollout };
        self.documents = needed;
        self.targets.send_if_modified(|current| {
            let changed = current
                .as_ref()
                .is_none_or(|current| !current.are_like(&targets));
            if changed {
                *current = Some(Arc::new(targets));
            }
            changed
        });
    }
}

impl Known {
    /// The newest revision of each gateway whose document is known.
    pub(crate) fn newest(&self) -> Vec<(String, Arc<Target>)> {
        let known = self.gateways.iter().filter_map(|(name, entry)| {
            let newest = Arc::clone(&entry.targets.borrow().as_ref()?.newest);
            Some((name.clone(), newest))
        });
        known.collect()
    }

    /// Follows a gateway for one of its agents; true when a document is to be read for that.
    pub(crate) fn subscribe(
        &mut self,
        gateway: &str,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> (Subscription, bool) {
        let entry = self.gateways.entry(gateway.to_owned()).or_default();
        let subscription = Subscription {
            targets: entry.targets.subscribe(),
            head: entry.course.as_ref().map(|course| match &course.rollout {
                Some(rollout) => rollout.target_of(name, labels).0,
                None => course.revision,
            }),
        };
        let lacks = !entry.lacking().is_empty();
        (subscription, lacks)
    }

    /// Takes what the database says. Numbers only grow unless the database was restored: a lower
    /// one otherwise comes from a copy that lags behind.
    pub(crate) fn take_courses(&mut self, mut courses: BTreeMap<String, Course>, restored: bool) {
        self.gateways.retain(|gateway, entry| {
            match courses.remove(gateway) {
                Some(course) => {
                    let lower = entry
                        .course
                        .as_ref()
                        .is_some_and(|known| course.revision < known.revision);
                    if restored || !lower {
                        entry.course = Some(course);
                        entry.publish();
                    }
                }
                None => {
                    entry.course = None;
                    entry
                        .targets
                        .send_if_modified(|targets| targets.take().is_some());
                }
            }
            entry.course.is_some() || entry.targets.receiver_count() > 0
        });
        for (gateway, course) in courses {
            self.gateways.entry(gateway).or_default().course = Some(course);
        }
    }

    pub(crate) fn lacking(&self) -> Vec<(String, u64)> {
        let lacking = |(gateway, entry): (&String, &Entry)| {
            let gateway = gateway.clone();
            let numbers = entry.lacking().into_iter();
            numbers
                .map(|number| (gateway.clone(), number))
                .collect::<Vec<_>>()
        };
        self.gateways.iter().flat_map(lacking).collect()
    }

    pub(crate) fn take_document(&mut self, gateway: &str, revision: Revision) {
        let Some(entry) = self.gateways.get_mut(gateway) else {
            return;
        };
        let is_needed = entry
            .needed()
            .any(|needed| needed == (revision.number, revision.hash.as_str()));
        if !is_needed {
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
        let names = DocumentNames::of(&revision.document);
        entry.documents.push(Arc::new(Target {
            names,
            revision: revision.number,
            hash: revision.hash,
            document: document.into(),
        }));
        entry.publish();
    }
}

#[cfg(test)]
mod tests;
