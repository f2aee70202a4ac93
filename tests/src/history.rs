//! What happened while a test did harm, recorded from outside, and the invariants it must keep.
//!
//! | | |
//! |---|---|
//! | I1 | an agent's revision never goes down within a control epoch |
//! | I2 | after healing every agent reaches the newest revision |
//! | I3 | a confirmed write is never lost |
//! | I4 | the view never shows an older report after a newer one |
//! | I5 | no cell is counted by an agent that does not report freshly |
//! | I6 | proxied requests do not notice |
//! | I7 | an agent has at most one probe of a cell at a time |
//! | I8 | every write has exactly one entry in the audit trail, failed attempts too, in one chain |
//!
//! I7 is watched where a story asks for it with [`History::with_probes`]: probes need a lane that
//! fails.

mod book;
mod probes;

use crate::cluster::{Cluster, FRAIL_LANE, FRAIL_POOL, GATEWAY, Written};
use crate::eventually::eventually;
use book::Book;
use lanekeeper_store::ConfigStore;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::{AbortHandle, JoinSet};

/// Between two requests to one agent.
const REQUEST_INTERVAL: Duration = Duration::from_millis(40);
/// Between two looks at one process.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Callers of one agent that make it probe: more than one, so that more than one could be a probe.
const PROBING_CALLERS: usize = 3;
/// How long the first probe may take: the ill lane's cooldown is a second.
const PROBE_PATIENCE: Duration = Duration::from_secs(20);
/// The header by which the provider knows whose request arrives: one that agents pass on.
const SENDER: &str = "user-agent";

/// A running record; the watching ends with it.
#[derive(Debug)]
pub struct History {
    book: Arc<Mutex<Book>>,
    watchers: JoinSet<()>,
    /// By the address of the agent.
    of_agents: BTreeMap<String, Vec<AbortHandle>>,
    has_probes: bool,
}

impl Cluster {
    /// Begins to send requests, to look and to record.
    #[must_use]
    pub fn watch(&self) -> History {
        History::begin(self)
    }

    /// Writes a document through one API, whatever revision is current, and records what came of
    /// it.
    pub async fn commit(&self, history: &History, api: usize, document: &Value) -> Written {
        let written = self.put(api, document).await;
        history.wrote(&written);
        written
    }
}

impl History {
    fn begin(cluster: &Cluster) -> Self {
        let mut history = Self {
            book: Arc::default(),
            watchers: JoinSet::new(),
            of_agents: BTreeMap::new(),
            has_probes: false,
        };
        for agent in &cluster.agents {
            history.follow_agent(cluster, agent);
        }
        for number in 0..cluster.apis.len() {
            history.follow_api(cluster, number);
        }
        history
    }

