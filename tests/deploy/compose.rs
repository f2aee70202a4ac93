//! The compose file: right by the specification's schema, and such that its parts fit each other
//! and the program.

use crate::manifests::{find, list, rendered, string};
use lanekeeper_tests::{repository, target_folder};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

fn file() -> Value {
    let path = repository().join("deploy/compose/compose.yaml");
    let text = std::fs::read_to_string(path).expect("a file");
    serde_saphyr::from_str(&text).expect("YAML")
}

fn services(file: &Value) -> &Map<String, Value> {
    file["services"].as_object().expect("services")
}

/// Services that run our program, with the command of each.
fn ours(file: &Value) -> Vec<(&str, String, &Value)> {
    let services = services(file).iter();
    let ours = services.filter(|(_, it)| {
        it["image"]
            .as_str()
            .is_some_and(|image| image.contains("lanekeeper"))
    });
    ours.map(|(name, it)| (name.as_str(), string(&it["command"][0]), it))
        .collect()
}

#[test]
fn the_compose_file_is_valid_by_the_specification() {
    let schema = repository().join("target/tools/compose-spec.json");
    assert!(schema.exists(), "it is not installed: make setup");
    let schema = std::fs::read_to_string(schema).expect("a schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let file = file();
    let errors: Vec<String> = validator
        .iter_errors(&file)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    // The schema takes anything that begins so: what would be misspelt is not among them.
    for name in file.as_object().expect("a map").keys() {
        let is_known = ["services", "volumes"].contains(&name.as_str());
        assert!(is_known || name.starts_with("x-"), "{name}");
    }
}

#[test]
fn every_variable_is_one_of_its_command_and_every_call_is_taken() {
    let file = file();
    for (name, command, service) in ours(&file) {
        let arguments = list(&service["command"]).iter().map(string);
        let help = Command::new(target_folder().join("lanekeeper"))
            .args(
                arguments
                    .clone()
                    .take_while(|word| !word.starts_with('-'))
                    .take(2),
            )
            .arg("--help")
            .output()
            .expect("it runs");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        for variable in service["environment"].as_object().into_iter().flatten() {
            let listed = format!("env: {}", variable.0);
            assert!(
                help.contains(&listed),
                "{name}: {command} does not read {}",
                variable.0
            );
        }
        for flag in arguments.filter(|word| word.starts_with("--")) {
            assert!(
                help.contains(&flag),
                "{name}: {command} does not know {flag}"
            );
        }
        // Its health check is a call of the program as well.
        let check: Vec<String> = list(&service["healthcheck"]["test"])
            .iter()
            .map(string)
            .collect();
        if let [_, program, ready, flag, url] = check.as_slice() {
            assert_eq!((program.as_str(), ready.as_str()), ("/lanekeeper", "ready"));
            assert_eq!(flag, "--ops-url");
            let port = url.rsplit(':').next().expect("a port");
            let listen = string(&service["environment"]["LANEKEEPER_OPS_LISTEN"]);
            assert!(
                listen.ends_with(&format!(":{port}")),
                "{name}: {url} and {listen}"
            );
        }
    }
}

#[test]
fn services_find_each_other_and_their_volumes() {
    let file = file();
    let services = services(&file);
    let volumes: BTreeSet<&String> = file["volumes"]
        .as_object()
        .expect("volumes")
        .keys()
        .collect();
    let mut used = BTreeSet::new();
    for (name, service) in services {
        for dependency in service["depends_on"].as_object().into_iter().flatten() {
            let other = services.get(dependency.0);
            let other = other.unwrap_or_else(|| panic!("{name} waits for {}", dependency.0));
            if dependency.1["condition"] == "service_healthy" {
                assert!(
                    other["healthcheck"].is_object(),
                    "{} has no check",
                    dependency.0
                );
            }
        }
        for mount in list(&service["volumes"]).iter().map(string) {
            let source = mount.split(':').next().unwrap_or_default().to_owned();
            if source.starts_with('.') {
                let path = repository().join("deploy/compose").join(&source);
                assert!(path.exists(), "{name} mounts {source}, which is not there");
            } else {
                assert!(
                    volumes.contains(&source),
                    "{name}: {source} is not declared"
                );
                used.insert(source);
            }
        }
    }
    assert!(
        volumes.iter().all(|name| used.contains(*name)),
        "a volume that nobody uses"
    );
    // Addresses between services.
    let text = file["services"].to_string();
    for (host, port) in [
        ("server", "7400"),
        ("server", "7401"),
        ("postgres", ""),
        ("redis", ""),
    ] {
        assert!(services.contains_key(host) && text.contains(host) && text.contains(port));
    }
    let names = string(&file["services"]["server"]["environment"]["LANEKEEPER_TLS_NAMES"]);
    let dialled = string(&file["services"]["agent-1"]["environment"]["LANEKEEPER_CONTROL_PLANE"]);
    let host = dialled
        .trim_start_matches("https://")
        .split(':')
        .next()
        .expect("a host");
    assert!(
        names.split(',').any(|name| name == host),
        "{host} is not in the certificate"
    );
}

#[test]
fn containers_have_no_privileges_and_nothing_listens_beyond_this_machine() {
    let file = file();
    for (name, command, service) in ours(&file) {
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]), "{name}");
        assert_eq!(
            service["security_opt"][0], "no-new-privileges:true",
            "{name}"
        );
        // The one that gives volumes to the others.
        let owner = if command == "own-folder" {
            "0:0"
        } else {
            "65532:65532"
        };
        assert_eq!(service["user"], owner, "{name}");
        let added = if command == "own-folder" {
            serde_json::json!(["CHOWN"])
        } else {
            Value::Null
        };
        assert_eq!(service["cap_add"], added, "{name}");
    }
    for (name, service) in services(&file) {
        for port in list(&service["ports"]).iter().map(string) {
            assert!(port.starts_with("127.0.0.1:"), "{name} publishes {port}");
        }
    }
    // No password stands in the file, and each that is asked for is in the example.
    let text = std::fs::read_to_string(repository().join("deploy/compose/compose.yaml"));
    let text = text.expect("a file");
    let example = std::fs::read_to_string(repository().join("deploy/compose/.env.example"));
    let example = example.expect("an example");
    let wanted = text
        .split("${")
        .skip(1)
        .filter_map(|part| part.split([':', '}']).next());
    let wanted: BTreeSet<&str> = wanted.collect();
    assert!(wanted.contains("POSTGRES_PASSWORD"));
    for name in wanted {
        assert!(
            example.contains(&format!("\n{name}=")),
            ".env.example lacks {name}"
        );
    }
}

