//! `lanekeeper timeline`

use super::columns::{self, Column};
use super::get;
use crate::api::{Api, segment};
use crate::args::{Format, TimelineArguments};
use crate::exit::Failure;
use crate::{clock, output};
use serde_json::Value;

const COLUMNS: &[Column] = &[
    ("AT", "/at"),
    ("GATEWAY", "/gateway"),
    ("POOL", "/pool"),
    ("LANE", "/lane"),
    ("PROVIDER", "/provider"),
    ("AGENT", "/agent"),
    ("KIND", "/kind"),
    ("REASON", "/reason"),
    ("CAUSE", "/cause/kind"),
    ("STATUS", "/cause/status"),
];

/// What `-o wide` adds.
const MORE: &[Column] = &[
    ("ENDPOINT", "/endpoint"),
    ("FAILURES", "/failures"),
    ("OF", "/samples"),
    ("COOLDOWN S", "/cooldown_secs"),
    ("OBSERVED", "/observed"),
    ("INSTANCE", "/instance"),
    ("SEQUENCE", "/sequence"),
    ("MISSING", "/missing"),
];

pub(crate) async fn run(arguments: TimelineArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    if let Some(name) = &arguments.gateway {
        // A filter that matches nothing looks quiet: a mistyped name has to be told apart.
        let path = format!("/admin/v1/gateways/{}", segment(name));
        api.get(&path).await?;
    }
    let since = arguments.since.map(clock::rfc3339_before);
    let filters = [
        ("gateway", arguments.gateway.as_deref()),
        ("pool", arguments.pool.as_deref()),
        ("lane", arguments.lane.as_deref()),
        ("provider", arguments.provider.as_deref()),
        ("agent", arguments.agent.as_deref()),
        ("kind", arguments.kind.map(|kind| kind.as_str())),
        ("incident", arguments.incident.as_deref()),
        ("from", since.as_deref().or(arguments.from.as_deref())),
        ("until", arguments.until.as_deref()),
    ];
    let limit = arguments.limit as usize;
    let entries = get::list_some(&api, "/api/v1/timeline", "entries", &filters, limit).await?;
    match arguments.output {
        Format::Json => output::json(&entries),
        Format::Yaml => output::yaml(&entries)?,
        Format::Table | Format::Wide => {
            let more = match arguments.output {
                Format::Wide => MORE,
                Format::Table | Format::Json | Format::Yaml => &[],
            };
            let shown: Vec<Column> = COLUMNS.iter().chain(more).copied().collect();
            let listed = entries.get("entries").and_then(Value::as_array);
            columns::rows(&shown, listed.into_iter().flatten());
            let is_missing = |entry: &&Value| entry.get("kind").is_some_and(|it| it == "shed");
            if listed.into_iter().flatten().any(|entry| is_missing(&entry)) {
                output::hint("changes are missing where it says shed");
            }
        }
    }
    Ok(())
}
