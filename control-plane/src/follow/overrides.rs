//! Follows the operators' orders and tells sessions which ones stand for their gateways.
//!
//! A poll of counters is the truth and hints only bring it forward, as with revisions. While the
//! database is away the known orders go on being sent; they end by their own time.

use std::collections::BTreeMap;
use std::sync::Arc;

use lanekeeper_model::ActiveOverride;
use lanekeeper_store::{ConfigStore, Error, Hint, OVERRIDES_STANDING_MAX, Standing};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::clock;
use crate::follow::poll::Polled;

const _: () = assert!(
    OVERRIDES_STANDING_MAX as usize <= lanekeeper_proto::limits::OVERRIDES_MAX,
    "a whole set fits into one message"
);

/// The orders of one gateway, shared by all its sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StandingOrders {
    /// The gateway's counter of changes.
    pub(crate) generation: u64,
    /// The orders that stood when they were read, the earliest first.
    pub(crate) orders: Vec<ActiveOverride>,
}

impl From<Standing> for StandingOrders {
    fn from(standing: Standing) -> Self {
        Self {
            generation: standing.generation,
            orders: standing.rows.into_iter().map(|row| row.order).collect(),
        }
    }
}

/// What a session follows; `None` until the orders were read.
pub(crate) type Subscription = watch::Receiver<Option<Arc<StandingOrders>>>;

/// The followed orders.
pub(crate) struct OverrideWatch {
    store: ConfigStore,
    known: Mutex<Known>,
    wanted: Notify,
}

impl OverrideWatch {
    pub(crate) fn new(store: ConfigStore) -> Arc<Self> {
        Arc::new(Self {
            store,
            known: Mutex::default(),
            wanted: Notify::new(),
        })
    }

    /// Follows the orders of a gateway, existing or not.
    pub(crate) fn subscribe(&self, gateway: &str) -> Subscription {
        let subscription = self.known.lock().subscribe(gateway);
        if subscription.borrow().is_none() {
            self.wanted.notify_one();
        }
        subscription
    }
}

impl Polled for OverrideWatch {
    const WHAT: &'static str = "the overrides";
    /// Even without a hint, and late by the jitter, an order is found within its second.
    const SHARE: f64 = 0.75;

    fn heeds(hint: &Hint) -> bool {
        matches!(hint, Hint::Overrides { .. })
    }

    fn wanted(&self) -> &Notify {
        &self.wanted
    }

    async fn poll(&self) -> Result<(), Error> {
        let epoch = self.store.control_epoch().await?;
        let generations = self.store.override_generations().await?;
        let lacking = self.known.lock().take(epoch, &generations);
        for gateway in lacking {
            let standing = self
                .store
                .standing_overrides(&gateway, clock::unix_ms())
                .await?;
            self.known.lock().learn(&gateway, standing.into());
        }
        Ok(())
    }
}

/// What is known of the gateways that sessions follow.
#[derive(Default)]
pub(crate) struct Known {
    /// The database's history, within which a counter only grows.
    epoch: String,
    gateways: BTreeMap<String, watch::Sender<Option<Arc<StandingOrders>>>>,
}

impl Known {
    /// Follows a gateway.
    pub(crate) fn subscribe(&mut self, gateway: &str) -> Subscription {
        let sender = self.gateways.entry(gateway.to_owned()).or_default();
        sender.subscribe()
    }

    /// Takes the counters of all gateways and names those whose orders are to be read. Gateways
    /// that no session follows are forgotten.
    pub(crate) fn take(
        &mut self,
        epoch: String,
        generations: &BTreeMap<String, u64>,
    ) -> Vec<String> {
        let restored = self.epoch != epoch;
        self.epoch = epoch;
        self.gateways
            .retain(|_, sender| sender.receiver_count() > 0);
        if restored {
            // What is known is of another history, and stays unknown however often reading fails.
            for sender in self.gateways.values() {
                sender.send_if_modified(|known| known.take().is_some());
            }
        }
        let mut lacking = Vec::new();
        for (gateway, sender) in &self.gateways {
            let known = sender.borrow().as_ref().map(|orders| orders.generation);
            match generations.get(gateway) {
                Some(generation) if known != Some(*generation) => {
                    lacking.push(gateway.clone());
                }
                None if known != Some(0) => {
                    sender.send_replace(Some(Arc::default()));
                }
                Some(_) | None => {}
            }
        }
        lacking
    }

    pub(crate) fn learn(&mut self, gateway: &str, orders: StandingOrders) {
        if let Some(sender) = self.gateways.get(gateway) {
            sender.send_replace(Some(Arc::new(orders)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generations(of_edge: u64) -> BTreeMap<String, u64> {
        BTreeMap::from([("edge".to_owned(), of_edge), ("other".to_owned(), 9)])
    }

    fn orders(generation: u64) -> StandingOrders {
        StandingOrders {
            generation,
            orders: Vec::new(),
        }
    }

    fn known(subscription: &Subscription) -> Option<u64> {
        subscription.borrow().as_ref().map(|it| it.generation)
    }

    #[test]
    fn orders_are_read_once_for_each_count_of_a_followed_gateway() {
        let mut known_orders = Known::default();
        let sender = watch::Sender::default();
        let subscription = sender.subscribe();
        known_orders.gateways.insert("edge".to_owned(), sender);
        let epoch = || "first".to_owned();
        assert_eq!(known_orders.take(epoch(), &generations(3)), ["edge"]);
        assert_eq!(known(&subscription), None, "unknown is not empty");
        known_orders.learn("edge", orders(3));
        assert_eq!(known(&subscription), Some(3));
        assert!(known_orders.take(epoch(), &generations(3)).is_empty());
        assert_eq!(known_orders.take(epoch(), &generations(4)), ["edge"]);
        known_orders.learn("edge", orders(4));
        assert_eq!(
            known_orders.take("restored".to_owned(), &generations(4)),
            ["edge"],
            "the same count of another history is something else"
        );
        assert_eq!(known(&subscription), None);
        assert_eq!(
            known_orders.take("restored".to_owned(), &generations(4)),
            ["edge"],
            "and is so until it was read"
        );
    }

    #[test]
    fn gateway_that_never_had_an_order_needs_no_reading() {
        let mut known_orders = Known::default();
        let sender = watch::Sender::default();
        let subscription = sender.subscribe();
        known_orders.gateways.insert("new".to_owned(), sender);
        assert!(
            known_orders
                .take("first".to_owned(), &generations(3))
                .is_empty()
        );
        assert_eq!(known(&subscription), Some(0));
    }

    #[test]
    fn gateways_that_no_session_follows_are_forgotten() {
        let mut known_orders = Known::default();
        known_orders
            .gateways
            .insert("edge".to_owned(), watch::Sender::default());
        assert!(
            known_orders
                .take("first".to_owned(), &generations(3))
                .is_empty()
        );
        assert!(known_orders.gateways.is_empty());
    }
}
