//! Starts and ends the server.

use crate::app::App;
use crate::config::{Addresses, Config};
use crate::managed::Managed;
use crate::{admin, envelope, routes};
use axum::Router;
use axum::extract::Request;
use hyper_util::service::TowerToHyperService;
use lanekeeper_serve::{Limits, Unreadable};
use lanekeeper_store::{ConfigStore, LiveView};
use std::io;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

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
    run_when(
        config,
        std::future::ready(Some((store, live))),
        shutdown,
        ready,
    )
    .await
}

/// As [`run()`], for stores that may be long in coming: until then `/livez` says that the process
/// lives, and everything else that it waits for its database. The future's `None` says that they will
/// not come; then this ends at once and without an error.
///
/// # Errors
///
/// As [`run()`].
pub async fn run_when(
    config: Config,
    stores: impl Future<Output = Option<(ConfigStore, Arc<dyn LiveView>)>>,
    shutdown: CancellationToken,
    ready: impl FnOnce(Addresses),
) -> Result<(), RunError> {
    let listener = lanekeeper_serve::bind(config.http_listen, false).map_err(RunError::Listen)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(RunError::Listen)?;
    let http = listener.local_addr().map_err(RunError::Listen)?;

    let end = shutdown.child_token();
    let door = Arc::new(OnceLock::<Router>::new());
    let open = Arc::clone(&door);
    let waiting = routes::waiting();
    let service = tower::service_fn(move |request: Request<_>| {
        let router = open.get().unwrap_or(&waiting).clone();
        router.oneshot(request)
    });
    let serving = async {
        let service = TowerToHyperService::new(service);
        let limits = Limits {
            unreadable: Some(Unreadable::new(envelope::refuse_unread)),
            ..config.limits
        };
        let served =
            lanekeeper_serve::serve(listener, limits, service, end.clone(), config.grace).await;
        end.cancel();
        served.map_err(RunError::Serve)
    };
    let working = async {
        let stores = tokio::select! {
            stores = stores => stores,
            () = end.cancelled() => None,
        };
        let Some((store, live)) = stores else {
            end.cancel();
            return;
        };
        let managed = Managed::by(config.documents);
        let app = App::new(store, live, managed, end.child_token());
        let tasks = TaskTracker::new();
        tasks.spawn({
            let app = app.clone();
            async move {
                app.fleet
                    .keep_fresh(&app.store, &*app.live, &app.closing)
                    .await
            }
        });
        tasks.spawn({
            let app = app.clone();
            async move {
                let closing = app.closing.clone();
                let hub = Arc::clone(&app.events);
                hub.keep(&app.fleet, &app.store, closing).await
            }
        });
        tasks.spawn(app.clone().follow_hints());
        if app.managed.folder().is_some() {
            tasks.spawn(admin::documents::follow(app.clone()));
        }
        tasks.close();
        app.fleet.prepare();
        // It is set here and nowhere else.
        let _ = door.set(routes::router(app.clone()));
        ready(Addresses { http });
        end.cancelled().await;
        tasks.wait().await;
    };
    let (served, ()) = tokio::join!(serving, working);
    served
}
