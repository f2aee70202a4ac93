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
//! | I8 | every write has exactly one entry in the audit trail |
//!
//! I7, one probe at a time, is shown where probes are made to happen.

use crate::cluster::{Cluster, GATEWAY, Written};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Between two requests to one agent.
const REQUEST_INTERVAL: Duration = Duration::from_millis(40);
/// Between two looks at one process.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// What two readings of one report's age may differ by: the view is a second old at most, and the
/// looks take time on a busy machine.
const AGE_SLACK: Duration = Duration::from_secs(4);
/// Violations that are kept of each kind.
const KEPT_MAX: usize = 5;

/// A running record; the watching ends with it.
#[derive(Debug)]
pub struct History {
    book: Arc<Mutex<Book>>,
    watchers: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Book {
    requests: u64,
    between_epochs: bool,
    /// By the invariant they break.
    violations: BTreeMap<&'static str, Vec<String>>,
    /// The highest revision each agent instance was seen to serve.
    served: BTreeMap<String, u64>,
    /// When each agent's newest report came in, by API and instance.
    reported: BTreeMap<(usize, String), Instant>,
    confirmed: Vec<u64>,
    unknown: u64,
}

impl Book {
    fn violated(&mut self, invariant: &'static str, what: String) {
        let kept = self.violations.entry(invariant).or_default();
        if kept.len() < KEPT_MAX {
            kept.push(what);
        }
    }

    fn serves(&mut self, stats: &Value) {
        let agent = &stats["agent"];
        let (Some(id), Some(revision)) = (agent["id"].as_str(), agent["revision"].as_u64()) else {
            return;
        };
        if self.between_epochs {
            return;
        }
        let highest = self.served.entry(id.to_owned()).or_insert(revision);
        if revision < *highest {
            let what = format!("{id} went from revision {highest} to {revision}");
            self.violated("I1", what);
        } else {
            *highest = revision;
        }
    }

    /// Takes in the list of agents as one API shows it.
    fn shows(&mut self, api: usize, agents: &Value, now: Instant) {
        for agent in agents["agents"].as_array().into_iter().flatten() {
            let (Some(id), Some(age)) = (
                agent["instance"].as_str(),
                agent["last_report_age_secs"].as_f64(),
            ) else {
                continue;
            };
            let Some(at) = Duration::try_from_secs_f64(age)
                .ok()
                .and_then(|age| now.checked_sub(age))
            else {
                continue;
            };
            let newest = self.reported.entry((api, id.to_owned())).or_insert(at);
            if at + AGE_SLACK < *newest {
                let what =
                    format!("api {api} shows {id} with a report of {age} s after a newer one");
                self.violated("I4", what);
            } else {
                *newest = at.max(*newest);
            }
        }
    }

    /// Takes in the breakers as one API shows them.
    fn counts(&mut self, api: usize, view: &Value) {
        let live = view["agents"]["live"].as_u64().unwrap_or_default();
        for cell in view["cells"].as_array().into_iter().flatten() {
            let count = |name: &str| cell["agents"][name].as_u64().unwrap_or_default();
            let reporting = count("reporting");
            if reporting > live || count("closed") + count("open") + count("half_open") != reporting
            {
                self.violated("I5", format!("api {api} with {live} live: {cell}"));
            }
        }
    }
}

impl History {
    pub(crate) fn begin(cluster: &Cluster) -> Self {
        let mut history = Self {
            book: Arc::default(),
            watchers: JoinSet::new(),
        };
        for agent in &cluster.agents {
            history.follow_agent(cluster, agent);
        }
        for number in 0..cluster.apis.len() {
            history.follow_api(cluster, number);
        }
        history
    }

