//! Forgets agents that are long gone, and overrides and rollouts that are long over. An instance is
//! a process, so every restart leaves a row.

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
