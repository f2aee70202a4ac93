//! The one way in which this process follows its database: a poll is the truth, hints only bring it
//! forward since hints get lost, and what is known goes on counting while nothing can be read.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_store::{Error, Hint};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::clock;

/// How far a poll may be from its time, as a share, so that replicas do not poll in step.
const JITTER: f64 = 0.2;
/// Shortest time between two polls, however many hints come.
const GAP: Duration = Duration::from_millis(20);
/// How long one poll may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Something that is read again and again.
pub(crate) trait Polled: Send + Sync + 'static {
    /// What is read, for the log.
    const WHAT: &'static str;
    /// The time between two polls as a share of the process's poll interval.
    const SHARE: f64 = 1.0;

    /// Whether a hint means that there is something new to read.
    fn heeds(hint: &Hint) -> bool;

    /// Notified when this process itself wants to know more.
    fn wanted(&self) -> &Notify;

    /// Reads once.
    fn poll(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Learns how a poll went, for those who count.
    fn polled(&self, _ok: bool) {}

    /// Polls until told to stop, for the first time at once.
    fn follow(
        self: Arc<Self>,
        mut hints: broadcast::Receiver<Hint>,
        interval: Duration,
        shutdown: CancellationToken,
    ) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        async move {
            let interval = interval.mul_f64(Self::SHARE);
            let (mut healthy, mut hinting) = (true, true);
            loop {
                // What was hinted at until now is covered by the poll that follows.
                hints = hints.resubscribe();
                let read = match tokio::time::timeout(TIMEOUT, self.poll()).await {
                    Ok(read) => read.map_err(|error| format!("{error:?}")),
                    Err(_) => Err("no answer in time".to_owned()),
                };
                self.polled(read.is_ok());
                match (&read, healthy) {
                    (Err(error), true) => tracing::warn!(
                        error,
                        "{} cannot be read; what is known goes on counting",
                        Self::WHAT
                    ),
                    (Ok(()), false) => tracing::info!("{} can be read again", Self::WHAT),
                    (Ok(()), true) | (Err(_), false) => {}
                }
                healthy = read.is_ok();

                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(clock::jittered(interval, JITTER)) => {}
                    () = self.wanted().notified() => {}
                    open = heeded::<Self>(&mut hints), if hinting => hinting = open,
                }
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(GAP) => {}
                }
            }
        }
    }
}

/// Waits for a hint that matters; false when no more hints will come.
async fn heeded<P: Polled>(hints: &mut broadcast::Receiver<Hint>) -> bool {
    loop {
        match hints.recv().await {
            Ok(hint) if P::heeds(&hint) => return true,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return true,
            Err(broadcast::error::RecvError::Closed) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Longer than any test lasts, so that only a hint brings a poll about.
    const NEVER: Duration = Duration::from_secs(3600);

    #[derive(Default)]
    struct Counted {
        polls: AtomicUsize,
        wanted: Notify,
        told: Notify,
    }

    impl Polled for Counted {
        const WHAT: &'static str = "the count";

        fn heeds(hint: &Hint) -> bool {
            matches!(hint, Hint::TokenRevoked)
        }

        fn wanted(&self) -> &Notify {
            &self.wanted
        }

        async fn poll(&self) -> Result<(), Error> {
            self.polls.fetch_add(1, Ordering::Relaxed);
            self.told.notify_one();
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_matters_brings_the_next_poll_forward_and_nothing_else_does() {
        let counted = Arc::new(Counted::default());
        let hints = broadcast::Sender::new(8);
        let stop = CancellationToken::new();
        let following = Arc::clone(&counted).follow(hints.subscribe(), NEVER, stop.clone());
        let following = tokio::spawn(following);
        counted.told.notified().await;
        hints.send(Hint::Revocation).unwrap();
        let still = tokio::time::timeout(5 * GAP, counted.told.notified()).await;
        assert!(still.is_err(), "a hint about something else");
        hints.send(Hint::TokenRevoked).unwrap();
        counted.told.notified().await;
        counted.wanted.notify_one();
        counted.told.notified().await;
        assert_eq!(counted.polls.load(Ordering::Relaxed), 3);
        stop.cancel();
        following.await.unwrap();
    }

    #[tokio::test]
    async fn polls_go_on_without_hints() {
        let counted = Arc::new(Counted::default());
        let (hints, last) = (broadcast::Sender::new(1), CancellationToken::new());
        let receiver = hints.subscribe();
        drop(hints);
        let following = Arc::clone(&counted).follow(receiver, GAP, last.clone());
        let following = tokio::spawn(following);
        for _ in 0..3 {
            counted.told.notified().await;
        }
        last.cancel();
        following.await.unwrap();
    }
}
