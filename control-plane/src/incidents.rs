//! Decides about incidents: looks at what fresh agents report once a second, or when one of them
//! has something to say, and stores how each incident goes on.
//!
//! One replica does so at a time, by a lease in the database. What may happen once only does not
//! depend on the lease: of one subject the database lets one incident be open, and a step counts
//! only upon the version that it was decided on.

mod fleet;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::incident::{
    Context, Incident, IncidentEvent, SUSPECT_WINDOW_MS, Sighting, Sightings, Subject, sightings,
};
use lanekeeper_model::{FreshWindows, GatewayName};
use lanekeeper_store::{ConfigStore, Error, Hint, INCIDENTS_OPEN_MAX, LiveView, StoredIncident};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::incidents::fleet::Fleet;
use crate::metrics::Metrics;

/// The lease's name in the database.
const LEASE: &str = "incidents";
/// How long the lease holds without renewal: so long nobody decides after a replica was killed.
const LEASE_TTL: Duration = Duration::from_secs(10);
/// How far a look may be from its time, as a share, so that replicas do not look in step.
const LOOK_JITTER: f64 = 0.2;
/// Shortest time between two looks, however many hints come.
const LOOK_GAP: Duration = Duration::from_millis(200);
/// That time is so many times what the look took at least, so that a large fleet that is busy
/// failing is not read without end.
const LOOK_EASE: u32 = 4;
/// How long one look may take; less than the lease.
const LOOK_TIMEOUT: Duration = Duration::from_secs(8);
/// How often at most an incident is written while only its counts change.
const COUNTS_EVERY_MS: u64 = 5_000;
/// How often what operators did around open incidents is read.
const CONTEXT_EVERY: Duration = Duration::from_secs(5);

/// What decides about incidents.
pub(crate) struct IncidentDriver {
    store: ConfigStore,
    live: Arc<dyn LiveView>,
    metrics: Arc<Metrics>,
    windows: FreshWindows,
    quiet_ms: u64,
    /// Names this replica in the lease.
    holder: String,
    fleet: Fleet,
    /// The open incidents as they were last written; `None` when they must be read.
    open: Option<BTreeMap<(GatewayName, Subject), StoredIncident>>,
    /// What operators did, by gateway, and when that was read.
    contexts: BTreeMap<GatewayName, (Context, Instant)>,
}

impl IncidentDriver {
    pub(crate) fn new(
        store: ConfigStore,
        live: Arc<dyn LiveView>,
        metrics: Arc<Metrics>,
        windows: FreshWindows,
        quiet: Duration,
    ) -> Self {
        Self {
            store,
            live,
            metrics,
            windows,
            quiet_ms: millis(quiet),
            holder: clock::random_name(),
            fleet: Fleet::default(),
            open: None,
            contexts: BTreeMap::new(),
        }
    }

