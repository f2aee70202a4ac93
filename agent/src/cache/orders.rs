//! The operators' latest orders, for a start that finds no control plane.
//!
//! The end of an order is kept twice: as a wall time, since time passes while no process runs, and as
//! what was left at the last write, since the wall clock may be set back meanwhile. The earlier of
//! the two counts, and the file is written again while orders stand, so that an order outlives its
//! end by [`REFRESH_INTERVAL`] at most, and that only where the clock was set back.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::{Override, OverrideAction};
use lanekeeper_proto::limits::{NAME_BYTES_MAX, OVERRIDES_MAX};
use serde::{Deserialize, Serialize};

use super::{Cache, Error, UNFINISHED, seal, unseal};

const ORDERS: &str = "orders";
/// First word of the header.
const MAGIC: &str = "lanekeeper-orders";
/// Largest file that is read: the most orders with the longest names, in JSON.
const FILE_BYTES_MAX: u64 = (OVERRIDES_MAX * (8 * NAME_BYTES_MAX + 256)) as u64;
/// Time between two writes while orders stand.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    gateway: String,
    orders: Vec<KeptOrder>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptOrder {
    /// With what was left when it was written.
    #[serde(flatten)]
    order: Override,
    /// When it ends, wall time in unix milliseconds.
    ends_ms: u64,
}

impl KeptOrder {
    /// What is left of it; `None` when it is over.
    fn at(self, now_ms: u64) -> Option<Override> {
        let by_wall = self.ends_ms.saturating_sub(now_ms);
        let remaining_ms = self.order.remaining_ms.min(by_wall);
        (remaining_ms > 0).then_some(Override {
            remaining_ms,
            ..self.order
        })
    }
}

/// A set that was received.
#[derive(Debug, Clone)]
pub(super) struct Held {
    orders: Arc<[Override]>,
    received: Instant,
}

impl Held {
    /// Of the orders those that last: a reset is over once it is carried out.
    pub(super) fn new(orders: &[Override], received: Instant) -> Self {
        let lasting = orders
            .iter()
            .filter(|order| order.action != OverrideAction::Reset);
        Self {
            orders: lasting.cloned().collect(),
            received,
        }
    }

    /// What still stands, with what is left of it.
    pub(super) fn at(&self, now: Instant) -> Vec<Override> {
        let passed = now.saturating_duration_since(self.received).as_millis();
        let passed_ms = u64::try_from(passed).unwrap_or(u64::MAX);
        let left = |order: &Override| {
            let remaining_ms = order.remaining_ms.saturating_sub(passed_ms);
            (remaining_ms > 0).then(|| Override {
                remaining_ms,
                ..order.clone()
            })
        };
        self.orders.iter().filter_map(left).collect()
    }
}

impl Cache {
    /// Keeps the orders that stand at `now_ms`, wall time in unix milliseconds, in place of those
    /// before.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: the orders before are kept.
    pub(super) fn store_orders(&self, orders: Vec<Override>, now_ms: u64) -> Result<(), Error> {
        if orders.is_empty() {
            return match fs::remove_file(self.path(ORDERS)) {
                Ok(()) => self.sync_dir(),
                Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(source) => Err(self.io(ORDERS, source)),
            };
        }
        self.make_dir()?;
        let kept = Kept {
            gateway: self.gateway.clone(),
            orders: orders
                .into_iter()
                .map(|order| KeptOrder {
                    ends_ms: now_ms.saturating_add(order.remaining_ms),
                    order,
                })
                .collect(),
        };
        let unfinished = format!("{}-orders{UNFINISHED}", self.instance);
        let written = self
            .write_synced(&unfinished, &seal(MAGIC, &kept)?)
            .and_then(|()| self.rename(&unfinished, ORDERS))
            .and_then(|()| self.sync_dir());
        if written.is_err() {
            // A full disk is better served without it; that it is gone already is no fault.
            let _ = fs::remove_file(self.path(&unfinished));
        }
        written
    }

