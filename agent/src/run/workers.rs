//! The proxy threads: one per core, each with a runtime and an accept queue of its own, so that a
//! request stays on the core that accepted it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::config::WORKERS_MAX;
use crate::ops::{BEAT_INTERVAL, Pulse};
use crate::plane::{DrainSignal, Plane};

/// How long a thread may take to end once its connections are cut.
const CUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Turns of tasks between two looks for new connections and bytes. The runtime's own 61 would let a
/// newcomer wait for many stretches of streams that are always ready (see the relay's bound on
/// one).
const TURNS_PER_LOOK: u32 = 13;

type Ending = oneshot::Receiver<io::Result<()>>;

/// The running threads.
pub(super) struct Workers {
    threads: Vec<JoinHandle<()>>,
    endings: FuturesUnordered<Ending>,
    drain: DrainSignal,
    cut: CancellationToken,
}

/// Binds one socket per thread to one address. With port 0 the first socket's port is for all.
pub(super) fn bind(
    address: SocketAddr,
    workers: Option<NonZeroUsize>,
) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let count = workers
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
        .min(WORKERS_MAX);
    // Without this check a second agent would share the port and take half of the connections.
    if address.port() != 0 {
        drop(lanekeeper_serve::bind(address, false)?);
    }
    let first = lanekeeper_serve::bind(address, true)?;
    let bound = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..count {
        listeners.push(lanekeeper_serve::bind(bound, true)?);
    }
    Ok((listeners, bound))
}

impl Workers {
    /// Starts a thread per listener.
    pub(super) fn start(
        listeners: Vec<TcpListener>,
        plane: &Plane,
        drain: DrainSignal,
        pulse: &Arc<Pulse>,
    ) -> io::Result<Self> {
        let cut = CancellationToken::new();
        let mut threads = Vec::with_capacity(listeners.len());
        let endings = FuturesUnordered::new();
        for (index, listener) in listeners.into_iter().enumerate() {
            let (ended, ending) = oneshot::channel();
            let worker = Worker {
                index,
                plane: plane.clone(),
                drain: drain.clone(),
                cut: cut.clone(),
                pulse: Arc::clone(pulse),
            };
            let thread = thread::Builder::new()
                .name(format!("proxy-{index}"))
                .spawn(move || {
                    // The receiver is gone only when nobody waits any more.
                    let _ = ended.send(worker.run(listener));
                })?;
            threads.push(thread);
            endings.push(ending);
        }
        Ok(Self {
            threads,
            endings,
            drain,
            cut,
        })
    }

    /// What running answers get once the listeners are closed.
    pub(super) fn grace(&self) -> Duration {
        self.drain.grace
    }

    /// Every answer from now on ends its connection, so that callers which keep connections go to
    /// other agents before the listeners close.
    pub(super) fn retire(&self) {
        self.drain.retiring.cancel();
    }

    /// Waits until a thread ends on its own.
    pub(super) async fn failed(&mut self) -> io::Error {
        match self.endings.next().await {
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => io::Error::other("it ended without being told to"),
            Some(Err(_)) => io::Error::other("it panicked"),
            None => std::future::pending().await,
        }
    }

    /// Closes the listeners, gives running answers `grace`, cuts what is left, and waits for the
    /// threads. `immediate` ends the grace.
    pub(super) async fn end(
        &mut self,
        grace: Duration,
        immediate: &CancellationToken,
    ) -> io::Result<()> {
        self.drain.closing.cancel();
        let mut result = Ok(());
        let in_time = tokio::select! {
            ended = tokio::time::timeout(grace, drain(&mut self.endings)) => ended,
            () = immediate.cancelled() => Ok(Ok(())),
        };
        match in_time {
            Ok(ended) => result = ended,
            Err(_) => tracing::warn!("proxy threads did not end in time and are cut"),
        }
        self.cut.cancel();
        if tokio::time::timeout(CUT_TIMEOUT, drain(&mut self.endings))
            .await
            .is_err()
        {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "it does not respond",
            ));
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                result = Err(io::Error::other("it panicked"));
            }
        }
        result
    }
}

async fn drain(endings: &mut FuturesUnordered<Ending>) -> io::Result<()> {
    let mut result = Ok(());
    while let Some(ending) = endings.next().await {
        if let Ok(Err(error)) = ending {
            result = Err(error);
        }
    }
    result
}

/// What one thread needs.
struct Worker {
    index: usize,
    plane: Plane,
    drain: DrainSignal,
    cut: CancellationToken,
    pulse: Arc<Pulse>,
}

impl Worker {
    fn run(self, listener: TcpListener) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(TURNS_PER_LOOK)
            .build()?;
        runtime.block_on(async {
            tokio::select! {
                () = self.plane.serve(listener, self.drain) => {}
                () = self.cut.cancelled() => {}
                () = beat(self.index, &self.pulse) => {}
            }
        });
        // A name lookup that hangs in the system's resolver must not hold the process.
        runtime.shutdown_background();
        Ok(())
    }
}

async fn beat(index: usize, pulse: &Pulse) {
    loop {
        pulse.beat(index, clock::now());
        tokio::time::sleep(BEAT_INTERVAL).await;
    }
}
