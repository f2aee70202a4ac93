//! Turns signals into tokens: the first asks for an orderly end, the second for one at once.

use crate::exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two ways a process is told to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    /// Finish what runs, then end.
    pub(crate) orderly: CancellationToken,
    /// End now.
    pub(crate) immediate: CancellationToken,
}

/// Listens for SIGTERM and SIGINT from now on.
pub(crate) fn on_signals() -> Result<Shutdown, Failure> {
    let listen = |kind| signal(kind).map_err(Failure::other);
    let (mut terminate, mut interrupt) = (
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
    );
    let shutdown = Shutdown::default();
    let told = shutdown.clone();
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        told.orderly.cancel();
        either(&mut terminate, &mut interrupt).await;
        told.immediate.cancel();
    });
    Ok(shutdown)
}

async fn either(first: &mut Signal, second: &mut Signal) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}
