//! The operators' latest orders, for a start that finds no control plane.
//!
//! What is left of an order is kept with the moment of the write, which is told twice: by the time
//! since the machine's start, which nobody sets, and by the wall clock, for a start of the machine in
//! between. Whichever says that more time has passed counts, so no step of the wall clock makes an
//! order longer while the machine runs. The file is written again while orders stand, so that a
//! machine that was off and whose clock was set back meanwhile adds little more than the time it was
//! off.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::{Override, OverrideAction};
use lanekeeper_proto::limits::{NAME_BYTES_MAX, OVERRIDES_MAX};
use serde::{Deserialize, Serialize};

use super::{Cache, Error, UNFINISHED, seal, unseal};
use crate::clock;

const ORDERS: &str = "orders";
/// First word of the header.
const MAGIC: &str = "lanekeeper-orders";
/// Largest file that is read: the most orders with the longest names, in JSON.
const FILE_BYTES_MAX: u64 = (OVERRIDES_MAX * (8 * NAME_BYTES_MAX + 256)) as u64;
/// Time between two writes while orders stand.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// A moment as it can be told after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// Wall time in unix milliseconds.
    wall_ms: u64,
    /// Names the start of the machine, where the system does.
    boot: Option<String>,
    /// Since the start of the machine.
    uptime_ms: u64,
}

impl Moment {
    /// This moment, at wall time `wall_ms`.
    pub(super) fn at(wall_ms: u64) -> Self {
        let boot = clock::boot();
        Self {
            wall_ms,
            uptime_ms: boot.as_ref().map_or(0, |(_, since)| millis(*since)),
            boot: boot.map(|(id, _)| id),
        }
    }

    /// The milliseconds that have passed since an earlier moment, as far as can be told.
    fn since(&self, earlier: &Self) -> u64 {
        let by_wall = self.wall_ms.saturating_sub(earlier.wall_ms);
        let same_boot = self.boot.is_some() && self.boot == earlier.boot;
        let by_uptime = self.uptime_ms.saturating_sub(earlier.uptime_ms);
        if same_boot {
            by_wall.max(by_uptime)
        } else {
            by_wall
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    gateway: String,
    written: Moment,
    /// With what was left when they were written.
    orders: Vec<Override>,
}

/// What is left of some orders after `passed_ms`.
fn left(orders: &[Override], passed_ms: u64) -> Vec<Override> {
    let left = |order: &Override| {
        let remaining_ms = order.remaining_ms.saturating_sub(passed_ms);
        (remaining_ms > 0).then(|| Override {
            remaining_ms,
            ..order.clone()
        })
    };
    orders.iter().filter_map(left).collect()
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
        left(
            &self.orders,
            millis(now.saturating_duration_since(self.received)),
        )
    }
}

impl Cache {
    /// Keeps the orders that stand now in place of those before.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: the orders before are kept.
    pub(super) fn store_orders(&self, orders: Vec<Override>, now: Moment) -> Result<(), Error> {
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
            written: now,
            orders,
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
    pub(super) fn read_orders(&self, now: &Moment) -> Result<Vec<Override>, Error> {
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
        Ok(left(&kept.orders, now.since(&kept.written)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;
    const HOUR_MS: u64 = 3_600_000;

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
        order(id, OverrideAction::ForceOpen, HOUR_MS)
    }

    /// A moment of the machine's start `boot`.
    fn moment(boot: &str, wall_ms: u64, uptime_ms: u64) -> Moment {
        Moment {
            wall_ms,
            boot: Some(boot.to_owned()),
            uptime_ms,
        }
    }

    fn written() -> Moment {
        moment("a", NOW_MS, 1_000)
    }

    fn cache(dir: &tempfile::TempDir) -> Cache {
        Cache::new(dir.path(), "edge", "instance")
    }

    fn kept() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        cache(&dir)
            .store_orders(vec![hour("a"), hour("b")], written())
            .unwrap();
        dir
    }

    #[test]
    fn orders_come_back_with_what_is_left_of_them_whatever_the_clocks_say() {
        let dir = kept();
        for (now, left_ms) in [
            (moment("a", NOW_MS + 600_000, 601_000), 3_000_000),
            (moment("a", NOW_MS + HOUR_MS, 1_000 + HOUR_MS), 0),
            // The wall clock was set back, the process started again.
            (moment("a", NOW_MS - 5 * HOUR_MS, 601_000), 3_000_000),
            (moment("a", 0, 1_000 + HOUR_MS), 0),
            // It was set forward.
            (moment("a", NOW_MS + 9 * HOUR_MS, 601_000), 0),
            // The machine started again.
            (moment("b", NOW_MS + 600_000, 10), 3_000_000),
            (moment("b", NOW_MS - HOUR_MS, 10), HOUR_MS),
            (moment("b", NOW_MS - HOUR_MS, 9 * HOUR_MS), HOUR_MS),
        ] {
            let orders = cache(&dir).read_orders(&now).unwrap();
            let left: Vec<u64> = orders.iter().map(|order| order.remaining_ms).collect();
            let expected = if left_ms > 0 {
                vec![left_ms; 2]
            } else {
                vec![]
            };
            assert_eq!(left, expected, "{now:?}");
        }
    }

    #[test]
    fn this_machine_tells_how_long_it_has_run() {
        let moment = Moment::at(NOW_MS);
        assert_eq!(moment.boot.is_some(), moment.uptime_ms > 0);
        assert_eq!(Moment::at(NOW_MS).boot, moment.boot);
    }

    #[test]
    fn what_is_written_again_is_what_is_left() {
        let received = clock::now();
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
        cache(&dir).store_orders(Vec::new(), written()).unwrap();
        let dir = kept();
        assert!(dir.path().join(ORDERS).exists());
        cache(&dir).store_orders(Vec::new(), written()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_and_one_of_another_gateway_hold_no_orders() {
        let dir = kept();
        let other = Cache::new(dir.path(), "other", "instance");
        assert_eq!(other.read_orders(&written()).unwrap(), []);
        let path = dir.path().join(ORDERS);
        let whole = fs::read(&path).unwrap();
        let read = || cache(&dir).read_orders(&written());
        for length in (0..whole.len()).step_by(13) {
            fs::write(&path, &whole[..length]).unwrap();
            let damaged = read().unwrap_err().to_string();
            assert!(damaged.contains("orders is damaged"), "{damaged}");
        }
        let text = String::from_utf8(whole).unwrap();
        fs::write(&path, text.replace("gpt", "gpu")).unwrap();
        read().unwrap_err();
    }
}
