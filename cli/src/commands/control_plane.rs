//! `lanekeeper control-plane`

use crate::args::{ControlPlaneArguments, GrpcArguments, TlsFiles};
use crate::exit::{Failure, Kind};
use crate::storage::Storage;
use crate::{output, shutdown};
use lanekeeper_control_plane::{Addresses, Config, Error, ServerTls, Transport};
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
        config(arguments)?,
        storage.config,
        storage.live,
        shutdown,
        ready,
    )
    .await
    .map_err(|error| match error {
        Error::Config { .. } => Failure::new(Kind::Usage, error.to_string()),
        error => Failure::other(error),
    })
}

fn config(arguments: &GrpcArguments) -> Result<Config, Failure> {
    let transport = match (arguments.tls(), arguments.insecure) {
        (Some(TlsFiles { ca, cert, key }), _) => Transport::MutualTls(ServerTls {
            cert,
            key,
            client_ca: ca,
        }),
        (None, true) => Transport::Plaintext,
        (None, false) => {
            let text = "give --tls-cert, --tls-key and --tls-client-ca, \
                        or --insecure for plaintext on a loopback address";
            return Err(Failure::new(Kind::Usage, text));
        }
    };
    Ok(Config {
        grpc_listen: arguments.grpc_listen,
        ops_listen: arguments.ops_listen,
        transport,
        ..Config::default()
    })
}
