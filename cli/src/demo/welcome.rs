//! What the demonstration prints when it is up.

use super::Ports;
use crate::output;

/// The addresses, three curl lines, and how to break a provider. Each line works as printed.
pub(super) fn print(ports: Ports, token: &str) {
    let (http, provider) = (ports.http(), ports.provider());
    let (first, second) = (ports.proxy(0), ports.proxy(1));
    let json = "-H 'content-type: application/json'";
    let prompt = r#""messages":[{"role":"user","content":"hi"}]"#;
    output::line(&format!(
        r#"
Lanekeeper is up: control plane, API and page, three agents, simulated providers, light traffic.

Watch the fleet (signs you in):
  http://{http}/?token={token}

Ask an agent, whole and as a stream, and ask the fleet:
  curl -s http://{first}/v1/chat/completions {json} -d '{{"model":"chat",{prompt}}}'
  curl -sN http://{second}/v1/messages {json} -d '{{"model":"claude","stream":true,"max_tokens":64,{prompt}}}'
  curl -s 'http://{http}/api/v1/breaker-state?include=closed' -H 'authorization: Bearer {token}'

Break a provider for a minute, then ask the fleet again:
  curl -s -X POST http://{provider}/faults -d '{{"path":"/east","status":503,"duration_secs":60}}'

Ctrl-C ends it.
"#
    ));
}
