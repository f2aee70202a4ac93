//! An agent alone with a file.

use lanekeeper_tests::{LIVENESS, Process, eventually, http_client};
use serde_json::{Value, json};
use std::path::Path;

/// The digest of "SECRET-OF-CALLER".
const KEY_SHA256: &str = "3ceaad0f05b275e94dfe3e62ac4a67e6e2c4c5060a8e16277f33bf4ab479c058";

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
    eventually("the bad file is refused", LIVENESS, || async {
        match metric("lanekeeper_config_rejects_total").await {
            Some(count) if count >= 1.0 => Ok(()),
            other => Err(format!("{other:?} rejects")),
        }
    })
    .await;
    assert_eq!(call().await, 200, "the running configuration is gone");

    let renamed = document(&provider, 2).replace("\"chat\"", "\"talk\"");
    std::fs::write(&file, renamed).unwrap();
    eventually(
        "the good file is taken without a signal",
        LIVENESS,
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
async fn a_bad_file_at_start_is_reported_with_every_problem() {
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

/// Field report B113: neither the provider's key nor a caller's is in a log of the most talkative
/// kind, whatever goes wrong.
#[tokio::test]
async fn no_key_is_ever_logged() {
    const KEYS: [&str; 3] = ["SECRET-OF-LANE", "SECRET-OF-CALLER", "SECRET-OF-STRANGER"];
    let folder = tempfile::tempdir().unwrap();
    let (log, provider_log) = (folder.path().join("log"), folder.path().join("provider"));
    let arguments = ["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    let provider = Process::start(&arguments, &[], &["sim-provider"], &provider_log)
        .await
        .unwrap();
    let http = http_client();
    let base = provider.url("sim-provider");
    let echoes = json!({"error": {"message": format!("bad key {}", KEYS[0])}});
    for (model, status) in [("refused", 401), ("wrong", 400), ("down", 503)] {
        let fault = json!({"model": model, "status": status, "body": echoes});
        let set = http
            .post(format!("{base}/faults"))
            .json(&fault)
            .send()
            .await;
        assert_eq!(set.unwrap().status(), 201);
    }
    let gemini =
        |url: &str| json!({"protocol": "gemini", "base_url": url, "api_key": {"env": "LANE_KEY"}});
    let mut document = json!({
        "gateway": "alone",
        "providers": {
            "good": gemini(&base),
            "nowhere": gemini("https://does-not-exist.invalid"),
            "plain": gemini(&base.replace("http:", "https:")),
        },
        "models": {"nowhere": {"provider": "nowhere"}, "plain": {"provider": "plain"}},
        "allow_private_hosts": ["does-not-exist.invalid"],
        "clients": [{"name": "team", "key_sha256": KEY_SHA256}],
    });
    let lanes = ["whole", "refused", "wrong", "down"];
    for lane in lanes {
        document["models"][lane] = json!({"provider": "good"});
    }
    let file = folder.path().join("gateway.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let arguments = [
        "agent".to_owned(),
        format!("--config={}", file.display()),
        "--listen=127.0.0.1:0".to_owned(),
        "--ops-listen=127.0.0.1:0".to_owned(),
    ];
    let environment = [
        ("LANE_KEY", KEYS[0].to_owned()),
        ("LANEKEEPER_LOG", "trace".to_owned()),
    ];
    let agent = Process::start(&arguments, &environment, &["proxy", "ops"], &log)
        .await
        .unwrap();
    let mut seen = String::new();
    for lane in lanes.into_iter().chain(["nowhere", "plain", "unknown"]) {
        for key in &KEYS[1..] {
            let url = format!(
                "{}/v1beta/models/{lane}:generateContent?key={key}",
                agent.url("proxy")
            );
            let body = json!({"contents": [{"parts": [{"text": "hi"}]}]});
            for request in [
                http.post(&url).json(&body),
                http.post(&url).json(&body).bearer_auth(key),
                http.post(&url).json(&body).header("x-goog-api-key", *key),
            ] {
                let answer = request.send().await.unwrap();
                let status = answer.status().as_u16();
                // The lane's own refusal is reported once; then it is out.
                if *key == KEYS[2] || lane != "refused" {
                    assert_eq!(status == 401, *key == KEYS[2], "{lane}");
                }
                // What a provider says of a request is relayed as it is.
                if lane != "wrong" {
                    seen += &answer.text().await.unwrap();
                }
            }
        }
    }
    for path in ["metrics", "stats"] {
        let url = format!("{}/{path}", agent.url("ops"));
        seen += &http.get(url).send().await.unwrap().text().await.unwrap();
    }
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(
        log.contains("DEBUG"),
        "the log is not of the talkative kind"
    );
    for key in KEYS {
        let line = log.lines().find(|line| line.contains(key));
        assert_eq!(line, None, "{key} is logged");
        assert!(!seen.contains(key), "{key} is shown");
    }
}
