//! The life of a synthetic agent, from its first dial to its Bye.

use crate::agent::Agent;
use crate::clock;
use crate::ended::{Ended, Fault};
use rand::RngExt;
use std::sync::Arc;
use std::time::Duration;

impl Agent {
    /// Dials, serves sessions and dials again until the run ends.
    pub(crate) async fn live(mut self) {
        let stop = self.swarm.stop.clone();
        let turn = self.number as f64 / self.swarm.config.dials_per_sec as f64;
        let mut wait = Duration::from_secs_f64(turn);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let ended = self.serve().await;
            if matches!(ended, Ended::Stopped) {
                return;
            }
            let now = clock::now();
            if self.link.is_open() {
                self.lost = Some(now);
            }
            self.swarm.tally.ended(&ended);
            tracing::debug!(agent = self.link.facts().name, %ended, "session over");
            let jitter = self.rng.random();
            wait = self.link.hung_up(ended.goodbye(), now, jitter);
        }
    }

    async fn serve(&mut self) -> Ended {
        let swarm = Arc::clone(&self.swarm);
        let channel = tokio::select! {
            () = swarm.stop.cancelled() => return Ended::Stopped,
            channel = swarm.links.dial(self.number) => channel,
        };
        match channel {
            Ok(channel) => self.run_session(channel).await,
            Err(error) => Ended::Fault(Fault::Dial, error.to_string()),
        }
    }
}
