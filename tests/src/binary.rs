//! Finds what was built and where the repository is.

use std::path::{Path, PathBuf};

/// The root of the repository.
///
/// # Panics
///
/// When this crate is not inside it.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate has a parent")
        .to_path_buf()
}

/// The folder of the binaries that were built beside the running test.
///
/// # Panics
///
/// When the test does not run from a target folder.
#[must_use]
pub fn target_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    test.ancestors()
        .nth(2)
        .expect("tests are built into target/PROFILE/deps")
        .to_path_buf()
}

/// The `lanekeeper` binary.
pub(crate) fn lanekeeper() -> PathBuf {
    let binary = target_folder().join("lanekeeper");
    assert!(
        binary.exists(),
        "{} is missing: cargo build --workspace",
        binary.display()
    );
    binary
}
