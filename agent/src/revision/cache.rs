//! The last-known-good file: what a joined agent serves from while no control plane answers.
//!
//! Two generations are kept, each a header line with a version and a checksum followed by the
//! entry as JSON. A new one is written beside, synced, and moved into place, so that whatever
//! moment power fails at, one whole generation remains. Documents hold references to secrets,
//! never secrets, so there are none here. The operators' overrides are kept beside them ([`overrides`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lanekeeper_model::Override;
use lanekeeper_proto::limits::DOCUMENT_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(crate) mod overrides;
mod writer;

use overrides::Moment;
pub(crate) use writer::Writer;

/// First word of the header.
const MAGIC: &str = "lanekeeper-last-known-good";
/// Layout of header and entry.
const VERSION: &str = "1";
/// Largest file that is read: the largest document and its envelope.
const FILE_BYTES_MAX: u64 = (DOCUMENT_BYTES_MAX + 1024 * 1024) as u64;
/// Starts in a row that did not reach a healthy state before the previous generation is tried.
const FAILED_STARTS_MAX: u32 = 3;
/// Age at which an unfinished file of a killed process is removed.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

const CURRENT: &str = "current";
const PREVIOUS: &str = "previous";
const STARTS: &str = "starts";
const UNFINISHED: &str = ".unfinished";

/// One configuration that was applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Gateway it belongs to.
    pub(crate) gateway: String,
    /// Its revision.
    pub(crate) revision: u64,
    /// Content hash of the document.
    pub(crate) hash: String,
    /// Control epoch under which it was received.
    pub(crate) control_epoch: String,
    /// The document.
    pub(crate) document: Value,
}

impl Entry {
    /// The document is left out: revision, hash and epoch already identify it.
    fn same(&self, other: &Self) -> bool {
        self.gateway == other.gateway
            && self.revision == other.revision
            && self.hash == other.hash
            && self.control_epoch == other.control_epoch
    }
}

/// Why a generation cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The folder or a file in it refuses.
    #[error("last-known-good file {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is cut short, altered, or of another version.
    #[error("last-known-good file {path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: &'static str,
    },
}

/// What a folder offers at start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Whole generations, the one to try first in front.
    pub(crate) entries: Vec<Entry>,
    /// The previous generation is in front because the newest never got healthy.
    pub(crate) rolled_back: bool,
    /// What could not be read.
    pub(crate) faults: Vec<Error>,
    /// The operators' overrides that are not over.
    pub(crate) overrides: Vec<Override>,
    /// Why there may be more of them.
    pub(crate) overrides_fault: Option<Error>,
}

/// A cache folder.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
    gateway: String,
    /// Makes the names of unfinished files differ between agents that share the folder, as two do
    /// during a rolling update.
    instance: String,
    /// The newest generation was given up on: the next one replaces it and spares the previous.
    spare_previous: bool,
}

impl Cache {
    /// A cache in `dir` for one gateway. Nothing is touched yet.
    pub(crate) fn new(dir: &Path, gateway: &str, instance: &str) -> Self {
        Self {
            dir: dir.to_owned(),
            gateway: gateway.to_owned(),
            instance: instance.to_owned(),
            spare_previous: false,
        }
    }

    /// Counts this start and reads what is there.
    pub(crate) fn open(&mut self, now: SystemTime) -> Found {
        let mut found = Found::default();
        if let Err(error) = self.prepare(now) {
            found.faults.push(error);
        }
        let failed_starts = self.failed_starts();
        if let Err(error) = self.write_starts(failed_starts.saturating_add(1)) {
            found.faults.push(error);
        }
        for name in [CURRENT, PREVIOUS] {
            match self.read(name) {
                Ok(Some(entry)) if entry.gateway == self.gateway => found.entries.push(entry),
                Ok(_) => {}
                Err(error) => found.faults.push(error),
            }
        }
        if failed_starts >= FAILED_STARTS_MAX && found.entries.len() > 1 {
            found.entries.reverse();
            found.rolled_back = true;
            self.spare_previous = true;
        }
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        match self.read_overrides(&Moment::at(now_ms)) {
            Ok(overrides) => found.overrides = overrides,
            Err(error) => found.overrides_fault = Some(error),
        }
        found
    }

