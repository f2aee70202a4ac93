//! The Kubernetes manifests: rendered by kubectl, valid against the API's schemas, and safe.

use lanekeeper_tests::repository;
use serde_json::Value;
use std::process::{Command, Stdio};

fn rendered() -> String {
    let output = Command::new("kubectl")
        .args(["kustomize", "deploy/kubernetes/base"])
        .current_dir(repository())
        .output()
        .expect("kubectl runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("manifests are text")
}

fn resource(kind: &str, name: &str) -> Value {
    rendered()
        .split("\n---\n")
        .map(|text| serde_saphyr::from_str::<Value>(text).expect("a manifest is YAML"))
        .find(|value| value["kind"] == kind && value["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn workloads() -> [Value; 2] {
    [
        resource("DaemonSet", "lanekeeper-agent"),
        resource("StatefulSet", "lanekeeper-server"),
    ]
}

#[test]
fn the_manifests_are_valid_against_the_api_schemas() {
    let validator = repository().join(".venv/bin/kubernetes-validate");
    assert!(
        validator.exists(),
        "kubernetes-validate is not installed: make setup"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("base.yaml");
    std::fs::write(&file, rendered()).expect("the file can be written");
    let output = Command::new(validator)
        .arg("--strict")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("the validator runs");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches(" passed for resource ").count(), 7, "{said}");
}

#[test]
fn containers_run_without_privileges() {
    for workload in workloads() {
        let pod = &workload["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        assert_eq!(pod["automountServiceAccountToken"], false);
        for container in pod["containers"].as_array().expect("containers") {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{container}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{container}");
            assert_eq!(context["capabilities"]["drop"][0], "ALL", "{container}");
            assert!(
                container["resources"]["limits"]["memory"].is_string(),
                "{container}"
            );
        }
    }
}

#[test]
fn probes_ask_the_ops_listener() {
    for workload in workloads() {
        let container = &workload["spec"]["template"]["spec"]["containers"][0];
        for (probe, path) in [
            ("startupProbe", "/livez"),
            ("livenessProbe", "/livez"),
            ("readinessProbe", "/readyz"),
        ] {
            let get = &container[probe]["httpGet"];
            assert_eq!(
                (&get["path"], &get["port"]),
                (&path.into(), &"ops".into()),
                "{probe}"
            );
        }
    }
}

#[test]
fn every_node_keeps_an_agent_while_agents_are_replaced() {
    let strategy = &resource("DaemonSet", "lanekeeper-agent")["spec"]["updateStrategy"];
    assert_eq!(strategy["rollingUpdate"]["maxSurge"], 1);
    assert_eq!(strategy["rollingUpdate"]["maxUnavailable"], 0);
    let service = resource("Service", "lanekeeper");
    assert_eq!(service["spec"]["internalTrafficPolicy"], "Local");
}

#[test]
fn the_kubelet_waits_longer_than_the_agent_drains() {
    let pod = &resource("DaemonSet", "lanekeeper-agent")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let seconds = |name: &str| -> u64 {
        let variables = container["env"].as_array().expect("variables");
        let variable = variables.iter().find(|variable| variable["name"] == name);
        let value = variable.unwrap_or_else(|| panic!("no {name}"))["value"].as_str();
        value
            .and_then(|value| value.parse().ok())
            .expect("a number")
    };
    let pre_stop = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64();
    let drain = pre_stop.expect("preStop sleeps")
        + seconds("LANEKEEPER_DRAIN_PAUSE_SECS")
        + seconds("LANEKEEPER_DRAIN_GRACE_SECS");
    let grace = pod["terminationGracePeriodSeconds"]
        .as_u64()
        .expect("a grace period");
    assert!(grace > drain, "{grace} s are not more than {drain} s");
}

#[test]
fn no_manifest_holds_a_secret() {
    let text = rendered();
    assert!(
        !text.contains("kind: Secret\n"),
        "secrets are referred to, never shipped"
    );
    assert!(!text.to_lowercase().contains("api_key:"), "{text}");
}

#[test]
fn every_flag_named_in_the_manifests_exists() {
    let help = |command: &str| {
        let binary = lanekeeper_tests::target_folder().join("lanekeeper");
        let output = Command::new(binary)
            .args([command, "--help"])
            .output()
            .expect("it runs");
        String::from_utf8(output.stdout).expect("help is text")
    };
    for (workload, command) in workloads().iter().zip(["agent", "server"]) {
        let help = help(command);
        let variables = workload["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
        for variable in variables.expect("variables") {
            let name = variable["name"].as_str().expect("a name");
            assert!(
                help.contains(&format!("env: {name}")),
                "{command} does not read {name}"
            );
        }
    }
}