    /// The orders of this gateway that are not over.
    ///
    /// # Errors
    ///
    /// [`Error`] when there are some that cannot be read.
    pub(super) fn read_orders(&self, now_ms: u64) -> Result<Vec<Override>, Error> {
        let Some(bytes) = self.read_bytes(ORDERS, FILE_BYTES_MAX)? else {
            return Ok(Vec::new());
        };
        let kept: Kept =
            unseal(MAGIC, &bytes, FILE_BYTES_MAX).map_err(|reason| Error::Damaged {
                path: self.path(ORDERS),
                reason,
            })?;
        if kept.gateway != self.gateway {
            return Ok(Vec::new());
        }
        let left = kept.orders.into_iter().filter_map(|kept| kept.at(now_ms));
        Ok(left.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn order(id: &str, action: OverrideAction, remaining_ms: u64) -> Override {
        Override {
            id: id.to_owned(),
            pool: None,
            lane: "gpt".into(),
            action,
            remaining_ms,
        }
    }

    fn hour(id: &str) -> Override {
        order(id, OverrideAction::ForceOpen, 3_600_000)
    }

    fn cache(dir: &tempfile::TempDir) -> Cache {
        Cache::new(dir.path(), "edge", "instance")
    }

    fn left(dir: &tempfile::TempDir, now_ms: u64) -> Vec<u64> {
        let orders = cache(dir).read_orders(now_ms).unwrap();
        orders.iter().map(|order| order.remaining_ms).collect()
    }

    #[test]
    fn an_order_comes_back_with_what_is_left_of_it() {
        let dir = tempfile::tempdir().unwrap();
        cache(&dir)
            .store_orders(vec![hour("a"), hour("b")], NOW_MS)
            .unwrap();
        let orders = cache(&dir).read_orders(NOW_MS + 600_000).unwrap();
        let ids: Vec<&str> = orders.iter().map(|order| order.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(left(&dir, NOW_MS + 600_000), [3_000_000, 3_000_000]);
        assert_eq!(left(&dir, NOW_MS + 3_600_000), [] as [u64; 0]);
    }

    #[test]
    fn no_step_of_the_wall_clock_makes_an_order_longer() {
        let dir = tempfile::tempdir().unwrap();
        cache(&dir).store_orders(vec![hour("a")], NOW_MS).unwrap();
        for back_ms in [1, 3_600_000, 10 * 3_600_000, NOW_MS] {
            assert_eq!(left(&dir, NOW_MS - back_ms), [3_600_000], "{back_ms}");
        }
        assert_eq!(left(&dir, NOW_MS + 30 * 3_600_000), [] as [u64; 0]);
    }

    #[test]
    fn what_is_written_again_is_what_is_left() {
        let received = crate::clock::now();
        let resets = order("r", OverrideAction::Reset, 60_000);
        let short = order("s", OverrideAction::Drain, 1_000);
        let held = Held::new(&[hour("a"), resets, short], received);
        assert_eq!(held.at(received).len(), 2, "a reset is not kept");
        let later = held.at(received + Duration::from_secs(60));
        assert_eq!(later.len(), 1);
        assert_eq!(later[0].remaining_ms, 3_540_000);
    }

    #[test]
    fn an_empty_set_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        cache.store_orders(Vec::new(), NOW_MS).unwrap();
        cache.store_orders(vec![hour("a")], NOW_MS).unwrap();
        assert!(dir.path().join(ORDERS).exists());
        cache.store_orders(Vec::new(), NOW_MS).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_and_one_of_another_gateway_hold_no_orders() {
        let dir = tempfile::tempdir().unwrap();
        cache(&dir).store_orders(vec![hour("a")], NOW_MS).unwrap();
        let other = Cache::new(dir.path(), "other", "instance");
        assert_eq!(other.read_orders(NOW_MS).unwrap(), []);
        let path = dir.path().join(ORDERS);
        let whole = fs::read(&path).unwrap();
        for length in (0..whole.len()).step_by(13) {
            fs::write(&path, &whole[..length]).unwrap();
            let damaged = cache(&dir).read_orders(NOW_MS).unwrap_err().to_string();
            assert!(damaged.contains("orders is damaged"), "{damaged}");
        }
        let text = String::from_utf8(whole).unwrap();
        fs::write(&path, text.replace("gpt", "gpu")).unwrap();
        cache(&dir).read_orders(NOW_MS).unwrap_err();
    }
}
