//! One synthetic agent from its first dial to its Bye.

use crate::backoff::Backoff;
use crate::script::Script;
use crate::session::Ended;
use crate::tally::Fault;
use crate::{Swarm, clock};
use lanekeeper_model::ids::CellName;
use lanekeeper_proto::message::AppliedRevision;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An agent and what outlives its sessions.
pub(crate) struct Agent {
    pub(crate) swarm: Arc<Swarm>,
    pub(crate) name: String,
    pub(crate) instance: String,
    pub(crate) script: Script,
    pub(crate) cells: Arc<[CellName]>,
    pub(crate) applied: Option<AppliedRevision>,
    pub(crate) session_epoch: Option<u64>,
    /// When the session before this one was lost; `None` while one is open and before the first.
    pub(crate) lost: Option<Instant>,
    pub(crate) rng: SmallRng,
    number: usize,
}

impl Agent {
    pub(crate) fn new(swarm: Arc<Swarm>, number: usize) -> Self {
        let config = &swarm.config;
        // Neighbouring seeds give unrelated streams.
        let seed = config
            .seed
            .wrapping_mul(1_000_003)
            .wrapping_add(number as u64);
        let mut script = SmallRng::seed_from_u64(seed);
        Self {
            name: format!("{}-{number:05}", config.name),
            // Fresh for each run, as an instance is for each process.
            instance: format!("{}-{number:05}-{:016x}", config.name, rand::random::<u64>()),
            script: Script::new(
                script.random(),
                config.cells,
                config.open_share,
                config.transition_interval,
                clock::now(),
            ),
            cells: swarm.revisions.without_document(),
            applied: None,
            session_epoch: None,
            lost: None,
            rng: SmallRng::seed_from_u64(rand::random()),
            number,
            swarm,
        }
    }

    /// Dials, serves sessions and dials again until the run ends.
    pub(crate) async fn live(mut self) {
        let stop = self.swarm.stop.clone();
        let turn = self.number as f64 / self.swarm.config.dials_per_sec as f64;
        let mut wait = Duration::from_secs_f64(turn);
        let mut backoff = Backoff::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let mut lasted = Duration::ZERO;
            let ended = self.serve(&mut lasted).await;
            if matches!(ended, Ended::Stopped) {
                return;
            }
            if !lasted.is_zero() {
                self.lost = Some(clock::now());
            }
            self.swarm.tally.ended(&ended);
            tracing::debug!(agent = self.name, %ended, "session over");
            backoff.ended(lasted);
            wait = backoff.wait(ended.goodbye(), self.rng.random());
        }
    }

    async fn serve(&mut self, lasted: &mut Duration) -> Ended {
        let swarm = Arc::clone(&self.swarm);
        let channel = tokio::select! {
            () = swarm.stop.cancelled() => return Ended::Stopped,
            channel = swarm.links.dial(self.number) => channel,
        };
        match channel {
            Ok(channel) => self.run_session(channel, lasted).await,
            Err(error) => Ended::Fault(Fault::Dial, error.to_string()),
        }
    }
}
