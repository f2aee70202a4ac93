//! What networks and frozen peers do to sessions: silence that neither end notices, resets,
//! latency, readers that do not read.

use futures_util::{StreamExt, stream};
use lanekeeper_model::Report;
use lanekeeper_proto::message::FromAgent;
use lanekeeper_proto::wire::AgentMessage;
use lanekeeper_proto::{FleetClient, limits};
use lanekeeper_tests::{Cluster, FaultProxy, Written, eventually};
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::control_planes::{frozen_agent, frozen_control_plane};
use crate::hello;

const BACK: Duration = Duration::from_secs(45);
/// A ping goes out after 20 s at the latest and may take 10 s; the rest is for a busy machine.
const NOTICED: Duration = Duration::from_secs(35);
/// Something must wait for 30 s, and may begin to after some seconds.
const CUT: Duration = Duration::from_secs(45);
/// What a reader takes without reading: HTTP/2's default.
const WINDOW_BYTES: u32 = 65_535;
const SESSIONS: &str = "lanekeeper_sessions";
const CONNECTED: &str = "lanekeeper_session_connected";

/// One control plane with `node-0` beside it and `node-1` behind a relay.
async fn one_behind_a_relay() -> (Cluster, FaultProxy) {
    let mut cluster = Cluster::start(1, 1).await.unwrap();
    let proxy = FaultProxy::start(cluster.control_planes[0].address("grpc"))
        .await
        .unwrap();
    let agent = cluster
        .start_agent_through(1, proxy.address())
        .await
        .unwrap();
    cluster.agents.push(agent);
    cluster.converged(1, BACK).await;
    cluster.all_live(BACK).await;
    (cluster, proxy)
}

async fn commit(cluster: &Cluster, history: &lanekeeper_tests::History, weight: u64) -> u64 {
    match cluster.commit(history, 0, &cluster.document(weight)).await {
        Written::Confirmed(revision) => revision,
        other => panic!("{other:?}"),
    }
}

/// A partition is noticed by both ends, and a revision made meanwhile is shown as missing.
async fn partition() {
    let (cluster, proxy) = one_behind_a_relay().await;
    let history = cluster.watch();
    let began = Instant::now();
    proxy.hold();
    let revision = commit(&cluster, &history, 2).await;
    eventually("one has it, the other does not", BACK, || async {
        let near = cluster
            .listed(0, "node-0")
            .await
            .map_err(|e| e.to_string())?;
        let far = cluster
            .listed(0, "node-1")
            .await
            .map_err(|e| e.to_string())?;
        let pending = far["target_revision"] == revision
            && far["applied_revision"] == 1
            && far["converged"] == false;
        match near["converged"] == true && pending {
            true => Ok(()),
            false => Err(format!("{near} {far}")),
        }
    })
    .await;
    let sessions = cluster.metric(&cluster.control_planes[0], SESSIONS).await;
    assert_eq!(sessions.unwrap(), 2.0, "the server believes in both");
    let connected = cluster.metric(&cluster.agents[1], CONNECTED).await;
    assert_eq!(connected.unwrap(), 1.0, "and so does the agent");

    for (who, process, series, count) in [
        ("the server", &cluster.control_planes[0], SESSIONS, 1.0),
        ("the agent", &cluster.agents[1], CONNECTED, 0.0),
    ] {
        let left = NOTICED.saturating_sub(began.elapsed());
        eventually(who, left, || async {
            match cluster.metric(process, series).await {
                Ok(seen) if seen == count => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        })
        .await;
        println!("{who} noticed after {:?}", began.elapsed());
    }
    proxy.release();
    println!("healed after {:?}", cluster.converged(revision, BACK).await);
    cluster.all_live(BACK).await;
    history.judge(&cluster).await;
}

/// Resets every five seconds and latency delay revisions and lose none.
async fn resets() {
    let (cluster, proxy) = one_behind_a_relay().await;
    let history = cluster.watch();
    let dialled = proxy.accepted().len();
    let mut revision = 1;
    for weight in 2..6 {
        let cut = Instant::now();
        proxy.cut();
        revision = commit(&cluster, &history, weight).await;
        // The next reset comes whether the agent is back or not.
        tokio::time::sleep(Duration::from_secs(5).saturating_sub(cut.elapsed())).await;
    }
    println!(
        "on the newest after {:?}",
        cluster.converged(revision, BACK).await
    );
    let dials = proxy.accepted().len() - dialled;
    assert!((1..=12).contains(&dials), "{dials} dials for four resets");

    proxy.delay(Duration::from_millis(200));
    let revision = commit(&cluster, &history, 9).await;
    let took = cluster.converged(revision, BACK).await;
    println!("with 200 ms each way after {took:?}");
    cluster.all_live(BACK).await;
    history.judge(&cluster).await;
}

/// What a session says: hello, then a report each second.
fn talk(number: usize) -> impl futures_util::Stream<Item = AgentMessage> + Send + 'static {
    let first = FromAgent::Hello(hello(&format!("reader-{number}"))).into();
    let reports = stream::unfold(1, |seq| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let report = Report {
            seq,
            ..Report::default()
        };
        Some((FromAgent::Report(report).into(), seq + 1))
    });
    stream::iter([first]).chain(reports)
}

