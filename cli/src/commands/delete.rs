//! `lanekeeper delete`

use crate::api::{Api, segment};
use crate::args::{DeleteArguments, DeleteResource};
use crate::exit::{Failure, Kind};
use crate::output;

pub(crate) async fn run(arguments: DeleteArguments) -> Result<(), Failure> {
    let DeleteResource::Gateway = arguments.resource;
    let api = Api::new(&arguments.api)?;
    gateway(
        &api,
        &arguments.name,
        arguments.force,
        arguments.message.as_deref(),
    )
    .await?;
    output::line(&format!("gateway {} deleted", arguments.name));
    Ok(())
}

/// Deletes a gateway; with `force` also one that live agents serve.
pub(super) async fn gateway(
    api: &Api,
    name: &str,
    force: bool,
    message: Option<&str>,
) -> Result<(), Failure> {
    let path = format!("/admin/v1/gateways/{}", segment(name));
    let deleted = if force {
        api.delete_over(&path, message, "*").await
    } else {
        api.delete(&path, message).await
    };
    deleted.map(drop).map_err(|failure| {
        if failure.kind() == Kind::Conflict && !force {
            let text = format!("{failure}\n  --force deletes it all the same");
            return Failure::new(Kind::Conflict, text);
        }
        failure
    })
}
