//! `lanekeeper token`

use super::columns::{self, Column};
use crate::api::Api;
use crate::args::{Format, TokenAction, TokenArguments};
use crate::exit::Failure;
use crate::output;
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/name"),
    ("ROLE", "/role"),
    ("EXPIRES", "/expires_at"),
];
const WIDE: &[Column] = &[
    ("ID", "/id"),
    ("NAME", "/name"),
    ("ROLE", "/role"),
    ("EXPIRES", "/expires_at"),
    ("CREATED", "/created_at"),
    ("CREATED BY", "/created_by"),
];

pub(crate) async fn run(arguments: TokenArguments) -> Result<(), Failure> {
    match arguments.action {
        TokenAction::List { output, api } => {
            let tokens = Api::new(&api)?.get("/admin/v1/tokens").await?.body;
            let entries = || tokens.get("tokens").and_then(Value::as_array);
            match output {
                Format::Json => output::json(&tokens),
                Format::Yaml => output::yaml(&tokens)?,
                Format::Table => columns::rows(COLUMNS, entries().into_iter().flatten()),
                Format::Wide => columns::rows(WIDE, entries().into_iter().flatten()),
            }
        }
        TokenAction::Create {
            name,
            role,
            ttl,
            output,
            api,
        } => {
            let form = json!({"name": name, "role": role.as_str(), "expires_in_secs": ttl});
            let made = Api::new(&api)?.post("/admin/v1/tokens", &form).await?.body;
            match output {
                Format::Json => output::json(&made),
                Format::Yaml => output::yaml(&made)?,
                // Alone on its line, for `TOKEN=$(lanekeeper token create …)`.
                Format::Table | Format::Wide => {
                    output::line(&columns::word(made.get("token")));
                    let id = columns::word(made.get("id"));
                    output::hint(&format!("token {id}; it is not shown again"));
                }
            }
        }
        TokenAction::Revoke { id, api } => {
            let path = format!("/admin/v1/tokens/{}", crate::api::segment(&id));
            Api::new(&api)?.delete(&path, None).await?;
            output::line(&format!("token {id} revoked"));
        }
    }
    Ok(())
}
