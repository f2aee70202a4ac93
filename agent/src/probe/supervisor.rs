//! The one task that runs all probes and follows the configuration.

use super::schedule::{Plan, Schedule, Turn};
use super::{Finding, Probing, ask, book, is_wanted};
use crate::clock;
use crate::lanes::lane::Lane;
use crate::lanes::served::Served;
use crate::lanes::snapshot::Snapshot;
use crate::observe::metrics::ProbeOutcome;
use crate::upstream::Client;
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use lanekeeper_model::LaneName;
use lanekeeper_model::gateway::HealthMode;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

/// Most probes at a time. Further ones wait for their turn, however many lanes are down.
const PROBES_MAX: usize = 64;

/// Runs the agent's probes until it is dropped, and the running ones with it. Every worker calls
/// it; one at a time gets its turn, and another goes on when that one ends.
pub(crate) async fn supervise(served: &Served, probing: &Probing, client: &Client) {
    let _turn = probing.turn.lock().await;
    let mut schedule = Schedule::default();
    let mut running = FuturesUnordered::new();
    let mut current: Option<Arc<Snapshot>> = None;
    loop {
        let snapshot = served.snapshot();
        if !is_same(current.as_ref(), snapshot.as_ref()) {
            current = snapshot;
            let wanted = plans(current.as_deref());
            forget(probing, &wanted);
            schedule.reconcile(wanted, clock::now(), clock::jitter);
        }
        while running.len() < PROBES_MAX
            && let Some(turn) = schedule.begin(clock::now())
        {
            let lane = current
                .as_ref()
                .and_then(|snapshot| find(snapshot, &turn.lane));
            let chance = clock::jitter();
            match lane.map(|lane| (call(&lane, &turn), lane)) {
                Some((Call::Ask, lane)) => running.push(run(client, lane, turn)),
                Some((Call::Skip, lane)) => {
                    let skipped = Finding {
                        outcome: ProbeOutcome::Skipped,
                        verdict: None,
                    };
                    conclude(served, probing, &mut schedule, &turn, &lane, &skipped);
                }
                Some((Call::Rest, _)) | None => {
                    schedule.end(&turn, None, clock::now(), chance);
                }
            }
        }
        let wake = schedule.next_due().filter(|_| running.len() < PROBES_MAX);
        tokio::select! {
            // A new revision is followed before anything is booked.
            biased;
            () = probing.configured.notified() => {}
            Some((turn, found)) = running.next(), if !running.is_empty() => {
                // Its cells are those of the revision that is served now.
                let lane = current.as_ref().and_then(|snapshot| find(snapshot, &turn.lane));
                match (lane, found) {
                    (Some(lane), Some(finding)) => {
                        conclude(served, probing, &mut schedule, &turn, &lane, &finding);
                    }
                    _ => {
                        schedule.end(&turn, None, clock::now(), clock::jitter());
                    }
                }
            }
            () = until(wake) => {}
        }
    }
}

/// One probe. It ends without a finding when its lane leaves, and a panic in it ends only it.
async fn run(client: &Client, lane: Arc<Lane>, turn: Turn) -> (Turn, Option<Finding>) {
    let asking = ask(client, &lane, turn.health.timeout);
    let caught = turn
        .cancelled
        .run_until_cancelled(AssertUnwindSafe(asking).catch_unwind())
        .await;
    let finding = match caught {
        Some(Ok(finding)) => Some(finding),
        Some(Err(_)) => {
            tracing::error!(lane = %lane.name(), "a probe panicked");
            None
        }
        None => None,
    };
    (turn, finding)
}

/// Books a finding, and logs it when it is news.
fn conclude(
    served: &Served,
    probing: &Probing,
    schedule: &mut Schedule,
    turn: &Turn,
    lane: &Lane,
    finding: &Finding,
) {
    // The lane may have left with a revision that is served already.
    if turn.cancelled.is_cancelled() || !served.count_probe(lane.name(), finding.outcome) {
        schedule.end(turn, None, clock::now(), clock::jitter());
        return;
    }
    book(lane, turn.health.mode, turn.began, finding);
    let is_news = schedule.end(turn, Some(finding.outcome), clock::now(), clock::jitter());
    let cause = finding
        .verdict
        .as_ref()
        .map_or("none", |verdict| verdict.cause.kind.as_str());
    let status = finding.verdict.as_ref().and_then(|verdict| verdict.status);
    note(probing, lane, finding.outcome, status);
    let (name, provider) = (lane.name(), &lane.provider.name);
    let (outcome, status) = (finding.outcome.as_str(), status.unwrap_or_default());
    match finding.outcome {
        ProbeOutcome::Misconfigured if is_news => tracing::warn!(
            "probe lane={name} provider={provider} outcome={outcome} cause={cause} status={status}"
        ),
        _ if is_news => tracing::info!(
            "probe lane={name} provider={provider} outcome={outcome} cause={cause} status={status}"
        ),
        _ => tracing::debug!(
            "probe lane={name} provider={provider} outcome={outcome} cause={cause} status={status}"
        ),
    }
}

/// Keeps the problem of a lane whose probe is refused, and drops it once the probe is understood.
fn note(probing: &Probing, lane: &Lane, outcome: ProbeOutcome, status: Option<u16>) {
    let mut misconfigured = probing.misconfigured.lock();
    match outcome {
        ProbeOutcome::Misconfigured => {
            let told = status.map_or_else(
                || "the provider refuses the request".to_owned(),
                |status| format!("the provider answers status {status}"),
            );
            let text = format!("models.{}: probe misconfigured: {told}", lane.name());
            misconfigured.insert(lane.name().clone(), text);
        }
        ProbeOutcome::Ok | ProbeOutcome::Failed => {
            misconfigured.remove(lane.name());
        }
        ProbeOutcome::Skipped | ProbeOutcome::Void => {}
    }
}

/// Drops the problems of lanes that are not probed any more.
fn forget(probing: &Probing, wanted: &BTreeMap<LaneName, Plan>) {
    probing
        .misconfigured
        .lock()
        .retain(|lane, _| wanted.contains_key(lane));
}

fn is_same(a: Option<&Arc<Snapshot>>, b: Option<&Arc<Snapshot>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn plans(snapshot: Option<&Snapshot>) -> BTreeMap<LaneName, Plan> {
    let lanes = snapshot.map_or(&[][..], |snapshot| &snapshot.lanes);
    lanes
        .iter()
        .filter(|lane| lane.provider.health.mode != HealthMode::None)
        .map(|lane| {
            let plan = Plan {
                health: lane.provider.health.clone(),
                protocol: lane.provider.protocols.primary(),
                base_url: lane.provider.base_url().clone(),
                upstream_model: lane.upstream_model.clone(),
            };
            (lane.name().clone(), plan)
        })
        .collect()
}

fn find(snapshot: &Snapshot, name: &LaneName) -> Option<Arc<Lane>> {
    let lanes = &snapshot.lanes;
    let position = lanes.binary_search_by(|lane| lane.name().cmp(name)).ok()?;
    lanes.get(position).cloned()
}

/// What a turn comes to.
enum Call {
    /// The lane is probed.
    Ask,
    /// Its key is missing; it would only be told so.
    Skip,
    /// There is nothing to find out.
    Rest,
}

fn call(lane: &Lane, turn: &Turn) -> Call {
    if !is_wanted(lane, turn.health.mode, clock::now()) {
        Call::Rest
    } else if lane.provider.is_usable(false) {
        Call::Ask
    } else {
        Call::Skip
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