    /// From now on a lane fails for good, every agent is asked to use it, and probes are counted.
    ///
    /// # Panics
    ///
    /// When the provider does not take the fault.
    pub async fn with_probes(mut self, cluster: &Cluster) -> Self {
        let fault = json!({"model": FRAIL_LANE, "status": 503, "delay_ms": probes::ANSWER_MS});
        let faults = format!("{}/faults", cluster.provider.url("sim-provider"));
        let set = cluster.http.post(faults).json(&fault).send().await;
        assert!(set.is_ok_and(|answer| answer.status().is_success()));
        self.has_probes = true;
        for agent in &cluster.agents {
            self.make_probe(cluster, agent);
        }
        let (http, book) = (cluster.http.clone(), Arc::clone(&self.book));
        let arrivals = format!("{}/requests", cluster.provider.url("sim-provider"));
        self.watchers.spawn(async move {
            let mut after = 0;
            loop {
                let url = format!("{arrivals}?model={FRAIL_LANE}&after={after}");
                if let Some(arrived) = json_of(http.get(url)).await {
                    for arrival in arrived["requests"].as_array().into_iter().flatten() {
                        after = arrival["seq"].as_u64().unwrap_or(after);
                        if let (Some(sender), Some(at_ms)) = (
                            arrival["headers"][SENDER].as_str(),
                            arrival["at_ms"].as_u64(),
                        ) {
                            locked(&book).arrives(sender, at_ms);
                        }
                    }
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        });
        self
    }

    /// Sends requests to an agent and looks at what it serves, from now on.
    pub fn follow_agent(&mut self, cluster: &Cluster, agent: &crate::Process) {
        self.call(cluster, agent, "chat");
        let (http, book) = (cluster.http.clone(), Arc::clone(&self.book));
        let url = format!("{}/stats", agent.url("ops"));
        let address = agent.address("proxy").to_owned();
        let handle = self.watchers.spawn(async move {
            loop {
                if let Some(stats) = json_of(http.get(&url)).await {
                    let mut book = locked(&book);
                    book.serves(&stats);
                    if let Some(closed) = probes::is_closed(&stats, FRAIL_POOL, FRAIL_LANE) {
                        book.holds(&address, closed, now_ms());
                    }
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        });
        self.belongs_to(agent, handle);
        if self.has_probes {
            self.make_probe(cluster, agent);
        }
    }

    /// Lets an agent be, before it comes to harm that its callers must notice.
    pub fn leave_agent(&mut self, agent: &crate::Process) {
        let watching = self.of_agents.remove(agent.address("proxy"));
        watching.iter().flatten().for_each(AbortHandle::abort);
    }

    fn make_probe(&mut self, cluster: &Cluster, agent: &crate::Process) {
        for _ in 0..PROBING_CALLERS {
            self.call(cluster, agent, FRAIL_POOL);
        }
    }

    fn call(&mut self, cluster: &Cluster, agent: &crate::Process, pool: &'static str) {
        let (http, book) = (cluster.http.clone(), Arc::clone(&self.book));
        let url = format!("{}/v1/chat/completions", agent.url("proxy"));
        let sender = agent.address("proxy").to_owned();
        let handle = self.watchers.spawn(async move {
            let body = json!({"model": pool, "messages": [{"role": "user", "content": "hi"}]});
            loop {
                let asked = Instant::now();
                let answer = http.post(&url).header(SENDER, &sender).json(&body);
                let fault = match answer.send().await {
                    Ok(answer) if answer.status() == 200 => {
                        answer.bytes().await.err().map(|error| error.to_string())
                    }
                    Ok(answer) => {
                        let status = answer.status();
                        Some(format!(
                            "{status} {}",
                            answer.text().await.unwrap_or_default()
                        ))
                    }
                    Err(error) => Some(format!("{error:?}")),
                };
                {
                    let mut book = locked(&book);
                    book.requests += 1;
                    if let Some(fault) = fault {
                        let took = asked.elapsed();
                        book.violated("I6", format!("{pool} at {url} after {took:?}: {fault}"));
                    }
                }
                tokio::time::sleep(REQUEST_INTERVAL).await;
            }
        });
        self.belongs_to(agent, handle);
    }

    fn belongs_to(&mut self, agent: &crate::Process, handle: AbortHandle) {
        let address = agent.address("proxy").to_owned();
        self.of_agents.entry(address).or_default().push(handle);
    }

    fn follow_api(&mut self, cluster: &Cluster, number: usize) {
        let (http, book) = (cluster.http.clone(), Arc::clone(&self.book));
        let (base, token) = (cluster.apis[number].url("http"), cluster.token.clone());
        self.watchers.spawn(async move {
            let read = async |path: &str| {
                json_of(http.get(format!("{base}{path}")).bearer_auth(&token)).await
            };
            loop {
                let asked = Instant::now();
                if let Some(agents) = read("/api/v1/agents").await {
                    locked(&book).shows(number, &agents, asked, Instant::now());
                }
                if let Some(view) = read("/api/v1/breaker-state?include=closed").await {
                    locked(&book).counts(number, &view);
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        });
    }

    /// Records what came of a write.
    pub fn wrote(&self, written: &Written) {
        locked(&self.book).wrote(written);
    }

    /// A new control epoch is about to begin: confirmed revisions may be gone, and agents may go
    /// back until [`History::epoch_began`].
    pub fn epoch_ends(&self) {
        let mut book = locked(&self.book);
        book.between_epochs = true;
        book.is_restored = true;
        book.confirmed.clear();
        book.unknown = 0;
    }

    /// Every agent is in the new control epoch.
    pub fn epoch_began(&self) {
        let mut book = locked(&self.book);
        book.between_epochs = false;
        book.served.clear();
    }

    /// Requests answered so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        locked(&self.book).requests
    }

    /// Probes seen so far.
    #[must_use]
    pub fn probes(&self) -> u64 {
        locked(&self.book).probes.seen
    }

    /// Ends the watching and judges. All harm must be undone by now.
    ///
    /// # Panics
    ///
    /// When an invariant was broken, with what was seen of it.
    pub async fn judge(mut self, cluster: &Cluster) {
        let current = cluster
            .get(0, &format!("/admin/v1/gateways/{GATEWAY}"))
            .await
            .expect("the API answers after healing");
        let newest = current["revision"].as_u64().expect("a revision");
        // I2.
        cluster.converged(newest, Duration::from_secs(45)).await;
        if self.has_probes {
            // A story may be over sooner than the ill lane's first cooldown.
            let book = Arc::clone(&self.book);
            eventually("the ill lane is probed", PROBE_PATIENCE, || {
                let seen = locked(&book).probes.seen;
                let probed = (seen > 0).then_some(());
                std::future::ready(probed.ok_or_else(|| "no probe".to_owned()))
            })
            .await;
        }
        self.watchers.shutdown().await;
        let path = format!("/admin/v1/gateways/{GATEWAY}/revisions");
        let revisions = pages(cluster, &path, "revisions").await;
        let revisions: Vec<u64> = revisions
            .iter()
            .filter_map(|it| it["revision"].as_u64())
            .collect();
        let entries = pages(cluster, "/admin/v1/audit", "entries").await;
        let resource = format!("gateways/{GATEWAY}");
        let of_gateway = entries.iter().filter(|it| it["resource"] == *resource);
        let (done, refused): (Vec<&Value>, Vec<_>) =
            of_gateway.partition(|it| it["outcome"] == "done");
        let done: Vec<u64> = done
            .iter()
            .filter_map(|it| it["after"]["revision"].as_u64())
            .collect();
        let refused = refused.iter().filter(|it| it["action"] == "config.write");
        let refused = refused.count() as u64;
        let store = ConfigStore::connect(&cluster.database)
            .await
            .expect("the database answers after healing");
        let chain = store.verify_audit().await.expect("the audit trail");
        let mut book = locked(&self.book);
        book.settles(&revisions, &done, refused);
        if let Some(fault) = chain.fault {
            book.violated("I8", format!("the chain breaks: {fault:?}"));
        }
        assert!(book.requests > 0, "nothing was proxied");
        let summary = format!(
            "I1 {} looks, I2 revision {newest}, I3 {} confirmed writes, I4 {} listings, I5 {} cells, \
             I6 {} requests, I7 {} probes, I8 {} entries ({} refused and {} unknown writes)",
            book.looks,
            book.confirmed.len(),
            book.listed,
            book.cells,
            book.requests,
            book.probes.seen,
            chain.entries,
            book.refused,
            book.unknown
        );
        assert!(
            book.violations.is_empty(),
            "{:#?} after {summary}",
            book.violations
        );
        println!("{summary}: kept");
    }
}

fn locked(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A good answer's JSON.
async fn json_of(request: reqwest::RequestBuilder) -> Option<Value> {
    let answer = request.send().await.ok()?;
    answer.error_for_status().ok()?.json().await.ok()
}

/// All items of a list, from its own links.
async fn pages(cluster: &Cluster, first: &str, list: &str) -> Vec<Value> {
    let (mut all, mut path) = (Vec::new(), first.to_owned());
    loop {
        let page = cluster.get(0, &path).await.expect("a page");
        all.extend(page[list].as_array().cloned().unwrap_or_default());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("{first}?cursor={cursor}"),
            None => return all,
        }
    }
}
