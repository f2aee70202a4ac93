//! Light traffic, so that the demonstration has something to show.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Pause between two calls to one agent.
const INTERVAL: Duration = Duration::from_millis(300);
/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Calls every agent in turn until `stop`, with either dialect, every other call a stream.
pub(super) fn start(proxies: Vec<SocketAddr>, stop: &CancellationToken) {
    for proxy in proxies {
        let stop = stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(call(proxy)).await });
    }
}

async fn call(proxy: SocketAddr) {
    let http = match reqwest::Client::builder().timeout(TIMEOUT).build() {
        Ok(http) => http,
        Err(error) => return tracing::warn!(%error, "no traffic"),
    };
    let mut tick = tokio::time::interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u64.. {
        tick.tick().await;
        let (path, body) = request(number);
        let answer = http
            .post(format!("http://{proxy}{path}"))
            .json(&body)
            .send()
            .await;
        let outcome = match answer {
            Ok(answer) => answer.error_for_status(),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(answer) => _ = answer.bytes().await,
            Err(error) => tracing::info!(%error, "a call of the demonstration failed"),
        }
    }
}

fn request(number: u64) -> (&'static str, Value) {
    let messages = json!([{"role": "user", "content": "Say something."}]);
    let stream = number % 4 >= 2;
    if number.is_multiple_of(2) {
        (
            "/v1/chat/completions",
            json!({"model": "chat", "stream": stream, "messages": messages}),
        )
    } else {
        let body = json!({
            "model": "claude", "stream": stream, "max_tokens": 64, "messages": messages,
        });
        ("/v1/messages", body)
    }
}
