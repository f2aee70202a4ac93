//! The gateway document of the demonstration: two pools of lanes on simulated providers.

use serde_json::{Value, json};
use std::net::SocketAddr;

/// Its name.
pub(super) const NAME: &str = "demo";

/// The document, with all four providers played by the one at `provider`.
pub(super) fn document(provider: SocketAddr) -> Value {
    let upstream = |name: &str, protocol: &str| {
        json!({
            "protocol": protocol,
            "base_url": format!("http://{provider}/{name}"),
            "api_key": null,
        })
    };
    let lane = |provider: &str| json!({"provider": provider, "max_concurrent": 64, "attempt_timeout_ms": 2000});
    json!({
        "gateway": NAME,
        "labels": {"purpose": "demonstration"},
        "providers": {
            "east": upstream("east", "openai"),
            "west": upstream("west", "openai"),
            "north": upstream("north", "anthropic"),
            "south": upstream("south", "anthropic"),
        },
        "models": {
            "gpt-east": lane("east"),
            "gpt-west": lane("west"),
            "claude-north": lane("north"),
            "claude-south": lane("south"),
        },
        // A lane trips on its third failure in a row, so that whoever breaks one need not wait long.
        "defaults": {"breaker": {
            "park_secs": 1, "trip": {"mode": "consecutive", "consecutive_n": 3},
        }},
        "pools": {
            "chat": {"members": [
                {"target": "gpt-east", "weight": 3},
                {"target": "gpt-west", "weight": 1},
            ]},
            "claude": {"members": [
                {"target": "claude-north", "weight": 1},
                {"target": "claude-south", "weight": 1},
            ]},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_valid() {
        let document = document(SocketAddr::from(([127, 0, 0, 1], 7500)));
        lanekeeper_model::check_json(&document).unwrap();
    }
}
