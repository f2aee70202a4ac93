//! `lanekeeper control-plane`

use crate::args::{ControlPlaneArguments, GrpcArguments, TlsFiles};
use crate::exit::{Failure, Kind};
use crate::storage::Storage;
use crate::{output, shutdown};
use lanekeeper_control_plane::{Addresses, Config, Error, ServerTls, Transport};
use std::path::Path;
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(arguments: ControlPlaneArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let Some(storage) = Storage::connect(&arguments.storage, &shutdown.orderly).await? else {
        return Ok(());
    };
    serve(&arguments.grpc, None, storage, shutdown.orderly).await
}

/// Serves agents until told to end. The authority is in `data_dir` unless the flags name files.
pub(crate) async fn serve(
    arguments: &GrpcArguments,
    data_dir: Option<&Path>,
    storage: Storage,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let ready = |addresses: Addresses| {
        output::line(&format!("grpc listening on {}", addresses.grpc));
        output::line(&format!("ops listening on {}", addresses.ops));
    };
    lanekeeper_control_plane::run(
        config(arguments, data_dir)?,
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

fn config(arguments: &GrpcArguments, data_dir: Option<&Path>) -> Result<Config, Failure> {
    let enrolment = || arguments.enrolment.settings(data_dir);
    let transport = match (arguments.tls(), arguments.insecure) {
        (Some(TlsFiles { ca, cert, key }), _) => Transport::MutualTls(ServerTls {
            cert,
            key,
            client_ca: ca,
        }),
        (None, true) => Transport::Plaintext,
        (None, false) => Transport::Enrolment(enrolment().ok_or_else(|| {
            let text = "give --ca-cert and --ca-key for agents to join, \
                        or --tls-cert, --tls-key and --tls-client-ca, \
                        or --insecure for plaintext on a loopback address";
            Failure::new(Kind::Usage, text)
        })?),
    };
    Ok(Config {
        grpc_listen: arguments.grpc_listen,
        ops_listen: arguments.ops_listen,
        transport,
        ..Config::default()
    })
}
