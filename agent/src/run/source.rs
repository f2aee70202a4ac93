//! Brings the configured source to life: first whatever configuration is at hand, then the task
//! that keeps it current.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use lanekeeper_model::{ConfigSource, Problem};
use lanekeeper_proto::message::{
    ABILITY_ADVISORIES, ABILITY_DRAIN, ABILITY_OVERRIDES, ABILITY_PROBE_LEASES, AppliedRevision,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Error, PART_TIMEOUT};
use crate::clock;
use crate::config::{ClientTls, Config, Source};
use crate::fleet::{Control, Dialer, Endpoint, Facts, Identity, Link, Proof};
use crate::plane::Plane;
use crate::revision::adopt::{Adopter, Expected};
use crate::revision::cache::{Cache, Entry, Found, Writer};
use crate::revision::file;
use crate::status::{Status, Topic};

/// A source whose configuration at hand is applied.
pub(super) struct Prepared {
    adopter: Arc<Adopter>,
    cache: Option<Cache>,
    applied: Option<AppliedRevision>,
}

/// The tasks behind the running configuration.
pub(super) struct Feed {
    task: Option<JoinHandle<()>>,
    draining: CancellationToken,
    stop: CancellationToken,
    writer: Option<(Writer, JoinHandle<()>)>,
}

/// Applies the file, or the last-known-good one if there is any.
///
/// # Errors
///
/// A document file that is refused. A cache never prevents a start.
pub(super) async fn prepare(
    config: &Config,
    plane: &Plane,
    status: &Arc<Status>,
) -> Result<Prepared, Error> {
    let adopter = Arc::new(Adopter::new(plane.clone(), Arc::clone(status)));
    let mut prepared = Prepared {
        adopter,
        cache: None,
        applied: None,
    };
    match &config.source {
        Source::Standalone { file } => prepared.adopt_file(file.clone()).await?,
        Source::Joined { gateway, .. } => {
            status.set_gateway(gateway);
            if let Some(dir) = &config.cache_dir {
                prepared
                    .adopt_cached(Cache::new(dir, gateway, status.instance()), plane, status)
                    .await;
            }
        }
    }
    Ok(prepared)
}

impl Prepared {
    async fn adopt_file(&self, path: PathBuf) -> Result<(), Error> {
        let adopter = Arc::clone(&self.adopter);
        let read = tokio::task::spawn_blocking(move || {
            let document = file::read(&path)?;
            adopter
                .adopt_checked(document.checked, document.hash, 1, ConfigSource::File)
                .map_err(|problems| file::Error::Invalid { path, problems })
        });
        let adopted = read
            .await
            .map_err(|error| Error::Worker(std::io::Error::other(error)))??;
        for problem in adopted.problems {
            tracing::warn!(%problem, "configuration problem");
        }
        Ok(())
    }

    async fn adopt_cached(&mut self, mut cache: Cache, plane: &Plane, status: &Arc<Status>) {
        let adopter = Arc::clone(&self.adopter);
        let (plane, facts) = (plane.clone(), Arc::clone(status));
        let opened = tokio::task::spawn_blocking(move || {
            let mut found = cache.open(UNIX_EPOCH + clock::unix_now());
            apply_kept_overrides(&plane, &mut found);
            let applied = adopt_first(&adopter, &facts, found);
            (cache, applied)
        });
        match opened.await {
            Ok((cache, applied)) => {
                self.cache = Some(cache);
                self.applied = applied;
            }
            Err(error) => {
                tracing::error!(%error, "the last-known-good file is not used");
                status.raise(Topic::CacheRead, "cannot be used".to_owned());
            }
        }
    }

    /// Starts the task that keeps the configuration current.
    pub(super) fn start(self, config: &Config, plane: Plane, status: &Arc<Status>) -> Feed {
        let (draining, stop) = (CancellationToken::new(), CancellationToken::new());
        let writer = self
            .cache
            .map(|cache| Writer::start(cache, Arc::clone(status)));
        let task = match &config.source {
            Source::Standalone { file } => {
                let (file, status, stop) = (file.clone(), Arc::clone(status), stop.clone());
                tokio::spawn(async move {
                    file::watch(&file, self.adopter, plane, status, stop).await;
                })
            }
            Source::Joined {
                control_plane,
                gateway,
                tls,
                insecure: _,
            } => {
                let control = Control {
                    dialer: Dialer {
                        endpoint: Endpoint(control_plane.clone()),
                        proof: proof(config, gateway, tls.as_ref(), status),
                    },
                    link: Link::new(
                        Facts {
                            gateway: gateway.clone(),
                            name: config.name.clone(),
                            labels: config.labels.clone(),
                            instance: status.instance().to_owned(),
                            capabilities: vec![
                                ABILITY_OVERRIDES.to_owned(),
                                ABILITY_DRAIN.to_owned(),
                                ABILITY_ADVISORIES.to_owned(),
                                ABILITY_PROBE_LEASES.to_owned(),
                            ],
                        },
                        self.applied,
                    ),
                    plane,
                    status: Arc::clone(status),
                    adopter: self.adopter,
                    writer: writer.as_ref().map(|(writer, _)| writer.clone()),
                    draining: draining.clone(),
                    stop: stop.clone(),
                };
                tokio::spawn(control.run())
            }
        };
        Feed {
            task: Some(task),
            draining,
            stop,
            writer,
        }
    }
}

