//! The manifests as kubectl renders them, and what their parts say of each other.

use lanekeeper_tests::repository;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Kinds of the Prometheus operator, whose schemas are not the cluster's own.
pub(crate) const MONITORING: &str = "monitoring.coreos.com/v1";
/// What `ha` is with everything that may be added to it.
pub(crate) const WHOLE: &str = "whole";

/// The objects of an overlay, or of [`WHOLE`].
pub(crate) fn rendered(overlay: &str) -> Vec<Value> {
    if overlay == WHOLE {
        composed("ha", &["monitoring", "autoscaling"])
    } else {
        composed(overlay, &[])
    }
}

/// The objects of an overlay with components, as somebody's own overlay would have them.
pub(crate) fn composed(overlay: &str, components: &[&str]) -> Vec<Value> {
    let root = repository();
    if components.is_empty() {
        let path = root.join("deploy/kubernetes/overlays").join(overlay);
        return objects(&text(&path));
    }
    // Kustomize follows relative paths only.
    let target = root.join("target");
    std::fs::create_dir_all(&target).expect("a folder");
    let folder = tempfile::tempdir_in(target).expect("a folder");
    let components: Vec<_> = components
        .iter()
        .map(|name| format!("../../deploy/kubernetes/components/{name}"))
        .collect();
    let whole = format!(
        "resources: [../../deploy/kubernetes/overlays/{overlay}]\ncomponents: [{}]\n",
        components.join(", ")
    );
    std::fs::write(folder.path().join("kustomization.yaml"), whole).expect("a file");
    objects(&text(folder.path()))
}

pub(crate) fn text(folder: &Path) -> String {
    let output = Command::new("kubectl")
        .arg("kustomize")
        .arg(folder)
        .output()
        .expect("kubectl runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    String::from_utf8(output.stdout).expect("manifests are text")
}

pub(crate) fn objects(text: &str) -> Vec<Value> {
    text.split("\n---\n")
        .map(|text| serde_saphyr::from_str::<Value>(text).expect("a manifest is YAML"))
        .collect()
}

pub(crate) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|value| value["kind"] == kind && value["metadata"]["name"] == name);
    let object = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
    assert!(found.next().is_none(), "two {kind} {name}");
    object
}

pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects
        .iter()
        .filter(|value| value["kind"] == kind)
        .collect()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A workload with its pods.
pub(crate) struct Workload {
    pub(crate) name: String,
    /// The command of the program that it runs.
    pub(crate) command: String,
    pub(crate) labels: Value,
    pub(crate) pod: Value,
    pub(crate) container: Value,
    /// What the process finds in its environment; values from Secrets are empty.
    pub(crate) environment: BTreeMap<String, String>,
}

pub(crate) fn workloads(objects: &[Value]) -> Vec<Workload> {
    let of_kinds = ["DaemonSet", "StatefulSet", "Deployment"];
    let found = of_kinds.iter().flat_map(|kind| of_kind(objects, kind));
    found
        .map(|object| {
            let pod = &object["spec"]["template"]["spec"];
            let containers = list(&pod["containers"]);
            assert_eq!(containers.len(), 1);
            let container = &containers[0];
            let mut environment = BTreeMap::new();
            for source in list(&container["envFrom"]) {
                if let Some(name) = source["configMapRef"]["name"].as_str() {
                    let map = &find(objects, "ConfigMap", name)["data"];
                    let pairs = map.as_object().expect("data");
                    let pair = |(name, value): (&String, &Value)| (name.clone(), string(value));
                    environment.extend(pairs.iter().map(pair));
                }
            }
            for variable in list(&container["env"]) {
                let value = variable["value"].as_str().unwrap_or_default().to_owned();
                environment.insert(string(&variable["name"]), value);
            }
            Workload {
                name: string(&object["metadata"]["name"]),
                command: string(&container["args"][0]),
                labels: object["spec"]["template"]["metadata"]["labels"].clone(),
                pod: pod.clone(),
                container: container.clone(),
                environment,
            }
        })
        .collect()
}

pub(crate) fn string(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Each overlay's workloads: the agents and what they need.
pub(crate) fn everything() -> Vec<(&'static str, Vec<Value>, Vec<Workload>)> {
    ["single", "ha", WHOLE]
        .into_iter()
        .map(|overlay| {
            let objects = rendered(overlay);
            let workloads = workloads(&objects);
            let commands = workloads.iter().map(|it| it.command.as_str());
            let commands: BTreeSet<_> = commands.collect();
            let wanted = match overlay {
                "single" => BTreeSet::from(["agent", "server"]),
                _ => BTreeSet::from(["agent", "control-plane", "dashboard-api"]),
            };
            assert_eq!(commands, wanted, "{overlay}");
            (overlay, objects, workloads)
        })
        .collect()
}

/// Whether a selector picks what has these labels.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let exact = selector["matchLabels"].as_object().is_none_or(|wanted| {
        let mut wanted = wanted.iter();
        wanted.all(|(name, value)| labels[name] == *value)
    });
    let listed = list(&selector["matchExpressions"]).iter().all(|wanted| {
        assert_eq!(wanted["operator"], "In");
        list(&wanted["values"]).contains(&labels[string(&wanted["key"])])
    });
    exact && listed
}

/// Ports of a container by name.
pub(crate) fn ports(workload: &Workload) -> BTreeMap<String, u64> {
    let ports = list(&workload.container["ports"]).iter();
    ports
        .map(|port| {
            let number = port["containerPort"].as_u64().expect("a port");
            (string(&port["name"]), number)
        })
        .collect()
}
