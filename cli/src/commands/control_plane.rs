//! `lanekeeper control-plane`

use crate::args::{ControlPlaneArguments, GrpcArguments};
use crate::exit::Failure;
use crate::storage::Storage;
use crate::{output, shutdown};
use lanekeeper_control_plane::{Addresses, Config, Transport};
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(arguments: ControlPlaneArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let storage = Storage::connect(&arguments.storage).await?;
    serve(&arguments.grpc, storage, shutdown.orderly).await
}

/// Serves agents until told to end.
pub(crate) async fn serve(
    arguments: &GrpcArguments,
    storage: Storage,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let ready = |addresses: Addresses| {
        output::line(&format!("grpc listening on {}", addresses.grpc));
        output::line(&format!("ops listening on {}", addresses.ops));
    };
    lanekeeper_control_plane::run(
        config(arguments),
        storage.config,
        storage.live,
        shutdown,
        ready,
    )
    .await
    .map_err(Failure::other)
}

fn config(arguments: &GrpcArguments) -> Config {
    Config {
        grpc_listen: arguments.grpc_listen,
        ops_listen: arguments.ops_listen,
        transport: Transport::Plaintext,
        ..Config::default()
    }
}
