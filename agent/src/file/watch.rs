//! Watches a document file and adopts what it becomes.

use super::{CONTENT_LOOKS, Document, Error, Fingerprint, POLL_INTERVAL, check, text};
use crate::adopt::Adopter;
use crate::plane::Plane;
use crate::status::{Status, Topic};
use lanekeeper_model::ConfigSource;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// What the last look found.
struct Seen {
    path: PathBuf,
    fingerprint: Option<Fingerprint>,
    /// The text that was judged last; a refused one is not judged again until it changes.
    text: Option<String>,
    looks: u32,
}

/// A changed file's verdict.
type Look = Option<Result<Document, Error>>;

impl Seen {
    /// `None` when nothing changed. `force` judges an unchanged file as well.
    fn look(&mut self, force: bool) -> Look {
        self.looks = self.looks.wrapping_add(1);
        let fingerprint = Fingerprint::of(&self.path);
        let settled = fingerprint == self.fingerprint;
        if settled && !force && !self.looks.is_multiple_of(CONTENT_LOOKS) {
            return None;
        }
        match text(&self.path) {
            Ok(text) => {
                self.fingerprint = fingerprint;
                if !force && self.text.as_ref() == Some(&text) {
                    return None;
                }
                let verdict = check(&self.path, &text);
                self.text = Some(text);
                Some(verdict)
            }
            // A file that vanishes or cannot be read is reported once, and again when it changes.
            Err(_) if settled && !force => None,
            Err(error) => {
                self.fingerprint = fingerprint;
                self.text = None;
                Some(Err(error))
            }
        }
    }
}

/// Follows the file until `stop`. The caller has adopted `running` as revision 1 already.
pub(crate) async fn watch(
    path: &Path,
    adopter: Arc<Adopter>,
    plane: Plane,
    status: Arc<Status>,
    stop: CancellationToken,
) {
    let mut hangup = hangups();
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first look judges the file again: it may have changed since it was read at start.
    let mut seen = Seen {
        path: path.to_owned(),
        fingerprint: None,
        text: None,
        looks: 0,
    };
    loop {
        let force = tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => false,
            Some(()) = next(&mut hangup) => true,
        };
        let (adopter, plane, status) = (Arc::clone(&adopter), plane.clone(), Arc::clone(&status));
        let looked = tokio::task::spawn_blocking(move || {
            if let Some(verdict) = seen.look(force) {
                take(verdict, force, &adopter, &plane, &status);
            }
            seen
        });
        match looked.await {
            Ok(back) => seen = back,
            Err(error) => {
                tracing::error!(%error, "no longer watching the configuration file");
                return;
            }
        }
    }
}

/// Adopts or refuses a changed file.
fn take(
    verdict: Result<Document, Error>,
    force: bool,
    adopter: &Adopter,
    plane: &Plane,
    status: &Status,
) {
    let applied = plane.applied();
    let running = applied.as_ref().map(|it| it.hash.as_str());
    let outcome = match verdict {
        Ok(document) if running == Some(document.hash.as_str()) => {
            if force {
                tracing::info!("configuration file is unchanged");
            }
            status.clear(Topic::Config);
            return;
        }
        Ok(document) => {
            let revision = applied.map_or(1, |it| it.revision.saturating_add(1));
            adopter
                .adopt_checked(
                    document.checked,
                    document.hash,
                    revision,
                    ConfigSource::File,
                )
                .map(|adopted| (revision, adopted))
                .map_err(|problems| {
                    let lines: Vec<_> = problems.into_iter().map(|it| it.message).collect();
                    lines.join("; ")
                })
        }
        Err(error) => Err(error.to_string()),
    };
    match outcome {
        Ok((revision, adopted)) => {
            status.clear(Topic::Config);
            tracing::info!(revision, hash = %adopted.hash, "configuration file applied");
            for problem in adopted.problems {
                tracing::warn!(%problem, "configuration problem");
            }
        }
        Err(reason) => {
            plane.config_rejected();
            status.raise(Topic::Config, reason.clone());
            tracing::error!(%reason, "configuration file refused, the running one stays");
        }
    }
}

fn hangups() -> Option<Signal> {
    signal(SignalKind::hangup())
        .inspect_err(|error| tracing::warn!(%error, "SIGHUP will not re-read the configuration"))
        .ok()
}

async fn next(hangup: &mut Option<Signal>) -> Option<()> {
    match hangup {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}
