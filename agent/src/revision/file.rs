//! The standalone source: a gateway document in a file, read at start and again whenever it
//! changes or SIGHUP arrives. A bad one is refused at start and ignored, loudly, later.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lanekeeper_model::{Checked, Problem, content_hash};
use lanekeeper_proto::limits::DOCUMENT_BYTES_MAX;

use crate::revision::adopt::check_text;

mod watch;

pub(crate) use watch::watch;

/// Largest document file, in bytes: as large as one that a control plane can push.
const FILE_BYTES_MAX: u64 = DOCUMENT_BYTES_MAX as u64;
/// Time between two looks at the file.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Every so many looks the content is compared even though size and time stand still.
const CONTENT_LOOKS: u32 = 10;

/// Why a document file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It is larger than any document may be.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes allowed.
        limit: u64,
    },
    /// It is not UTF-8.
    #[error("{} is not UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// Its content is refused.
    #[error("{}", Listing { path, problems })]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong.
        problems: Vec<Problem>,
    },
}

struct Listing<'a> {
    path: &'a Path,
    problems: &'a [Problem],
}

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        write!(f, "{} has {count} {noun}", self.path.display())?;
        for Problem {
            pointer,
            code,
            message,
        } in self.problems
        {
            let pointer = if pointer.is_empty() { "/" } else { pointer };
            write!(f, "\n  {pointer}: {message} ({code})")?;
        }
        Ok(())
    }
}

/// A document that passed the validator.
#[derive(Debug)]
pub(crate) struct Document {
    /// The validated document.
    pub(crate) checked: Checked,
    /// Its content hash.
    pub(crate) hash: String,
}

/// Reads and checks the document at `path`.
///
/// # Errors
///
/// Why it cannot be used, with every fault of its content.
pub(crate) fn read(path: &Path) -> Result<Document, Error> {
    check(path, &text(path)?)
}

fn text(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            limit: FILE_BYTES_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|_| Error::NotText {
        path: path.to_owned(),
    })
}

fn check(path: &Path, text: &str) -> Result<Document, Error> {
    let json = path.extension().is_some_and(|it| it == "json");
    let checked = check_text(text, json).map_err(|problems| Error::Invalid {
        path: path.to_owned(),
        problems,
    })?;
    let hash = content_hash(&checked.document);
    Ok(Document { checked, hash })
}

/// What tells one content of a path from the next without reading it. Following links makes it
/// see the swap of a mounted ConfigMap, where only a folder's link changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        Some(Self {
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}
