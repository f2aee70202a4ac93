//! Rules of the code base that a compiler does not know, kept by tests.

mod circles;
mod codes;
mod dependencies;
mod field_reports;
mod files;
mod today;
mod words;

use lanekeeper_tests::repository;
use std::path::{Path, PathBuf};

/// Made anew by each build of the page, and not checked in.
const GENERATED: &str = "schema.d.ts";

/// All files of the repository, tracked or new, whose names end in one of `endings`.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![repository()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir()
                && !name.starts_with('.')
                && !["target", "bench-results", "node_modules", "built"].contains(&name)
            {
                folders.push(path);
            } else if name != GENERATED && endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// All source files of all crates.
fn sources() -> Vec<PathBuf> {
    let found = files(&[".rs"]);
    assert!(found.len() > 50, "only {} sources found", found.len());
    found
}

/// The path as messages show it: from the repository's folder on.
fn shown(path: &Path) -> String {
    path.strip_prefix(repository())
        .unwrap_or(path)
        .display()
        .to_string()
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
        || path.components().any(|part| part.as_os_str() == "benches")
}
