//! Two living processes under one instance, wherever their sessions are: a copied virtual machine,
//! or two containers thawed from one image. The one that lives stays; the other one is turned away,
//! and the fleet view says so.
//!
//! Who is who is told by the session epoch, which an agent learns with its Welcome and names in its
//! next Hello. A process that does not know of a later session of its instance, in which reports
//! come in, is not the one that reports. A process that does know has lost its connection, and its
//! new session wins over the old one at once. Of two copies that both know (they were copied alive)
//! the later dialler wins; the live view then refuses the records of the other's session, which
//! ends, and when that process dials again it no longer knows of the latest session.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::AgentRecord;
use lanekeeper_proto::message::{Goodbye, GoodbyeReason, Hello};
use lanekeeper_store::Hint;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::hosting::core::Core;
use crate::session::Rules;

/// How long an agent that comes may wait for the live view to say who else came under its instance.
/// A view that is slower than this is away, and the next report will tell.
const LOOK_TIMEOUT: Duration = Duration::from_millis(250);
/// Wait asked of an agent whose instance is taken: longer than a dead session is taken for living.
pub(crate) const DUPLICATE_WAIT: Duration = Duration::from_secs(60);
/// Usual report intervals after which a session that is not heard of counts as dead.
const DEAD_AFTER_INTERVALS: u32 = 3;

/// What the live view knows of a later session than the one that an agent had last.
pub(crate) async fn later_session(core: &Core, hello: &Hello) -> Option<AgentRecord> {
    let known = hello.previous_session_epoch.unwrap_or(0);
    let look = core
        .live
        .later_session(&hello.gateway, &hello.instance, known);
    match tokio::time::timeout(LOOK_TIMEOUT, look).await {
        Ok(Ok(later)) => later,
        Ok(Err(error)) => {
            tracing::debug!(?error, "cannot tell who else came under an instance");
            None
        }
        Err(_) => None,
    }
}

/// Somebody reports in that session.
pub(crate) fn is_living(record: &AgentRecord, rules: &Rules, now_ms: u64) -> bool {
    let dead_after = rules.report_interval.saturating_mul(DEAD_AFTER_INTERVALS);
    let is_recent = |age_ms: u64| u128::from(age_ms) < dead_after.as_millis();
    !record.left && record.report_age_ms(now_ms).is_some_and(is_recent)
}

/// Words the goodbye of a copy, and tells the replica that has the original's session.
pub(crate) async fn turn_away(core: &Core, hello: &Hello) -> Goodbye {
    tracing::warn!(
        gateway = hello.gateway,
        agent = hello.name,
        instance = hello.instance,
        "two living processes claim one instance; the later one is refused"
    );
    let hint = Hint::Duplicate {
        gateway: hello.gateway.as_str().into(),
        instance: hello.instance.clone(),
    };
    let told = tokio::time::timeout(LOOK_TIMEOUT, core.live.publish(hint)).await;
    if !matches!(told, Ok(Ok(()))) {
        // The copy will be back, and the word of it with it.
        tracing::debug!("the word of a copy was lost");
    }
    Goodbye {
        reason: GoodbyeReason::Duplicate,
        detail: "another process holds a living session under this instance".to_owned(),
        reconnect_after: DUPLICATE_WAIT,
        jitter: DUPLICATE_WAIT,
    }
}

/// Passes the word of copies on to the originals' sessions, until told to stop.
pub(crate) async fn listen(
    core: Arc<Core>,
    mut hints: broadcast::Receiver<Hint>,
    shutdown: CancellationToken,
) {
    loop {
        let hint = tokio::select! {
            () = shutdown.cancelled() => return,
            hint = hints.recv() => hint,
        };
        match hint {
            Ok(Hint::Duplicate { gateway, instance }) => {
                core.sessions
                    .note_duplicate(&(gateway.to_string(), instance));
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn record(age_ms: Option<u64>, left: bool) -> AgentRecord {
        let text = serde_json::json!({"gateway": "edge", "instance": "one", "name": "node-1",
            "left": left, "report_received_ms": age_ms.map(|age_ms| NOW_MS - age_ms)});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn only_a_session_with_recent_reports_lives() {
        let rules = Rules {
            report_interval: Duration::from_secs(10),
            stale_after: Duration::from_secs(30),
        };
        for (age_ms, left, lives) in [
            (Some(0), false, true),
            (Some(29_999), false, true),
            (Some(30_000), false, false),
            (Some(0), true, false),
            (None, false, false),
        ] {
            let record = record(age_ms, left);
            assert_eq!(
                is_living(&record, &rules, NOW_MS),
                lives,
                "{age_ms:?} {left}"
            );
        }
    }
}
