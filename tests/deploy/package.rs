//! The Debian package of the program that the other tests use, installed on a copy of this machine.

use lanekeeper_tests::{repository, target_folder};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes the package, not compressed.
fn package(binary: &Path, version: &str, out: &Path) -> PathBuf {
    let output = Command::new(repository().join("scripts/package-debian.sh"))
        .arg(binary)
        .arg(version)
        .arg(out)
        .env("COMPRESSION", "none")
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut found = std::fs::read_dir(out).expect("a folder");
    let made = found.find_map(|entry| {
        let path = entry.expect("an entry").path();
        path.to_string_lossy()
            .contains(&format!("_{version}_"))
            .then_some(path)
    });
    made.expect("a package")
}

/// The program without what only a debugger reads, which would be most of the package.
fn stripped(folder: &Path) -> PathBuf {
    let binary = folder.join("lanekeeper");
    let done = Command::new("strip")
        .args(["--strip-all", "-o"])
        .arg(&binary)
        .arg(target_folder().join("lanekeeper"))
        .status();
    assert!(done.expect("strip runs").success());
    binary
}

#[test]
fn the_debian_package_installs_starts_upgrades_and_purges() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = stripped(folder.path());
    let version = env!("CARGO_PKG_VERSION");
    let old = package(&binary, "0.1.9", &folder.path().join("old"));
    let new = package(&binary, version, &folder.path().join("new"));
    // A namespace of its own, so that what is mounted goes with the script.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid() == 0
    });
    let mut command = if is_root {
        Command::new("unshare")
    } else {
        let mut command = Command::new("sudo");
        command.args(["--non-interactive", "unshare"]);
        command
    };
    let output = command
        .args(["--mount", "bash"])
        .arg(repository().join("tests/deploy/package.sh"))
        .args([old, new])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for step in ["install", "start", "upgrade", "remove", "purge"] {
        assert!(said.contains(&format!("step: {step}\n")), "{step}: {said}");
    }
    assert!(said.contains("all steps done"), "{said}");
}

#[test]
fn the_same_program_makes_the_same_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = stripped(folder.path());
    let bytes = |name: &str| {
        let made = package(&binary, "1.2.3", &folder.path().join(name));
        std::fs::read(made).expect("the package")
    };
    assert!(
        bytes("one") == bytes("two"),
        "two packages of one program differ"
    );
}
