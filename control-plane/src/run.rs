//! Starts the parts of a control plane in order and ends them in order.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use lanekeeper_store::{ConfigStore, LiveView};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Transport;
use crate::enrolment::enrol::Registrar;
use crate::enrolment::tls;
use crate::enrolment::trust::Follower;
use crate::follow::poll::Polled as _;
use crate::hosting::core::Core;
use crate::hosting::duplicates;
use crate::hosting::intake::{FACTS_WRITERS, LIVE_WRITERS};
use crate::hosting::leases;
use crate::hosting::share;
use crate::incidents::IncidentDriver;
use crate::listener::grpc;
use crate::listener::grpc::Protection;
use crate::metrics::Metrics;
use crate::ops::Ops;
use crate::rollout::Driver;
use crate::{Config, Error, housekeeping};

/// The addresses that were bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Where agents dial.
    pub grpc: SocketAddr,
    /// Where probes and scrapers look.
    pub ops: SocketAddr,
}

/// Runs a control plane until `shutdown` is cancelled. `ready` is called once, when the listeners
/// are bound and the configuration has been read once.
///
/// At the end every session gets a Goodbye, so that agents return elsewhere without waiting for a
/// time-out; all is over [`crate::Timing::shutdown_grace`] and a second later at most.
///
/// # Errors
///
/// [`Error::Config`] and [`Error::Listen`] at the start, [`Error::Ended`] when a listener fails.
pub async fn run(
    config: Config,
    store: ConfigStore,
    live: Arc<dyn LiveView>,
    shutdown: CancellationToken,
    ready: impl FnOnce(Addresses),
) -> Result<(), Error> {
    run_when(
        config,
        std::future::ready(Some((store, live))),
        shutdown,
        ready,
    )
    .await
}

/// As [`run()`], for stores that may be long in coming: until then the ops listener says that the
/// process lives and waits for its database. The future's `None` says that they will not come; then
/// this ends at once and without an error.
///
/// # Errors
///
/// As [`run()`].
pub async fn run_when(
    config: Config,
    stores: impl Future<Output = Option<(ConfigStore, Arc<dyn LiveView>)>>,
    shutdown: CancellationToken,
    ready: impl FnOnce(Addresses),
) -> Result<(), Error> {
    config.check()?;
    let files = match &config.transport {
        Transport::MutualTls(files) => Some(tls::Files::load(files).await?),
        Transport::Plaintext | Transport::Enrolment(_) => None,
    };
    let (listener, address) = bind("ops", config.ops_listen)?;
    let ops = Arc::new(Ops {
        metrics: Arc::new(Metrics::new()),
        closing: CancellationToken::new(),
        watch: OnceLock::new(),
    });
    let closing = &ops.closing;
    // Ended after the sessions, whose last words are written until then.
    let behind = CancellationToken::new();
    // Whichever part ends first takes the other with it.
    let agents_part = async {
        let stores = tokio::select! {
            stores = stores => stores,
            () = closing.cancelled() => None,
        };
        let result = match stores {
            Some(stores) => {
                let ready = |grpc| {
                    ready(Addresses { grpc, ops: address });
                    tracing::info!(%grpc, ops = %address, "the control plane serves agents");
                };
                serve_agents(&config, files, stores, &ops, behind.clone(), ready).await
            }
            None => Ok(()),
        };
        closing.cancel();
        behind.cancel();
        result
    };
    let ops_part = async {
        let grace = config.timing.shutdown_grace;
        let serving = Arc::clone(&ops).serve(listener, grace, behind.clone());
        let result = serving.await;
        closing.cancel();
        result.map_err(|source| Error::Ended {
            listener: "ops",
            source: source.into(),
        })
    };
    let stop = async {
        tokio::select! {
            () = shutdown.cancelled() => closing.cancel(),
            () = closing.cancelled() => {}
        }
    };
    let (agents_result, ops_result, ()) = tokio::join!(agents_part, ops_part, stop);
    agents_result.and(ops_result)
}

