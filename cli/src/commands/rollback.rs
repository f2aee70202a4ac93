//! `lanekeeper rollback`

use crate::api::{Api, segment, with_allow_empty, with_message};
use crate::args::{Format, RollbackArguments};
use crate::exit::Failure;
use crate::output;
use serde_json::{Value, json};

pub(crate) async fn run(arguments: RollbackArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    let path = format!(
        "/admin/v1/gateways/{}/revisions/{}/rollback",
        segment(&arguments.gateway),
        arguments.revision
    );
    let path = with_message(&path, arguments.message.as_deref());
    let path = with_allow_empty(&path, arguments.allow_empty);
    let written = api.post(&path, &json!({})).await?.body;
    match arguments.output {
        Format::Json => output::json(&written),
        Format::Yaml => output::yaml(&written)?,
        Format::Table | Format::Wide => {
            let revision = written.get("revision").and_then(Value::as_u64);
            output::line(&format!(
                "gateway {} has the content of revision {} again: revision {}",
                arguments.gateway,
                arguments.revision,
                revision.unwrap_or_default()
            ));
        }
    }
    Ok(())
}
