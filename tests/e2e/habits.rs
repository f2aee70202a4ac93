//! What people who know kubectl type: filters, messages, revisions, deletion, completion; and the
//! messages when something is wrong with the way to the server.

use lanekeeper_tests::{Fleet, Options, command, target_folder};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8(all).unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn write(path: &Path, document: &Value) {
    std::fs::write(path, document.to_string()).unwrap();
}

#[tokio::test]
async fn two_operators_do_not_overwrite_each_other_and_what_they_did_is_on_record() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", &fleet.token),
    ];
    let run = async |arguments: &[&str]| command(arguments, &environment).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.json");
    let path = file.display().to_string();
    let mut document = fleet.document(&json!({}));

    document["labels"] = json!({"by": "first"});
    write(&file, &document);
    let apply = [
        "apply",
        "-f",
        &path,
        "--if-revision",
        "1",
        "--message",
        "a first change",
    ];
    let first = run(&apply).await;
    assert_eq!(code(&first), Some(0), "{}", text(&first));
    document["labels"] = json!({"by": "second"});
    write(&file, &document);
    let second = run(&apply).await;
    assert_eq!(code(&second), Some(5), "{}", text(&second));
    assert!(
        text(&second).contains("current revision is 2"),
        "{}",
        text(&second)
    );

    let history = run(&["get", "revisions", "edge", "--sort-by", "revision"]).await;
    assert!(
        text(&history).contains("a first change"),
        "{}",
        text(&history)
    );
    let old = run(&["get", "config", "edge", "--revision", "1", "-o", "json"]).await;
    let old: Value = serde_json::from_slice(&old.stdout).unwrap();
    assert!(old["labels"].is_null(), "{old}");
    let diff = run(&["diff", "edge", "1", "--exit-code"]).await;
    assert_eq!(code(&diff), Some(8), "{}", text(&diff));
    assert!(
        text(&diff).contains("+ /labels/by: \"first\"") || text(&diff).contains("+ /labels: {")
    );
    let audit = run(&["get", "audit", "-o", "wide"]).await;
    assert!(text(&audit).contains("config.write"), "{}", text(&audit));
    for resource in ["identities", "authorities"] {
        let listed = run(&["get", resource]).await;
        assert_eq!(code(&listed), Some(0), "{resource}: {}", text(&listed));
    }

    // The plan is shown, set from a file and shown again.
    let plan = folder.path().join("plan.yaml");
    std::fs::write(&plan, "strategy: staged\n").unwrap();
    let set = [
        "rollout",
        "plan",
        "edge",
        "-f",
        &plan.display().to_string(),
        "--message",
        "careful",
    ];
    let set = run(&set).await;
    assert_eq!(code(&set), Some(0), "{}", text(&set));
    let shown = run(&["get", "plan", "edge"]).await;
    assert!(
        text(&shown).contains("strategy: staged"),
        "{}",
        text(&shown)
    );

    // A refusal names the flag, not the field.
    let lane = [
        "override",
        "drain",
        "--gateway",
        "edge",
        "--lane",
        "gpt-east",
        "--ttl",
        "300d",
        "--reason",
        "x",
    ];
    let refused = run(&lane).await;
    assert_eq!(code(&refused), Some(3), "{}", text(&refused));
    assert!(text(&refused).contains("--ttl"), "{}", text(&refused));
    assert!(!text(&refused).contains("ttl_secs"), "{}", text(&refused));
}

#[tokio::test]
async fn lists_are_filtered_and_sorted_and_folders_applied_and_pruned() {
    let fleet = Fleet::start(Options {
        agents: 2,
        ..Options::default()
    })
    .await
    .unwrap();
    let url = fleet.server.url("http");
    let environment = [("LANEKEEPER_TOKEN", fleet.token.as_str())];
    // The address stands before the command here.
    let run = async |arguments: &[&str]| {
        let all: Vec<&str> = ["--url", &url].iter().chain(arguments).copied().collect();
        command(&all, &environment).await
    };
    let names = run(&[
        "get",
        "agents",
        "--state",
        "live",
        "--sort-by=-agent",
        "-o",
        "json",
    ])
    .await;
    let names: Value = serde_json::from_slice(&names.stdout).unwrap();
    let names: Vec<&str> = names["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["node-1", "node-0"]);
    let none = run(&["agents", "list", "-l", "zone=nowhere", "-o", "json"]).await;
    let none: Value = serde_json::from_slice(&none.stdout).unwrap();
    assert_eq!(none["agents"], json!([]));
    let lane = run(&[
        "get", "breakers", "--closed", "--lane", "gpt-east", "-o", "name",
    ])
    .await;
    assert!(
        text(&lane).lines().all(|line| line.ends_with("/gpt-east")),
        "{}",
        text(&lane)
    );
    let wrong = run(&["get", "agents", "--sort-by", "colour"]).await;
    assert_eq!(code(&wrong), Some(2), "{}", text(&wrong));

    let folder = tempfile::tempdir().unwrap();
    let mut document = fleet.document(&json!({}));
    write(&folder.path().join("edge.json"), &document);
    document["gateway"] = json!("other");
    write(&folder.path().join("other.yaml"), &document);
    std::fs::write(folder.path().join("notes.txt"), "no document").unwrap();
    let path = folder.path().display().to_string();
    let applied = run(&["apply", "-f", &path]).await;
    assert_eq!(code(&applied), Some(0), "{}", text(&applied));
    assert!(
        text(&applied).contains("gateway other created"),
        "{}",
        text(&applied)
    );
    std::fs::remove_file(folder.path().join("other.yaml")).unwrap();
    let pruned = run(&["apply", "-f", &path, "--prune"]).await;
    assert_eq!(code(&pruned), Some(0), "{}", text(&pruned));
    assert!(
        text(&pruned).contains("gateway other deleted"),
        "{}",
        text(&pruned)
    );

    // One that agents serve is deleted on purpose only.
    let kept = run(&["delete", "gateway", "edge"]).await;
    assert_eq!(code(&kept), Some(5), "{}", text(&kept));
    assert!(text(&kept).contains("--force"), "{}", text(&kept));
    let gone = run(&["delete", "gateway", "edge", "--force", "--message", "moved"]).await;
    assert_eq!(code(&gone), Some(0), "{}", text(&gone));
    assert_eq!(code(&run(&["get", "config", "edge"]).await), Some(7));
}

#[tokio::test]
async fn a_shell_completes_the_names_of_the_fleet() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    let complete = async |words: &[&str], token: &str| {
        let mut command = tokio::process::Command::new(target_folder().join("lanekeeper"));
        command
            .env("COMPLETE", "fish")
            .env("LANEKEEPER_URL", fleet.server.url("http"))
            .env("LANEKEEPER_TOKEN", token)
            .args(["--", "lanekeeper"])
            .args(words);
        text(&command.output().await.unwrap())
    };
    assert!(
        complete(&["get", "config", ""], &fleet.token)
            .await
            .lines()
            .any(|it| it.starts_with("edge"))
    );
    assert!(
        complete(&["agents", "show", "no"], &fleet.token)
            .await
            .contains("node-0")
    );
    assert!(
        complete(&["get", "breakers", "--lane", "gpt"], &fleet.token)
            .await
            .contains("gpt-east")
    );
    assert!(complete(&["roll"], &fleet.token).await.contains("rollout"));
    // A server that refuses has no names, and is no error under a person's fingers.
    assert!(
        !complete(&["get", "config", ""], "wrong.token")
            .await
            .contains("edge")
    );
}

