//! Forgets agents that are long gone, overrides, rollouts and incidents that are long over, and the
//! far end of the timeline. An instance is a process, so every restart leaves a row.

use std::time::Duration;

use lanekeeper_store::ConfigStore;
use tokio_util::sync::CancellationToken;

use crate::clock;

/// Time between two rounds, +-20 % so that replicas do not clean in step.
const ROUND: Duration = Duration::from_secs(60 * 60);
const ROUND_JITTER: f64 = 0.2;
/// Facts of agents not heard of for this long go: a week, in milliseconds.
const FACTS_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// Overrides that ended this long ago go: thirty days, in milliseconds. The audit trail keeps them.
const OVERRIDES_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// Rollouts that are over and were last written this long ago go: ninety days, in milliseconds. The
/// audit trail keeps their steps.
const ROLLOUTS_KEPT_MS: u64 = 90 * 24 * 60 * 60 * 1000;
/// The most rollouts of a gateway that are kept once they are over.
const ROLLOUTS_KEPT: u32 = 500;
/// Join tokens that ended this long ago go: thirty days, in milliseconds.
const JOIN_TOKENS_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// Incidents that ended this long ago go: ninety days, in milliseconds.
const INCIDENTS_KEPT_MS: u64 = 90 * 24 * 60 * 60 * 1000;
/// Time between two looks at the timeline's end, +-20 %: a fleet that flaps adds much in an hour.
const TIMELINE_ROUND: Duration = Duration::from_secs(5 * 60);
/// Changes of state go after this long: fourteen days, in milliseconds.
const TIMELINE_KEPT_MS: u64 = 14 * 24 * 60 * 60 * 1000;
/// The most changes of state that are kept.
const TIMELINE_KEPT: u64 = 2_000_000;
/// Most statements of one look: what a round leaves over the next one takes.
const TIMELINE_STATEMENTS_MAX: usize = 200;

/// Keeps the timeline within its bounds until told to stop.
pub(crate) async fn trim_timeline(store: ConfigStore, shutdown: CancellationToken) {
    loop {
        let pause = tokio::time::sleep(clock::jittered(TIMELINE_ROUND, ROUND_JITTER));
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = pause => {}
        }
        let before_ms = clock::unix_ms().saturating_sub(TIMELINE_KEPT_MS);
        for _ in 0..TIMELINE_STATEMENTS_MAX {
            match store.prune_transitions(before_ms, TIMELINE_KEPT).await {
                Ok(0) => break,
                Ok(changes) => tracing::debug!(changes, "the timeline's end was forgotten"),
                Err(error) => {
                    tracing::warn!(?error, "the timeline's end could not be forgotten");
                    break;
                }
            }
            if shutdown.is_cancelled() {
                return;
            }
        }
    }
}

/// Cleans up now and then until told to stop.
pub(crate) async fn keep(store: ConfigStore, shutdown: CancellationToken) {
    loop {
        let pause = tokio::time::sleep(clock::jittered(ROUND, ROUND_JITTER));
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = pause => {}
        }
        let before_ms = clock::unix_ms().saturating_sub(FACTS_KEPT_MS);
        match store.prune_agents(before_ms).await {
            Ok(0) => {}
            Ok(agents) => tracing::info!(agents, "agents not heard of for a week were forgotten"),
            Err(error) => tracing::warn!(?error, "agents long gone could not be forgotten"),
        }
        let before_ms = clock::unix_ms().saturating_sub(OVERRIDES_KEPT_MS);
        match store.prune_overrides(before_ms).await {
            Ok(0) => {}
            Ok(overrides) => tracing::info!(overrides, "overrides long over were forgotten"),
            Err(error) => tracing::warn!(?error, "overrides long over could not be forgotten"),
        }
        let before_ms = clock::unix_ms().saturating_sub(ROLLOUTS_KEPT_MS);
        match store.prune_rollouts(before_ms, ROLLOUTS_KEPT).await {
            Ok(0) => {}
            Ok(rollouts) => tracing::info!(rollouts, "rollouts long over were forgotten"),
            Err(error) => tracing::warn!(?error, "rollouts long over could not be forgotten"),
        }
        let before_ms = clock::unix_ms().saturating_sub(INCIDENTS_KEPT_MS);
        match store.prune_incidents(before_ms).await {
            Ok(0) => {}
            Ok(incidents) => tracing::info!(incidents, "incidents long over were forgotten"),
            Err(error) => tracing::warn!(?error, "incidents long over could not be forgotten"),
        }
        let now_ms = clock::unix_ms();
        let before_ms = now_ms.saturating_sub(JOIN_TOKENS_KEPT_MS);
        let pruned = tokio::join!(
            store.prune_identities(now_ms),
            store.prune_join_tokens(before_ms)
        );
        if let (Err(error), _) | (_, Err(error)) = pruned {
            tracing::warn!(
                ?error,
                "ended identities and join tokens could not be forgotten"
            );
        }
    }
}