    /// Decides until `shutdown`.
    pub(crate) async fn drive(mut self, interval: Duration, shutdown: CancellationToken) {
        let mut hints = self.live.subscribe();
        let mut healthy = true;
        let mut hinting = true;
        loop {
            // What was hinted at until now is covered by the look that follows.
            hints = hints.resubscribe();
            let began = clock::now();
            let failed = match tokio::time::timeout(LOOK_TIMEOUT, self.look()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("{error:?}")),
                Err(_) => Some("no answer in time".to_owned()),
            };
            match (&failed, healthy) {
                (Some(error), true) => tracing::warn!(error, "nobody decides about incidents here"),
                (None, false) => tracing::info!("incidents are decided about again"),
                (Some(_), false) | (None, true) => {}
            }
            healthy = failed.is_none();
            if !healthy {
                // What was written and what was not is in the database.
                self.open = None;
            }
            let cost = clock::now().saturating_duration_since(began);
            let gap = cost.saturating_mul(LOOK_EASE).clamp(LOOK_GAP, LOOK_TIMEOUT);
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(clock::jittered(interval, LOOK_JITTER)) => {}
                open = news(&mut hints, self.open.is_some()), if hinting => hinting = open,
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(gap) => {}
            }
        }
        // Another replica need not wait for the lease's end.
        let dropped = self.store.drop_lease(LEASE, &self.holder);
        if let Ok(Err(error)) = tokio::time::timeout(LOOK_TIMEOUT, dropped).await {
            tracing::debug!(?error, "the lease on incidents ends by itself");
        }
    }

    /// One look at the fleet, if this replica has the lease.
    async fn look(&mut self) -> Result<(), Error> {
        let now_ms = clock::unix_ms();
        let expires_ms = now_ms.saturating_add(millis(LEASE_TTL));
        let lease = self
            .store
            .hold_lease(LEASE, &self.holder, now_ms, expires_ms);
        if !lease.await? {
            self.open = None;
            self.fleet = Fleet::default();
            self.metrics.timeline.set_open(0);
            return Ok(());
        }
        let partial = self.fleet.read(&*self.live, &self.store).await?;
        let now_ms = clock::unix_ms();
        let mut open = match self.open.take() {
            Some(open) => open,
            None => by_subject(self.store.open_incidents().await?),
        };
        let seen = sightings(self.fleet.records(), now_ms, self.windows);
        self.go_on(&mut open, &seen, partial, now_ms).await?;
        if !self.fleet.is_gathering() {
            self.begin(&mut open, &seen, now_ms).await?;
        }
        self.contexts
            .retain(|gateway, _| open.keys().any(|(of, _)| of == gateway));
        self.metrics.timeline.set_open(open.len());
        self.open = Some(open);
        Ok(())
    }

    /// Takes a step of every open incident.
    async fn go_on(
        &mut self,
        open: &mut BTreeMap<(GatewayName, Subject), StoredIncident>,
        seen: &BTreeMap<GatewayName, Sightings>,
        partial: bool,
        now_ms: u64,
    ) -> Result<(), Error> {
        let keys: Vec<_> = open.keys().cloned().collect();
        for key in keys {
            let Some(stored) = open.get(&key) else {
                continue;
            };
            let (gateway, subject) = &key;
            let mut incident = stored.incident.clone();
            let nothing = Sighting::default();
            let of_gateway = seen.get(gateway);
            let sighting = of_gateway.and_then(|it| it.subjects.get(subject));
            let fresh = of_gateway.map_or(0, |it| it.fresh);
            let sighting = sighting.unwrap_or(&nothing);
            let mut events = incident.step(sighting, fresh, partial, now_ms, self.quiet_ms);
            if fresh == 0 && incident.is_open() && self.store.rollout_plan(gateway).await?.is_none()
            {
                events.extend(incident.remove(now_ms));
            }
            let context = self
                .context(gateway, earliest(open, gateway), now_ms)
                .await?;
            let news = incident.note_context(context);
            if !is_due(stored, &incident, news || !events.is_empty(), now_ms) {
                continue;
            }
            let (version, is_over) = (stored.version, !incident.is_open());
            match self
                .store
                .advance_incident(incident, version, now_ms)
                .await?
            {
                Some(stored) => {
                    self.publish(&stored.incident, &events).await;
                    if is_over {
                        open.remove(&key);
                    } else {
                        open.insert(key, stored);
                    }
                }
                // Another replica decides too: its word is in the database.
                None => return Err(contended()),
            }
        }
        Ok(())
    }

    /// Opens incidents for what fails and has none.
    async fn begin(
        &mut self,
        open: &mut BTreeMap<(GatewayName, Subject), StoredIncident>,
        seen: &BTreeMap<GatewayName, Sightings>,
        now_ms: u64,
    ) -> Result<(), Error> {
        for (gateway, sightings) in seen {
            for (subject, sighting) in &sightings.subjects {
                let key = (gateway.clone(), subject.clone());
                if open.contains_key(&key) || open.len() >= INCIDENTS_OPEN_MAX as usize {
                    continue;
                }
                let begun = Incident::open(gateway, subject, sighting, sightings.fresh, now_ms);
                let Some(mut incident) = begun else {
                    continue;
                };
                // A suspect may be younger than what was read of another incident.
                self.contexts.remove(gateway);
                let since_ms = incident.opened_ms.min(earliest(open, gateway));
                let context = self.context(gateway, since_ms, now_ms).await?;
                incident.note_context(context);
                match self.store.open_incident(incident, now_ms).await? {
                    Some(stored) => {
                        self.publish(&stored.incident, &[IncidentEvent::Opened])
                            .await;
                        open.insert(key, stored);
                    }
                    None => return Err(contended()),
                }
            }
        }
        Ok(())
    }

    /// What operators did in a gateway since shortly before a time.
    async fn context(
        &mut self,
        gateway: &GatewayName,
        opened_ms: u64,
        now_ms: u64,
    ) -> Result<&Context, Error> {
        let now = clock::now();
        let is_fresh = self
            .contexts
            .get(gateway)
            .is_some_and(|(_, read)| now.saturating_duration_since(*read) < CONTEXT_EVERY);
        if !is_fresh {
            let since_ms = opened_ms.saturating_sub(SUSPECT_WINDOW_MS);
            let context = self
                .store
                .gateway_context(gateway, since_ms, now_ms)
                .await?;
            self.contexts.insert(gateway.clone(), (context, now));
        }
        let (context, _) = self
            .contexts
            .entry(gateway.clone())
            .or_insert_with(|| (Context::default(), now));
        Ok(context)
    }

    async fn publish(&self, incident: &Incident, events: &[IncidentEvent]) {
        for event in events {
            self.metrics.timeline.event(event.as_str());
            tracing::info!(
                gateway = %incident.gateway,
                subject = %incident.subject,
                id = incident.id,
                scope = incident.scope.map(|scope| scope.as_str()),
                affected = incident.peak.affected,
                "{}",
                event.as_str()
            );
        }
        let hint = Hint::Incident {
            gateway: incident.gateway.clone(),
        };
        // A lost hint costs a second, not the truth.
        if let Err(error) = self.live.publish(hint).await {
            tracing::debug!(?error, "a hint was lost");
        }
    }
}

