//! The document file.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lanekeeper_agent::{Error, Source, run};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, config, document, eventually};

fn standalone(file: &Path) -> lanekeeper_agent::Config {
    config(Source::Standalone {
        file: file.to_owned(),
    })
}

fn write(dir: &Path, name: &str, weight: u64) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, document(weight).to_string()).unwrap();
    path
}

#[tokio::test]
async fn a_good_change_is_applied_and_a_bad_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "edge.yaml", 1);
    let agent = Agent::start(standalone(&file)).await;
    let stats = agent.stats().await;
    assert_eq!(stats["agent"]["config_source"], "file");
    assert_eq!(stats["agent"]["gateway"], "edge");
    assert_eq!(agent.ask("GET", "/readyz").await.status, 200);

    write(dir.path(), "edge.yaml", 2);
    agent.serves(2).await;

    std::fs::write(
        &file,
        "gateway: edge\npools: {chat: {members: []}}\nsurprise: 1\n",
    )
    .unwrap();
    eventually(async || {
        let problems = agent.stats().await["agent"]["problems"].to_string();
        problems.contains("surprise")
    })
    .await;
    assert_eq!(agent.revision().await, 2);
    assert_eq!(agent.ask("GET", "/readyz").await.status, 200);

    std::fs::remove_file(&file).unwrap();
    eventually(async || {
        let problems = agent.stats().await["agent"]["problems"].to_string();
        problems.contains("cannot read")
    })
    .await;
    assert_eq!(agent.revision().await, 2);

    write(dir.path(), "edge.yaml", 3);
    agent.serves(3).await;
    assert_eq!(agent.stats().await["agent"]["problems"], json!([]));
    agent.stop().await;
}

#[tokio::test]
async fn a_change_that_leaves_no_usable_pool_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "edge.yaml", 1);
    let agent = Agent::start(standalone(&file)).await;
    std::fs::write(&file, "gateway: edge\n").unwrap();
    eventually(async || {
        let problems = agent.stats().await["agent"]["problems"].to_string();
        problems.contains("no pool has a member that can be selected")
    })
    .await;
    assert_eq!(agent.revision().await, 1);
    write(dir.path(), "edge.yaml", 2);
    agent.serves(2).await;
    agent.stop().await;
}

#[tokio::test]
async fn sighup_judges_the_file_again_and_refusals_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "edge.yaml", 1);
    let agent = Agent::start(standalone(&file)).await;
    let rejects = async || {
        let metrics = agent.ask("GET", "/metrics").await.body;
        metrics
            .lines()
            .find_map(|line| {
                line.strip_prefix("lanekeeper_config_rejects_total{gateway=\"edge\"} ")
            })
            .map_or(0, |count| count.parse().unwrap())
    };
    assert_eq!(rejects().await, 0);
    std::fs::write(&file, "surprise: 1").unwrap();
    eventually(async || rejects().await == 1).await;
    // A look at the unchanged file refuses nothing again, so a further refusal is the signal's.
    let sent = std::process::Command::new("kill")
        .args(["-HUP", &std::process::id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    eventually(async || rejects().await == 2).await;
    assert_eq!(agent.revision().await, 1);
    agent.stop().await;
}

#[tokio::test]
async fn the_swap_of_a_mounted_folder_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    for (version, weight) in [("v1", 1), ("v2", 2)] {
        std::fs::create_dir(dir.path().join(version)).unwrap();
        write(&dir.path().join(version), "edge.json", weight);
    }
    let data = dir.path().join("..data");
    symlink("v1", &data).unwrap();
    let file = dir.path().join("edge.json");
    symlink("..data/edge.json", &file).unwrap();
    let agent = Agent::start(standalone(&file)).await;
    assert_eq!(agent.revision().await, 1);

    let next = dir.path().join("..data_tmp");
    symlink("v2", &next).unwrap();
    std::fs::rename(&next, &data).unwrap();
    agent.serves(2).await;
    agent.stop().await;
}

#[tokio::test]
async fn a_start_with_a_bad_file_fails_and_lists_everything() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("edge.yaml");
    std::fs::write(
        &file,
        "gateway: edge\nsurprise: 1\npools: {chat: {members: [{target: nobody}]}}\n",
    )
    .unwrap();
    let error = run(standalone(&file), CancellationToken::new(), |_| ())
        .await
        .unwrap_err();
    let text = error.to_string();
    for expected in ["edge.yaml has", "surprise", "nobody"] {
        assert!(text.contains(expected), "{text}");
    }

    let missing = standalone(&dir.path().join("missing.yaml"));
    let error = run(missing, CancellationToken::new(), |_| ())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("missing.yaml"), "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_refused_even_by_another_agent() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "edge.yaml", 1);
    let agent = Agent::start(standalone(&file)).await;
    let mut second = standalone(&file);
    second.listen = agent.addresses.proxy;
    let error = run(second, CancellationToken::new(), |_| ())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Listen(_)), "{error:?}");
    agent.stop().await;
}
