//! `lanekeeper watch`: the fleet's breakers as they change.
//!
//! At a terminal the table is drawn anew with every change. Elsewhere each change is a line, so
//! that the output can be piped and kept.

use super::columns;
use crate::api::{Api, segment};
use crate::args::{Format, Resource, WatchArguments};
use crate::exit::{Failure, Kind};
use crate::output;
use eventsource_stream::{Event, EventStream, Eventsource};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// First and longest pause before a lost stream is opened again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// A stream that says nothing for this long is dead: the server sends a heartbeat each ten seconds.
const SILENCE: Duration = Duration::from_secs(30);

/// Gateway, pool, lane, the provider whose own cell it is, endpoint.
type Key = [String; 5];

pub(crate) async fn run(arguments: WatchArguments) -> Result<(), Failure> {
    let api = Api::new(&arguments.api)?;
    if let Some(name) = &arguments.gateway {
        let path = format!("/admin/v1/gateways/{}", segment(name));
        api.get(&path).await?;
    }
    let path = path(&arguments);
    let mut screen = Screen::new(arguments.output);
    let mut pause = PAUSES.0;
    // The first failure is the caller's to see; later ones pass.
    let mut stream = api.stream(&path).await?;
    loop {
        if !follow(stream, &mut screen, &mut pause).await {
            return Ok(());
        }
        stream = loop {
            output::hint(&format!(
                "the stream ended; reconnecting in {} s",
                pause.as_secs()
            ));
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSES.1);
            match api.stream(&path).await {
                Ok(stream) => break stream,
                Err(failure) if matches!(failure.kind(), Kind::Unreachable | Kind::Other) => {}
                Err(failure) => return Err(failure),
            }
        };
    }
}

fn path(arguments: &WatchArguments) -> String {
    let filters = [
        ("gateway", &arguments.gateway),
        ("pool", &arguments.pool),
        ("lane", &arguments.lane),
    ];
    let mut query: Vec<String> = filters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", segment(value.as_ref()?))))
        .collect();
    if arguments.closed {
        query.push("include=closed".to_owned());
    }
    format!("/api/v1/breaker-state/stream?{}", query.join("&"))
}

/// Shows a stream's events until it ends; false when nobody reads what is shown.
async fn follow(answer: reqwest::Response, screen: &mut Screen, pause: &mut Duration) -> bool {
    let mut events: EventStream<_> = answer.bytes_stream().eventsource();
    while let Ok(Some(Ok(event))) = tokio::time::timeout(SILENCE, events.next()).await {
        *pause = PAUSES.0;
        if !screen.show(&event) {
            return false;
        }
    }
    true
}

/// What was last shown.
struct Screen {
    format: Format,
    /// Draw the whole table again instead of a line for each change.
    redraw: bool,
    cells: BTreeMap<Key, Value>,
    /// What the latest event says beside its cells.
    latest: Value,
}

impl Screen {
    fn new(format: Format) -> Self {
        Self {
            format,
            redraw: output::is_terminal(),
            cells: BTreeMap::new(),
            latest: Value::Null,
        }
    }

    /// Takes an event in and shows it; false when nobody reads.
    fn show(&mut self, event: &Event) -> bool {
        if event.event == "heartbeat" {
            return true;
        }
        let Ok(data) = serde_json::from_str::<Value>(&event.data) else {
            return true;
        };
        match self.format {
            Format::Json | Format::Yaml => {
                output::try_line(&json!({"event": event.event, "data": data}).to_string())
            }
            Format::Table | Format::Wide => {
                let lines = self.take(&event.event, data);
                if self.redraw {
                    return self.draw();
                }
                lines.iter().all(|line| output::try_line(line))
            }
        }
    }

    /// Takes an event in; the changes in words.
    fn take(&mut self, kind: &str, mut data: Value) -> Vec<String> {
        let time = columns::word(data.get("generated_at"));
        let listed = |data: &mut Value, name: &str| match data.get_mut(name).map(Value::take) {
            Some(Value::Array(items)) => items,
            Some(_) | None => Vec::new(),
        };
        let cells = listed(&mut data, "cells");
        let mut gone: Vec<Key> = listed(&mut data, "gone").iter().map(key).collect();
        if kind == "snapshot" {
            let kept: Vec<Key> = cells.iter().map(key).collect();
            gone = self
                .cells
                .keys()
                .filter(|key| !kept.contains(key))
                .cloned()
                .collect();
        }
        self.latest = data;
        let mut lines = Vec::new();
        for cell in cells {
            let key = key(&cell);
            let now = summary(&cell);
            let before = self.cells.insert(key.clone(), cell);
            if before.as_ref().map(summary).as_ref() != Some(&now) {
                lines.push(format!("{time} {} {now}", name(&key)));
            }
        }
        for key in gone {
            if self.cells.remove(&key).is_some() {
                lines.push(format!("{time} {} closed", name(&key)));
            }
        }
        lines
    }

