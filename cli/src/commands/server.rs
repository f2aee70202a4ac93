//! `lanekeeper server`: both halves in one process.

use super::{control_plane, dashboard_api};
use crate::args::ServerArguments;
use crate::exit::Failure;
use crate::shutdown;
use crate::storage::Storage;

pub(crate) async fn run(arguments: ServerArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let storage = Storage::open(&arguments.storage).await?;
    storage
        .bootstrap(arguments.http.bootstrap_token_file.as_deref())
        .await?;
    let end = shutdown.orderly;
    // If one half fails the other has no reason to stay.
    let stop = end.clone();
    let ended = |result: Result<(), Failure>| {
        stop.cancel();
        result
    };
    let data_dir = Some(arguments.storage.data_dir.as_path());
    let (agents, people) = tokio::join!(
        async {
            let (storage, end) = (storage.clone(), end.clone());
            ended(control_plane::serve(&arguments.grpc, data_dir, storage, end).await)
        },
        async { ended(dashboard_api::serve(&arguments.http, storage.clone(), end.clone()).await) },
    );
    agents.and(people)
}
