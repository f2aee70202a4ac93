//! `lanekeeper dashboard-api`

use crate::args::{DashboardApiArguments, HttpArguments};
use crate::exit::Failure;
use crate::storage::Storage;
use crate::{output, shutdown};
use lanekeeper_dashboard_api::{Addresses, Config};
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(arguments: DashboardApiArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let Some(storage) = Storage::connect(&arguments.storage, &shutdown.orderly).await? else {
        return Ok(());
    };
    storage
        .bootstrap(arguments.http.bootstrap_token_file.as_deref())
        .await?;
    serve(&arguments.http, storage, shutdown.orderly).await
}

/// Serves the API and the page until told to end.
pub(crate) async fn serve(
    arguments: &HttpArguments,
    storage: Storage,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let config = Config {
        http_listen: arguments.http_listen,
        ..Config::default()
    };
    let ready = |addresses: Addresses| {
        output::line(&format!("http listening on {}", addresses.http));
    };
    lanekeeper_dashboard_api::run(config, storage.config, storage.live, shutdown, ready)
        .await
        .map_err(Failure::other)
}
