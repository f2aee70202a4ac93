//! Whether callers are failed, which every look at the fleet says whatever it was for.

use super::get;
use crate::api::{Api, segment};
use crate::exit::Failure;
use crate::output;
use serde_json::Value;

/// The list of pools.
pub(super) const POOLS: &str = "/api/v1/pools";

/// A sentence for each pool that can serve nobody on some agent.
pub(super) async fn exhausted(api: &Api, gateway: Option<&str>) -> Result<Vec<String>, Failure> {
    let filter = gateway.map(|name| format!("gateway={}", segment(name)));
    let pools = get::list(api, POOLS, "pools", filter).await?;
    let pools = pools.get("pools").and_then(Value::as_array);
    Ok(pools.into_iter().flatten().filter_map(sentence).collect())
}

/// Says which pools serve nobody, if there are any.
pub(super) async fn hint(api: &Api, gateway: Option<&str>) -> Result<(), Failure> {
    for sentence in exhausted(api, gateway).await? {
        output::report(&format!("callers are failed: {sentence}"));
    }
    Ok(())
}

fn sentence(pool: &Value) -> Option<String> {
    let count = |place: &str| pool.pointer(place).and_then(Value::as_u64);
    let text = |name: &str| pool.get(name).and_then(Value::as_str).unwrap_or_default();
    let on = count("/agents/exhausted_on").filter(|on| *on > 0)?;
    let of = count("/agents/reporting").unwrap_or(on);
    let reasons = pool.get("exhausted_reasons").and_then(Value::as_array);
    let reasons = reasons.into_iter().flatten().filter_map(Value::as_str);
    let reasons = reasons.collect::<Vec<_>>().join(", ");
    let name = match text("pool") {
        "" => "direct routes serve".to_owned(),
        pool => format!("pool {} serves", output::plain(pool)),
    };
    let gateway = output::plain(text("gateway"));
    Some(format!(
        "{name} nobody on {on} of {of} agents of gateway {gateway} ({reasons})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pool_that_serves_nobody_somewhere_is_told_with_the_reasons() {
        let pool = |exhausted_on: u64| {
            json!({"gateway": "edge", "pool": "chat",
                "agents": {"reporting": 3, "exhausted_on": exhausted_on},
                "exhausted_reasons": ["missing_key", "cell_open"]})
        };
        assert_eq!(sentence(&pool(0)), None);
        assert_eq!(
            sentence(&pool(1)).unwrap(),
            "pool chat serves nobody on 1 of 3 agents of gateway edge (missing_key, cell_open)"
        );
    }
}