/// Whether an incident is to be written: at once when people should hear of it, else now and then.
fn is_due(stored: &StoredIncident, next: &Incident, news: bool, now_ms: u64) -> bool {
    let before = &stored.incident;
    news || before.scope != next.scope
        || before.state() != next.state()
        || before.unknown_since_ms != next.unknown_since_ms
        || (now_ms.saturating_sub(stored.updated_ms) >= COUNTS_EVERY_MS && before != next)
}

fn by_subject(open: Vec<StoredIncident>) -> BTreeMap<(GatewayName, Subject), StoredIncident> {
    open.into_iter()
        .map(|stored| {
            let incident = &stored.incident;
            ((incident.gateway.clone(), incident.subject.clone()), stored)
        })
        .collect()
}

/// When the earliest of a gateway's open incidents began.
fn earliest(open: &BTreeMap<(GatewayName, Subject), StoredIncident>, gateway: &GatewayName) -> u64 {
    let of_gateway = open.iter().filter(|((of, _), _)| of == gateway);
    let begun = of_gateway.map(|(_, stored)| stored.incident.opened_ms);
    begun.min().unwrap_or(u64::MAX)
}

/// Another replica wrote in between.
fn contended() -> Error {
    Error::Unavailable {
        store: "incidents",
        source: "another replica decides about them".into(),
    }
}

/// Waits for something that may concern an incident; false when no more hints will come.
async fn news(hints: &mut broadcast::Receiver<Hint>, decides: bool) -> bool {
    loop {
        match hints.recv().await {
            Ok(Hint::Report { .. }) if decides => return true,
            Err(broadcast::error::RecvError::Lagged(_)) if decides => return true,
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
