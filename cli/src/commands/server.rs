//! `lanekeeper server`: both halves in one process.

use super::{control_plane, dashboard_api};
use crate::args::ServerArguments;
use crate::exit::Failure;
use crate::shutdown;
use crate::storage::Storage;
use tokio::sync::watch;

pub(crate) async fn run(arguments: ServerArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let end = shutdown.orderly;
    // If one part fails the others have no reason to stay.
    let ended = |result: Result<(), Failure>| {
        end.cancel();
        result
    };
    let (opened, storage) = watch::channel(None::<Storage>);
    let open = async {
        if let Some(storage) = Storage::open(&arguments.storage, &end).await? {
            let token_file = arguments.http.bootstrap_token_file.as_deref();
            storage.bootstrap(token_file).await?;
            opened.send_replace(Some(storage));
        }
        // Without a sender, those who still wait hear that nothing will come.
        drop(opened);
        Ok(())
    };
    let stores = || {
        let mut storage = storage.clone();
        async move {
            let storage = storage.wait_for(Option::is_some).await.ok()?.clone();
            storage.map(Storage::parts)
        }
    };
    let data_dir = Some(arguments.storage.data_dir.as_path());
    let (opened, agents, people) = tokio::join!(
        async {
            let opened: Result<(), Failure> = open.await;
            if opened.is_err() {
                end.cancel();
            }
            opened
        },
        async {
            let served = control_plane::serve(&arguments.grpc, data_dir, stores(), end.clone());
            ended(served.await)
        },
        async { ended(dashboard_api::serve(&arguments.http, stores(), end.clone()).await) },
    );
    opened.and(agents).and(people)
}
