//! The vendors' client packages on every route, with good answers and with failures.

use lanekeeper_tests::{Process, http_client, run_routes};
use serde_json::{Value, json};
use std::path::Path;

const PROTOCOLS: [&str; 5] = ["openai", "responses", "anthropic", "gemini", "cohere"];
/// The digest of "sesame".
const KEY_SHA256: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
/// The most operations of one protocol.
const OPERATIONS: usize = 5;
/// The calls of one protocol that meet a failure which is over when they come back.
const RETRYING: usize = 4;

/// The names of a protocol's lanes that fail, each with its fault.
fn failing(protocol: &str) -> Vec<(String, Value)> {
    let throttled = json!({"status": 429, "headers": {"retry-after": "7"}});
    let mut lanes = vec![
        ("400".to_owned(), json!({"status": 400})),
        ("503".to_owned(), json!({"status": 503})),
        ("cut".to_owned(), json!({"cut_after_frames": 3})),
        ("error".to_owned(), json!({"error_after_frames": 3})),
    ];
    lanes.extend((0..OPERATIONS).map(|number| (format!("429-{number}"), throttled.clone())));
    for status in [429, 503] {
        let once = json!({"status": status, "headers": {"retry-after": "1"}, "count": 1});
        let names = (0..RETRYING).map(|number| format!("once-{status}-{number}"));
        lanes.extend(names.map(|name| (name, once.clone())));
    }
    for (name, fault) in &mut lanes {
        *name = format!("{protocol}-{name}");
        fault["model"] = json!(name);
    }
    lanes
}

/// What `tests/python/routes.py` says an agent must serve.
fn document(provider: &Process) -> Value {
    let base = provider.url("sim-provider");
    let mut document = json!({
        "gateway": "alone",
        "providers": {},
        "models": {},
        "pools": {},
        // The failing lanes go on failing; none is to rest.
        "defaults": {"breaker": {"trip": {"mode": "consecutive", "consecutive_n": 100}}},
        "limits": {"body_max_bytes": 65_536},
    });
    for protocol in PROTOCOLS {
        document["providers"][protocol] = json!({
            "protocol": protocol, "base_url": format!("{base}/{protocol}"), "api_key": null,
        });
        let good = format!("{protocol}-lane");
        let failing = failing(protocol).into_iter().map(|(name, _)| name);
        for lane in failing.chain([good.clone()]) {
            document["models"][lane] = json!({"provider": protocol});
        }
        document["pools"][format!("{protocol}-pool")] = json!({"members": [{"target": good}]});
    }
    document
}

async fn agent(folder: &Path, name: &str, document: &Value) -> Process {
    let file = folder.join(format!("{name}.json"));
    std::fs::write(&file, document.to_string()).unwrap();
    let arguments = [
        "agent".to_owned(),
        format!("--config={}", file.display()),
        "--listen=127.0.0.1:0".to_owned(),
        "--ops-listen=127.0.0.1:0".to_owned(),
    ];
    let log = folder.join(format!("{name}.log"));
    Process::start(&arguments, &[], &["proxy", "ops"], &log)
        .await
        .unwrap()
}

#[tokio::test]
async fn every_route_works_with_the_vendors_packages_and_fails_with_their_own_exceptions() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    let log = folder.path().join("provider.log");
    let provider = Process::start(&arguments, &[], &["sim-provider"], &log)
        .await
        .unwrap();
    let http = http_client();
    let faults = format!("{}/faults", provider.url("sim-provider"));
    for (_, fault) in PROTOCOLS.into_iter().flat_map(failing) {
        let set = http.post(&faults).json(&fault).send().await.unwrap();
        assert_eq!(set.status(), 201, "{fault}");
    }
    let document = document(&provider);
    let mut guarded = document.clone();
    let pools: Vec<_> = PROTOCOLS.map(|protocol| format!("{protocol}-pool")).into();
    guarded["clients"] = json!([{"name": "team", "key_sha256": KEY_SHA256, "pools": pools}]);
    let open = agent(folder.path(), "open", &document).await;
    let guarded = agent(folder.path(), "guarded", &guarded).await;
    let tally = run_routes(&open.url("proxy"), &guarded.url("proxy"))
        .await
        .unwrap();
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
    assert!(tally.calls > 660, "only {} checks", tally.calls);
}
