//! Starts and ends the server.

use crate::app::App;
use crate::config::{Addresses, Config};
use crate::{fleet, routes};
use hyper_util::service::TowerToHyperService;
use lanekeeper_store::{ConfigStore, LiveView};
use std::io;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Why the server could not start, or ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address cannot be listened on; its text names the address.
    #[error("the HTTP API cannot listen")]
    Listen(#[source] io::Error),
    /// The listener broke.
    #[error("the HTTP API ended")]
    Serve(#[source] lanekeeper_serve::Error),
}

/// Serves the API and the UI until `shutdown`, then lets running requests end within the grace time.
///
/// `ready` is called once with the bound address, when connections are accepted.
///
/// # Errors
///
/// [`RunError::Listen`] when the address is taken, [`RunError::Serve`] when the socket breaks.
pub async fn run(
    config: Config,
    store: ConfigStore,
    live: Arc<dyn LiveView>,
    shutdown: CancellationToken,
    ready: impl FnOnce(Addresses),
) -> Result<(), RunError> {
    let listener = lanekeeper_serve::bind(config.http_listen, false).map_err(RunError::Listen)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(RunError::Listen)?;
    let http = listener.local_addr().map_err(RunError::Listen)?;

    let app = App::new(store, live, shutdown.child_token());
    let tasks = TaskTracker::new();
    tasks.spawn(fleet::keep_fresh(app.clone()));
    tasks.spawn(app.clone().follow_hints());
    tasks.close();
    app.fleet.prepare();

    ready(Addresses { http });
    let service = TowerToHyperService::new(routes::router(app.clone()));
    let served =
        lanekeeper_serve::serve(listener, config.limits, service, shutdown, config.grace).await;
    app.closing.cancel();
    tasks.wait().await;
    served.map_err(RunError::Serve)
}
