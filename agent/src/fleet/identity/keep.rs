//! The file that key and certificate are kept in: the owner's alone, replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fleet::tls::{Credentials, Trust};

/// The file inside the cache folder.
const FILE: &str = "identity";
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 512 * 1024;

/// What is kept from start to start.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// The certificate in use.
    pub(super) kept: Option<Arc<Kept>>,
    /// An attempt to join that has no answer yet.
    pub(super) pending: Option<Pending>,
}

/// A certificate and all that belongs to it. Not printable: it holds a key.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The gateway it is for.
    pub(super) gateway: String,
    /// The identity's id.
    pub(super) agent_id: String,
    /// PEM.
    pub(super) key: String,
    /// PEM.
    pub(super) certificate: String,
    /// PEM.
    pub(super) authorities: String,
    /// By this machine's clock, unix milliseconds.
    pub(super) obtained_ms: u64,
    /// By this machine's clock, unix milliseconds.
    pub(super) expires_ms: u64,
    /// Digest of the token that it was got for.
    pub(super) token: String,
}

/// See [`State::pending`].
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Pending {
    /// PEM.
    pub(super) key: String,
    /// Digest of the token that was shown.
    pub(super) token: String,
}

impl Kept {
    pub(super) fn credentials(&self) -> Credentials {
        Credentials {
            trust: Trust::Authorities(self.authorities.clone().into_bytes()),
            own: Some((
                self.certificate.clone().into_bytes(),
                self.key.clone().into_bytes(),
            )),
        }
    }

    /// The whole life of the certificate.
    pub(super) fn life(&self) -> Duration {
        Duration::from_millis(self.expires_ms.saturating_sub(self.obtained_ms))
    }

    /// Until this share of its life has passed; zero when it has. A clock that was set back before
    /// the beginning makes it due at once, since nothing is known of its end then.
    pub(super) fn due_in(&self, now_ms: u64, share: f64) -> Duration {
        let Some(passed_ms) = now_ms.checked_sub(self.obtained_ms) else {
            return Duration::ZERO;
        };
        self.life()
            .mul_f64(share)
            .saturating_sub(Duration::from_millis(passed_ms))
    }
}

/// Where it is kept, if anywhere.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    dir: Option<PathBuf>,
    /// Keeps unfinished files of two agents that share a folder apart.
    instance: String,
}

impl Keep {
    pub(super) fn new(dir: Option<PathBuf>, instance: &str) -> Self {
        Self {
            dir,
            instance: instance.to_owned(),
        }
    }

    /// What is there; nothing when it cannot be read, which costs a join token.
    pub(super) fn load(&self) -> State {
        let Some(dir) = &self.dir else {
            return State::default();
        };
        let path = dir.join(FILE);
        match read(&path) {
            Ok(state) => state,
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the kept certificate is not used");
                State::default()
            }
        }
    }

    /// Replaces what is there.
    pub(super) fn store(&self, state: &State) -> io::Result<()> {
        let Some(dir) = &self.dir else {
            return Ok(());
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        let beside = dir.join(format!("{}-{FILE}.unfinished", self.instance));
        let written = write(&beside, &serde_json::to_vec(state)?)
            .and_then(|()| fs::rename(&beside, dir.join(FILE)))
            .and_then(|()| File::open(dir)?.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

fn read(path: &Path) -> io::Result<State> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("is no file of this kind"));
    }
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn kept() -> Kept {
        Kept {
            gateway: "edge".to_owned(),
            agent_id: "one".to_owned(),
            key: "k".to_owned(),
            certificate: "c".to_owned(),
            authorities: "a".to_owned(),
            obtained_ms: 1_000,
            expires_ms: 101_000,
            token: "t".to_owned(),
        }
    }

    #[test]
    fn kept_certificate_is_the_owners_alone_and_survives() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Keep::new(Some(dir.path().join("cache")), "i");
        assert!(keep.load().kept.is_none());
        let state = State {
            kept: Some(Arc::new(kept())),
            pending: None,
        };
        keep.store(&state).unwrap();
        assert_eq!(keep.load().kept.unwrap().agent_id, "one");
        let file = dir.path().join("cache").join(FILE);
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("cache")).unwrap().count(), 1);

        fs::write(&file, b"{ torn").unwrap();
        assert!(keep.load().kept.is_none());
    }

    #[test]
    fn renewal_is_due_at_its_share_of_the_life() {
        let kept = kept();
        assert_eq!(kept.due_in(1_000, 0.6), Duration::from_secs(60));
        assert_eq!(kept.due_in(31_000, 0.6), Duration::from_secs(30));
        assert_eq!(kept.due_in(61_000, 0.6), Duration::ZERO);
        assert_eq!(kept.due_in(500_000, 0.6), Duration::ZERO);
        assert_eq!(
            kept.due_in(999, 0.6),
            Duration::ZERO,
            "the clock was set back"
        );
    }
}