/// Readers that never read are cut and cost nobody else anything.
async fn deaf_readers() {
    const READERS: usize = 6;
    const POOLS: usize = 1_900;
    const GROWTH_MAX_MIB: u64 = 64;
    let cluster = Cluster::start(1, 1).await.unwrap();
    let history = cluster.watch();
    // Many times the window of a reader.
    let heavy = |weight: u64| -> Value {
        let mut document = cluster.document(weight);
        let pool = document["pools"]["chat"].clone();
        for number in 0..POOLS {
            document["pools"][format!("pool-{number}")] = pool.clone();
        }
        document
    };
    let commit = async |weight: u64| {
        let written = cluster.commit(&history, 0, &heavy(weight)).await;
        let Written::Confirmed(revision) = written else {
            panic!("{written:?}")
        };
        let took = cluster.converged(revision, BACK).await;
        println!("the one that reads has it after {took:?}");
    };
    // What readers are sent first must be too much for them.
    commit(2).await;
    let plane = &cluster.control_planes[0];
    let before = plane.resident_mib();
    let mut readers = Vec::new();
    for number in 0..READERS {
        let channel = tonic::transport::Endpoint::from_shared(plane.url("grpc"))
            .unwrap()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .connect()
            .await
            .unwrap();
        let mut client =
            FleetClient::new(channel).max_decoding_message_size(limits::MESSAGE_BYTES_MAX);
        // The connection answers pings; the stream is never read.
        readers.push(client.session(talk(number)).await.unwrap());
    }
    let open = async || cluster.metric(plane, SESSIONS).await.unwrap_or_default();
    let all = 1.0 + READERS as f64;
    eventually("all have a session", BACK, || async {
        match open().await {
            seen if seen == all => Ok(()),
            seen => Err(seen.to_string()),
        }
    })
    .await;
    let most = AtomicU64::new(plane.resident_mib());
    let began = Instant::now();
    for weight in 3..6 {
        commit(weight).await;
        most.fetch_max(plane.resident_mib(), Ordering::Relaxed);
    }
    eventually("the readers are cut", CUT, || async {
        most.fetch_max(plane.resident_mib(), Ordering::Relaxed);
        match open().await {
            1.0 => Ok(()),
            seen => Err(seen.to_string()),
        }
    })
    .await;
    let most = most.into_inner();
    println!(
        "cut after {:?}; {before} MiB before, {most} at most, {} after",
        began.elapsed(),
        plane.resident_mib()
    );
    assert!(most <= before + GROWTH_MAX_MIB, "{before} to {most} MiB");
    drop(readers);
    history.judge(&cluster).await;
}

/// Five installations side by side: most of the time of each is waiting.
#[tokio::test]
async fn silence_frost_resets_latency_and_deaf_readers_are_noticed_and_cost_no_revision() {
    tokio::join!(
        frozen_control_plane(),
        frozen_agent(),
        partition(),
        resets(),
        deaf_readers()
    );
}
