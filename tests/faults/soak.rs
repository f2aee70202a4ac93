//! Harm of all kinds, several at a time, in random sequence: for as long as it is asked to
//! (`SOAK_SECONDS`), from a seed that is printed and can be given again (`SOAK_SEED`). What
//! processes make of the harm differs from run to run all the same.

use lanekeeper_tests::{Cluster, FaultProxy, GATEWAY, History, Written, eventually};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use std::time::{Duration, Instant, SystemTime};

use crate::past_the_api;

/// How long harm goes on in every test run.
const SECONDS: u64 = 12;
/// And from which seed.
const SEED: u64 = 1;
/// After all harm is undone, everything must be as it should within this.
const HEALED: Duration = Duration::from_secs(60);
/// And every view whole again within this.
const WHOLE: Duration = Duration::from_secs(90);
/// How long harm usually lasts, in milliseconds.
const USUAL_MS: std::ops::Range<u64> = 200..4_000;
/// Longer than sessions and reports last without a sign of life; only in long runs.
const LONG: Duration = Duration::from_secs(36);
/// A run is long from here on.
const LONG_RUN: Duration = Duration::from_secs(120);
const REPLICAS: usize = 2;
const AGENTS: usize = 3;

/// What may be done, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    KillControlPlane(usize),
    FreezeControlPlane(usize),
    EndControlPlane(usize),
    KillApi(usize),
    FreezeApi(usize),
    KillAgent(usize),
    FreezeAgent(usize),
    Partition(usize),
    Cut(usize),
    Delay(usize),
    StopRedis,
    FreezeRedis,
    FlushRedis,
    FillRedis,
    CutHints,
    StopPostgres,
    FreezePostgres,
    EndConnections,
    ForceOpen,
    Poison,
    PoisonPastTheApi,
    Rush,
}

impl Harm {
    fn any(random: &mut StdRng) -> Self {
        let replica = random.random_range(0..REPLICAS);
        let agent = random.random_range(0..AGENTS);
        let all = [
            Self::KillControlPlane(replica),
            Self::FreezeControlPlane(replica),
            Self::EndControlPlane(replica),
            Self::KillApi(replica),
            Self::FreezeApi(replica),
            Self::KillAgent(agent),
            Self::FreezeAgent(agent),
            Self::Partition(agent),
            Self::Cut(agent),
            Self::Delay(agent),
            Self::StopRedis,
            Self::FreezeRedis,
            Self::FlushRedis,
            Self::FillRedis,
            Self::CutHints,
            Self::StopPostgres,
            Self::FreezePostgres,
            Self::EndConnections,
            Self::ForceOpen,
            Self::Poison,
            Self::PoisonPastTheApi,
            Self::Rush,
        ];
        all[random.random_range(0..all.len())]
    }

    /// Who comes to harm: two of them cannot be undone apart when that is one.
    fn victim(self) -> (&'static str, usize) {
        match self {
            Self::KillControlPlane(number)
            | Self::FreezeControlPlane(number)
            | Self::EndControlPlane(number) => ("control plane", number),
            Self::KillApi(number) | Self::FreezeApi(number) => ("api", number),
            Self::KillAgent(number) | Self::FreezeAgent(number) => ("agent", number),
            Self::Partition(number) | Self::Cut(number) | Self::Delay(number) => ("link", number),
            Self::StopRedis
            | Self::FreezeRedis
            | Self::FlushRedis
            | Self::FillRedis
            | Self::CutHints => ("redis", 0),
            // Who writes past the API needs the database.
            Self::StopPostgres
            | Self::FreezePostgres
            | Self::EndConnections
            | Self::PoisonPastTheApi => ("postgres", 0),
            Self::ForceOpen => ("order", 0),
            Self::Poison | Self::Rush => ("writer", 0),
        }
    }

    /// Processes wait for their stores when they start: those come back first.
    fn is_of_a_store(self) -> bool {
        matches!(self.victim().0, "redis" | "postgres")
    }
}

/// Everything that comes to harm, and the record of it.
struct Installation {
    cluster: Cluster,
    history: History,
    /// The way of each agent to its control plane.
    links: Vec<FaultProxy>,
    random: StdRng,
    weight: u64,
}

impl Installation {
    async fn start(seed: u64) -> Self {
        let mut cluster = Cluster::start(REPLICAS, 0).await.unwrap();
        let mut links = Vec::new();
        for number in 0..AGENTS {
            let plane = cluster.control_planes[number % REPLICAS].address("grpc");
            let link = FaultProxy::start(plane).await.unwrap();
            let agent = cluster.start_agent_through(number, link.address());
            let agent = agent.await.unwrap();
            cluster.agents.push(agent);
            links.push(link);
        }
        cluster.converged(1, HEALED).await;
        cluster.all_live(HEALED).await;
        let history = cluster.watch().with_probes(&cluster).await;
        Self {
            cluster,
            history,
            links,
            random: StdRng::seed_from_u64(seed),
            weight: 1,
        }
    }

