//! The configuration database under writers: crashed in the middle, blocked by locks, out of room.

use futures_util::future::join_all;
use lanekeeper_store::testing::SmallDisk;
use lanekeeper_tests::{Cluster, GATEWAY, Pace, Written};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{HEALED, written_again};

/// A write waits for a connection or a lock, each for 5 s at most; the rest is for a busy machine.
const ANSWERED: Duration = Duration::from_secs(15);
/// A read waits for the store's word on its token and for a picture taken without the store.
const READ: Duration = Duration::from_secs(3);
const WRITERS: usize = 8;
/// One of so many documents must be refused, and its attempt audited.
const BAD_EVERY: usize = 4;

/// What one writer needs, apart from the cluster that harm is done to meanwhile.
struct Writer {
    http: reqwest::Client,
    url: String,
    token: String,
    number: usize,
    document: Value,
}

impl Writer {
    fn new(cluster: &Cluster, number: usize) -> Self {
        let api = &cluster.apis[number % cluster.apis.len()];
        Self {
            http: cluster.http.clone(),
            url: format!("{}/admin/v1/gateways/{GATEWAY}/config", api.url("http")),
            token: cluster.token.clone(),
            number,
            document: cluster.document(1),
        }
    }

    async fn write(&self, round: usize) -> Written {
        let mut document = self.document.clone();
        // Like no other, or it might be the current one already and make no revision.
        let writer = format!("{}-{round}", self.number);
        document["labels"] = serde_json::json!({"writer": writer});
        if round % BAD_EVERY == BAD_EVERY - 1 {
            document["pools"]["chat"]["members"] = serde_json::json!([]);
        }
        let put = self
            .http
            .put(&self.url)
            .bearer_auth(&self.token)
            .header("if-match", "*")
            .json(&document);
        match put.send().await {
            Ok(answer) if answer.status() == 200 => {
                let body = answer.json::<Value>().await;
                let revision = body.ok().and_then(|body| body["revision"].as_u64());
                revision.map_or(Written::Unknown, Written::Confirmed)
            }
            Ok(answer) if answer.status().is_client_error() => {
                Written::Refused(answer.status().as_u16())
            }
            Ok(_) | Err(_) => Written::Unknown,
        }
    }
}

