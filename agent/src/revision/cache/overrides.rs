//! The operators' latest overrides, for a start that finds no control plane.
//!
//! What is left of an override is kept with the moment of the write, by two clocks: the time since
//! the machine's start, which nobody sets, and the wall clock, for a start of the machine in
//! between. The larger difference counts, so no step of the wall clock makes an override longer
//! while the machine runs. The file is written again while overrides are active, so that a machine
//! that was off and whose clock was set back meanwhile adds little more than the time it was off.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::{Override, OverrideAction};
use lanekeeper_proto::limits::{NAME_BYTES_MAX, OVERRIDES_MAX};
use serde::{Deserialize, Serialize};

use super::{Cache, Error, UNFINISHED, seal, unseal};
use crate::clock;

/// The file. Its name and layout are those of the first release, so that an update keeps it.
const FILE: &str = "orders";
/// First word of the header.
const MAGIC: &str = "lanekeeper-orders";
/// Largest file that is read: the most overrides with the longest names, in JSON.
const FILE_BYTES_MAX: u64 = (OVERRIDES_MAX * (8 * NAME_BYTES_MAX + 256)) as u64;
/// Time between two writes while overrides are active.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// A moment that can be compared with one after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Wall time in unix milliseconds.
    pub(crate) wall_ms: u64,
    /// Names the start of the machine, where the system does.
    pub(crate) boot: Option<String>,
    /// Milliseconds since the start of the machine.
    pub(crate) uptime_ms: u64,
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

    /// The milliseconds that have passed since an earlier moment, as far as is known.
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

/// Overrides as they are kept: with what was left of each when they were written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptOverrides {
    gateway: String,
    written: Moment,
    #[serde(rename = "orders")]
    overrides: Vec<Override>,
}

impl KeptOverrides {
    /// Overrides of a gateway as they are at a moment.
    pub(crate) fn new(gateway: String, overrides: Vec<Override>, written: Moment) -> Self {
        Self {
            gateway,
            written,
            overrides,
        }
    }

    /// Those of `gateway` that are active at a later moment, with what is left of each.
    pub(crate) fn active(&self, gateway: &str, now: &Moment) -> Vec<Override> {
        if self.gateway != gateway {
            return Vec::new();
        }
        left(&self.overrides, now.since(&self.written))
    }
}

/// What is left of some overrides after `passed_ms`.
fn left(overrides: &[Override], passed_ms: u64) -> Vec<Override> {
    let left = |active: &Override| {
        let remaining_ms = active.remaining_ms.saturating_sub(passed_ms);
        (remaining_ms > 0).then(|| Override {
            remaining_ms,
            ..active.clone()
        })
    };
    overrides.iter().filter_map(left).collect()
}

/// A set that was received.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    overrides: Arc<[Override]>,
    received: Instant,
}

impl Held {
    /// Of the overrides those that last: a reset is over once it is carried out.
    pub(crate) fn new(overrides: &[Override], received: Instant) -> Self {
        let lasting = overrides
            .iter()
            .filter(|it| it.action != OverrideAction::Reset);
        Self {
            overrides: lasting.cloned().collect(),
            received,
        }
    }

    /// What is still active, with what is left of it.
    pub(crate) fn at(&self, now: Instant) -> Vec<Override> {
        left(
            &self.overrides,
            millis(now.saturating_duration_since(self.received)),
        )
    }
}

impl Cache {
    /// Keeps the overrides that are active now in place of those before.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: the overrides before are kept.
    pub(super) fn store_overrides(
        &self,
        overrides: Vec<Override>,
        now: Moment,
    ) -> Result<(), Error> {
        if overrides.is_empty() {
            return match fs::remove_file(self.path(FILE)) {
                Ok(()) => self.sync_dir(),
                Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(source) => Err(self.io(FILE, source)),
            };
        }
        self.make_dir()?;
        let kept = KeptOverrides::new(self.gateway.clone(), overrides, now);
        let unfinished = format!("{}-orders{UNFINISHED}", self.instance);
        let written = self
            .write_synced(&unfinished, &seal(MAGIC, &kept)?)
            .and_then(|()| self.rename(&unfinished, FILE))
            .and_then(|()| self.sync_dir());
        if written.is_err() {
            // A full disk is better served without it; that it is gone already is no fault.
            let _ = fs::remove_file(self.path(&unfinished));
        }
        written
    }

    /// The overrides of this gateway that are not over.
    ///
    /// # Errors
    ///
    /// [`Error`] when there are some that cannot be read.
    pub(super) fn read_overrides(&self, now: &Moment) -> Result<Vec<Override>, Error> {
        let Some(bytes) = self.read_bytes(FILE, FILE_BYTES_MAX)? else {
            return Ok(Vec::new());
        };
        let kept: KeptOverrides =
            unseal(MAGIC, &bytes, FILE_BYTES_MAX).map_err(|reason| Error::Damaged {
                path: self.path(FILE),
                reason,
            })?;
        Ok(kept.active(&self.gateway, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;
    const HOUR_MS: u64 = 3_600_000;

    fn an_override(id: &str, action: OverrideAction, remaining_ms: u64) -> Override {
        Override {
            id: id.to_owned(),
            pool: None,
            lane: "gpt".into(),
            provider: None,
            action,
            remaining_ms,
        }
    }

    fn hour(id: &str) -> Override {
        an_override(id, OverrideAction::ForceOpen, HOUR_MS)
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
            .store_overrides(vec![hour("a"), hour("b")], written())
            .unwrap();
        dir
    }

    #[test]
    fn overrides_come_back_with_what_is_left_of_them_whatever_the_clocks_show() {
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
            let active = cache(&dir).read_overrides(&now).unwrap();
            let left: Vec<u64> = active.iter().map(|it| it.remaining_ms).collect();
            let expected = if left_ms > 0 {
                vec![left_ms; 2]
            } else {
                vec![]
            };
            assert_eq!(left, expected, "{now:?}");
        }
    }

    #[test]
    fn this_machine_knows_how_long_it_has_run() {
        let moment = Moment::at(NOW_MS);
        assert_eq!(moment.boot.is_some(), moment.uptime_ms > 0);
        assert_eq!(Moment::at(NOW_MS).boot, moment.boot);
    }

    #[test]
    fn what_is_written_again_is_what_is_left() {
        let received = clock::now();
        let resets = an_override("r", OverrideAction::Reset, 60_000);
        let short = an_override("s", OverrideAction::Drain, 1_000);
        let held = Held::new(&[hour("a"), resets, short], received);
        assert_eq!(held.at(received).len(), 2, "a reset is not kept");
        let later = held.at(received + Duration::from_secs(60));
        assert_eq!(later.len(), 1);
        assert_eq!(later[0].remaining_ms, 3_540_000);
    }

    #[test]
    fn an_empty_set_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        cache(&dir).store_overrides(Vec::new(), written()).unwrap();
        let dir = kept();
        assert!(dir.path().join(FILE).exists());
        cache(&dir).store_overrides(Vec::new(), written()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_and_one_of_another_gateway_hold_no_overrides() {
        let dir = kept();
        let other = Cache::new(dir.path(), "other", "instance");
        assert_eq!(other.read_overrides(&written()).unwrap(), []);
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        let read = || cache(&dir).read_overrides(&written());
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