/// A server with a certificate for `name` that answers every request with an empty list.
async fn tls_server(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut head = [0; 4096];
                _ = stream.read(&mut head).await;
                let body = "{\"gateways\": [], \"next_cursor\": null}";
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                _ = stream.write_all(answer.as_bytes()).await;
                _ = stream.shutdown().await;
            });
        }
    });
    (url, certificate.pem())
}

#[tokio::test]
async fn why_there_is_no_connection_is_said_cause_by_cause() {
    let folder = tempfile::tempdir().unwrap();
    let get = async |url: &str, authority: Option<&str>| {
        let mut arguments = vec!["get", "gateways", "--url", url, "--token", "a.b"];
        if let Some(authority) = authority {
            arguments.extend(["--cacert", authority]);
        }
        command(&arguments, &[]).await
    };
    let keep = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let (good, pem) = tls_server("localhost").await;
    let good_authority = keep("good.pem", &pem);
    let (misnamed, pem) = tls_server("other.example.com").await;
    let misnamed_authority = keep("misnamed.pem", &pem);
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = plain.local_addr().unwrap();
    drop(plain);

    for (url, authority, part) in [
        (format!("http://{closed}"), None, "connection refused"),
        (
            "http://no-such-host.invalid:7401".to_owned(),
            None,
            "unknown host",
        ),
        (good.clone(), None, "not trusted"),
        (misnamed, Some(misnamed_authority.as_str()), "another name"),
    ] {
        let failed = get(&url, authority).await;
        assert_eq!(code(&failed), Some(4), "{url}: {}", text(&failed));
        assert!(text(&failed).contains(part), "{url}: {}", text(&failed));
    }
    let trusted = get(&good, Some(&good_authority)).await;
    assert_eq!(code(&trusted), Some(0), "{}", text(&trusted));
    let missing = get(&good, Some("/nonexistent.pem")).await;
    assert_eq!(code(&missing), Some(2), "{}", text(&missing));
    assert!(text(&missing).contains("--cacert"), "{}", text(&missing));
}

#[tokio::test]
async fn another_gateways_file_becomes_a_document_that_check_takes() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("config.yaml");
    let text_of =
        "model_list:\n  - model_name: chat\n    litellm_params: {model: openai/gpt-4o, rpm: 5}\n";
    std::fs::write(&foreign, text_of).unwrap();
    let foreign = foreign.display().to_string();
    let lossy = command(&["import", "litellm", &foreign], &[]).await;
    assert_eq!(code(&lossy), Some(8), "{}", text(&lossy));
    let report = String::from_utf8(lossy.stderr.clone()).unwrap();
    assert!(
        report.contains("     3  lost     model_list[0].litellm_params.rpm"),
        "{report}"
    );
    let accepted = command(&["import", "litellm", &foreign, "--lossy"], &[]).await;
    assert_eq!(code(&accepted), Some(0), "{}", text(&accepted));
    let document = folder.path().join("gateway.yaml");
    std::fs::write(&document, &accepted.stdout).unwrap();
    let document = document.display().to_string();
    let checked = command(&["check", &document], &[]).await;
    assert_eq!(code(&checked), Some(0), "{}", text(&checked));
    let both = command(
        &["import", "litellm", &foreign, "-o", "json", "--lossy"],
        &[],
    )
    .await;
    let both: Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(both["document"]["gateway"], "edge");
    assert_eq!(both["report"].as_array().unwrap().len(), 3);
}
