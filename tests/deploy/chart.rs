//! The Helm chart makes the same objects as the kustomize folders.

use crate::manifests::{composed, find, list, objects};
use lanekeeper_tests::repository;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::process::Command;

/// What a chart adds to an object's labels, so that `helm` finds its objects again.
const CHARTS_OWN: [&str; 4] = [
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

/// The chart with these values set.
fn chart(values: &[&str]) -> Result<Vec<Value>, String> {
    let root = repository();
    let helm = root.join("target/tools/bin/helm");
    assert!(helm.exists(), "it is not installed: make setup");
    let mut command = Command::new(helm);
    command
        .args(["template", "lanekeeper"])
        .arg(root.join("deploy/helm/lanekeeper"))
        .args(["--namespace", "lanekeeper"]);
    for value in values {
        command.args(["--set", value]);
    }
    let output = command.output().expect("helm runs");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).expect("manifests are text");
    let text = text.trim_start_matches("---\n");
    Ok(objects(text))
}

/// Objects by kind and name, without what only one of the two ways gives them: a hash in the
/// names of settings, and labels and annotations of the tool.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut named = BTreeMap::new();
    for object in objects.into_iter().filter(|object| !object.is_null()) {
        let text = object.to_string();
        let text = without_hash(&text, "lanekeeper-agent-");
        let text = without_hash(&text, "lanekeeper-control-plane-");
        let mut object: Value = serde_json::from_str(&text).expect("still an object");
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|name, _| !CHARTS_OWN.contains(&name.as_str()));
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
        if let Some(pod) = object.pointer_mut("/spec/template/metadata") {
            let annotations = pod.as_object_mut().map(|pod| pod.remove("annotations"));
            let annotations = annotations.flatten().unwrap_or_default();
            let names = annotations.as_object().map(Map::keys).into_iter().flatten();
            assert!(names.into_iter().all(|name| name == "lanekeeper/settings"));
        }
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert!(named.insert(name.clone(), object).is_none(), "two {name}");
    }
    named
}

/// The text without the ten letters that kustomize puts behind a generated name.
fn without_hash(text: &str, name: &str) -> String {
    let mut parts = text.split(name);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let hash = part.split('"').next().unwrap_or_default();
        let is_hash = hash.len() == 10 && hash.chars().all(|c| c.is_ascii_alphanumeric());
        if is_hash {
            whole.push_str(name.trim_end_matches('-'));
            whole.push_str(&part[hash.len()..]);
        } else {
            whole.push_str(name);
            whole.push_str(part);
        }
    }
    whole
}

#[test]
fn the_chart_and_the_kustomize_folders_make_equal_objects() {
    let documents = "documents.edge\\.yaml=gateway: edge";
    for (overlay, components, values) in [
        ("single", &[][..], &["mode=single"][..]),
        ("ha", &[], &["mode=ha"]),
        (
            "ha",
            &["monitoring", "autoscaling"],
            &[
                "mode=ha",
                "monitoring.enabled=true",
                "autoscaling.enabled=true",
            ],
        ),
        (
            "single",
            &[
                "empty-dir",
                "keys-in-environment",
                "prefer-same-node",
                "monitoring",
            ],
            &[
                "agent.cache.hostPath=",
                "agent.keys.environment=true",
                "agent.service.preferSameNode=true",
                "monitoring.enabled=true",
            ],
        ),
        ("single", &["documents"], &[documents]),
        ("ha", &["documents"], &["mode=ha", documents]),
    ] {
        let mut values = values.to_vec();
        values.push("namespace.create=true");
        let mut made = by_name(chart(&values).expect("it renders"));
        let mut wanted = by_name(composed(overlay, components));
        if components.contains(&"documents") {
            // Whoever installs it says what is in it.
            let name = "\"ConfigMap\" \"lanekeeper-documents\"";
            let data = &made.remove(name).expect("it")["data"];
            assert_eq!(data["edge.yaml"], "gateway: edge");
            assert!(wanted.remove(name).is_some());
        }
        let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(
            names(&made),
            names(&wanted),
            "{overlay} {components:?}: the chart's, then the folders'"
        );
        for (name, object) in &wanted {
            assert_eq!(
                made[name], *object,
                "{name}: the chart's, then the folders'"
            );
        }
    }
}

#[test]
fn the_chart_refuses_values_that_make_no_fleet() {
    for (values, part) in [
        (&["mode=many"][..], "single, ha or agents"),
        (&["mode=agents"], "agent.controlPlane"),
        (&["autoscaling.enabled=true"], "autoscaling is for mode ha"),
        (
            &[
                "mode=agents",
                "agent.controlPlane=https://plane:7400",
                "documents.a=b",
            ],
            "documents",
        ),
    ] {
        let refusal = chart(values).expect_err("it is refused");
        assert!(refusal.contains(part), "{values:?}: {refusal}");
    }
    let agents = chart(&["mode=agents", "agent.controlPlane=https://plane:7400"]);
    let agents = agents.expect("it renders");
    let pod = &find(&agents, "DaemonSet", "lanekeeper-agent")["spec"]["template"]["spec"];
    let mut variables = list(&pod["containers"][0]["env"]).iter();
    let dialled = variables.find(|it| it["name"] == "LANEKEEPER_CONTROL_PLANE");
    assert_eq!(dialled.expect("it")["value"], "https://plane:7400");
}

#[test]
fn every_image_of_every_variant_is_on_the_list_for_closed_networks() {
    let listed = std::fs::read_to_string(repository().join("deploy/images.txt")).expect("a list");
    let listed: Vec<&str> = listed
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    let mut used: Vec<String> = Vec::new();
    for (overlay, components) in [
        ("single", &["monitoring"][..]),
        ("ha", &["monitoring", "autoscaling"]),
        ("single", &["empty-dir"]),
    ] {
        for object in composed(overlay, components) {
            let pod = &object["spec"]["template"]["spec"];
            let first = list(&pod["initContainers"]).iter();
            for container in first.chain(list(&pod["containers"])) {
                let image = container["image"].as_str().expect("an image").to_owned();
                if !used.contains(&image) {
                    used.push(image);
                }
            }
        }
    }
    assert_eq!(used, listed);
}

#[test]
fn chart_folders_and_program_have_one_version() {
    let text = std::fs::read_to_string(repository().join("deploy/helm/lanekeeper/Chart.yaml"));
    let chart: Value = serde_saphyr::from_str(&text.expect("a chart")).expect("YAML");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    for overlay in ["single", "ha"] {
        let path = format!("deploy/kubernetes/overlays/{overlay}/kustomization.yaml");
        let text = std::fs::read_to_string(repository().join(path)).expect("a file");
        assert!(text.contains(&format!("newTag: {version}\n")), "{overlay}");
    }
}