/// Everything that needs the stores, from its start to its end.
async fn serve_agents(
    config: &Config,
    files: Option<tls::Files>,
    (store, live): (ConfigStore, Arc<dyn LiveView>),
    ops: &Ops,
    behind: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let (grpc_listener, grpc) = bind("grpc", config.grpc_listen)?;
    let (hints, override_hints) = (live.subscribe(), live.subscribe());
    let drain_hints = live.subscribe();
    let rollouts = Arc::clone(&live);
    let trust_hints = live.subscribe();
    let copy_hints = live.subscribe();
    let shares = Arc::clone(&live);
    let core = Core::new(
        config,
        store.clone(),
        live,
        Arc::clone(&ops.metrics),
        ops.closing.clone(),
    );
    // It is set here and nowhere else.
    let _ = ops.watch.set(Arc::clone(&core.watch));
    let tasks = TaskTracker::new();
    tasks.spawn(Arc::clone(&core.watch).follow(hints, config.timing.poll_interval, behind.clone()));
    tasks.spawn(Arc::clone(&core.drains).follow(
        drain_hints,
        config.timing.poll_interval,
        behind.clone(),
    ));
    tasks.spawn(Arc::clone(&core.overrides).follow(
        override_hints,
        config.timing.poll_interval,
        behind.clone(),
    ));
    tasks.spawn(Arc::clone(&core.advice).follow(
        Arc::clone(&core.watch),
        Arc::clone(&core.live),
        Arc::clone(&core.metrics),
        behind.clone(),
    ));
    let mut protection = Protection::default();
    if let Some(files) = files {
        protection.tls = Some(files.settings());
        tasks.spawn(files.follow(behind.clone()));
    }
    if let Transport::Enrolment(settings) = &config.transport {
        let metrics = || Arc::clone(&core.metrics);
        let (follower, trust) =
            Follower::start(settings, store.clone(), core.revoked.clone(), metrics()).await?;
        protection.tls = Some(trust.settings());
        let registrar = Registrar::new(settings, store.clone(), Arc::clone(&trust), metrics());
        let registrar = Arc::new(registrar);
        tasks.spawn(Arc::clone(&registrar).follow_cluster(behind.clone()));
        protection.registrar = Some(registrar);
        let interval = config.timing.poll_interval;
        tasks.spawn(follower.follow(trust, trust_hints, interval, behind.clone()));
    }
    tasks.spawn(duplicates::listen(
        Arc::clone(&core),
        copy_hints,
        behind.clone(),
    ));
    tasks.spawn(share::announce(Arc::clone(&core), shares, behind.clone()));
    let lease_hints = core.live.subscribe();
    tasks.spawn(leases::listen(
        Arc::clone(&core),
        lease_hints,
        behind.clone(),
    ));
    tasks.spawn(leases::serve(Arc::clone(&core), behind.clone()));
    for _ in 0..LIVE_WRITERS {
        tasks.spawn(Arc::clone(&core.records).write(behind.clone()));
    }
    for _ in 0..FACTS_WRITERS {
        tasks.spawn(Arc::clone(&core.facts).write(behind.clone()));
    }
    tasks.spawn(Arc::clone(&core.transitions).write(behind.clone()));
    let driver = Driver {
        store: store.clone(),
        live: rollouts,
        metrics: Arc::clone(&core.metrics),
        windows: config.fresh_windows(),
    };
    let incidents = IncidentDriver::new(
        store.clone(),
        Arc::clone(&driver.live),
        Arc::clone(&core.metrics),
        driver.windows,
        config.timing.incident_quiet,
    );
    tasks.spawn(incidents.drive(config.timing.poll_interval, behind.clone()));
    tasks.spawn(driver.drive(config.timing.poll_interval, behind.clone()));
    tasks.spawn(housekeeping::trim_timeline(store.clone(), behind.clone()));
    tasks.spawn(housekeeping::keep(store, behind.clone()));
    tasks.close();

    let serving = async {
        let mut epoch = core.watch.epoch();
        let first = epoch.wait_for(|epoch| !epoch.is_empty());
        tokio::select! {
            read = first => drop(read),
            () = core.closing.cancelled() => return Ok(()),
        }
        ready(grpc);
        grpc::serve(
            Arc::clone(&core),
            protection,
            grpc_listener,
            config.connections_max,
            config.sessions_max,
        )
        .await
        .map_err(|source| Error::Ended {
            listener: "grpc",
            source: source.into(),
        })
    };
    let result = serving.await;
    core.closing.cancel();
    behind.cancel();
    if tokio::time::timeout(config.timing.shutdown_grace, tasks.wait())
        .await
        .is_err()
    {
        tracing::warn!("the last records could not be written in time");
    }
    result
}

fn bind(listener: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |source| Error::Listen { listener, source };
    let socket = lanekeeper_serve::bind(address, false).map_err(failed)?;
    let socket = TcpListener::from_std(socket).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    Ok((socket, bound))
}
