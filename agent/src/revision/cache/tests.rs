//! Crashes, damage and refusing disks.

use super::*;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

fn entry(revision: u64) -> Entry {
    Entry {
        gateway: "edge".to_owned(),
        revision,
        hash: format!("hash-{revision}"),
        control_epoch: "epoch-a".to_owned(),
        document: json!({"gateway": "edge", "labels": {"padding": "x".repeat(2000)}}),
    }
}

fn cache(dir: &Path) -> Cache {
    Cache::new(dir, "edge", "instance")
}

fn revisions(found: &Found) -> Vec<u64> {
    found.entries.iter().map(|entry| entry.revision).collect()
}

#[test]
fn a_stored_entry_comes_back_whole_and_the_one_before_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = cache(dir.path());
    for revision in [3, 4, 5] {
        writer.store(&entry(revision)).unwrap();
    }
    let found = cache(dir.path()).open(SystemTime::UNIX_EPOCH);
    assert_eq!(found.entries, [entry(5), entry(4)]);
    assert!(found.faults.is_empty() && !found.rolled_back);
}

#[test]
fn storing_the_same_entry_again_does_not_push_the_previous_one_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = cache(dir.path());
    for revision in [3, 4, 4] {
        writer.store(&entry(revision)).unwrap();
    }
    assert_eq!(
        revisions(&cache(dir.path()).open(SystemTime::UNIX_EPOCH)),
        [4, 3]
    );
}

#[test]
fn a_write_cut_anywhere_leaves_a_whole_generation() {
    let whole = seal(MAGIC, &entry(2)).unwrap();
    let mut cuts = 0;
    for length in (0..whole.len()).step_by(97) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = cache(dir.path());
        writer.store(&entry(1)).unwrap();
        // A crash before the move leaves an unfinished file, one with a lying disk a short one.
        fs::write(dir.path().join("instance.unfinished"), &whole[..length]).unwrap();
        assert_eq!(
            revisions(&cache(dir.path()).open(SystemTime::UNIX_EPOCH)),
            [1]
        );
        writer.store(&entry(2)).unwrap();
        fs::write(dir.path().join(CURRENT), &whole[..length]).unwrap();
        let found = cache(dir.path()).open(SystemTime::UNIX_EPOCH);
        assert_eq!(revisions(&found), [1], "cut at {length}");
        assert!(matches!(found.faults.first(), Some(Error::Damaged { .. })));
        cuts += 1;
    }
    assert!(cuts > 20);
}

#[test]
fn a_damaged_newest_generation_never_replaces_the_previous_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = cache(dir.path());
    writer.store(&entry(1)).unwrap();
    writer.store(&entry(2)).unwrap();
    fs::write(dir.path().join(CURRENT), b"rubbish").unwrap();
    writer.store(&entry(3)).unwrap();
    assert_eq!(
        revisions(&cache(dir.path()).open(SystemTime::UNIX_EPOCH)),
        [3, 1]
    );
}

#[test]
fn a_flipped_byte_is_noticed() {
    let mut bytes = seal(MAGIC, &entry(1)).unwrap();
    let decode = |bytes: &[u8]| unseal::<Entry>(MAGIC, bytes, FILE_BYTES_MAX);
    assert_eq!(decode(&bytes), Ok(entry(1)));
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    assert_eq!(decode(&bytes), Err("checksum does not match"));
}

#[test]
fn another_gateways_entry_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    cache(dir.path()).store(&entry(1)).unwrap();
    let found = Cache::new(dir.path(), "other", "i").open(SystemTime::UNIX_EPOCH);
    assert!(found.entries.is_empty() && found.faults.is_empty());
}

#[test]
fn three_starts_that_never_got_healthy_go_back_to_the_previous_generation() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = cache(dir.path());
    writer.store(&entry(1)).unwrap();
    writer.store(&entry(2)).unwrap();
    for _ in 0..FAILED_STARTS_MAX {
        let found = cache(dir.path()).open(SystemTime::UNIX_EPOCH);
        assert!(!found.rolled_back);
        assert_eq!(revisions(&found), [2, 1]);
    }
    let mut fourth = cache(dir.path());
    let found = fourth.open(SystemTime::UNIX_EPOCH);
    assert!(found.rolled_back);
    assert_eq!(revisions(&found), [1, 2]);

    fourth.store(&entry(3)).unwrap();
    fourth.healthy().unwrap();
    let found = cache(dir.path()).open(SystemTime::UNIX_EPOCH);
    assert_eq!(revisions(&found), [3, 1], "the bad generation is gone");
    assert!(!found.rolled_back);
}

#[test]
fn reaching_health_ends_the_count() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = cache(dir.path());
    writer.store(&entry(1)).unwrap();
    writer.store(&entry(2)).unwrap();
    for _ in 0..3 * FAILED_STARTS_MAX {
        let mut starting = cache(dir.path());
        assert!(!starting.open(SystemTime::UNIX_EPOCH).rolled_back);
        starting.healthy().unwrap();
    }
}

#[test]
fn files_are_private_and_unfinished_ones_are_cleared_when_old() {
    let dir = tempfile::tempdir().unwrap();
    cache(dir.path()).store(&entry(1)).unwrap();
    let mode = fs::metadata(dir.path().join(CURRENT))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let leftover = dir.path().join("dead.unfinished");
    fs::write(&leftover, b"x").unwrap();
    let written = fs::metadata(&leftover).unwrap().modified().unwrap();
    cache(dir.path()).open(written + LEFTOVER_AGE / 2);
    assert!(leftover.exists(), "a running agent may still write it");
    cache(dir.path()).open(written + LEFTOVER_AGE);
    assert!(!leftover.exists());
}

#[test]
fn a_folder_that_cannot_exist_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let mut broken = cache(&file.join("below"));
    let found = broken.open(SystemTime::UNIX_EPOCH);
    assert!(found.entries.is_empty() && !found.faults.is_empty());
    assert!(matches!(broken.store(&entry(1)), Err(Error::Io { .. })));
}

#[test]
fn what_is_not_a_regular_file_is_refused_without_opening_it() {
    let dir = tempfile::tempdir().unwrap();
    // A socket, like a pipe, is a file that cannot be read to its end.
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join(CURRENT)).unwrap();
    let error = cache(dir.path()).read(CURRENT).unwrap_err();
    assert!(error.to_string().contains("regular file"), "{error}");
}