    /// Sends requests to an agent and looks at what it serves, from now on.
    pub fn follow_agent(&mut self, cluster: &Cluster, agent: &crate::Process) {
        let (http, book) = (cluster.http.clone(), Arc::clone(&self.book));
        let url = format!("{}/v1/chat/completions", agent.url("proxy"));
        self.watchers.spawn(async move {
            let body = serde_json::json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
            loop {
                let answer = http.post(&url).json(&body).send().await;
                let fault = match answer {
                    Ok(answer) if answer.status() == 200 => {
                        answer.bytes().await.err().map(|error| error.to_string())
                    }
                    Ok(answer) => Some(answer.status().to_string()),
                    Err(error) => Some(error.to_string()),
                };
                {
                    let mut book = locked(&book);
                    book.requests += 1;
                    if let Some(fault) = fault {
                        book.violated("I6", format!("{url}: {fault}"));
                    }
                }
                tokio::time::sleep(REQUEST_INTERVAL).await;
            }
        });
        let (http, book) = (cluster.http.clone(), Arc::clone(&self.book));
        let url = format!("{}/stats", agent.url("ops"));
        self.watchers.spawn(async move {
            loop {
                if let Ok(answer) = http.get(&url).send().await
                    && let Ok(stats) = answer.json::<Value>().await
                {
                    locked(&book).serves(&stats);
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        });
    }

    fn follow_api(&mut self, cluster: &Cluster, number: usize) {
        let (http, book) = (cluster.http.clone(), Arc::clone(&self.book));
        let (base, token) = (cluster.apis[number].url("http"), cluster.token.clone());
        self.watchers.spawn(async move {
            let read = async |path: &str| -> Option<(Value, Instant)> {
                let url = format!("{base}{path}");
                let asked = Instant::now();
                let answer = http.get(url).bearer_auth(&token).send().await.ok()?;
                let body = answer.error_for_status().ok()?.json().await.ok()?;
                Some((body, asked))
            };
            loop {
                if let Some((agents, asked)) = read("/api/v1/agents").await {
                    locked(&book).shows(number, &agents, asked);
                }
                if let Some((view, _)) = read("/api/v1/breaker-state?include=closed").await {
                    locked(&book).counts(number, &view);
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        });
    }

    /// Records what came of a write.
    pub fn wrote(&self, written: &Written) {
        let mut book = locked(&self.book);
        match written {
            Written::Confirmed(revision) => book.confirmed.push(*revision),
            Written::Unknown => book.unknown += 1,
            Written::Refused(_) => {}
        }
    }

    /// A new control epoch is about to begin: confirmed revisions may be gone, and agents may go
    /// back until [`History::epoch_began`].
    pub fn epoch_ends(&self) {
        let mut book = locked(&self.book);
        book.between_epochs = true;
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
        self.watchers.shutdown().await;
        let (confirmed, unknown) = {
            let book = locked(&self.book);
            (book.confirmed.clone(), book.unknown)
        };
        for revision in &confirmed {
            let path = format!("/admin/v1/gateways/{GATEWAY}/revisions/{revision}");
            if let Err(error) = cluster.get(0, &path).await {
                let what = format!("revision {revision} is gone: {error}");
                locked(&self.book).violated("I3", what);
            }
        }
        let entries = audited(cluster).await;
        for revision in &confirmed {
            let of_it = entries.iter().filter(|entry| *entry == revision).count();
            if of_it != 1 {
                let what = format!("revision {revision} has {of_it} entries");
                locked(&self.book).violated("I8", what);
            }
        }
        let surplus = entries
            .iter()
            .filter(|entry| !confirmed.contains(entry))
            .count() as u64;
        let book = locked(&self.book);
        assert!(book.requests > 0, "nothing was proxied");
        assert!(
            book.violations.is_empty(),
            "after {} requests, {} confirmed and {unknown} unknown writes ({surplus} entries of \
             others): {:#?}",
            book.requests,
            confirmed.len(),
            book.violations
        );
        println!(
            "{} requests, {} confirmed and {unknown} unknown writes, revision {newest}",
            book.requests,
            confirmed.len()
        );
    }
}

fn locked(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The revisions of the gateway that the audit trail tells of, from its own links.
async fn audited(cluster: &Cluster) -> Vec<u64> {
    let mut revisions = Vec::new();
    let mut path = "/admin/v1/audit".to_owned();
    loop {
        let page = cluster.get(0, &path).await.expect("the audit trail");
        for entry in page["entries"].as_array().into_iter().flatten() {
            let is_write = entry["outcome"] == "done"
                && entry["resource"] == format!("gateways/{GATEWAY}").as_str();
            if let (true, Some(revision)) = (is_write, entry["after"]["revision"].as_u64()) {
                revisions.push(revision);
            }
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/admin/v1/audit?cursor={cursor}"),
            None => return revisions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn broken(book: &Book) -> Vec<&'static str> {
        book.violations.keys().copied().collect()
    }

    #[test]
    fn a_revision_that_goes_down_is_noticed() {
        let stats = |revision: u64| json!({"agent": {"id": "a", "revision": revision}});
        let mut book = Book::default();
        for revision in [1, 2, 2, 3] {
            book.serves(&stats(revision));
        }
        assert!(broken(&book).is_empty());
        book.serves(&stats(2));
        assert_eq!(broken(&book), ["I1"]);
    }

    #[test]
    fn an_older_report_after_a_newer_one_is_noticed() {
        let shown = |age: f64| json!({"agents": [{"instance": "a", "last_report_age_secs": age}]});
        let now = Instant::now();
        let mut book = Book::default();
        book.shows(0, &shown(1.0), now);
        book.shows(0, &shown(11.0), now + Duration::from_secs(10));
        book.shows(0, &shown(0.0), now + Duration::from_secs(11));
        book.shows(1, &shown(9.0), now + Duration::from_secs(11));
        assert!(broken(&book).is_empty(), "{book:?}");
        book.shows(0, &shown(9.0), now + Duration::from_secs(12));
        assert_eq!(broken(&book), ["I4"]);
    }

    #[test]
    fn a_cell_counted_by_more_than_the_live_agents_is_noticed() {
        let view = |live: u64, reporting: u64, closed: u64| {
            json!({"agents": {"live": live}, "cells": [
                {"agents": {"reporting": reporting, "closed": closed, "open": 1, "half_open": 0}}]})
        };
        let mut book = Book::default();
        book.counts(0, &view(3, 3, 2));
        assert!(broken(&book).is_empty());
        book.counts(0, &view(2, 3, 2));
        assert_eq!(broken(&book), ["I5"]);
        let mut book = Book::default();
        book.counts(0, &view(3, 3, 3));
        assert_eq!(broken(&book), ["I5"]);
    }
}
