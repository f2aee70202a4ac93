//! What the fleet advises its members: read from the live view, computed by the model, followed by
//! sessions.
//!
//! Every replica computes for the gateways of its own sessions, from the records of all. It stays
//! silent for a while after it, or the view, began anew: until then it cannot know how many agents
//! there are. What it cannot confirm it does not renew, and advisories end by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::fleet::{
    Advice, AdviceRules, AdviceWindows, AdvisedCell, FleetIndex, GatewayCells,
};
use lanekeeper_model::{FreshWindows, GatewayName};
use lanekeeper_store::{Changes, Cursor, Hint, LiveView, RECORD_TTL};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::follow::config::ConfigWatch;
use crate::metrics::{AdviceCounts, Metrics};
use crate::session::advice::AdviceSet;
use crate::session::target::Target;

/// Time between two looks when nothing is reported.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Shortest time between two looks, however many reports come.
const LOOK_GAP: Duration = Duration::from_millis(100);
/// That time is so many times what a look took at least, so that a large fleet that is busy
/// reporting does not keep a core busy.
const LOOK_EASE: u32 = 4;
/// The longest such time: within a second of the quorum agents are to be advised.
const LOOK_GAP_MAX: Duration = Duration::from_millis(500);
/// How often a set that stays as it is is confirmed to the sessions: twice in the shortest usual
/// report interval.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How long a look at the live view may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// What a session follows; `None` until something is known.
pub(crate) type Subscription = watch::Receiver<Option<Arc<AdviceSet>>>;

/// The fleet's advice, as this process knows it.
pub(crate) struct AdviceWatch {
    known: Mutex<Known>,
}

impl AdviceWatch {
    pub(crate) fn new(windows: FreshWindows) -> Arc<Self> {
        Arc::new(Self {
            known: Mutex::new(Known::new(windows)),
        })
    }

    /// Follows the advice to a gateway's agents, existing or not.
    pub(crate) fn subscribe(&self, gateway: &str) -> Subscription {
        self.known.lock().subscribe(gateway)
    }

    /// Looks again and again until told to stop: soon after a report that changes something, and
    /// twice a second for what changes with time alone.
    pub(crate) async fn follow(
        self: Arc<Self>,
        config: Arc<ConfigWatch>,
        live: Arc<dyn LiveView>,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
    ) {
        let mut hints = live.subscribe();
        let mut hinting = true;
        let mut healthy = true;
        loop {
            hints = hints.resubscribe();
            let began = clock::now();
            self.configure(&config).await;
            let cursor = self.known.lock().cursor.clone();
            let read = tokio::time::timeout(LOOK_TIMEOUT, live.changes(&cursor)).await;
            let failed = match read {
                Ok(Ok(changes)) => {
                    let (turns, counts) = {
                        let mut known = self.known.lock();
                        known.take_changes(changes, clock::now());
                        let turns = known.look(clock::now(), clock::unix_ms());
                        (turns, known.counts())
                    };
                    metrics.advice.set(counts);
                    turns.iter().for_each(Turn::log);
                    None
                }
                Ok(Err(error)) => Some(format!("{error:?}")),
                Err(_) => Some("no answer in time".to_owned()),
            };
            match (&failed, healthy) {
                (Some(error), true) => tracing::warn!(
                    error,
                    "the fleet cannot be seen; no advice is given and what was given ends"
                ),
                (None, false) => tracing::info!("the fleet can be seen again"),
                (Some(_), false) | (None, true) => {}
            }
            healthy = failed.is_none();
            let cost = clock::now().saturating_duration_since(began);
            let gap = cost.saturating_mul(LOOK_EASE).clamp(LOOK_GAP, LOOK_GAP_MAX);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                open = reported(&mut hints), if hinting => hinting = open,
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(gap) => {}
            }
        }
    }

    /// Reads the rules of gateways whose documents have changed.
    async fn configure(&self, config: &ConfigWatch) {
        let lacking = self.known.lock().lacking(config.newest());
        for (gateway, target) in lacking {
            let document = target.document.clone();
            let read = tokio::task::spawn_blocking(move || Rules::read(&document)).await;
            let rules = read.unwrap_or_else(|error| {
                tracing::error!(%error, gateway, "a document could not be read for advice");
                Rules::default()
            });
            self.known.lock().take_rules(&gateway, &target, rules);
        }
    }
}

