//! Watches a document file and adopts what it becomes.

use super::{CONTENT_LOOKS, Document, Error, Fingerprint, POLL_INTERVAL, check, text};
use crate::plane::Plane;
use crate::revision::adopt::Adopter;
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
        Ok(document) if plane.has_usable_pool() && !document.checked.gateway.has_usable_pool() => {
            Err("no pool has a member that can be selected; restart to serve it anyway".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const GOOD: &str = "gateway: edge\n\
        providers: {p: {protocol: openai, base_url: 'http://127.0.0.1:9', api_key: null}}\n\
        models: {m: {provider: p}}\n\
        pools: {chat: {members: [{target: m}]}}\n";

    fn seen(path: &Path) -> Seen {
        Seen {
            path: path.to_owned(),
            fingerprint: None,
            text: None,
            looks: 0,
        }
    }

    #[test]
    fn each_content_is_judged_once_unless_forced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("edge.yaml");
        fs::write(&path, "surprise: 1").unwrap();
        let mut seen = seen(&path);
        assert!(matches!(seen.look(false), Some(Err(Error::Invalid { .. }))));
        for _ in 0..3 * CONTENT_LOOKS {
            assert!(seen.look(false).is_none());
        }
        assert!(matches!(seen.look(true), Some(Err(Error::Invalid { .. }))));
        fs::write(&path, GOOD).unwrap();
        assert!(matches!(seen.look(false), Some(Ok(_))));
        assert!(seen.look(false).is_none());
    }

    #[test]
    fn a_file_that_goes_is_reported_once_and_seen_when_it_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("edge.yaml");
        fs::write(&path, GOOD).unwrap();
        let mut seen = seen(&path);
        assert!(matches!(seen.look(false), Some(Ok(_))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(seen.look(false), Some(Err(Error::Read { .. }))));
        for _ in 0..3 * CONTENT_LOOKS {
            assert!(seen.look(false).is_none());
        }
        fs::write(&path, GOOD).unwrap();
        assert!(matches!(seen.look(false), Some(Ok(_))));
    }

    #[test]
    fn a_change_that_hides_its_time_and_size_is_found_by_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("edge.yaml");
        fs::write(&path, GOOD).unwrap();
        let mut seen = seen(&path);
        seen.look(false);
        fs::write(&path, GOOD.replace("edge", "side")).unwrap();
        // As if nothing about the file had changed but its content.
        seen.fingerprint = Fingerprint::of(&path);
        let found = (0..CONTENT_LOOKS).find_map(|_| seen.look(false));
        assert_eq!(&*found.unwrap().unwrap().checked.gateway.name, "side");
    }

    #[test]
    fn what_is_no_text_or_too_large_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("edge.yaml");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(
            super::super::read(&path),
            Err(Error::NotText { .. })
        ));
        let file = fs::File::create(&path).unwrap();
        file.set_len(super::super::FILE_BYTES_MAX + 1).unwrap();
        assert!(matches!(
            super::super::read(&path),
            Err(Error::TooLarge { .. })
        ));
    }
}
