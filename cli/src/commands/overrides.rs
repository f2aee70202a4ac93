//! `lanekeeper override`

use super::{columns, get};
use crate::api::{Api, segment};
use crate::args::{
    Format, LastingArguments, OrderArguments, OverrideArguments, OverrideCommand, Resource,
    WaitArguments,
};
use crate::exit::{Failure, Kind};
use crate::{clock, output};
use columns::Column;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pause between two looks at the acknowledgements while waiting.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

const ACKS: &[Column] = &[
    ("AGENT", "/agent"),
    ("INSTANCE", "/instance"),
    ("STATE", "/state"),
    ("AGE S", "/age_secs"),
    ("WHY NOT", "/reason"),
];

pub(crate) async fn run(arguments: OverrideArguments) -> Result<(), Failure> {
    match arguments.action {
        OverrideCommand::ForceOpen {
            lasting,
            allow_empty,
        } => give_lasting("force_open", lasting, allow_empty).await,
        OverrideCommand::ForceClose { lasting } => {
            give_lasting("force_close", lasting, false).await
        }
        OverrideCommand::Drain {
            lasting,
            allow_empty,
        } => give_lasting("drain", lasting, allow_empty).await,
        OverrideCommand::Reset { order, ttl } => give("reset", order, ttl, false).await,
        OverrideCommand::List {
            gateway,
            all,
            output,
            api,
        } => list(&Api::new(&api)?, &gateway, all, output).await,
        OverrideCommand::Show {
            id,
            gateway,
            output,
            api,
        } => {
            let order = Api::new(&api)?.get(&path(&gateway, &id)).await?.body;
            print(&order, output)?;
            if matches!(output, Format::Table | Format::Wide) {
                output::line("");
                columns::rows(ACKS, acks(&order));
            }
            Ok(())
        }
        OverrideCommand::Release {
            id,
            gateway,
            message,
            waiting,
            api,
        } => {
            let api = Api::new(&api)?;
            let path = path(&gateway, &id);
            let answer = api.delete(&path, message.as_deref()).await?;
            // The order is shown only when the call had nothing to end.
            output::line(&match answer.body {
                Value::Null => format!("override {id} released"),
                _ => format!("override {id} had already ended"),
            });
            wait(&api, &path, &waiting).await
        }
    }
}

async fn give_lasting(
    action: &str,
    lasting: LastingArguments,
    allow_empty: bool,
) -> Result<(), Failure> {
    give(action, lasting.order, Some(lasting.ttl), allow_empty).await
}

async fn give(
    action: &str,
    order: OrderArguments,
    ttl_secs: Option<u64>,
    allow_empty: bool,
) -> Result<(), Failure> {
    let api = Api::new(&order.api)?;
    let labels: BTreeMap<String, String> = order.label.into_iter().collect();
    let body = json!({
        "action": action,
        "pool": order.pool,
        "lane": order.lane,
        "provider": order.provider,
        "agents": labels,
        "reason": order.reason,
        "ttl_secs": ttl_secs,
        "allow_empty": allow_empty,
    });
    let given = api.post(&all(&order.gateway), &body).await?.body;
    let id = word(&given, "id").to_owned();
    let path = path(&order.gateway, &id);
    let waited = wait(&api, &path, &order.waiting).await;
    // What is printed tells of the acknowledgements that were waited for.
    let shown = match order.waiting.wait {
        true => api.get(&path).await?.body,
        false => given,
    };
    print(&shown, order.output)?;
    if matches!(order.output, Format::Table | Format::Wide) {
        if acks(&shown).next().is_none() {
            output::hint("it matches no agent now; it applies to agents that join later");
        }
        let gateway = &order.gateway;
        output::hint(&format!(
            "to end it: lanekeeper override release {id} --gateway {gateway}"
        ));
    }
    waited
}

async fn list(api: &Api, gateway: &str, all_too: bool, format: Format) -> Result<(), Failure> {
    let filter = all_too.then(|| "include=ended".to_owned());
    let orders = get::list(api, &all(gateway), "overrides", filter).await?;
    match format {
        Format::Json => output::json(&orders),
        Format::Yaml => output::yaml(&orders)?,
        Format::Table | Format::Wide => {
            let entries = orders.get("overrides").and_then(Value::as_array);
            let wide = format == Format::Wide;
            columns::table(Resource::Overrides, entries.into_iter().flatten(), wide);
        }
    }
    Ok(())
}

fn print(order: &Value, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(order),
        Format::Yaml => output::yaml(order)?,
        Format::Table | Format::Wide => {
            columns::table(Resource::Overrides, [order], format == Format::Wide);
        }
    }
    Ok(())
}

/// Waits until no connected agent is behind.
async fn wait(api: &Api, path: &str, arguments: &WaitArguments) -> Result<(), Failure> {
    if !arguments.wait {
        return Ok(());
    }
    let start = clock::now();
    let mut told = None;
    loop {
        let order = api.get(path).await?.body;
        let behind = behind(&order);
        if told != Some(behind.len()) {
            output::hint(&format!(
                "{} connected agents have not applied it yet",
                behind.len()
            ));
            told = Some(behind.len());
        }
        if behind.is_empty() {
            return Ok(());
        }
        if start.elapsed() >= arguments.timeout_secs {
            let text = format!(
                "not applied everywhere after {} s: {}",
                arguments.timeout_secs.as_secs_f64(),
                behind.join("; ")
            );
            return Err(Failure::new(Kind::Unreachable, text));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The agents that have not followed an order, or its release, with what keeps them. A silent one is
/// not waited for: it would be waited for in vain.
fn behind(order: &Value) -> Vec<String> {
    let not_yet = match word(order, "state") {
        "released" => "applied",
        _ => "pending",
    };
    acks(order)
        .filter(|ack| word(ack, "state") == not_yet && word(ack, "reason") != SILENT)
        .map(|ack| match word(ack, "reason") {
            "" => word(ack, "agent").to_owned(),
            reason => format!("{}: {reason}", word(ack, "agent")),
        })
        .collect()
}

/// What the API says of a silent agent.
const SILENT: &str = "the agent is silent";

fn acks(order: &Value) -> impl Iterator<Item = &Value> {
    let acks = order.get("acks").and_then(Value::as_array);
    acks.into_iter().flatten()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn all(gateway: &str) -> String {
    format!("/admin/v1/gateways/{}/overrides", segment(gateway))
}

fn path(gateway: &str, id: &str) -> String {
    format!("{}/{}", all(gateway), segment(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(agent: &str, state: &str, reason: Option<&str>) -> Value {
        json!({"agent": agent, "state": state, "reason": reason})
    }

    #[test]
    fn agents_that_can_follow_and_have_not_are_waited_for() {
        let mut order = json!({"state": "standing", "acks": [
            ack("late", "pending", None),
            ack("old", "pending", Some("too old")),
            ack("silent", "pending", Some(SILENT)),
            ack("done", "applied", None),
            ack("left", "gone", None),
        ]});
        assert_eq!(behind(&order), ["late", "old: too old"]);
        order["state"] = json!("released");
        assert_eq!(behind(&order), ["done"]);
    }
}