/// Waits for a report worth a look; false when no more hints will come.
async fn reported(hints: &mut broadcast::Receiver<Hint>) -> bool {
    loop {
        match hints.recv().await {
            Ok(Hint::Report { .. } | Hint::Revision { .. } | Hint::Rollout { .. })
            | Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}

/// What advice needs of a document.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    rules: AdviceRules,
    cells: Vec<lanekeeper_model::ids::CellName>,
}

impl Rules {
    /// The rules of a document; one that agents refuse has none.
    pub(crate) fn read(document: &[u8]) -> Self {
        let checked = serde_json::from_slice(document)
            .ok()
            .and_then(|document| lanekeeper_model::check_json(&document).ok());
        checked.map_or_else(Self::default, |checked| Self {
            rules: AdviceRules::of(&checked.gateway),
            cells: checked.gateway.cells(),
        })
    }
}

/// A change in what is advised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Enough agents hold a lane open.
    Began(GatewayName, Advice),
    /// They no longer do, or nobody can tell.
    Ended(GatewayName, Advice),
}

impl Turn {
    /// What is advised from now on.
    #[cfg(feature = "simulation")]
    pub(crate) fn begun(self) -> Option<(GatewayName, Advice)> {
        match self {
            Self::Began(gateway, advice) => Some((gateway, advice)),
            Self::Ended(..) => None,
        }
    }

    fn log(&self) {
        let (turn, gateway, advice) = match self {
            Self::Began(gateway, advice) => ("begins", gateway, advice),
            Self::Ended(gateway, advice) => ("ends", gateway, advice),
        };
        let cause = advice.cause.as_ref();
        tracing::info!(
            %gateway,
            pool = %advice.cell.pool,
            lane = %advice.cell.lane,
            endpoint = advice.cell.endpoint,
            open_agents = advice.open,
            fresh_agents = advice.fresh,
            cause = cause.map(|(kind, _)| kind.as_str()),
            status = cause.and_then(|(_, status)| *status),
            sent = advice.is_sent(),
            withheld = advice.withheld.map(|withheld| withheld.as_str()),
            spared_attempts = advice.spared,
            late_agents = advice.late_agents,
            late_attempts = advice.late_attempts,
            "the fleet's advice against a lane {turn}"
        );
    }
}

/// What is known of the fleet, without stores or tasks.
pub(crate) struct Known {
    windows: FreshWindows,
    index: FleetIndex,
    cursor: Cursor,
    /// When each agent's record was read last: a view that is replaced does not say what expired.
    read: BTreeMap<(GatewayName, String), Instant>,
    /// The view is taken for whole from then on.
    whole_from: Option<Instant>,
    gateways: BTreeMap<String, Followed>,
}

#[derive(Default)]
struct Followed {
    sender: watch::Sender<Option<Arc<AdviceSet>>>,
    /// Revision and hash of the document that the rules are of.
    document: Option<(u64, String)>,
    rules: Rules,
    advice: BTreeMap<AdvisedCell, Advice>,
}

impl Known {
    pub(crate) fn new(windows: FreshWindows) -> Self {
        Self {
            windows,
            index: FleetIndex::new(),
            cursor: Cursor::default(),
            read: BTreeMap::new(),
            whole_from: None,
            gateways: BTreeMap::new(),
        }
    }

    /// Follows the advice to a gateway's agents.
    pub(crate) fn subscribe(&mut self, gateway: &str) -> Subscription {
        let followed = self.gateways.entry(gateway.to_owned()).or_default();
        followed.sender.subscribe()
    }

    /// The documents whose rules are not known, of gateways that sessions follow.
    pub(crate) fn lacking(
        &mut self,
        newest: Vec<(String, Arc<Target>)>,
    ) -> Vec<(String, Arc<Target>)> {
        self.gateways
            .retain(|_, followed| followed.sender.receiver_count() > 0);
        let is_lacking = |(gateway, target): &(String, Arc<Target>)| {
            self.gateways.get(gateway).is_some_and(|followed| {
                let known = followed.document.as_ref();
                known.is_none_or(|(revision, hash)| {
                    (*revision, hash) != (target.revision, &target.hash)
                })
            })
        };
        newest.into_iter().filter(is_lacking).collect()
    }

