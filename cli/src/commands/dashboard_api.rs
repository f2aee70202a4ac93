//! `lanekeeper dashboard-api`

use crate::args::{DashboardApiArguments, HttpArguments};
use crate::exit::Failure;
use crate::storage::Storage;
use crate::{output, shutdown};
use lanekeeper_dashboard_api::{Addresses, Config};
use lanekeeper_store::{ConfigStore, LiveView};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(arguments: DashboardApiArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let end = shutdown.orderly;
    let mut failure = None;
    let stores = async {
        match open(&arguments, &end).await {
            Ok(storage) => storage.map(Storage::parts),
            Err(error) => {
                failure = Some(error);
                None
            }
        }
    };
    let served = serve(&arguments.http, stores, end.clone()).await;
    failure.map_or(served, Err)
}

async fn open(
    arguments: &DashboardApiArguments,
    end: &CancellationToken,
) -> Result<Option<Storage>, Failure> {
    let storage = Storage::connect(&arguments.storage, end).await?;
    if let Some(storage) = &storage {
        let token_file = arguments.http.bootstrap_token_file.as_deref();
        storage.bootstrap(token_file).await?;
    }
    Ok(storage)
}

/// Serves the API and the page until told to end, with stores that may come later.
pub(crate) async fn serve(
    arguments: &HttpArguments,
    stores: impl Future<Output = Option<(ConfigStore, Arc<dyn LiveView>)>>,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let config = Config {
        http_listen: arguments.http_listen,
        documents: arguments.documents.clone(),
        ..Config::default()
    };
    let ready = |addresses: Addresses| {
        output::line(&format!("http listening on {}", addresses.http));
    };
    lanekeeper_dashboard_api::run_when(config, stores, shutdown, ready)
        .await
        .map_err(Failure::other)
}
