//! Gateways whose documents come from a folder of files, which makes that folder the one place to
//! change them at: the API says so and refuses.

use crate::error::Error;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What the audit trail calls the writes that the refusal is about.
const REFUSED_ACTIONS: [&str; 3] = ["config.write", "gateway.delete", "rollout.start"];

/// The folder, and which gateways it holds. Without a folder it holds none.
#[derive(Debug, Default)]
pub(crate) struct Managed {
    folder: Option<PathBuf>,
    /// The file of each gateway.
    files: Mutex<BTreeMap<String, String>>,
}

impl Managed {
    /// Nothing is read yet.
    pub(crate) fn by(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            files: Mutex::default(),
        }
    }

    /// The folder, if there is one.
    pub(crate) fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }

    /// The file that a gateway's document comes from.
    pub(crate) fn file_of(&self, gateway: &str) -> Option<String> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(gateway).cloned()
    }

    /// Takes what the folder holds now.
    pub(crate) fn replace(&self, files: BTreeMap<String, String>) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// What the folder held at the last look.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.clone()
    }

    /// Whether a write of this kind is refused for gateways of the folder.
    pub(crate) fn concerns(&self, action: Option<&str>) -> bool {
        self.folder.is_some() && action.is_some_and(|action| REFUSED_ACTIONS.contains(&action))
    }

    /// Refuses a write to a gateway that comes from a file.
    ///
    /// # Errors
    ///
    /// [`Error::Managed`] with the file.
    pub(crate) fn check(&self, gateway: &str) -> Result<(), Error> {
        match self.file_of(gateway) {
            Some(file) => Err(Error::Managed {
                gateway: gateway.to_owned(),
                file,
            }),
            None => Ok(()),
        }
    }
}
