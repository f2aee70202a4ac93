//! An API process: it follows the live view and folds the fleet, as `dashboard-api` does in
//! `gather`.

use crate::checker::Checker;
use crate::documents::GATEWAY;
use crate::live::{Live, Place};
use crate::store::Store;
use lanekeeper_model::fleet::{AdviceRules, FleetIndex, GatewayCells, reports_freshly};
use lanekeeper_model::{AgentRecord, FleetView, FreshWindows, Gateway, ViewQuery, check_json};
use lanekeeper_store::{AgentFacts, Changes, RECORD_TTL, SHARE_OVERDUE, SHARE_TTL, SeenShare};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
pub struct Reader {
    number: usize,
    skew_ms: i64,
    place: Place,
    pub index: FleetIndex,
    live: BTreeMap<String, (Arc<AgentRecord>, Duration)>,
    remembered: BTreeMap<String, Arc<AgentRecord>>,
    shares: BTreeMap<String, (SeenShare, Duration)>,
    cells: Option<(u64, String)>,
    pub partial: bool,
    pub windows: FreshWindows,
}

impl Reader {
    pub fn new(number: usize, skew_ms: i64) -> Self {
        Self {
            number,
            skew_ms,
            ..Self::default()
        }
    }

    /// Its wall clock.
    pub fn now_ms(&self, true_ms: u64) -> u64 {
        true_ms.saturating_add_signed(self.skew_ms)
    }

    /// Reads everything that can be read and shows it to the checker.
    pub fn read(
        &mut self,
        live: &Live,
        store: Option<&Store>,
        checker: &mut Checker,
        now: Duration,
        true_ms: u64,
    ) {
        let mut partial = false;
        match store {
            Some(store) => {
                self.take_facts(store.facts());
                self.take_cells(store);
            }
            None => partial = true,
        }
        match live.changes(&mut self.place, now) {
            Ok(changes) => self.take_changes(changes, now),
            Err(_) => partial = true,
        }
        match live.shares(now) {
            Ok(shares) => {
                for share in shares {
                    self.shares.insert(share.replica.clone(), (share, now));
                }
            }
            Err(_) => partial = true,
        }
        let age = |(share, read): &(SeenShare, Duration)| share.age + now.saturating_sub(*read);
        self.shares
            .retain(|_, known| age(known) < SHARE_TTL && !known.0.share.left);
        let missing = self.shares.values().any(|known| {
            let share = known.0.share;
            share.rewriting || (share.sessions > 0 && age(known) > SHARE_OVERDUE)
        });
        self.partial = partial || missing;
        self.show(checker, now, true_ms);
    }

    fn take_changes(&mut self, changes: Changes, now: Duration) {
        let outdated = |record: &AgentRecord| {
            let remembered = self.remembered.get(&record.instance);
            remembered.is_some_and(|it| it.session_epoch > record.session_epoch)
        };
        let records = changes.records.into_iter().filter(|it| !outdated(it));
        let records: Vec<_> = records.collect();
        if changes.is_whole {
            let mut before = std::mem::take(&mut self.live);
            for record in &records {
                before.remove(&record.instance);
            }
            for instance in before.into_keys() {
                self.lose(&instance);
            }
        }
        for (_, instance) in changes.gone {
            self.live.remove(&instance);
            self.lose(&instance);
        }
        for record in records {
            self.index.put(Arc::clone(&record));
            self.live.insert(record.instance.clone(), (record, now));
        }
        let expired = self
            .live
            .iter()
            .filter(|(_, (_, at))| now.saturating_sub(*at) > RECORD_TTL);
        let expired: Vec<String> = expired.map(|(instance, _)| instance.clone()).collect();
        for instance in expired {
            self.live.remove(&instance);
            self.lose(&instance);
        }
    }

    fn lose(&mut self, instance: &str) {
        match self.remembered.get(instance) {
            Some(record) => self.index.put(Arc::clone(record)),
            None => self.index.remove(GATEWAY, instance),
        }
    }

    fn take_facts(&mut self, facts: &BTreeMap<String, AgentFacts>) {
        let before = std::mem::take(&mut self.remembered);
        let silent = facts.values().map(|facts| {
            let record = facts.clone().into_silent_record();
            (facts.instance.clone(), Arc::new(record))
        });
        self.remembered = silent.collect();
        for (instance, record) in &self.remembered {
            let heard = self
                .live
                .get(instance)
                .map(|(heard, _)| heard.session_epoch);
            if heard.is_none_or(|session_epoch| session_epoch < record.session_epoch) {
                self.live.remove(instance);
                self.index.put(Arc::clone(record));
            }
        }
        for instance in before.into_keys() {
            if !self.remembered.contains_key(&instance) && !self.live.contains_key(&instance) {
                self.index.remove(GATEWAY, &instance);
            }
        }
    }

    fn take_cells(&mut self, store: &Store) {
        let (revision, hash) = store.head();
        let head = (revision, hash.to_owned());
        if self.cells.as_ref() == Some(&head) {
            return;
        }
        let stored = store.revision(revision).map(|it| it.document);
        let gateway: Option<Gateway> =
            stored.and_then(|document| check_json(&document).ok().map(|checked| checked.gateway));
        if let Some(gateway) = gateway {
            let cells = GatewayCells {
                name: GATEWAY.into(),
                revision,
                cells: gateway.cells(),
                rules: AdviceRules::of(&gateway),
            };
            self.index.configure(&[cells]);
        }
        self.cells = Some(head);
    }

    /// The view as callers get it.
    pub fn view(&self, true_ms: u64) -> FleetView {
        let query = ViewQuery {
            include_closed: true,
            ..ViewQuery::default()
        };
        self.index.view(&query, self.now_ms(true_ms), self.windows)
    }

    /// The instances that are counted as reporting.
    pub fn fresh(&self, true_ms: u64) -> Vec<&Arc<AgentRecord>> {
        let now_ms = self.now_ms(true_ms);
        let records = self.index.records();
        records
            .filter(|record| reports_freshly(record, now_ms, self.windows))
            .collect()
    }

    fn show(&self, checker: &mut Checker, now: Duration, true_ms: u64) {
        let now_ms = self.now_ms(true_ms);
        let mut live = 0;
        for record in self.index.records() {
            let fresh = reports_freshly(record, now_ms, self.windows);
            live += u64::from(fresh);
            checker.shows(self.number, record, fresh, now);
        }
        let view = self.view(true_ms);
        if view.agents.live != live {
            checker.broken("I5", format!("{} live agents of {live}", view.agents.live));
        }
        for cell in &view.cells {
            let agents = cell.agents;
            let counted = agents.closed + agents.open + agents.half_open;
            if counted != agents.reporting || agents.reporting > live {
                checker.broken("I5", format!("{live} live agents and {cell:?}"));
            }
        }
    }
}
