//! The two files an authority lives in: read, made at a first start, and added to for a rotation.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{AuthorityError, Signers, SigningAuthority, fingerprint, generate};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Where an authority's certificate and key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Certificates, PEM, the newest first.
    pub cert: PathBuf,
    /// Their keys, PEM, in any order. The owner's alone.
    pub key: PathBuf,
    /// Makes both when the certificate is missing.
    pub create: bool,
}

/// What the files held when they were read.
#[derive(PartialEq, Eq, Clone)]
pub(crate) struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
}

/// Makes the files when they are missing and may be made.
pub(crate) fn ensure(files: &AuthorityFiles, now_ms: u64) -> Result<(), AuthorityError> {
    if !files.create || files.cert.exists() {
        return Ok(());
    }
    let _turn = lock(&files.cert)?;
    // Another process may have had its turn meanwhile.
    if files.cert.exists() {
        return Ok(());
    }
    prepend(files, now_ms).map(drop)
}

/// Adds a new authority in front of those in the files; a running control plane notices by itself.
/// The value is the new one's fingerprint. `now_ms` is wall time in unix milliseconds.
///
/// # Errors
///
/// [`AuthorityError`] when the files cannot be read or written, or are missing where a control
/// plane makes its own: then none runs on them, and a new authority would replace nothing.
pub fn rotate_authority(files: &AuthorityFiles, now_ms: u64) -> Result<String, AuthorityError> {
    if files.create {
        read_file(&files.cert)?;
    }
    let _turn = lock(&files.cert)?;
    prepend(files, now_ms)
}

/// Reads both files.
pub(crate) fn read(files: &AuthorityFiles) -> Result<Contents, AuthorityError> {
    Ok(Contents {
        cert: read_file(&files.cert)?,
        key: read_file(&files.key)?,
    })
}

impl Contents {
    /// The authorities whose keys are there, in the order of their certificates.
    pub(crate) fn signers(&self, files: &AuthorityFiles) -> Result<Signers, AuthorityError> {
        let unusable = |path: &Path, reason| AuthorityError::Content {
            path: path.to_owned(),
            reason,
        };
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&self.cert)
            .collect::<Result<_, _>>()
            .map_err(|_| unusable(&files.cert, "is not PEM"))?;
        let mut keys: Vec<_> = PrivateKeyDer::pem_slice_iter(&self.key)
            .map(|key| KeyPair::try_from(&key.ok()?).ok())
            .collect::<Option<_>>()
            .ok_or_else(|| unusable(&files.key, "is not a PEM key that can sign"))?;
        let mut signers = Signers::new();
        for certificate in certificates {
            let owner = keys
                .iter()
                .position(|key| SigningAuthority::matches(&certificate, key));
            if let Some(owner) = owner {
                let key = keys.swap_remove(owner);
                signers.push(Arc::new(SigningAuthority::new(certificate, key)?));
            }
        }
        if signers.is_empty() {
            return Err(unusable(
                &files.key,
                "has the key of none of the authority's certificates",
            ));
        }
        Ok(signers)
    }
}

fn prepend(files: &AuthorityFiles, now_ms: u64) -> Result<String, AuthorityError> {
    let (cert, key) = generate(now_ms)?;
    let known = |path: &Path| match read_file(path) {
        Err(AuthorityError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        read => read,
    };
    let (certs, keys) = (known(&files.cert)?, known(&files.key)?);
    // Keys first: a key without its certificate is nothing, the reverse would be an error.
    replace(&files.key, &[key.as_bytes(), &keys].concat(), 0o600)?;
    replace(&files.cert, &[cert.as_bytes(), &certs].concat(), 0o644)?;
    let certificate =
        CertificateDer::from_pem_slice(cert.as_bytes()).map_err(|_| AuthorityError::Content {
            path: files.cert.clone(),
            reason: "is not PEM",
        })?;
    Ok(fingerprint(&certificate))
}

/// Writes beside and moves into place, so that no reader and no crash ever meets half a file.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), AuthorityError> {
    let beside = beside(path, "unfinished");
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| AuthorityError::File {
        path: path.to_owned(),
        source,
    })
}

/// One writer at a time; the turn ends with the handle.
fn lock(cert: &Path) -> Result<File, AuthorityError> {
    let path = beside(cert, "lock");
    let take = || {
        if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        file.lock()?;
        Ok(file)
    };
    take().map_err(|source| AuthorityError::File {
        path: path.clone(),
        source,
    })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

fn read_file(path: &Path) -> Result<Vec<u8>, AuthorityError> {
    let failed = |source| AuthorityError::File {
        path: path.to_owned(),
        source,
    };
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        return Err(AuthorityError::Content {
            path: path.to_owned(),
            reason: "is too large",
        });
    }
    fs::read(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW_MS: u64 = 1_790_000_000_000;

    fn files(dir: &Path) -> AuthorityFiles {
        AuthorityFiles {
            cert: dir.join("ca.crt"),
            key: dir.join("ca.key"),
            create: true,
        }
    }

    fn fingerprints(files: &AuthorityFiles) -> Vec<String> {
        let signers = read(files).unwrap().signers(files).unwrap();
        signers.iter().map(|it| it.fingerprint.clone()).collect()
    }

    #[test]
    fn first_start_makes_an_authority_and_later_ones_keep_it() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(&dir.path().join("data"));
        ensure(&files, NOW_MS).unwrap();
        let first = fingerprints(&files);
        ensure(&files, NOW_MS).unwrap();
        assert_eq!(fingerprints(&files), first);
        let mode = fs::metadata(&files.key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn rotation_puts_the_new_one_first_and_keeps_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        ensure(&files, NOW_MS).unwrap();
        let old = fingerprints(&files).remove(0);
        let new = rotate_authority(&files, NOW_MS).unwrap();
        assert_eq!(fingerprints(&files), [new, old]);
    }

    #[test]
    fn a_folder_without_an_authority_is_not_rotated_and_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let mistyped = dir.path().join("dta");
        let error = rotate_authority(&files(&mistyped), NOW_MS).unwrap_err();
        assert!(error.to_string().contains("dta/ca.crt"), "{error}");
        assert!(!mistyped.exists());
    }

    #[test]
    fn files_that_do_not_fit_are_refused_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = (files(&dir.path().join("a")), files(&dir.path().join("b")));
        ensure(&ours, NOW_MS).unwrap();
        ensure(&theirs, NOW_MS).unwrap();
        fs::copy(&theirs.key, &ours.key).unwrap();
        let error = read(&ours).unwrap().signers(&ours).unwrap_err();
        assert!(error.to_string().contains("has the key of none"), "{error}");
        fs::remove_file(&ours.key).unwrap();
        ensure(&ours, NOW_MS).unwrap();
        assert!(
            read(&ours).is_err(),
            "a lost key is not replaced in silence"
        );
    }
}