#[tokio::test]
async fn a_database_that_crashes_under_writers_keeps_revisions_and_audit_in_step() {
    let mut cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch();
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (writer, over) = (Writer::new(&cluster, number), Arc::clone(&over));
            tokio::spawn(async move {
                let mut written = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    written.push(writer.write(written.len()).await);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                written
            })
        })
        .collect();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        cluster.postgres.0.stop();
        cluster.postgres.0.start_again().await;
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    over.store(true, Ordering::Relaxed);
    let (mut confirmed, mut refused, mut unknown) = (0, 0, 0);
    for writer in writers {
        for written in writer.await.unwrap() {
            history.wrote(&written);
            match written {
                Written::Confirmed(_) => confirmed += 1,
                Written::Unknown => unknown += 1,
                Written::Refused(400) => refused += 1,
                Written::Refused(status) => assert_eq!(status, 412, "another was faster"),
            }
        }
    }
    assert!(unknown > 0, "no write met the crash");
    let (last, _) = written_again(&cluster, &history, 0, &cluster.document(900)).await;
    println!("{confirmed} confirmed, {refused} refused, {unknown} unknown, then revision {last}");
    assert!(refused > 0, "nothing was refused");
    cluster.all_live(HEALED).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn slow_locks_use_up_the_connections_and_cost_writes_and_nothing_else() {
    /// More than both APIs together have connections.
    const WAITING: usize = 60;
    let cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch();
    cluster.all_live(HEALED).await;
    let database = cluster.database.clone();
    let lock = "BEGIN; LOCK TABLE gateways IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(12); COMMIT";
    let blocked = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (began, pace) = (Instant::now(), Pace::watch());
        let writes = join_all((0..WAITING).map(|number| {
            let writer = Writer::new(&cluster, number);
            async move { (writer.write(0).await, began.elapsed()) }
        }));
        let reads = async {
            let mut slowest = Duration::ZERO;
            while began.elapsed() < Duration::from_secs(8) {
                for api in 0..2 {
                    let asked = Instant::now();
                    let view = cluster.get(api, "/api/v1/breaker-state").await.unwrap();
                    assert_eq!(view["agents"]["live"], 2, "{view}");
                    slowest = slowest.max(asked.elapsed());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            slowest
        };
        let (writes, slowest) = tokio::join!(writes, reads);
        let longest = writes.iter().map(|(_, took)| *took).max().unwrap();
        println!("writes answered within {longest:?}, reads within {slowest:?}");
        assert!(longest <= pace.allowed(ANSWERED), "{longest:?}");
        assert!(slowest <= pace.allowed(READ), "a read took {slowest:?}");
        for (written, _) in writes {
            history.wrote(&written);
            assert_eq!(written, Written::Unknown, "a write during the lock");
        }
    };
    tokio::join!(cluster.postgres.0.execute(&database, lock), blocked);
    let pace = Pace::watch();
    let (revision, took) = written_again(&cluster, &history, 1, &cluster.document(99)).await;
    println!("writable {took:?} after the lock was gone");
    assert!(took <= pace.allowed(Duration::from_secs(5)), "{took:?}");
    cluster.converged(revision, HEALED).await;
    cluster.all_live(HEALED).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn a_full_disk_costs_writes_until_there_is_room_again_and_nothing_else() {
    const DISK_MIB: u32 = 160;
    /// So many writes find room in pages that the files have already.
    const LAST_WRITES_MAX: u64 = 2_000;
    let (postgres, disk) = SmallDisk::start(DISK_MIB).await;
    let cluster = Cluster::start_over(postgres, 2, 2).await.unwrap();
    let history = cluster.watch();
    cluster.all_live(HEALED).await;
    disk.fill();
    let mut weight = 2;
    loop {
        match cluster.commit(&history, 0, &cluster.document(weight)).await {
            Written::Confirmed(_) if weight < LAST_WRITES_MAX => weight += 1,
            Written::Unknown => break,
            other => panic!("write {weight} on a full disk: {other:?}"),
        }
    }
    println!("{} writes found room", weight - 2);
    for api in 0..2 {
        let view = cluster.get(api, "/api/v1/breaker-state").await.unwrap();
        assert_eq!(view["agents"]["live"], 2, "{view}");
    }
    disk.clear();
    let (revision, took) =
        written_again(&cluster, &history, 1, &cluster.document(weight + 1)).await;
    println!("writable {took:?} after there was room");
    cluster.converged(revision, HEALED).await;
    cluster.all_live(HEALED).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn a_control_plane_started_without_its_database_waits_for_it() {
    let mut cluster = Cluster::start(1, 1).await.unwrap();
    let history = cluster.watch();
    cluster.postgres.0.stop();
    cluster.control_planes[0].kill().await;
    let starting = tokio::spawn(cluster.starting_control_plane(0));
    // Longer than one attempt and the pause behind it.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!starting.is_finished(), "neither up nor gone");
    cluster.postgres.0.start_again().await;
    cluster.control_planes[0] = starting.await.unwrap().unwrap();
    // The API notices in a moment that the database is back.
    let (revision, _) = written_again(&cluster, &history, 0, &cluster.document(2)).await;
    cluster.converged(revision, HEALED).await;
    cluster.all_live(HEALED).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn writes_that_end_in_another_order_than_they_began_all_count_and_the_newest_is_served() {
    let cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch();
    let mut other = cluster.document(1);
    other["gateway"] = "lab".into();
    let url = format!("{}/admin/v1/gateways", cluster.apis[1].url("http"));
    let create = || cluster.http.post(&url).bearer_auth(&cluster.token);
    // Somebody holds the first gateway's counter; writes to it queue, the later ones of another
    // gateway pass them by.
    let hold = "BEGIN; SELECT * FROM revision_counters WHERE gateway = 'edge' FOR UPDATE; \
                SELECT pg_sleep(2); COMMIT";
    let queued = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let writers = (0..4).map(|number| {
            let writer = Writer::new(&cluster, number);
            async move { (writer.write(0).await, Instant::now()) }
        });
        let overtaking = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let answer = create().json(&other).send().await.unwrap();
            assert_eq!(answer.status(), 201);
            Instant::now()
        };
        tokio::join!(join_all(writers), overtaking)
    };
    let ((), (written, overtaken)) =
        tokio::join!(cluster.postgres.0.execute(&cluster.database, hold), queued);
    let mut newest = 0;
    for (written, ended) in written {
        history.wrote(&written);
        assert!(ended > overtaken, "it was not held up");
        match written {
            Written::Confirmed(revision) => newest = newest.max(revision),
            Written::Refused(412) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(newest > 1);
    println!("revision {newest} is the newest");
    cluster.converged(newest, HEALED).await;
    let lab = cluster.get(0, "/admin/v1/gateways/lab").await.unwrap();
    assert_eq!(lab["revision"], 1, "{lab}");
    history.judge(&cluster).await;
}
