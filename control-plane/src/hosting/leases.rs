//! Leases of probes between sessions and the board that all replicas share: questions go there,
//! answers come back, and what a probe proved is told to every session of its gateway.
//!
//! While the board is away nobody is answered, and agents probe by themselves after two seconds.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use lanekeeper_model::lease::{
    LeaseKey, Leased, ProbeAnswer, ProbeVerdict, ProbedLane, lease_life,
};
use lanekeeper_proto::message::ProbeLeaseRequest;
use lanekeeper_store::{Error, Hint};
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::hosting::core::Core;
use crate::publish::outbox::Key;

/// Requests of agents that wait for the board. One that finds no room is not answered.
const WAITING_MAX: usize = 10_000;
/// Requests that are carried to the board at once.
const CARRIED_MAX: usize = 8;

/// Where sessions leave their requests.
pub(crate) struct LeaseQueue {
    sender: mpsc::Sender<(Key, ProbeLeaseRequest)>,
    /// Until somebody serves it.
    receiver: Mutex<Option<mpsc::Receiver<(Key, ProbeLeaseRequest)>>>,
}

impl Default for LeaseQueue {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        Self {
            sender,
            receiver: Mutex::new(Some(receiver)),
        }
    }
}

impl LeaseQueue {
    /// Leaves an agent's request.
    pub(crate) fn put(&self, key: Key, request: ProbeLeaseRequest) {
        if self.sender.try_send((key, request)).is_err() {
            tracing::debug!("too many questions about probes; one agent probes by itself");
        }
    }
}

/// Carries requests to the board and answers back, until told to stop.
pub(crate) async fn serve(core: Arc<Core>, shutdown: CancellationToken) {
    let Some(mut requests) = core.leases.receiver.lock().take() else {
        return;
    };
    let requests = stream::poll_fn(move |cx| requests.poll_recv(cx));
    let carrying = requests.for_each_concurrent(CARRIED_MAX, async |(key, request)| {
        if let Err(error) = carry(&core, &key, request).await {
            tracing::debug!(
                ?error,
                "leases of probes cannot be had; agents probe by themselves"
            );
        }
    });
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = carrying => {}
    }
}

async fn carry(core: &Core, key: &Key, request: ProbeLeaseRequest) -> Result<(), Error> {
    let (gateway, instance) = key;
    let of = |lane: &ProbedLane| LeaseKey {
        gateway: gateway.as_str().into(),
        lane: lane.clone(),
    };
    // First what is given back, so that it can be asked for again at once.
    for lane in &request.returned {
        core.live.settle_lease(&of(lane), instance, None).await?;
    }
    for verdict in &request.verdicts {
        let at = of(&verdict.lane);
        let settled = core.live.settle_lease(&at, instance, Some(verdict)).await?;
        core.metrics
            .leases
            .settled(settled, verdict.failure.is_none());
        if settled {
            core.sessions.tell_verdict(gateway, None, verdict);
            let hint = Hint::ProbeVerdict {
                gateway: at.gateway,
                lane: at.lane,
            };
            // A lost hint costs those agents their wait.
            if let Err(error) = core.live.publish(hint).await {
                tracing::debug!(?error, "a hint was lost");
            }
        }
    }
    for ask in &request.asks {
        let ttl = lease_life(ask.ttl_ms);
        let leased = core.live.lease(&of(&ask.lane), instance, ttl).await?;
        core.metrics.leases.asked(&leased);
        let answer = |granted, remaining: std::time::Duration| ProbeAnswer {
            lane: ask.lane.clone(),
            granted,
            remaining_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
        };
        match leased {
            Leased::Granted(ttl) => core.sessions.answer_lease(key, answer(true, ttl)),
            Leased::Held(left) => core.sessions.answer_lease(key, answer(false, left)),
            Leased::Decided(verdict) => {
                core.sessions
                    .tell_verdict(gateway, Some(instance), &verdict);
            }
        }
    }
    Ok(())
}

/// Tells this replica's sessions what agents of other replicas proved, until told to stop.
pub(crate) async fn listen(
    core: Arc<Core>,
    mut hints: broadcast::Receiver<Hint>,
    shutdown: CancellationToken,
) {
    loop {
        let hint = tokio::select! {
            () = shutdown.cancelled() => return,
            hint = hints.recv() => hint,
        };
        match hint {
            Ok(Hint::ProbeVerdict { gateway, lane }) => {
                let key = LeaseKey { gateway, lane };
                match core.live.probe_verdict(&key).await {
                    Ok(Some(verdict)) => told(&core, &key, &verdict),
                    Ok(None) => {}
                    Err(error) => tracing::debug!(?error, "a verdict could not be read"),
                }
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// A session that heard of it already learns nothing new, and does nothing.
fn told(core: &Core, key: &LeaseKey, verdict: &ProbeVerdict) {
    core.sessions.tell_verdict(&key.gateway, None, verdict);
}
