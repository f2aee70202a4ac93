//! Resolves references to secrets on this machine and notices when a secret's file changes.
//!
//! A missing secret never refuses a revision: the lanes that need it are unusable here, with a
//! reason that names the reference and never the value.

use lanekeeper_model::gateway::SecretRef;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use std::io::Read as _;
use std::time::SystemTime;

/// Largest secret file; a key is a line, anything longer is the wrong file.
const SECRET_MAX_BYTES: u64 = 64 * 1024;

/// A file's change mark: modification time and length.
type Stamp = (Option<SystemTime>, u64);

/// The outcome of resolving one reference.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// The secret, or why there is none.
    pub(crate) secret: Result<SecretString, String>,
    /// Tells two credentials apart, by reference and content, without keeping either.
    pub(crate) fingerprint: Option<[u8; 32]>,
    stamp: Option<Stamp>,
}

/// Reads the secret behind `reference` now.
pub(crate) fn resolve(reference: &SecretRef) -> Resolved {
    match reference {
        SecretRef::Env(name) => {
            let value = std::env::var(name)
                .map_err(|_| format!("environment variable {name} is not set"))
                .and_then(|value| accept(&value, || format!("environment variable {name}")));
            Resolved::new(reference, value, None)
        }
        SecretRef::File(path) => {
            let stamp = stamp(path);
            let value = read(path)
                .map_err(|error| format!("secret file {path} cannot be read: {error}"))
                .and_then(|value| accept(&value, || format!("secret file {path}")));
            Resolved::new(reference, value, stamp)
        }
    }
}

/// True when the file behind `reference` looks different from when `resolved` was read.
pub(crate) fn has_moved(reference: &SecretRef, resolved: &Resolved) -> bool {
    match reference {
        // A process's environment does not change under it.
        SecretRef::Env(_) => false,
        SecretRef::File(path) => stamp(path) != resolved.stamp,
    }
}

impl Resolved {
    fn new(reference: &SecretRef, value: Result<String, String>, stamp: Option<Stamp>) -> Self {
        let fingerprint = value.as_ref().ok().map(|value| {
            let mut hash = Sha256::new();
            hash.update(format!("{reference:?}"));
            hash.update(value.as_bytes());
            hash.finalize().into()
        });
        Self {
            secret: value.map(SecretString::from),
            fingerprint,
            stamp,
        }
    }
}

/// Editors and `kubectl` leave a final newline, which is no part of a key.
fn accept(value: &str, what: impl Fn() -> String) -> Result<String, String> {
    let value = value.trim();
    if value.is_empty() {
        Err(format!("{} is empty", what()))
    } else {
        Ok(value.to_owned())
    }
}

fn read(path: &str) -> std::io::Result<String> {
    // Reading anything else, such as a pipe that nobody writes to, may never end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(SECRET_MAX_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn stamp(path: &str) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok(), metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    #[test]
    fn file_secret_loses_its_newline_and_a_change_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::fs::write(&path, "first\n").expect("a file");
        let reference = SecretRef::File(path.display().to_string());
        let resolved = resolve(&reference);
        assert_eq!(
            resolved
                .secret
                .as_ref()
                .map(|secret| secret.expose_secret().to_owned()),
            Ok("first".to_owned())
        );
        assert!(!has_moved(&reference, &resolved));
        std::fs::write(&path, "second one\n").expect("a file");
        assert!(has_moved(&reference, &resolved));
        assert_ne!(resolve(&reference).fingerprint, resolved.fingerprint);
    }

    #[test]
    fn missing_secret_is_named_but_not_fatal() {
        let resolved = resolve(&SecretRef::Env("LANEKEEPER_TEST_UNSET_KEY".to_owned()));
        assert_eq!(
            resolved.secret.err().as_deref(),
            Some("environment variable LANEKEEPER_TEST_UNSET_KEY is not set")
        );
        let reference = SecretRef::File("/nonexistent/key".to_owned());
        let resolved = resolve(&reference);
        assert!(resolved.secret.is_err());
        assert!(!has_moved(&reference, &resolved));
    }
}