    /// Ends the count of failed starts.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the folder refuses.
    pub(crate) fn healthy(&self) -> Result<(), Error> {
        match fs::remove_file(self.path(STARTS)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.io(STARTS, source)),
            _ => Ok(()),
        }
    }

    /// Makes `entry` the newest generation. Storing the same one again changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: the folder is as it was, or holds both generations whole.
    pub(crate) fn store(&mut self, entry: &Entry) -> Result<(), Error> {
        let newest = self.read(CURRENT).ok().flatten();
        if newest.as_ref().is_some_and(|newest| newest.same(entry)) {
            return Ok(());
        }
        self.make_dir()?;
        let unfinished = format!("{}{UNFINISHED}", self.instance);
        let written = self
            .write_synced(&unfinished, &seal(MAGIC, entry)?)
            .and_then(|()| self.keep_newest_as_previous(newest.is_some()))
            .and_then(|()| self.rename(&unfinished, CURRENT))
            .and_then(|()| self.sync_dir());
        if written.is_err() {
            // A full disk is better served without it; that it is gone already is no fault.
            let _ = fs::remove_file(self.path(&unfinished));
        } else {
            self.spare_previous = false;
        }
        written
    }

    /// A link and a move instead of a plain move: there is a newest generation at every moment.
    fn keep_newest_as_previous(&self, newest_is_whole: bool) -> Result<(), Error> {
        if !newest_is_whole || self.spare_previous {
            return Ok(());
        }
        let link = format!("{}-link{UNFINISHED}", self.instance);
        let _ = fs::remove_file(self.path(&link));
        fs::hard_link(self.path(CURRENT), self.path(&link))
            .map_err(|source| self.io(CURRENT, source))?;
        self.rename(&link, PREVIOUS)
    }

    fn prepare(&self, now: SystemTime) -> Result<(), Error> {
        self.make_dir()?;
        let listing = fs::read_dir(&self.dir).map_err(|source| self.io("", source))?;
        for file in listing.flatten() {
            let leftover = file.file_name().to_string_lossy().ends_with(UNFINISHED);
            let old = || {
                let modified = file.metadata().and_then(|it| it.modified()).ok()?;
                Some(now.duration_since(modified).ok()? >= LEFTOVER_AGE)
            };
            if leftover && old().unwrap_or(false) {
                let _ = fs::remove_file(file.path());
            }
        }
        Ok(())
    }

    fn make_dir(&self) -> Result<(), Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|source| self.io("", source))
    }

    fn failed_starts(&self) -> u32 {
        fs::read_to_string(self.path(STARTS))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    }

    fn write_starts(&self, starts: u32) -> Result<(), Error> {
        let unfinished = format!("{}-starts{UNFINISHED}", self.instance);
        self.write_synced(&unfinished, starts.to_string().as_bytes())?;
        self.rename(&unfinished, STARTS)
    }

    fn read(&self, name: &str) -> Result<Option<Entry>, Error> {
        let damaged = |reason| Error::Damaged {
            path: self.path(name),
            reason,
        };
        let bytes = self.read_bytes(name, FILE_BYTES_MAX)?;
        let unsealed = bytes.map(|bytes| unseal(MAGIC, &bytes, FILE_BYTES_MAX));
        unsealed.transpose().map_err(damaged)
    }

    /// A file's content, or one byte more than it may have; `None` when there is no such file.
    fn read_bytes(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
        // Asked before it is opened: opening a pipe waits for a writer that may never come.
        match fs::metadata(self.path(name)) {
            Ok(found) if found.is_file() => {}
            Ok(_) => {
                return Err(Error::Damaged {
                    path: self.path(name),
                    reason: "is not a regular file",
                });
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.io(name, source)),
        }
        let file = match File::open(self.path(name)) {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.io(name, source)),
        };
        let mut bytes = Vec::new();
        file.take(bytes_max + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| self.io(name, source))?;
        Ok(Some(bytes))
    }

    fn write_synced(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(self.path(name))?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|source| self.io(name, source))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        fs::rename(self.path(from), self.path(to)).map_err(|source| self.io(to, source))
    }

    fn sync_dir(&self) -> Result<(), Error> {
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|source| self.io("", source))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn io(&self, name: &str, source: io::Error) -> Error {
        Error::Io {
            path: self.path(name),
            source,
        }
    }
}

/// A value as a file: a header line with the checksum of the JSON that follows.
fn seal(magic: &str, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let body = serde_json::to_vec(value).map_err(|_| Error::Damaged {
        path: PathBuf::from(magic),
        reason: "it does not encode",
    })?;
    let mut bytes = format!("{magic} {VERSION} {}\n", checksum(&body)).into_bytes();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn unseal<T: DeserializeOwned>(
    magic: &str,
    bytes: &[u8],
    bytes_max: u64,
) -> Result<T, &'static str> {
    if bytes.len() as u64 > bytes_max {
        return Err("larger than it may be");
    }
    let end = memchr::memchr(b'\n', bytes).ok_or("no header line")?;
    let (header, rest) = bytes.split_at(end);
    let body = rest.get(1..).unwrap_or_default();
    let header = std::str::from_utf8(header).map_err(|_| "header is not text")?;
    let mut words = header.split(' ');
    let (kind, version, sum) = (words.next(), words.next(), words.next());
    if kind != Some(magic) || words.next().is_some() {
        return Err("header is not of this kind");
    }
    if version != Some(VERSION) {
        return Err("version is not known");
    }
    if sum != Some(checksum(body).as_str()) {
        return Err("checksum does not match");
    }
    serde_json::from_slice(body).map_err(|_| "entry does not parse")
}

fn checksum(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
