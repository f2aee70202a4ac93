//! Real processes with the very environment of the manifests, on this machine's addresses and
//! folders: a fleet comes about by itself.

use crate::cluster::{Cluster, OWN_TOKEN};
use crate::manifests::{Workload, list, rendered, string, workloads};
use lanekeeper_tests::{Process, command, eventually, http_client};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Longest wait for something that takes a moment.
const BOUND: Duration = Duration::from_secs(30);

/// A workload's environment with its folders below `root`, its listeners on free ports, and
/// `changes` for what only a cluster has.
fn environment<'a>(
    workload: &'a Workload,
    root: &Path,
    changes: &[(&str, String)],
) -> Vec<(&'a str, String)> {
    let pairs = workload.environment.iter();
    pairs
        .map(|(name, value)| {
            let change = changes
                .iter()
                .find(|(changed, _)| *changed == name.as_str());
            let value = match change {
                Some((_, value)) => value.clone(),
                None if value.starts_with('/') => format!("{}{value}", root.display()),
                None if value.starts_with("0.0.0.0:") => "127.0.0.1:0".to_owned(),
                None => value.clone(),
            };
            (name.as_str(), value)
        })
        .collect()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

async fn run(arguments: &[&str]) -> String {
    let output = command(arguments, &[]).await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_fleet_comes_about_with_what_the_manifests_give_its_processes() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let workloads = workloads(&rendered("single"));
    let by = |command: &str| workloads.iter().find(|it| it.command == command).unwrap();
    let (server, agent) = (by("server"), by("agent"));

    // As the page says: an authority, in a Secret for one side and a ConfigMap for the other.
    let path = |below: &str| root.join(below).display().to_string();
    std::fs::create_dir(root.join("authority")).unwrap();
    let (cert, key) = (path("authority/ca.crt"), path("authority/ca.key"));
    run(&["ca", "rotate", "--ca-cert", &cert, "--ca-key", &key]).await;
    write(&root.join("cluster/ca.crt"), &cluster.authority);
    write(&root.join("cluster/token"), OWN_TOKEN);
    std::fs::create_dir(root.join("data")).unwrap();

    let jwks = &server.environment["LANEKEEPER_KUBERNETES_JWKS"];
    let names = &server.environment["LANEKEEPER_TLS_NAMES"];
    let changes = [
        (
            "LANEKEEPER_KUBERNETES_JWKS",
            jwks.replace("https://kubernetes.default.svc", &cluster.url),
        ),
        ("LANEKEEPER_TLS_NAMES", format!("{names},localhost")),
    ];
    let variables = environment(server, root, &changes);
    let arguments = list(&server.container["args"]);
    let arguments: Vec<String> = arguments.iter().map(string).collect();
    let listeners = ["grpc", "http", "ops"];
    let log = root.join("server.log");
    let plane = Process::start(&arguments, &variables, &listeners, &log)
        .await
        .unwrap();

    // The first token makes another one, which makes a gateway.
    let (url, first) = (plane.url("http"), path("data/bootstrap-token"));
    let create = [
        "token",
        "create",
        "ops",
        "--role",
        "admin",
        "--token-file",
        &first,
        "--url",
        &url,
    ];
    let token = run(&create).await;
    let http = http_client();
    let document = json!({
        "gateway": "edge",
        "providers": {"one": {"protocol": "openai", "base_url": "http://127.0.0.1:1", "api_key": null}},
        "models": {"m": {"provider": "one"}},
        "pools": {"chat": {"members": [{"target": "m"}]}},
    });
    let created = http
        .post(format!("{url}/admin/v1/gateways"))
        .bearer_auth(&token);
    let created = created.json(&document).send().await.unwrap();
    assert_eq!(created.status(), 201);

    let issuer = &server.environment["LANEKEEPER_KUBERNETES_ISSUER"];
    let account = string(&agent.pod["serviceAccountName"]);
    let volumes = list(&agent.pod["volumes"]).iter();
    let sources = volumes.flat_map(|it| list(&it["projected"]["sources"]));
    let projected = sources
        .map(|it| &it["serviceAccountToken"])
        .find(|it| !it.is_null())
        .unwrap();
    let audience = string(&projected["audience"]);
    let port = plane.address("grpc").rsplit(':').next().unwrap();
    let mut running = Vec::new();
    for node in ["node-1", "node-2"] {
        let root = root.join(node);
        let token = cluster.project(&account, node, &audience, issuer);
        write(&root.join("join/token"), &token);
        write(
            &root.join("join/ca.crt"),
            &std::fs::read_to_string(&cert).unwrap(),
        );
        let changes = [
            (
                "LANEKEEPER_CONTROL_PLANE",
                format!("https://localhost:{port}"),
            ),
            ("LANEKEEPER_NAME", node.to_owned()),
        ];
        let variables = environment(agent, &root, &changes);
        let arguments = list(&agent.container["args"]);
        let arguments: Vec<String> = arguments.iter().map(string).collect();
        let log = root.join("agent.log");
        let started = Process::start(&arguments, &variables, &["proxy", "ops"], &log).await;
        let process = started.unwrap();
        eventually(node, BOUND, || async {
            let ready = http
                .get(format!("{}/readyz", process.url("ops")))
                .send()
                .await;
            let ready = ready.map_err(|error| error.to_string())?.status();
            let stats = http
                .get(format!("{}/stats", process.url("ops")))
                .send()
                .await;
            let stats: Value = stats.unwrap().json().await.unwrap();
            if ready == 200 && stats["agent"]["connected"] == true {
                Ok(())
            } else {
                Err(format!(
                    "{ready} {stats}\n{}",
                    std::fs::read_to_string(&log).unwrap()
                ))
            }
        })
        .await;
        assert!(
            root.join("cache/identity").exists(),
            "kept for the next pod"
        );
        running.push(process);
        // The next pod's token is signed with a key that the server has not seen.
        cluster.rotate();
    }
    let identities = http
        .get(format!("{url}/admin/v1/identities"))
        .bearer_auth(&token);
    let identities: Value = identities.send().await.unwrap().json().await.unwrap();
    let identities = list(&identities["identities"]);
    assert_eq!(identities.len(), 2);
    let expected = format!("kubernetes/lanekeeper/{account}");
    assert!(
        identities
            .iter()
            .all(|it| it["origin"] == expected.as_str()),
        "{identities:?}"
    );
}
