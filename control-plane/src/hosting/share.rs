//! Tells readers of the live view that this replica is there, so that they know when its agents'
//! records are missing; and writes those again when the view has lost its memory.

use std::sync::Arc;

use lanekeeper_store::{ANNOUNCE_INTERVAL, LiveView, Share};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::hosting::core::Core;

/// Announces this replica's share until told to stop, and then that it ends.
pub(crate) async fn announce(
    core: Arc<Core>,
    live: Arc<dyn LiveView>,
    shutdown: CancellationToken,
) {
    let replica = format!("{:016x}", rand::random::<u64>());
    let mut is_known = false;
    let mut rewriting = false;
    loop {
        core.choose_report_interval();
        rewriting &= core.records.backlog() > 0;
        let share = Share {
            sessions: u64::try_from(core.metrics.sessions.get()).unwrap_or(0),
            rewriting,
            left: false,
        };
        match live.announce(&replica, share).await {
            Ok(false) if is_known && !rewriting => {
                tracing::warn!("the live view has lost its memory; writing it again");
                core.records.rewrite();
                rewriting = true;
                is_known = false;
                continue;
            }
            Ok(_) => is_known = true,
            Err(error) => tracing::debug!(?error, "the share could not be announced"),
        }
        let traffic = core.traffic.publish(clock::now());
        if let Err(error) = live.publish_traffic(&replica, traffic).await {
            tracing::debug!(?error, "the traffic could not be published");
        }
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = tokio::time::sleep(ANNOUNCE_INTERVAL) => {}
        }
    }
    let goodbye = Share {
        left: true,
        ..Share::default()
    };
    if let Err(error) = live.announce(&replica, goodbye).await {
        tracing::debug!(?error, "readers will miss this replica for a while");
    }
}