/// How the agent shows the control plane who it is.
fn proof(config: &Config, gateway: &str, tls: Option<&ClientTls>, status: &Arc<Status>) -> Proof {
    match (&config.join, tls) {
        (Some(join), _) => Proof::Identity(Arc::new(Identity::load(
            join.clone(),
            gateway,
            &config.name,
            config.cache_dir.clone(),
            Arc::clone(status),
        ))),
        (None, Some(files)) => Proof::Files(files.clone()),
        (None, None) => Proof::None,
    }
}

/// Puts the kept overrides into force, before there are cells, so that no request slips past them.
fn apply_kept_overrides(plane: &Plane, found: &mut Found) {
    if let Some(error) = found.overrides_fault.take() {
        tracing::warn!(%error, "the kept overrides are passed over");
    }
    if !found.overrides.is_empty() {
        tracing::info!(
            overrides = found.overrides.len(),
            "overrides of the last session are in force until the next one"
        );
        plane.apply_overrides(&found.overrides);
    }
}

/// Applies the first generation that the validator takes.
fn adopt_first(adopter: &Adopter, status: &Status, found: Found) -> Option<AppliedRevision> {
    if !found.faults.is_empty() {
        let faults: Vec<_> = found.faults.iter().map(ToString::to_string).collect();
        let faults = faults.join("; ");
        tracing::warn!(%faults, "the last-known-good file is damaged or out of reach");
        status.raise(Topic::CacheRead, faults);
    }
    if found.rolled_back {
        let problem = "serves the previous configuration: the newest did not survive three starts";
        tracing::warn!("{problem}");
        status.raise(Topic::RolledBack, problem.to_owned());
    }
    found
        .entries
        .into_iter()
        .find_map(|entry| adopt_entry(adopter, status, entry))
}

fn adopt_entry(adopter: &Adopter, status: &Status, entry: Entry) -> Option<AppliedRevision> {
    let expected = Expected {
        gateway: &entry.gateway,
        hash: &entry.hash,
        revision: entry.revision,
        source: ConfigSource::Disk,
    };
    match adopter.adopt_value(&entry.document, expected) {
        Ok(_) => {
            tracing::info!(
                revision = entry.revision,
                "serves the last-known-good configuration"
            );
            Some(AppliedRevision {
                revision: entry.revision,
                hash: entry.hash,
                source: ConfigSource::Disk,
                control_epoch: Some(entry.control_epoch).filter(|epoch| !epoch.is_empty()),
            })
        }
        Err(problems) => {
            let reasons: Vec<_> = problems
                .into_iter()
                .map(
                    |Problem {
                         pointer, message, ..
                     }| format!("{pointer} {message}"),
                )
                .collect();
            let reason = reasons.join("; ");
            tracing::error!(revision = entry.revision, %reason, "a last-known-good file is refused");
            status.raise(
                Topic::CacheRead,
                format!(
                    "the last-known-good revision {} is refused: {reason}",
                    entry.revision
                ),
            );
            None
        }
    }
}

impl Feed {
    /// This start went well: crashes are counted from zero again.
    pub(super) fn healthy(&self) {
        if let Some((writer, _)) = &self.writer {
            writer.healthy();
        }
    }

    /// Waits until the task ends, which it does on its own only by a fault. Requests do not need
    /// it, so the agent serves on.
    pub(super) async fn ended(&mut self) {
        match &mut self.task {
            Some(task) => {
                if let Err(error) = task.await {
                    tracing::error!(%error, "the configuration source failed");
                }
                self.task = None;
            }
            None => std::future::pending().await,
        }
    }

    /// Tells the control plane that the agent drains.
    pub(super) fn draining(&self) {
        self.draining.cancel();
    }

    /// Says goodbye to the control plane, writes what is left to write, and ends.
    pub(super) async fn end(self) {
        let Self {
            task, stop, writer, ..
        } = self;
        stop.cancel();
        if let Some(task) = task {
            finish(task, "the configuration source").await;
        }
        if let Some((writer, task)) = writer {
            drop(writer);
            finish(task, "the last write of the last-known-good file").await;
        }
    }
}

async fn finish(mut task: JoinHandle<()>, what: &str) {
    match tokio::time::timeout(PART_TIMEOUT, &mut task).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "{what} failed"),
        Err(_) => {
            task.abort();
            tracing::warn!("{what} did not end in time");
        }
    }
}