    /// Writes the next document through one of the APIs, and waits for the answer no longer than
    /// `patience`.
    async fn commit(&mut self, patience: Duration) -> Written {
        self.weight += 1;
        let document = self.cluster.document(self.weight);
        let api = self.random.random_range(0..REPLICAS);
        let commit = self.cluster.commit(&self.history, api, &document);
        match tokio::time::timeout(patience, commit).await {
            Ok(written) => written,
            Err(_) => {
                self.history.wrote(&Written::Unknown);
                Written::Unknown
            }
        }
    }

    async fn begin(&mut self, harm: Harm) {
        let cluster = &mut self.cluster;
        match harm {
            Harm::KillControlPlane(number) => cluster.control_planes[number].kill().await,
            Harm::FreezeControlPlane(number) => {
                cluster.control_planes[number].signal("STOP").await;
            }
            Harm::EndControlPlane(number) => cluster.control_planes[number].signal("TERM").await,
            Harm::KillApi(number) => cluster.apis[number].kill().await,
            Harm::FreezeApi(number) => cluster.apis[number].signal("STOP").await,
            Harm::KillAgent(number) => {
                self.history.leave_agent(&cluster.agents[number]);
                cluster.agents[number].kill().await;
            }
            Harm::FreezeAgent(number) => {
                self.history.leave_agent(&cluster.agents[number]);
                cluster.agents[number].signal("STOP").await;
            }
            Harm::Partition(number) => self.links[number].hold(),
            Harm::Cut(number) => self.links[number].cut(),
            Harm::Delay(number) => self.links[number].delay(Duration::from_millis(300)),
            Harm::StopRedis => cluster.redis.0.stop(),
            Harm::FreezeRedis => cluster.redis.0.freeze(),
            Harm::FlushRedis => cluster.redis.0.command(&["FLUSHALL"]).await,
            Harm::FillRedis => self.redis_memory("1").await,
            Harm::CutHints => {
                let words = ["CLIENT", "KILL", "TYPE", "pubsub"];
                cluster.redis.0.command(&words).await;
            }
            Harm::StopPostgres => cluster.postgres.0.stop(),
            Harm::FreezePostgres => cluster.postgres.0.freeze(),
            Harm::EndConnections => {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE datname = current_database() AND pid <> pg_backend_pid()";
                cluster.postgres.0.execute(&cluster.database, end).await;
            }
            Harm::ForceOpen => {
                let order = json!({"action": "force_open", "pool": "chat", "lane": "gpt-east",
                    "ttl_secs": self.random.random_range(1..5), "reason": "harm"});
                let api = self.random.random_range(0..REPLICAS);
                let url = format!(
                    "{}/admin/v1/gateways/{GATEWAY}/overrides",
                    cluster.apis[api].url("http")
                );
                let give = cluster.http.post(url).bearer_auth(&cluster.token);
                // Whether it is taken depends on what else is broken.
                let _ = give
                    .json(&order)
                    .timeout(Duration::from_secs(2))
                    .send()
                    .await;
            }
            Harm::Poison => {
                let mut document = cluster.document(self.weight);
                document["pools"]["chat"]["members"] = json!([]);
                let api = self.random.random_range(0..REPLICAS);
                let commit = cluster.commit(&self.history, api, &document);
                match tokio::time::timeout(Duration::from_secs(2), commit).await {
                    Ok(Written::Confirmed(revision)) => panic!("poison is revision {revision}"),
                    Ok(Written::Refused(_) | Written::Unknown) => {}
                    Err(_) => self.history.wrote(&Written::Unknown),
                }
            }
            Harm::PoisonPastTheApi => {
                let mut document = cluster.document(self.weight);
                document["pools"]["chat"]["members"] = json!([{"target": "gpt-nowhere"}]);
                // The APIs may be away.
                if let Ok(now) = cluster.get(0, "/admin/v1/gateways/edge").await {
                    let base = now["revision"].as_u64().unwrap();
                    past_the_api(cluster, &self.history, base, &document).await;
                }
            }
            Harm::Rush => {
                for _ in 0..self.random.random_range(5..40) {
                    self.commit(Duration::from_millis(500)).await;
                }
            }
        }
    }

