//! Crates depend one way, `breaker` and `model` stay pure, SQL has one home, and every
//! library is explained.

use lanekeeper_tests::repository;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Which crates of the workspace each crate may use.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("lanekeeper-breaker", &[]),
    ("lanekeeper-model", &["breaker"]),
    ("lanekeeper-protocol", &["model"]),
    ("lanekeeper-serve", &[]),
    ("lanekeeper-sim-provider", &["serve"]),
    ("lanekeeper-fleet-sim", &["agent", "model", "proto"]),
    ("lanekeeper-import", &["model"]),
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

/// The triple that this machine builds for, such as `x86_64-unknown-linux-gnu`.
fn host() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc)
        .arg("-vV")
        .current_dir(repository())
        .output()
        .expect("rustc runs");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("rustc names its host")
        .to_owned()
}

/// What cargo knows of the workspace, by nothing but the crates that a build here has fetched:
/// those of other platforms may be missing.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline", "--locked"])
        .args(["--filter-platform", &host()])
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
