//! Harm done to a running installation, and what must hold all the same: see
//! [`lanekeeper_tests::History`].

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

mod agents;
mod bad_input;
mod certificates;
mod configuration;
mod control_planes;
mod database;
mod fleet;
mod incidents;
mod network;
mod sessions;
mod soak;
mod stores;

use lanekeeper_proto::limits;
use lanekeeper_proto::message::Hello;
use lanekeeper_store::{Change, ConfigStore};
use lanekeeper_tests::{Cluster, GATEWAY, History, Written, eventually};
use serde_json::Value;
use std::time::Duration;

/// How long healing may take.
const HEALED: Duration = Duration::from_secs(45);

/// The first words of an agent that a test plays itself.
fn hello(instance: &str) -> Hello {
    Hello {
        protocol_min: limits::PROTOCOL_MIN,
        protocol_max: limits::PROTOCOL_MAX,
        agent_version: "0.1.0".to_owned(),
        gateway: GATEWAY.to_owned(),
        name: instance.to_owned(),
        labels: std::collections::BTreeMap::new(),
        instance: instance.to_owned(),
        applied: None,
        wall_ms: 0,
        previous_session_epoch: None,
        capabilities: Vec::new(),
    }
}

/// Writes a document that the API would refuse on top of revision `base`, as a bug or a newer
/// release might; the new revision.
async fn past_the_api(cluster: &Cluster, history: &History, base: u64, document: &Value) -> u64 {
    let store = ConfigStore::connect(&cluster.database).await.unwrap();
    let hash = lanekeeper_model::content_hash(document);
    let change = Change {
        actor: "test".to_owned(),
        actor_id: String::new(),
        message: String::new(),
        now_ms: 1,
        idempotency: None,
    };
    store
        .write_revision(GATEWAY, Some(base), document, &hash, &change)
        .await
        .unwrap();
    history.wrote(&Written::Confirmed(base + 1));
    base + 1
}

/// Waits until a write of `document` through an API is taken; its revision, and how long that took.
async fn written_again(
    cluster: &Cluster,
    history: &History,
    api: usize,
    document: &Value,
) -> (u64, Duration) {
    eventually("a write is taken again", HEALED, || async {
        match cluster.commit(history, api, document).await {
            Written::Confirmed(revision) => Ok(revision),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}
