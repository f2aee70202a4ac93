//! How long a connection waits for a request: for its head once it has begun, and for the first
//! byte of one at all.
//!
//! The HTTP library has one timer for both, which starts with the wait. A bound that is right for a
//! head then ends every idle connection, and load balancers lose the calls that they send on one
//! just then.

use crate::limits::Waits;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// What a connection waits for, as far as its bytes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The first byte of a request.
    Idle,
    /// The rest of a head.
    Head,
    /// Something that is bounded elsewhere: a body, or the service.
    Other,
}

/// The timer of one connection.
#[derive(Debug)]
pub(crate) struct Patience {
    waits: Waits,
    /// What is waited for, and until when.
    until: Option<(Wait, Instant)>,
    /// Set anew only when it fires too early, so that a request costs no turn of the timer.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(waits: Waits) -> Self {
        Self {
            waits,
            until: None,
            sleep: None,
        }
    }

    /// Bytes have come, and with them perhaps the rest of a head. Bytes of a head that goes on do
    /// not lengthen the wait for it.
    pub(crate) fn heard(&mut self, head_ended: bool) {
        if head_ended || self.until.is_some_and(|(wait, _)| wait == Wait::Idle) {
            self.until = None;
        }
    }

    /// Ready when the wait has been too long.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>, wait: Wait) -> Poll<()> {
        let bound = match wait {
            Wait::Idle => self.waits.idle,
            Wait::Head => self.waits.header,
            Wait::Other => {
                self.until = None;
                return Poll::Pending;
            }
        };
        let deadline = match self.until {
            Some((since, deadline)) if since == wait => deadline,
            _ => {
                let deadline = from_now(bound);
                self.until = Some((wait, deadline));
                deadline
            }
        };
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // One that is set for earlier looks again then; one that is set for later would be late.
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

/// When a wait that begins now is over, by the clock of the timers.
fn from_now(bound: Duration) -> Instant {
    tokio::time::sleep(bound).deadline()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn patience() -> Patience {
        Patience::new(Waits {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(75),
        })
    }

    async fn over(patience: &mut Patience, wait: Wait) -> Duration {
        let began = from_now(Duration::ZERO);
        poll_fn(|cx| patience.poll_over(cx, wait)).await;
        from_now(Duration::ZERO).duration_since(began)
    }

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_bound() {
        assert_eq!(over(&mut patience(), Wait::Idle).await.as_secs(), 75);
        assert_eq!(over(&mut patience(), Wait::Head).await.as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_begins_late_in_an_idle_time_has_its_whole_bound() {
        let mut patience = patience();
        let idle = poll_fn(|cx| patience.poll_over(cx, Wait::Idle));
        assert!(
            tokio::time::timeout(Duration::from_secs(74), idle)
                .await
                .is_err()
        );
        patience.heard(false);
        assert_eq!(over(&mut patience, Wait::Head).await.as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_time_begins_anew_after_each_request() {
        let mut patience = patience();
        for _ in 0..5 {
            let idle = poll_fn(|cx| patience.poll_over(cx, Wait::Idle));
            assert!(
                tokio::time::timeout(Duration::from_secs(60), idle)
                    .await
                    .is_err()
            );
            patience.heard(true);
            let served = poll_fn(|cx| patience.poll_over(cx, Wait::Other));
            assert!(
                tokio::time::timeout(Duration::from_secs(600), served)
                    .await
                    .is_err()
            );
        }
        assert_eq!(over(&mut patience, Wait::Idle).await.as_secs(), 75);
    }
}
