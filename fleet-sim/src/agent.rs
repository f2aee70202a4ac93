//! One synthetic agent: its link to the control plane, and the script in place of a data plane.

use crate::script::Script;
use crate::{Swarm, clock};
use lanekeeper_agent::session_client::{Facts, Link};
use lanekeeper_model::ids::CellName;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Instant;

/// An agent and what outlives its sessions.
pub(crate) struct Agent {
    pub(crate) swarm: Arc<Swarm>,
    pub(crate) link: Link,
    pub(crate) script: Script,
    pub(crate) cells: Arc<[CellName]>,
    /// When the session before this one was lost; `None` while one is open and before the first.
    pub(crate) lost: Option<Instant>,
    pub(crate) rng: SmallRng,
    pub(crate) number: usize,
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
        let name = format!("{}-{number:05}", config.name);
        let facts = Facts {
            gateway: config.gateway.clone(),
            labels: [("simulated".to_owned(), "true".to_owned())].into(),
            // Fresh for each run, as an instance is for each process.
            instance: format!("{name}-{:016x}", rand::random::<u64>()),
            name,
            // Overrides and drains concern the data plane, which is not simulated.
            capabilities: Vec::new(),
        };
        Self {
            link: Link::new(facts, None),
            script: Script::new(
                script.random(),
                config.cells,
                config.open_share,
                config.transition_interval,
                clock::now(),
            ),
            cells: swarm.revisions.without_document(),
            lost: None,
            rng: SmallRng::seed_from_u64(rand::random()),
            number,
            swarm,
        }
    }
}
