//! The choice of the next member, and what a pool does when there is none.

use super::{Route, later};
use crate::clock;
use crate::lanes::lane::state::QueuePlace;
use crate::lanes::pool::{Chosen, Exhaustion, Pool};
use futures_util::future::select_all;
use http::HeaderValue;
use lanekeeper_model::PoolName;
use lanekeeper_model::gateway::OnExhausted;
use lanekeeper_protocol::error_body::ErrorKind;
use lanekeeper_protocol::translation::Refusal;
use std::sync::Arc;
use std::time::Duration;

impl Route<'_> {
    /// The next member, after whatever the pool does when it is exhausted.
    ///
    /// # Errors
    ///
    /// Nothing is left to try in this pool and those it falls back to.
    pub(super) async fn choose(&mut self) -> Result<Chosen, Exhaustion> {
        let mut exhaustion = Exhaustion::default();
        loop {
            let pool = Arc::clone(&self.pool);
            let now = clock::now();
            let in_time = now < self.deadline;
            let may_hop = in_time && self.members_tried <= pool.failover.max_hops;
            let found = if may_hop {
                pool.select(&self.demand(false), now)
            } else {
                Err(pool.outlook(&self.demand(false), now))
            };
            let here = match found {
                Ok(chosen) => return Ok(chosen),
                Err(here) => here,
            };
            let elsewhere = exhaustion;
            exhaustion = elsewhere.or(here);
            let rescued = match &pool.on_exhausted {
                OnExhausted::Reject => None,
                OnExhausted::LeastBad if may_hop => self.least_bad(&pool),
                OnExhausted::FailOpen if may_hop => self.fail_open(&pool),
                OnExhausted::Queue(most) if may_hop && here.saturated => {
                    let chosen = self.queue(&pool, *most).await;
                    if chosen.is_none() {
                        // The wait has shown more: what was busy may be benched by now.
                        exhaustion = elsewhere.or(pool.outlook(&self.demand(false), clock::now()));
                    }
                    chosen
                }
                OnExhausted::FallbackPool(name) if in_time => match self.next_pool(name) {
                    Some(next) => {
                        self.enter(next);
                        continue;
                    }
                    None => None,
                },
                OnExhausted::LeastBad
                | OnExhausted::FailOpen
                | OnExhausted::Queue(_)
                | OnExhausted::FallbackPool(_) => None,
            };
            return rescued.ok_or(exhaustion);
        }
    }

    fn least_bad(&mut self, pool: &Pool) -> Option<Chosen> {
        // One degraded attempt is a last resort, a second one would be a storm.
        if self.progress.degraded.is_some() {
            return None;
        }
        let chosen = pool.select_least_bad(&self.demand(false), clock::now())?;
        self.progress.degraded = Some("least_bad");
        tracing::warn!(
            pool = %pool.name,
            lane = %chosen.guard.lane().name(),
            "every member is refused by its breaker; sending to the least bad one"
        );
        Some(chosen)
    }

    fn fail_open(&mut self, pool: &Pool) -> Option<Chosen> {
        let chosen = pool.select_fail_open(&self.demand(false), clock::now())?;
        self.progress.degraded = Some("fail_open");
        Some(chosen)
    }

    /// The pool to fall back to, unless this request has been there.
    fn next_pool(&self, name: &PoolName) -> Option<Arc<Pool>> {
        let visited = self.pool.name == *name || self.visited.contains(name);
        let next = self.job.snapshot.pools.get(name)?;
        (!visited).then(|| Arc::clone(next))
    }

    fn enter(&mut self, next: Arc<Pool>) {
        self.session = super::session(&next, &self.job.asked);
        self.members_tried = 0;
        let left = std::mem::replace(&mut self.pool, next);
        self.visited.push(left.name.clone());
    }

    /// Waits for a permit in the order of arrival, never longer than the budget.
    async fn queue(&self, pool: &Pool, most: Duration) -> Option<Chosen> {
        let now = clock::now();
        let until = later(now, most).min(self.deadline);
        let (places, mut my_turn) = self.take_places(pool);
        if places.is_empty() {
            return None;
        }
        let _counted = pool.state.wait();
        loop {
            if my_turn {
                match pool.select(&self.demand(true), clock::now()) {
                    Ok(chosen) => {
                        // Another lane may have woken this request than the one it takes.
                        places.iter().for_each(QueuePlace::pass_on);
                        return Some(chosen);
                    }
                    // The breaker spoke meanwhile: the wake-up is for someone else.
                    Err(exhaustion) if !exhaustion.saturated => {
                        places.iter().for_each(QueuePlace::pass_on);
                        return None;
                    }
                    Err(_) => {}
                }
            }
            let freed = select_all(places.iter().map(|place| Box::pin(place.freed())));
            tokio::time::timeout_at(until.into(), freed).await.ok()?;
            my_turn = true;
        }
    }

    /// Places in the queues of all lanes that could serve, and whether nobody stood there before.
    fn take_places(&self, pool: &Pool) -> (Vec<QueuePlace>, bool) {
        let members = pool.queue_for(&self.demand(false), clock::now());
        let mut first = true;
        let places = members
            .into_iter()
            .map(|member| {
                let (place, ahead) = member.lane.state.queue();
                first &= ahead == 0;
                place
            })
            .collect();
        (places, first)
    }
}

/// The refusal of a request that no lane can be asked in translation.
pub(super) fn unfit(lanes: &[(HeaderValue, Refusal)]) -> Option<ErrorKind> {
    let (_, refusal) = lanes.first()?;
    let names: Vec<&str> = { lanes.iter() }
        .filter_map(|(lane, _)| lane.to_str().ok())
        .collect();
    Some(ErrorKind::BadRequest {
        message: format!(
            "\"{}\" {}. No lane of this model can serve the request: {}.",
            refusal.field,
            refusal.reason,
            names.join(", ")
        ),
        field: Some(refusal.field.clone()),
    })
}
