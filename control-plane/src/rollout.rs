//! Drives rollouts: looks at the agents of each once a second, or when one of them has something to
//! say, and stores the step that follows.
//!
//! Every replica does so. The stored version decides which of two equal steps counts, so there is
//! no leader to lose, and a replica that dies leaves nothing half done.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::FreshWindows;
use lanekeeper_model::rollout::{Rollout, Transition};
use lanekeeper_store::{Change, ConfigStore, Error, Hint, LiveView, StoredRollout};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::metrics::{Ending, Metrics};

/// How far a look may be from its time, as a share, so that replicas do not look in step.
const LOOK_JITTER: f64 = 0.2;
/// Shortest time between two looks, however many hints come.
const LOOK_GAP: Duration = Duration::from_millis(100);
/// That time is so many times what the look took at least, so that a large fleet that is busy
/// reporting is not read without end.
const LOOK_EASE: u32 = 4;
/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// Who the audit trail says takes steps.
const ACTOR: &str = "rollout";

/// What drives rollouts.
pub(crate) struct Driver {
    pub(crate) store: ConfigStore,
    pub(crate) live: Arc<dyn LiveView>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) windows: FreshWindows,
}

impl Driver {
    /// Drives until told to stop.
    pub(crate) async fn drive(self, interval: Duration, shutdown: CancellationToken) {
        let mut hints = self.live.subscribe();
        let mut healthy = true;
        let mut hinting = true;
        loop {
            // What was hinted at until now is covered by the look that follows.
            hints = hints.resubscribe();
            let began = clock::now();
            let (running, failed) = match tokio::time::timeout(LOOK_TIMEOUT, self.look()).await {
                Ok(Ok(running)) => (running, None),
                Ok(Err(error)) => (true, Some(format!("{error:?}"))),
                Err(_) => (true, Some("no answer in time".to_owned())),
            };
            match (&failed, healthy) {
                (Some(error), true) => tracing::warn!(error, "rollouts stand still"),
                (None, false) => tracing::info!("rollouts go on"),
                (Some(_), false) | (None, true) => {}
            }
            healthy = failed.is_none();
            let cost = clock::now().saturating_duration_since(began);
            let gap = cost.saturating_mul(LOOK_EASE).clamp(LOOK_GAP, LOOK_TIMEOUT);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(clock::jittered(interval, LOOK_JITTER)) => {}
                open = news(&mut hints, running), if hinting => hinting = open,
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(gap) => {}
            }
        }
    }

    /// Takes a step of every rollout that goes on; true when there is one.
    async fn look(&self) -> Result<bool, Error> {
        let rollouts = self.store.running_rollouts().await?;
        let running = !rollouts.is_empty();
        let waiting = rollouts
            .iter()
            .filter(|stored| stored.rollout.waits_for_agents());
        self.metrics
            .rollouts
            .looked(rollouts.len(), waiting.count());
        let mut result = Ok(running);
        for stored in rollouts {
            if let Err(error) = self.step(stored).await {
                result = Err(error);
            }
        }
        result
    }

    async fn step(&self, stored: StoredRollout) -> Result<(), Error> {
        let (mut rollout, version) = (stored.rollout, stored.version);
        let gateway = rollout.gateway.clone();
        let agents = self.live.records(Some(&gateway)).await?;
        let now_ms = clock::unix_ms();
        let Some(transition) = rollout.step(&agents, self.windows, now_ms) else {
            return Ok(());
        };
        let change = Change {
            actor: ACTOR.to_owned(),
            actor_id: String::new(),
            message: message_of(&rollout, &transition),
            now_ms,
            idempotency: None,
        };
        let written = match transition {
            Transition::Stopped { roll_back: true } => {
                self.store.revert_rollout(&rollout, version, &change).await
            }
            _ => {
                let action = action_of(&transition);
                let advance = self
                    .store
                    .advance_rollout(&rollout, version, action, &change);
                advance.await
            }
        };
        match written {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // The gateway was deleted in between.
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        if transition == Transition::Noted {
            return Ok(());
        }
        self.count(&rollout, &transition, now_ms);
        tracing::info!(%gateway, revision = rollout.revision, "{}", change.message);
        // A lost hint costs a second, not the truth.
        if let Err(error) = self.live.publish(Hint::Rollout { gateway }).await {
            tracing::debug!(?error, "a hint was lost");
        }
        Ok(())
    }

    /// Counts a step that was stored.
    fn count(&self, rollout: &Rollout, transition: &Transition, now_ms: u64) {
        let metrics = &self.metrics.rollouts;
        let ending = match transition {
            Transition::Noted | Transition::Whole | Transition::Unwhole => return,
            Transition::Began { .. } => return metrics.began(),
            Transition::Stopped { roll_back } => {
                if let Some(stop) = &rollout.stop {
                    metrics.stopped(stop.kind);
                }
                if *roll_back {
                    Ending::RolledBack
                } else {
                    Ending::Stopped
                }
            }
            Transition::Done => Ending::Done,
        };
        let took_ms = now_ms.saturating_sub(rollout.created_ms);
        metrics.ended(ending, Duration::from_millis(took_ms));
    }
}

/// What the audit trail calls a step; `None` for one that changes nothing for anyone.
fn action_of(transition: &Transition) -> Option<&'static str> {
    match transition {
        Transition::Noted | Transition::Whole | Transition::Unwhole => None,
        Transition::Began { .. } => Some("rollout.advance"),
        Transition::Stopped { .. } => Some("rollout.stop"),
        Transition::Done => Some("rollout.finish"),
    }
}

fn message_of(rollout: &Rollout, transition: &Transition) -> String {
    let stages = rollout.plan.stages();
    let name = |number: usize| {
        let stage = stages.get(number);
        stage.map(ToString::to_string).unwrap_or_default()
    };
    let current = name(rollout.stages_begun().saturating_sub(1));
    match transition {
        Transition::Noted => String::new(),
        Transition::Began { stage } => {
            format!(
                "stage {} of {} begins: {}",
                stage + 1,
                stages.len(),
                name(*stage)
            )
        }
        Transition::Whole => format!("stage {current} is whole"),
        Transition::Unwhole => format!("stage {current} is no longer whole"),
        Transition::Stopped { roll_back } => {
            let reason = rollout.stop.as_ref().map_or("", |stop| &stop.detail);
            let what = if *roll_back { "roll back" } else { "stop" };
            format!("{what} in stage {current}: {reason}")
        }
        Transition::Done => "every agent has it".to_owned(),
    }
}

/// Waits for something that may move a rollout; false when no more hints will come. Reports matter
/// only while a rollout goes on.
async fn news(hints: &mut broadcast::Receiver<Hint>, running: bool) -> bool {
    loop {
        match hints.recv().await {
            Ok(Hint::Revision { .. } | Hint::Rollout { .. })
            | Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Ok(Hint::Report { .. }) if running => return true,
            Ok(
                Hint::Report { .. }
                | Hint::Incident { .. }
                | Hint::Overrides { .. }
                | Hint::ProbeVerdict { .. }
                | Hint::TokenRevoked
                | Hint::Revocation
                | Hint::Duplicate { .. },
            ) => {}
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}
