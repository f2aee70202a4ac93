//! Processes that are there before their PostgreSQL: alive, not ready, and clear about why.

use lanekeeper_store::testing::{PostgresServer, RedisServer};
use lanekeeper_tests::{Process, eventually, http_client};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for something that takes a moment.
const BOUND: Duration = Duration::from_secs(20);

/// A process that may or may not have its stores.
struct Waiting {
    process: Process,
    log: PathBuf,
    /// Where it is asked for probes.
    probes: String,
    http: reqwest::Client,
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

impl Waiting {
    async fn start(command: &str, database: &str, redis: &str, folder: &Path) -> Self {
        let (ops, http) = (free_address(), free_address());
        let ops_flag = format!("--ops-listen={ops}");
        let http_flag = format!("--http-listen={http}");
        let token = folder.join(format!("{command}-token"));
        let token_flag = format!("--bootstrap-token-file={}", token.display());
        let data_flag = format!("--data-dir={}", folder.join("data").display());
        let grpc = ["--insecure", "--grpc-listen=127.0.0.1:0", ops_flag.as_str()];
        let api = [http_flag.as_str(), token_flag.as_str()];
        let (flags, probes) = match command {
            "server" => ([&[data_flag.as_str()], &grpc[..], &api[..]].concat(), &ops),
            "control-plane" => (grpc.to_vec(), &ops),
            _ => (api.to_vec(), &http),
        };
        let mut arguments = vec![command.to_owned()];
        arguments.extend(flags.into_iter().map(str::to_owned));
        let environment = [
            ("LANEKEEPER_DATABASE_URL", database.to_owned()),
            ("LANEKEEPER_REDIS_URL", redis.to_owned()),
        ];
        let log = folder.join(format!("{command}.log"));
        let started = Process::start(&arguments, &environment, &[], &log).await;
        Self {
            process: started.unwrap(),
            log,
            probes: format!("http://{probes}"),
            http: http_client(),
        }
    }

    async fn probe(&self, path: &str) -> Result<(u16, String), String> {
        let url = format!("{}{path}", self.probes);
        let answer = self.http.get(url).send().await;
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        Ok((status, answer.text().await.unwrap()))
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it lives, is not ready for want of its database, and has logged `reason`.
    async fn waits(&self, reason: &str) {
        eventually(reason, BOUND, || async {
            let (alive, _) = self.probe("/livez").await?;
            let (ready, why) = self.probe("/readyz").await?;
            let said = self.said();
            if (alive, ready) == (200, 503) && why.contains("database") && said.contains(reason) {
                Ok(())
            } else {
                Err(format!("{alive} {ready} {why}\n{said}"))
            }
        })
        .await;
    }

    async fn is_ready(&self) {
        eventually("ready", BOUND, || async {
            match self.probe("/readyz").await? {
                (200, _) => Ok(()),
                (status, why) => Err(format!("{status} {why}\n{}", self.said())),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn each_process_lives_without_its_database_and_gets_ready_when_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let mut postgres = PostgresServer::start().await;
    let database = postgres.create_database().await;
    let redis = RedisServer::start().await;
    postgres.stop();
    let mut waiting = Vec::new();
    for command in ["server", "control-plane", "dashboard-api"] {
        waiting.push(Waiting::start(command, &database, &redis.url(), folder.path()).await);
    }
    for process in &waiting {
        process.waits("nothing listens at 127.0.0.1:").await;
    }
    // The API says so in its own form, and sends nobody away for good.
    let url = format!("{}/api/v1/summary", waiting[2].probes);
    let answer = waiting[2].http.get(url).send().await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    let problem: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(problem["code"], "database");
    let (status, metrics) = waiting[1].probe("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(metrics.contains("lanekeeper_sessions 0\n"), "{metrics}");

    postgres.start_again().await;
    for process in &waiting {
        process.is_ready().await;
        let said = process.said();
        let once = said.matches("waiting for the configuration database");
        assert!(once.count() <= 2, "once for each reason: {said}");
    }
}

#[tokio::test]
async fn an_unknown_host_and_a_missing_database_are_named_and_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let postgres = PostgresServer::start().await;
    let redis = RedisServer::start().await;
    let unknown = "postgres://lanekeeper:hush-hush@no-such-host.invalid/lanekeeper";
    let mut lost = Waiting::start("control-plane", unknown, &redis.url(), folder.path()).await;
    lost.waits("its host no-such-host.invalid is not known")
        .await;
    lost.process.signal("TERM").await;
    assert_eq!(lost.process.exit_code(BOUND).await, Some(0));
    assert!(!lost.said().contains("hush-hush"), "{}", lost.said());

    let there = postgres.create_database().await;
    let missing = format!("{there}_later");
    let early = Waiting::start("dashboard-api", &missing, &redis.url(), folder.path()).await;
    early.waits("has no such database").await;
    let (_, name) = missing.rsplit_once('/').unwrap();
    let create = format!("CREATE DATABASE {name}");
    postgres.execute(&there, &create).await;
    early.is_ready().await;
}

#[tokio::test]
async fn a_wrong_password_ends_the_process_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let postgres = PostgresServer::start().await;
    let redis = RedisServer::start().await;
    let there = postgres.create_database().await;
    let asks_passwords = "
        CREATE ROLE lanekeeper LOGIN PASSWORD 'right';
        DO $$ BEGIN EXECUTE format(
            'COPY (SELECT ''host all all 127.0.0.1/32 scram-sha-256'') TO %L',
            current_setting('hba_file'));
        END $$;
        SELECT pg_reload_conf();";
    postgres.execute(&there, asks_passwords).await;
    for user in ["lanekeeper", "nobody-known"] {
        let url = there.replace("postgres@", &format!("{user}:hush-hush@"));
        for command in ["server", "control-plane", "dashboard-api"] {
            let mut refused = Waiting::start(command, &url, &redis.url(), folder.path()).await;
            let code = refused.process.exit_code(BOUND).await;
            let said = refused.said();
            assert_eq!(code, Some(1), "{command}: {said}");
            assert!(said.contains("refuses its user or password"), "{said}");
            assert!(!said.contains("hush-hush"), "{said}");
            std::fs::remove_file(&refused.log).unwrap();
        }
    }
}