    async fn end(&mut self, harm: Harm) {
        let cluster = &mut self.cluster;
        match harm {
            Harm::KillControlPlane(number) => {
                cluster.restart_control_plane(number).await.unwrap();
            }
            Harm::EndControlPlane(number) => {
                let ended = cluster.control_planes[number].exit_code(HEALED).await;
                assert_eq!(ended, Some(0), "an orderly end");
                cluster.restart_control_plane(number).await.unwrap();
            }
            Harm::FreezeControlPlane(number) => {
                cluster.control_planes[number].signal("CONT").await;
            }
            Harm::KillApi(number) => cluster.restart_api(number).await.unwrap(),
            Harm::FreezeApi(number) => cluster.apis[number].signal("CONT").await,
            Harm::KillAgent(number) => {
                let agent = cluster.start_agent_through(number, self.links[number].address());
                let agent = agent.await.unwrap();
                cluster.agents[number] = agent;
                self.history.follow_agent(cluster, &cluster.agents[number]);
            }
            Harm::FreezeAgent(number) => {
                cluster.agents[number].signal("CONT").await;
                self.history.follow_agent(cluster, &cluster.agents[number]);
            }
            Harm::Partition(number) => self.links[number].release(),
            Harm::Delay(number) => self.links[number].delay(Duration::ZERO),
            Harm::StopRedis => cluster.redis.0.start_again().await,
            Harm::FreezeRedis => cluster.redis.0.thaw(),
            Harm::FillRedis => self.redis_memory("0").await,
            Harm::StopPostgres => cluster.postgres.0.start_again().await,
            Harm::FreezePostgres => cluster.postgres.0.thaw(),
            Harm::Cut(_)
            | Harm::FlushRedis
            | Harm::CutHints
            | Harm::EndConnections
            | Harm::ForceOpen
            | Harm::Poison
            | Harm::PoisonPastTheApi
            | Harm::Rush => {}
        }
    }

    async fn redis_memory(&self, bytes: &str) {
        let words = ["CONFIG", "SET", "maxmemory", bytes];
        self.cluster.redis.0.command(&words).await;
    }

    /// Up to three kinds of harm at once, and writers meanwhile.
    async fn step(&mut self, began: Instant, is_long_run: bool) {
        let mut harms: Vec<Harm> = Vec::new();
        for _ in 0..self.random.random_range(1..=3) {
            let harm = Harm::any(&mut self.random);
            if harms.iter().all(|it| it.victim() != harm.victim()) {
                harms.push(harm);
            }
        }
        let usual = Duration::from_millis(self.random.random_range(USUAL_MS));
        let is_long = is_long_run && self.random.random_ratio(1, 8);
        let span = if is_long { LONG } else { usual };
        let at = began.elapsed().as_secs_f64();
        println!("{at:>6.1} s: {harms:?} for {span:?}");
        let start = Instant::now();
        // Who reaches into a store does so before it is away.
        harms.sort_by_key(|harm| matches!(harm.victim().0, "postgres" | "redis"));
        for harm in &harms {
            self.begin(*harm).await;
        }
        while let Some(left) = span.checked_sub(start.elapsed()) {
            self.commit(left).await;
            let pause = Duration::from_millis(self.random.random_range(10..300));
            tokio::time::sleep(pause.min(span.saturating_sub(start.elapsed()))).await;
        }
        harms.sort_by_key(|harm| !harm.is_of_a_store());
        for harm in harms {
            self.end(harm).await;
        }
    }

    /// Waits until a write is taken, on every agent and shown by every API.
    async fn healed(&mut self) -> Duration {
        let began = Instant::now();
        let revision = loop {
            match self.commit(HEALED).await {
                Written::Confirmed(revision) => break revision,
                other => assert!(began.elapsed() < HEALED, "no write is taken: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let written = began.elapsed();
        let converged = self.cluster.converged(revision, HEALED).await;
        let live = self.cluster.all_live(HEALED).await;
        println!(
            "         healed after {:?}: writable {written:?}, converged {converged:?}, live {live:?}",
            began.elapsed()
        );
        began.elapsed()
    }
}

impl Installation {
    /// Waits until no API misses anything. A control plane that was killed is missed for a minute.
    async fn views_are_whole(&self) {
        let cluster = &self.cluster;
        eventually("every view is whole", WHOLE, || async {
            for api in 0..REPLICAS {
                let view = cluster.get(api, "/api/v1/breaker-state").await;
                let view = view.map_err(|error| error.to_string())?;
                if view["partial"] != false {
                    return Err(format!("api {api}: {view}"));
                }
            }
            Ok(())
        })
        .await;
    }
}

/// A number from the environment.
fn asked(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}")),
    )
}

#[tokio::test]
async fn harm_of_all_kinds_in_any_order_breaks_no_invariant() {
    let span = Duration::from_secs(asked("SOAK_SECONDS").unwrap_or(SECONDS));
    let by_chance = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_secs()
    };
    // What is part of every test run does the same in every one.
    let usual = asked("SOAK_SECONDS").is_none().then_some(SEED);
    let seed = asked("SOAK_SEED").or(usual).unwrap_or_else(by_chance);
    println!("SOAK_SEED={seed}");
    let mut installation = Installation::start(seed).await;
    let (began, mut slowest, mut steps) = (Instant::now(), Duration::ZERO, 0);
    while began.elapsed() < span {
        installation.step(began, span >= LONG_RUN).await;
        steps += 1;
        if installation.random.random_ratio(1, 3) {
            slowest = slowest.max(installation.healed().await);
        }
    }
    slowest = slowest.max(installation.healed().await);
    if span >= LONG_RUN {
        installation.views_are_whole().await;
    }
    println!(
        "{steps} steps in {:?}, healed within {slowest:?}",
        began.elapsed()
    );
    let Installation {
        cluster, history, ..
    } = installation;
    history.judge(&cluster).await;
}
