//! An agent alone with a file.

use lanekeeper_tests::{Process, eventually, http_client};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

fn document(provider: &Process, weight: u32) -> String {
    json!({
        "gateway": "alone",
        "providers": {"one": {"protocol": "openai", "api_key": null,
            "base_url": provider.url("sim-provider")}},
        "models": {"only": {"provider": "one"}},
        "pools": {"chat": {"members": [{"target": "only", "weight": weight}]}},
    })
    .to_string()
}

async fn start(file: &Path, log: &Path) -> anyhow::Result<Process> {
    let arguments = [
        "agent".to_owned(),
        format!("--config={}", file.display()),
        "--listen=127.0.0.1:0".to_owned(),
        "--ops-listen=127.0.0.1:0".to_owned(),
    ];
    Process::start(&arguments, &[], &["proxy", "ops"], log).await
}

#[tokio::test]
async fn an_agent_serves_its_file_and_keeps_the_running_one_when_a_change_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let arguments = ["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    let provider = Process::start(&arguments, &[], &["sim-provider"], &log)
        .await
        .unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, document(&provider, 1)).unwrap();
    let agent = start(&file, &log).await.unwrap();
    let http = http_client();
    let call = || async {
        let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
        let url = format!("{}/v1/chat/completions", agent.url("proxy"));
        http.post(url)
            .json(&body)
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(call().await, 200);

    let metric = |name: &'static str| {
        let request = http.get(format!("{}/metrics", agent.url("ops")));
        async move {
            let text = request.send().await.unwrap().text().await.unwrap();
            let line = text
                .lines()
                .find(|line| line.starts_with(name))
                .map(str::to_owned);
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        }
    };
    std::fs::write(&file, "gateway: alone\npoools: {}\n").unwrap();
    agent.signal("HUP").await;
    eventually(
        "the bad file is refused",
        Duration::from_secs(5),
        || async {
            match metric("lanekeeper_config_rejects_total").await {
                Some(count) if count >= 1.0 => Ok(()),
                other => Err(format!("{other:?} rejects")),
            }
        },
    )
    .await;
    assert_eq!(call().await, 200, "the running configuration is gone");

    let renamed = document(&provider, 2).replace("\"chat\"", "\"talk\"");
    std::fs::write(&file, renamed).unwrap();
    eventually(
        "the good file is taken without a signal",
        Duration::from_secs(5),
        || async {
            match call().await {
                404 => Ok(()),
                status => Err(format!("still {status}")),
            }
        },
    )
    .await;
    let stats: Value = http
        .get(format!("{}/stats", agent.url("ops")))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(stats["agent"]["config_source"], "file", "{stats}");
}

#[tokio::test]
async fn a_bad_file_at_start_is_told_with_every_problem() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(
        &file,
        "gateway: Edge\nproviders: {a: {protocol: telnet}}\npoools: {}\n",
    )
    .unwrap();
    let error = start(&file, &folder.path().join("log"))
        .await
        .unwrap_err()
        .to_string();
    for word in ["/gateway", "/providers/a", "poools", "pools"] {
        assert!(error.contains(word), "no {word} in {error}");
    }
}