    /// Takes a document's rules.
    pub(crate) fn take_rules(&mut self, gateway: &str, target: &Target, rules: Rules) {
        if let Some(followed) = self.gateways.get_mut(gateway) {
            followed.document = Some((target.revision, target.hash.clone()));
            followed.rules = rules;
        }
        let configured = self.gateways.iter().filter_map(|(name, followed)| {
            Some(GatewayCells {
                name: name.as_str().into(),
                revision: followed.document.as_ref()?.0,
                cells: followed.rules.cells.clone(),
                rules: followed.rules.rules.clone(),
            })
        });
        let configured: Vec<GatewayCells> = configured.collect();
        self.index.configure(&configured);
    }

    /// Takes news of the live view.
    pub(crate) fn take_changes(&mut self, changes: Changes, now: Instant) {
        if changes.is_whole {
            // It may have lost its memory, and its writers need time to find out.
            let gathering = Duration::from_millis(self.windows.stale_after_ms);
            self.whole_from = Some(now + gathering);
            for (gateway, instance) in std::mem::take(&mut self.read).into_keys() {
                self.index.remove(&gateway, &instance);
            }
        }
        for key in &changes.gone {
            self.index.remove(&key.0, &key.1);
            self.read.remove(key);
        }
        for record in changes.records {
            let key = (record.gateway.clone(), record.instance.clone());
            self.read.insert(key, now);
            self.index.put(record);
        }
        self.cursor = changes.next;
        let index = &mut self.index;
        self.read.retain(|(gateway, instance), read| {
            let lives = now.saturating_duration_since(*read) <= RECORD_TTL;
            if !lives {
                index.remove(gateway, instance);
            }
            lives
        });
    }

    /// How many lanes are advised against, would be, and are not for want of other members.
    pub(crate) fn counts(&self) -> AdviceCounts {
        let mut counts = AdviceCounts::default();
        for advice in self.gateways.values().flat_map(|it| it.advice.values()) {
            match (advice.withheld, advice.is_sent()) {
                (Some(_), _) => counts.withheld += 1,
                (None, true) => counts.sent += 1,
                (None, false) => counts.observed += 1,
            }
        }
        counts
    }

    /// Computes what is to be advised as of now, tells the sessions, and returns what changed.
    pub(crate) fn look(&mut self, now: Instant, now_ms: u64) -> Vec<Turn> {
        let is_whole = self.whole_from.is_some_and(|from| now >= from);
        let windows = AdviceWindows {
            fresh: self.windows,
            known_ms: u64::MAX,
        };
        let mut turns = Vec::new();
        for (name, followed) in &mut self.gateways {
            let gateway = GatewayName::from(name.as_str());
            let rules = &followed.rules.rules;
            let found = if is_whole {
                self.index.advice(&gateway, rules, now_ms, windows)
            } else {
                Vec::new()
            };
            let is_unchanged = |cells: &BTreeMap<AdvisedCell, Advice>, it: &Advice| {
                let known = cells.get(&it.cell);
                known.is_some_and(|known| known.is_sent() == it.is_sent())
            };
            let found: BTreeMap<AdvisedCell, Advice> =
                found.into_iter().map(|it| (it.cell.clone(), it)).collect();
            let ended = followed
                .advice
                .values()
                .filter(|it| !is_unchanged(&found, it));
            turns.extend(ended.map(|it| Turn::Ended(gateway.clone(), it.clone())));
            let began = found
                .values()
                .filter(|it| !is_unchanged(&followed.advice, it));
            turns.extend(began.map(|it| Turn::Began(gateway.clone(), it.clone())));
            let sent: Vec<Advice> = found.values().filter(|it| it.is_sent()).cloned().collect();
            followed.advice = found;
            followed.sender.send_if_modified(|latest| {
                let set = AdviceSet {
                    sent,
                    as_of: now,
                    as_of_ms: now_ms,
                };
                // What says nothing new does not wake ten thousand sessions.
                let is_known = latest.as_ref().is_some_and(|known| {
                    let age = now.saturating_duration_since(known.as_of);
                    known.covers(&set) && (set.sent.is_empty() || age < RENEW_INTERVAL)
                });
                if !is_known {
                    *latest = Some(Arc::new(set));
                }
                !is_known
            });
        }
        turns
    }
}
