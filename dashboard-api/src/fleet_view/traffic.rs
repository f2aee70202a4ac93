//! The traffic of all control planes together.

use lanekeeper_model::traffic::ReplicaTraffic;
use lanekeeper_store::{SHARE_OVERDUE, SeenShare};
use std::sync::Arc;

/// Adds up what the replicas heard. What one that is silent or has left said of the last minute is no
/// longer true; of the last ten minutes it is for as long as its share is remembered.
pub(super) fn sum(
    shares: &[SeenShare],
    heard: Vec<(String, Arc<ReplicaTraffic>)>,
) -> ReplicaTraffic {
    let mut sum = ReplicaTraffic::default();
    for (replica, traffic) in heard {
        let share = shares.iter().find(|it| it.replica == replica);
        let is_over = share.is_some_and(|it| it.share.left || it.age > SHARE_OVERDUE);
        if !is_over {
            sum.add(&traffic);
            continue;
        }
        let mut traffic = (*traffic).clone();
        for windows in traffic.gateways.values_mut().flat_map(|it| it.values_mut()) {
            windows.minute = Default::default();
        }
        sum.add(&traffic);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_store::Share;
    use serde_json::json;
    use std::time::Duration;

    fn heard(ok: u64) -> Arc<ReplicaTraffic> {
        let windows = json!({
            "minute": {"totals": {"requests": {"ok": ok}}},
            "ten_minutes": {"totals": {"requests": {"ok": ok * 10}}},
        });
        let value = json!({"minute_ms": 55_000, "gateways": {"edge": {"chat": windows}}});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn share(replica: &str, age_secs: u64, left: bool) -> SeenShare {
        SeenShare {
            replica: replica.to_owned(),
            age: Duration::from_secs(age_secs),
            share: Share {
                left,
                ..Share::default()
            },
        }
    }

    #[test]
    fn last_minute_is_that_of_replicas_that_live() {
        let all = ["a", "b", "c"].map(|replica| (replica.to_owned(), heard(1)));
        let shares = [
            share("a", 0, false),
            share("b", 9, false),
            share("c", 0, true),
        ];
        let sum = sum(&shares, all.into());
        let chat = &sum.gateways["edge"]["chat"];
        assert_eq!(chat.minute.totals.requests.ok, 1);
        assert_eq!(chat.ten_minutes.totals.requests.ok, 30);
    }
}
