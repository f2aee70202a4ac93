//! The end of a listener, as its connections hear of it.
//!
//! A connection looks for the end each time it is woken, which is several times a request, and
//! connections of other cores do the same. So that look is one load of a number that hardly ever
//! changes; nobody takes a lock but to listen anew after a change.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Connections take requests.
    Serving,
    /// Connections take requests still, and each answer is its connection's last.
    Retiring,
    /// Connections end with what they are at.
    Draining,
    /// As before; the service has news for what still runs.
    Nudged,
    /// Connections are dropped.
    Cut,
}

impl Stage {
    const ALL: [Self; 5] = [
        Self::Serving,
        Self::Retiring,
        Self::Draining,
        Self::Nudged,
        Self::Cut,
    ];
}

/// The end of one listener.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    stage: AtomicU8,
    bell: Notify,
}

impl Ending {
    /// Tells every connection.
    pub(crate) fn advance(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
        self.bell.notify_waiters();
    }

    /// How far the end has come by now.
    pub(crate) fn stage(&self) -> Stage {
        let stage = usize::from(self.stage.load(Ordering::Acquire));
        Stage::ALL.get(stage).copied().unwrap_or(Stage::Cut)
    }

    /// Calls `poll` whenever its task is woken or the end comes nearer, until it is ready; `None`
    /// when it is cut before. A stage that it has not seen yet is given to it.
    pub(crate) async fn outlive<T>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>, Option<Stage>) -> Poll<T>,
    ) -> Option<T> {
        let mut bell = pin!(self.bell.notified());
        let mut seen = None;
        poll_fn(|cx| {
            let mut new = None;
            while seen != Some(self.stage()) {
                // It listens before it looks, so that nothing is missed.
                bell.set(self.bell.notified());
                _ = bell.as_mut().poll(cx);
                seen = Some(self.stage());
                new = seen;
            }
            match new {
                Some(Stage::Cut) => Poll::Ready(None),
                new => poll(cx, new).map(Some),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn every_stage_is_told_and_the_cut_ends_the_wait() {
        let ending = Arc::new(Ending::default());
        let (sender, mut stages) = tokio::sync::mpsc::unbounded_channel();
        let waiting = Arc::clone(&ending);
        let task = tokio::spawn(async move {
            let told = |_: &mut Context<'_>, stage| {
                if let Some(stage) = stage {
                    sender.send(stage).expect("someone listens");
                }
                Poll::<()>::Pending
            };
            waiting.outlive(told).await
        });
        for stage in Stage::ALL {
            if stage != Stage::Serving {
                ending.advance(stage);
            }
            if stage != Stage::Cut {
                assert_eq!(stages.recv().await, Some(stage));
            }
        }
        let ended = tokio::time::timeout(Duration::from_secs(10), task).await;
        assert_eq!(ended.expect("an end").expect("no panic"), None);
    }

    #[tokio::test]
    async fn one_that_comes_late_hears_where_things_stand() {
        let ending = Ending::default();
        ending.advance(Stage::Draining);
        let mut heard = Vec::new();
        let ended = ending.outlive(|_, stage| {
            heard.push(stage);
            Poll::Ready(7)
        });
        assert_eq!(ended.await, Some(7));
        assert_eq!(heard, [Some(Stage::Draining)]);
        ending.advance(Stage::Cut);
        assert_eq!(ending.outlive(|_, _| Poll::Ready(7)).await, None);
    }
}
