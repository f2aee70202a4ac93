//! Sliding sums of a fleet's traffic: what came within the last minute and the last ten minutes.
//!
//! Reports carry what happened since the report before, and over how long. A span that is longer
//! than a slot, as after an outage of the control plane, is spread over the slots that it covers, so
//! that nothing old counts as new.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::PoolTraffic;
use crate::ids::{GatewayName, PoolName};

/// Slots of the last minute.
const MINUTE: Slots = Slots {
    length: Duration::from_secs(5),
    count: 12,
};
/// Slots of the last ten minutes.
const TEN_MINUTES: Slots = Slots {
    length: Duration::from_secs(50),
    count: 12,
};
/// Pools of one gateway that are kept; a document has fewer.
const POOLS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Slots {
    length: Duration,
    count: u64,
}

/// One pool's traffic over the two spans that are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolWindows {
    /// Over the last minute.
    pub minute: PoolTraffic,
    /// Over the last ten minutes.
    pub ten_minutes: PoolTraffic,
}

impl PoolWindows {
    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        self.minute.add(&others.minute);
        self.ten_minutes.add(&others.ten_minutes);
    }
}

/// What one control plane heard of traffic, as it is published to readers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaTraffic {
    /// How much of the last minute it has listened to, in milliseconds.
    pub minute_ms: u64,
    /// How much of the last ten minutes it has listened to, in milliseconds.
    pub ten_minutes_ms: u64,
    /// Pools with any traffic in the last ten minutes.
    pub gateways: BTreeMap<GatewayName, BTreeMap<PoolName, PoolWindows>>,
}

impl ReplicaTraffic {
    /// Adds what another control plane heard.
    pub fn add(&mut self, other: &Self) {
        self.minute_ms = self.minute_ms.max(other.minute_ms);
        self.ten_minutes_ms = self.ten_minutes_ms.max(other.ten_minutes_ms);
        for (gateway, pools) in &other.gateways {
            let known = self.gateways.entry(gateway.clone()).or_default();
            for (pool, windows) in pools {
                known.entry(pool.clone()).or_default().add(windows);
            }
        }
    }
}

/// Sums over one span, in slots.
#[derive(Debug, Default)]
struct Ring(VecDeque<(u64, PoolTraffic)>);

impl Ring {
    fn add(&mut self, slot: u64, traffic: &PoolTraffic) {
        match self.0.iter_mut().rev().find(|(known, _)| *known == slot) {
            Some((_, sum)) => sum.add(traffic),
            None => {
                let place = self.0.iter().take_while(|(known, _)| *known < slot).count();
                self.0.insert(place, (slot, traffic.clone()));
            }
        }
    }

    fn forget_before(&mut self, slot: u64) {
        while self.0.front().is_some_and(|(known, _)| *known < slot) {
            self.0.pop_front();
        }
    }

    fn sum(&self) -> PoolTraffic {
        let mut sum = PoolTraffic::default();
        for (_, traffic) in &self.0 {
            sum.add(traffic);
        }
        sum
    }
}

#[derive(Debug, Default)]
struct PoolRings {
    minute: Ring,
    ten_minutes: Ring,
}

/// The traffic that the agents of one control plane report. Bounded by the pools of its gateways,
/// whatever the number of agents.
#[derive(Debug)]
pub struct TrafficBook {
    began: Instant,
    gateways: BTreeMap<GatewayName, BTreeMap<PoolName, PoolRings>>,
}

impl TrafficBook {
    /// A book that begins now.
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            gateways: BTreeMap::new(),
        }
    }

    /// Takes what came of a pool's requests on one agent since its report before, `over` ago.
    pub fn take(
        &mut self,
        gateway: &GatewayName,
        pool: &PoolName,
        traffic: &PoolTraffic,
        over: Duration,
        now: Instant,
    ) {
        if traffic.is_empty() {
            return;
        }
        let pools = match self.gateways.get_mut(gateway) {
            Some(known) => known,
            None => self.gateways.entry(gateway.clone()).or_default(),
        };
        let has_room = pools.len() < POOLS_MAX;
        let rings = match pools.get_mut(pool) {
            Some(known) => known,
            None if has_room => pools.entry(pool.clone()).or_default(),
            None => return,
        };
        spread(&mut rings.minute, MINUTE, traffic, over, self.began, now);
        let ten_minutes = &mut rings.ten_minutes;
        spread(ten_minutes, TEN_MINUTES, traffic, over, self.began, now);
    }

    /// What is to be published now. Forgets what is too old to be shown.
    pub fn publish(&mut self, now: Instant) -> ReplicaTraffic {
        let mut published = ReplicaTraffic {
            minute_ms: covered_ms(MINUTE, self.began, now),
            ten_minutes_ms: covered_ms(TEN_MINUTES, self.began, now),
            gateways: BTreeMap::new(),
        };
        for (gateway, pools) in &mut self.gateways {
            pools.retain(|_, rings| {
                rings.minute.forget_before(first(MINUTE, self.began, now));
                rings
                    .ten_minutes
                    .forget_before(first(TEN_MINUTES, self.began, now));
                !rings.ten_minutes.0.is_empty() || !rings.minute.0.is_empty()
            });
            let windows = pools.iter().map(|(pool, rings)| {
                let windows = PoolWindows {
                    minute: rings.minute.sum(),
                    ten_minutes: rings.ten_minutes.sum(),
                };
                (pool.clone(), windows)
            });
            published
                .gateways
                .insert(gateway.clone(), windows.collect());
        }
        self.gateways.retain(|_, pools| !pools.is_empty());
        published.gateways.retain(|_, pools| !pools.is_empty());
        published
    }
}

/// Adds `traffic` to the slots of the last `over`, evenly.
fn spread(
    ring: &mut Ring,
    slots: Slots,
    traffic: &PoolTraffic,
    over: Duration,
    began: Instant,
    now: Instant,
) {
    let newest = slot_at(slots, began, now);
    ring.forget_before(first(slots, began, now));
    // A usual report interval is not cut up: its edges are no more exact than a slot is.
    let length_ms = slots.length.as_millis().max(1);
    let parts = u64::try_from(over.as_millis() / length_ms / 2)
        .unwrap_or(u64::MAX)
        .max(1);
    if parts == 1 {
        ring.add(newest, traffic);
        return;
    }
    let parts = u64::try_from(over.as_millis().div_ceil(length_ms)).unwrap_or(u64::MAX);
    for back in 0..parts.min(slots.count) {
        let Some(slot) = newest.checked_sub(back) else {
            return;
        };
        let piece = traffic.piece(back, parts);
        if !piece.is_empty() {
            ring.add(slot, &piece);
        }
    }
}

fn slot_at(slots: Slots, began: Instant, at: Instant) -> u64 {
    let since = at.saturating_duration_since(began).as_millis();
    // The first slot leaves room below it for what happened before this began.
    u64::try_from(since / slots.length.as_millis().max(1))
        .unwrap_or(u64::MAX)
        .saturating_add(slots.count)
}

/// The oldest slot that is shown.
fn first(slots: Slots, began: Instant, now: Instant) -> u64 {
    slot_at(slots, began, now).saturating_sub(slots.count - 1)
}

/// How much of the span lies in the slots that are shown.
fn covered_ms(slots: Slots, began: Instant, now: Instant) -> u64 {
    let since = now.saturating_duration_since(began).as_millis();
    let length = slots.length.as_millis().max(1);
    let full = length * u128::from(slots.count - 1) + since % length;
    u64::try_from(since.min(full)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
