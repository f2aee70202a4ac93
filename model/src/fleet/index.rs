//! The fleet view without reading every report anew. The tests hold it to the plain aggregation of
//! the same records.
//!
//! A record is packed once, when it comes in: names become small numbers. Putting the fleet together
//! is then one pass over numbers that lie side by side, whatever the number of cells and agents, and
//! answering a query is a choice among finished rows that touches no agent at all.

mod advice;
mod detail;
mod fold;
mod folded;
mod packed;
mod pools;
mod sum;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use self::advice::AdviceWindows;
pub use self::folded::FoldedFleet;
use self::packed::{Causes, Cells, Mention, Names};
use self::pools::PackedPools;
use super::advice::AdviceRules;
use super::record::AgentRecord;
use super::view::GatewayCells;
use crate::ids::{CellOwner, GatewayName, PoolName, ProviderName};

/// Names beyond those in use that are kept before the numbering starts anew.
const STRAY_NAMES_MAX: usize = 1024;

/// The latest record of every agent, packed for aggregation.
#[derive(Debug, Default)]
pub struct FleetIndex {
    gateways: BTreeMap<GatewayName, GatewayIndex>,
}

impl FleetIndex {
    /// An index of no agents.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an agent's record in place of the one it had.
    pub fn put(&mut self, record: Arc<AgentRecord>) {
        match self.gateways.get_mut(&record.gateway) {
            Some(gateway) => gateway.put(record),
            None => {
                let mut gateway = GatewayIndex::default();
                let name = record.gateway.clone();
                gateway.put(record);
                self.gateways.insert(name, gateway);
            }
        }
    }

    /// Forgets an agent.
    pub fn remove(&mut self, gateway: &str, instance: &str) {
        if let Some(of_gateway) = self.gateways.get_mut(gateway) {
            of_gateway.remove(instance);
            if of_gateway.is_empty() {
                self.gateways.remove(gateway);
            }
        }
    }

    /// Takes the configured cells of all gateways in place of those it had.
    pub fn configure(&mut self, gateways: &[GatewayCells]) {
        for gateway in self.gateways.values_mut() {
            gateway.configured = Configured::default();
        }
        for cells in gateways {
            let gateway = self.gateways.entry(cells.name.clone()).or_default();
            gateway.configured.add(cells);
        }
        self.gateways.retain(|_, gateway| !gateway.is_empty());
        for gateway in self.gateways.values_mut() {
            gateway.number_anew();
        }
    }

    /// Every record, by gateway, name and instance.
    pub fn records(&self) -> impl Iterator<Item = &Arc<AgentRecord>> {
        self.gateways
            .values()
            .flat_map(|gateway| gateway.agents.values().map(|agent| &agent.record))
    }

    /// One agent's record.
    pub fn record(&self, gateway: &str, instance: &str) -> Option<&Arc<AgentRecord>> {
        self.gateways.get(gateway)?.record(instance)
    }
}

/// What the revisions of one gateway have.
#[derive(Debug, Default)]
struct Configured {
    /// The largest revision passed.
    current: Option<u64>,
    /// Its cells with their providers.
    providers: BTreeMap<CellOwner, ProviderName>,
    revisions: BTreeMap<u64, BTreeSet<CellOwner>>,
    /// The pools of each revision.
    pools: BTreeMap<u64, BTreeSet<PoolName>>,
    /// How the agents of the current revision warn each other.
    rules: AdviceRules,
}

impl Configured {
    fn add(&mut self, cells: &GatewayCells) {
        let owners = cells.cells.iter().map(|cell| cell.owner());
        self.revisions
            .entry(cells.revision)
            .or_default()
            .extend(owners);
        let pools = cells.cells.iter().filter(|cell| !cell.lane.is_empty());
        self.pools
            .entry(cells.revision)
            .or_default()
            .extend(pools.map(|cell| cell.pool.clone()));
        if self
            .current
            .is_some_and(|current| current >= cells.revision)
        {
            return;
        }
        self.current = Some(cells.revision);
        self.rules = cells.rules.clone();
        self.providers.clear();
        for cell in &cells.cells {
            self.providers.insert(cell.owner(), cell.provider.clone());
        }
    }

    /// True when agents on a revision have the pool, as far as the revision is known.
    fn has_pool(&self, revision: u64, pool: &str) -> bool {
        let known = self.pools.get(&revision);
        revision != 0 && known.is_none_or(|pools| pools.contains(pool))
    }
}

/// The agents of one gateway.
#[derive(Debug, Default)]
struct GatewayIndex {
    configured: Configured,
    /// By name and instance, which is the order of everything that is shown.
    agents: BTreeMap<(String, String), Agent>,
    names_by_instance: HashMap<String, String>,
    cells: Cells,
    causes: Causes,
    overrides: Names,
    pools: Names,
    /// For each known revision, which of the numbered cells it has.
    has: BTreeMap<u64, Vec<bool>>,
    /// Mentions over all agents.
    mentions: usize,
}

