//! The embedded database as a file.

use std::os::unix::fs::PermissionsExt;

use lanekeeper_store::{ConfigStore, EMBEDDED_FILE, Error, ExposeSecret};
use serde_json::json;
use tempfile::TempDir;

use crate::stores::change;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reopened_folder_has_everything() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("made/by/open");
    let store = ConfigStore::open_embedded(&folder).await.unwrap();
    assert_eq!(
        std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
        0o700
    );
    for entry in std::fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "lanekeeper.db.lock" {
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{:?}", entry.file_name());
        }
    }
    let secret = store.bootstrap_token(1).await.unwrap().unwrap();
    store
        .create_gateway("edge", &json!({ "a": 1 }), "h1", &change("ann", 2))
        .await
        .unwrap();
    let epoch = store.control_epoch().await.unwrap();
    store.close().await;
    drop(store);

    let store = ConfigStore::open_embedded(&folder).await.unwrap();
    assert_eq!(store.control_epoch().await.unwrap(), epoch);
    assert!(store.bootstrap_token(3).await.unwrap().is_none());
    assert!(
        store
            .authenticate(secret.expose_secret(), 3)
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        store.current("edge").await.unwrap().unwrap().document,
        json!({ "a": 1 })
    );
    assert_eq!(
        store
            .write_revision("edge", Some(1), &json!({}), "h2", &change("ann", 4))
            .await
            .unwrap()
            .number,
        2
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_open_a_new_folder_at_once() {
    let folder = TempDir::new().unwrap();
    let openings: Vec<_> = (0..8)
        .map(|_| {
            let path = folder.path().to_owned();
            tokio::spawn(async move {
                ConfigStore::open_embedded(&path)
                    .await
                    .unwrap()
                    .control_epoch()
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut epochs = Vec::new();
    for opening in openings {
        epochs.push(opening.await.unwrap());
    }
    epochs.dedup();
    assert_eq!(epochs.len(), 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = ConfigStore::open_embedded(&file.join("below"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::DataDir { path, .. } if path.starts_with(&file)),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    std::fs::write(
        folder.path().join(EMBEDDED_FILE),
        "this is no database, but long enough to be read as one",
    )
    .unwrap();
    let error = ConfigStore::open_embedded(folder.path()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
}

#[tokio::test]
async fn other_addresses_are_refused_without_repeating_them() {
    for url in [
        "mysql://u:hunter2@h/db",
        "hunter2",
        "postgres://u:hunter2@[::/db",
    ] {
        let error = ConfigStore::connect(url).await.unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("hunter2"));
    }
}