    fn draw(&self) -> bool {
        let word = |place: &str| columns::word(self.latest.pointer(place));
        let partial = self.latest.get("partial") == Some(&Value::Bool(true));
        output::clear();
        let written = output::try_line(&format!(
            "{}  agents: {} live, {} stale{}",
            word("/generated_at"),
            word("/agents/live"),
            word("/agents/stale"),
            if partial { "  PARTIAL" } else { "" }
        ));
        if self.cells.is_empty() {
            return written && output::try_line("every cell is closed on every agent that reports");
        }
        let wide = self.format == Format::Wide;
        columns::table(Resource::Breakers, self.cells.values(), wide);
        written
    }
}

fn key(cell: &Value) -> Key {
    let part = |name: &str| {
        let value = cell.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    // A lane's cell is known without its provider, which a change may not name.
    let provider = match part("lane").as_str() {
        "" => part("provider"),
        _ => String::new(),
    };
    [
        part("gateway"),
        part("pool"),
        part("lane"),
        provider,
        part("endpoint"),
    ]
}

fn name(key: &Key) -> String {
    let [gateway, pool, lane, provider, endpoint] = key;
    if !provider.is_empty() {
        return output::plain(&columns::name_of_provider(gateway, provider, endpoint));
    }
    let pool = if pool.is_empty() { "\"\"" } else { pool };
    let mut name = format!("{gateway}/{pool}/{lane}");
    if !endpoint.is_empty() {
        name = format!("{name}/{endpoint}");
    }
    output::plain(&name)
}

/// What a person wants to know of a cell, on one line.
fn summary(cell: &Value) -> String {
    let word = |place: &str| columns::word(cell.pointer(place));
    output::plain(&format!(
        "{} scope={} open={} half_open={} closed={} stale={} cause={} status={} override={}",
        word("/state"),
        word("/scope"),
        word("/agents/open"),
        word("/agents/half_open"),
        word("/agents/closed"),
        word("/agents/stale"),
        word("/cause/kind"),
        word("/cause/status"),
        word("/override/action"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(lane: &str, state: &str) -> Value {
        json!({"gateway": "edge", "pool": "chat", "lane": lane, "endpoint": null, "state": state})
    }

    fn event(cells: &[Value], gone: &[Value]) -> Value {
        json!({"generated_at": "T", "agents": {}, "cells": cells, "gone": gone})
    }

    #[test]
    fn changes_are_told_once_and_a_new_snapshot_tells_what_went_meanwhile() {
        let mut screen = Screen::new(Format::Table);
        let first = screen.take("snapshot", event(&[cell("a", "open")], &[]));
        assert_eq!(first.len(), 1);
        assert!(first[0].starts_with("T edge/chat/a open"), "{first:?}");
        assert!(
            screen
                .take("change", event(&[cell("a", "open")], &[]))
                .is_empty(),
            "only ages changed"
        );
        let second = screen.take(
            "change",
            event(&[cell("b", "open")], &[cell("a", "closed")]),
        );
        assert_eq!(second.len(), 2);
        assert_eq!(second[1], "T edge/chat/a closed");
        let third = screen.take("snapshot", event(&[], &[]));
        assert_eq!(third, ["T edge/chat/b closed"]);
    }

    #[test]
    fn providers_own_cells_are_told_apart() {
        let own = |provider: &str| {
            json!({"gateway": "edge", "pool": null, "lane": null, "provider": provider,
                "endpoint": null, "state": "open"})
        };
        let mut screen = Screen::new(Format::Table);
        let first = screen.take("snapshot", event(&[own("east"), own("west")], &[]));
        assert_eq!(first.len(), 2);
        assert!(
            first[0].starts_with("T edge/provider=east open"),
            "{first:?}"
        );
        let second = screen.take("change", event(&[], &[own("west")]));
        assert_eq!(second, ["T edge/provider=west closed"]);
    }
}