/// One agent as the aggregation meets it.
#[derive(Debug)]
struct Agent {
    record: Arc<AgentRecord>,
    mentions: Box<[Mention]>,
    pools: PackedPools,
}

impl Agent {
    /// Names that it may be the only one to use.
    fn names(&self) -> usize {
        self.mentions.len() + self.pools.len()
    }
}

impl GatewayIndex {
    fn is_empty(&self) -> bool {
        self.agents.is_empty() && self.configured.current.is_none()
    }

    fn record(&self, instance: &str) -> Option<&Arc<AgentRecord>> {
        let name = self.names_by_instance.get(instance)?;
        self.agents
            .get(&(name.clone(), instance.to_owned()))
            .map(|agent| &agent.record)
    }

    fn put(&mut self, record: Arc<AgentRecord>) {
        match self.names_by_instance.get(&record.instance) {
            Some(name) if *name == record.name => {}
            Some(_) => self.remove(&record.instance),
            None => {}
        }
        let mentions = self.pack(&record);
        let pools = self.pack_pools(&record);
        let key = (record.name.clone(), record.instance.clone());
        let agent = Agent {
            record,
            mentions,
            pools,
        };
        self.mentions += agent.names();
        match self.agents.entry(key) {
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                self.mentions -= entry.insert(agent).names();
            }
            std::collections::btree_map::Entry::Vacant(entry) => {
                let (name, instance) = entry.key().clone();
                self.names_by_instance.insert(instance, name);
                entry.insert(agent);
            }
        }
        // Agents name their cells themselves, so names that nobody uses any more must not pile up.
        let names = self.cells.len() + self.causes.len() + self.overrides.len() + self.pools.len();
        if names > 4 * self.mentions + self.cells.configured + STRAY_NAMES_MAX {
            self.number_anew();
        }
    }

    fn remove(&mut self, instance: &str) {
        if let Some(name) = self.names_by_instance.remove(instance)
            && let Some(agent) = self.agents.remove(&(name, instance.to_owned()))
        {
            self.mentions -= agent.names();
        }
    }

    /// The notable cells of a record, each once: of doubled ones the worst stays.
    fn pack(&mut self, record: &AgentRecord) -> Box<[Mention]> {
        let mut mentions: Vec<Mention> = Vec::new();
        for cell in record.cells.iter().filter(|cell| cell.is_notable()) {
            let number = self.number(cell.owner(), cell.endpoint.as_deref());
            mentions.push(Mention {
                cell: number,
                cause: cell.cause.as_ref().map(|cause| self.causes.number(cause)),
                cause_count: cell.cause.as_ref().map_or(0, |cause| cause.count),
                override_: cell
                    .override_action
                    .as_ref()
                    .map(|action| self.overrides.number(action)),
                state: cell.state,
                is_forced_open: cell.is_forced_open(),
                advisory: cell.advisory,
                spared: cell.advisory_spared,
                reopens: cell.reopens,
                trips: cell.trips,
                state_age_ms: cell.state_age_ms,
                open_age_ms: cell.open_age_ms,
                cooldown_ms: cell.cooldown_remaining_ms,
                parked_ms: cell.parked_remaining_ms,
            });
        }
        // Stable, so that of equally bad ones the first stays.
        mentions.sort_by_key(|mention| mention.cell);
        mentions.dedup_by(|later, kept| {
            let doubled = later.cell == kept.cell;
            if doubled && later.state > kept.state {
                *kept = *later;
            }
            doubled
        });
        mentions.into_boxed_slice()
    }

    fn number(&mut self, owner: CellOwner, endpoint: Option<&str>) -> u32 {
        let (number, is_new) = self.cells.number(&owner, endpoint);
        if is_new {
            for (revision, cells) in &self.configured.revisions {
                let has = self.has.entry(*revision).or_default();
                has.push(cells.contains(&owner));
            }
        }
        number
    }

    /// Gives new numbers to the names that are in use, and only to those.
    fn number_anew(&mut self) {
        self.cells = Cells::default();
        self.causes = Causes::default();
        self.overrides = Names::default();
        self.pools = Names::default();
        self.has = BTreeMap::new();
        self.mentions = 0;
        let providers = std::mem::take(&mut self.configured.providers);
        for owner in providers.keys() {
            self.number(owner.clone(), None);
        }
        self.cells.configured = self.cells.len();
        self.configured.providers = providers;
        let mut agents = std::mem::take(&mut self.agents);
        for agent in agents.values_mut() {
            agent.mentions = self.pack(&agent.record);
            agent.pools = self.pack_pools(&agent.record);
            self.mentions += agent.names();
        }
        self.agents = agents;
    }
}

#[cfg(test)]
mod tests;
