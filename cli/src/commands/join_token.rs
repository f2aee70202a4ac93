//! `lanekeeper join-token`

use super::columns::{self, Column};
use crate::api::{Api, segment};
use crate::args::{Format, JoinTokenAction, JoinTokenArguments};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const COLUMNS: &[Column] = &[
    ("ID", "/id"),
    ("GATEWAY", "/gateway"),
    ("USES", "/uses"),
    ("OF", "/max_uses"),
    ("EXPIRES", "/expires_at"),
];
const WIDE: &[Column] = &[
    ("ID", "/id"),
    ("GATEWAY", "/gateway"),
    ("USES", "/uses"),
    ("OF", "/max_uses"),
    ("EXPIRES", "/expires_at"),
    ("CREATED", "/created_at"),
    ("CREATED BY", "/created_by"),
];

pub(crate) async fn run(arguments: JoinTokenArguments) -> Result<(), Failure> {
    match arguments.action {
        JoinTokenAction::List { output, api } => {
            let tokens = Api::new(&api)?.get("/admin/v1/join-tokens").await?.body;
            let entries = || tokens.get("join_tokens").and_then(Value::as_array);
            match output {
                Format::Json => output::json(&tokens),
                Format::Yaml => output::yaml(&tokens)?,
                Format::Table => columns::rows(COLUMNS, entries().into_iter().flatten()),
                Format::Wide => columns::rows(WIDE, entries().into_iter().flatten()),
            }
        }
        JoinTokenAction::Create {
            gateway,
            ttl,
            max_uses,
            keep_in,
            output,
            api,
        } => {
            if let Some(file) = keep_in.as_ref().filter(|file| file.exists()) {
                output::hint(&format!("{} is there: no token was made", file.display()));
                return Ok(());
            }
            let form = json!({"gateway": gateway, "ttl_secs": ttl, "max_uses": max_uses});
            let api = Api::new(&api)?;
            let made = api.post("/admin/v1/join-tokens", &form).await?.body;
            if let Some(file) = &keep_in {
                return keep(file, &columns::word(made.get("token")));
            }
            match output {
                Format::Json => output::json(&made),
                Format::Yaml => output::yaml(&made)?,
                // Alone on its line, so that it can go into a file as it is.
                Format::Table | Format::Wide => {
                    output::line(&columns::word(made.get("token")));
                    let id = columns::word(made.get("id"));
                    output::hint(&format!("join token {id}; it is not shown again"));
                }
            }
        }
        JoinTokenAction::Revoke { id, agents, api } => {
            let path = format!("/admin/v1/join-tokens/{}?agents={agents}", segment(&id));
            Api::new(&api)?.delete(&path, None).await?;
            output::line(&format!("join token {id} revoked"));
        }
    }
    Ok(())
}

/// Puts a token into a new file that only this user reads.
fn keep(file: &Path, token: &str) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        let text = format!("cannot write {}: {error}", file.display());
        Failure::new(Kind::Other, text)
    };
    let mut options = std::fs::OpenOptions::new();
    let mut opened = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .map_err(cannot)?;
    writeln!(opened, "{token}").map_err(cannot)?;
    output::line(&format!("the join token is in {}", file.display()));
    Ok(())
}