#[test]
fn prometheus_has_the_same_rules_and_scrapes_the_same_jobs() {
    let folder = repository().join("deploy/compose/prometheus");
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(folder.join(name)).expect("a file");
        serde_saphyr::from_str(&text).expect("YAML")
    };
    let objects = rendered(crate::manifests::WHOLE);
    let operator = &find(&objects, "PrometheusRule", "lanekeeper")["spec"];
    assert_eq!(
        read("rules.yaml"),
        *operator,
        "the rules of the operator, then those of the file"
    );
    let promtool = repository().join("target/tools/bin/promtool");
    let output = Command::new(promtool)
        .args(["check", "config"])
        .arg(folder.join("prometheus.yaml"))
        .output()
        .expect("promtool runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let config = read("prometheus.yaml");
    let mut jobs = BTreeMap::new();
    for job in list(&config["scrape_configs"]) {
        let targets = list(&job["static_configs"])
            .iter()
            .flat_map(|it| list(&it["targets"]));
        jobs.insert(
            string(&job["job_name"]),
            targets.map(string).collect::<Vec<_>>(),
        );
    }
    assert_eq!(jobs["lanekeeper-agent"], ["agent-1:7411", "agent-2:7411"]);
    assert_eq!(jobs["lanekeeper-control-plane"], ["server:7402"]);
}

#[test]
fn example_documents_are_valid() {
    for folder in ["examples", "deploy/compose/documents", "deploy/systemd"] {
        let entries = std::fs::read_dir(repository().join(folder)).expect("a folder");
        let mut checked = 0;
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|ending| ending != "yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a document");
            let done = lanekeeper_model::check_yaml(&text);
            assert!(done.is_ok(), "{}: {:?}", path.display(), done.err());
            checked += 1;
        }
        assert!(checked > 0, "{folder}");
    }
}
