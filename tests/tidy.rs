//! Rules of the code base that a compiler does not know, kept by a test.

use lanekeeper_tests::repository;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a source file before its tests.
const MAX_LINES: usize = 500;

/// Which crates of the workspace each crate may use.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("lanekeeper-breaker", &[]),
    ("lanekeeper-model", &["breaker"]),
    ("lanekeeper-protocol", &["model"]),
    ("lanekeeper-serve", &[]),
    ("lanekeeper-sim-provider", &["serve"]),
    ("lanekeeper-fleet-sim", &["agent", "model", "proto"]),
    ("lanekeeper-proto", &["model"]),
    ("lanekeeper-store", &["model"]),
    (
        "lanekeeper-agent",
        &["breaker", "model", "proto", "protocol", "serve"],
    ),
    (
        "lanekeeper-control-plane",
        &["model", "proto", "serve", "store"],
    ),
    ("lanekeeper-dashboard-api", &["model", "serve", "store"]),
    ("lanekeeper", &["*"]),
    ("lanekeeper-tests", &["*"]),
];

/// Crates that do I/O, start threads or read time; `model` stays free of them.
const IO_CRATES: [&str; 12] = [
    "axum",
    "hyper",
    "hyper-util",
    "mio",
    "rand",
    "redis",
    "reqwest",
    "rustls",
    "socket2",
    "sqlx",
    "tokio",
    "tonic",
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--locked"])
        .current_dir(repository())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// Direct dependencies by crate, those of tests and build scripts left out unless `all`.
fn dependencies(metadata: &Value, all: bool) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().expect("packages");
    let of = |package: &Value| {
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        dependencies
            .iter()
            .filter(|dependency| all || dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    packages
        .iter()
        .filter(|package| package["source"].is_null())
        .map(|package| {
            (
                package["name"].as_str().expect("a name").to_owned(),
                of(package),
            )
        })
        .collect()
}

#[test]
fn crates_depend_one_way_only() {
    let dependencies = dependencies(&metadata(), false);
    let listed: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    assert_eq!(
        found, listed,
        "the workspace's crates and the table of this test differ"
    );
    for (name, allowed) in MAY_USE {
        for used in dependencies[name]
            .iter()
            .filter_map(|used| used.strip_prefix("lanekeeper-"))
        {
            assert!(
                allowed.contains(&"*") || allowed.contains(&used),
                "{name} must not depend on lanekeeper-{used}"
            );
        }
    }
}

#[test]
fn the_breaker_uses_only_the_standard_library() {
    let used = &dependencies(&metadata(), false)["lanekeeper-breaker"];
    assert!(used.is_empty(), "{used:?}");
}

#[test]
fn the_model_does_no_io() {
    let used = &dependencies(&metadata(), false)["lanekeeper-model"];
    let io: Vec<_> = IO_CRATES
        .iter()
        .filter(|name| used.contains(**name))
        .collect();
    assert!(io.is_empty(), "{io:?}");
}

#[test]
fn sql_and_redis_have_one_home() {
    for (name, used) in dependencies(&metadata(), true) {
        if name != "lanekeeper-store" {
            assert!(!used.contains("sqlx"), "{name} uses sqlx");
            assert!(!used.contains("redis"), "{name} uses redis");
        }
    }
}

/// All tracked and new source files below the crates.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![repository()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 50, "only {} sources found", found.len());
    found
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
        || path.components().any(|part| part.as_os_str() == "benches")
}

#[test]
fn files_are_short_and_say_what_they_own() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        if is_test(&path) {
            continue;
        }
        let lines = text
            .lines()
            .take_while(|line| *line != "#[cfg(test)]")
            .count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines", path.display());
        let opening = text.lines().next().unwrap_or_default();
        assert!(
            opening.starts_with("//!"),
            "{} does not open with //!",
            path.display()
        );
    }
}

#[test]
fn no_file_is_named_for_nothing() {
    let banned = [
        "mod.rs",
        "utils.rs",
        "util.rs",
        "common.rs",
        "helpers.rs",
        "manager.rs",
    ];
    for path in sources() {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        assert!(!banned.contains(&name), "{}", path.display());
    }
}

#[test]
fn no_test_is_switched_off() {
    // Written in two parts, or this file would find itself.
    let switch = ["#[ign", "ore"].concat();
    for path in sources() {
        let text = std::fs::read_to_string(&path).expect("a source can be read");
        assert!(!text.contains(&switch), "{} ignores a test", path.display());
    }
}

#[test]
fn every_dependency_is_explained() {
    let page = std::fs::read_to_string(repository().join("docs/dependencies.md"))
        .expect("docs/dependencies.md");
    let mut missing = BTreeSet::new();
    for used in dependencies(&metadata(), true).values().flatten() {
        if !used.starts_with("lanekeeper") && !page.contains(&format!("`{used}`")) {
            missing.insert(used.clone());
        }
    }
    assert!(
        missing.is_empty(),
        "docs/dependencies.md does not name {missing:?}"
    );
}
