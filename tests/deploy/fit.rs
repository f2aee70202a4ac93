//! Valid against the API's schemas, safe, and such that the parts fit each other and the program.

use crate::manifests::{
    MONITORING, WHOLE, everything, find, list, of_kind, ports, rendered, selects, string,
};
use lanekeeper_tests::repository;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Seconds a control plane or an API needs for its goodbyes at most, with some to spare.
const SERVER_END_SECS: u64 = 15;

#[test]
fn the_manifests_are_valid_against_the_api_schemas() {
    let validator = repository().join(".venv/bin/kubernetes-validate");
    assert!(validator.exists(), "it is not installed: make setup");
    for overlay in ["single", "ha", WHOLE] {
        let objects = rendered(overlay);
        let own = objects.iter().filter(|it| it["apiVersion"] != MONITORING);
        let own: Vec<String> = own.map(Value::to_string).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("manifests.yaml");
        std::fs::write(&file, own.join("\n---\n")).expect("the file can be written");
        let output = Command::new(&validator)
            .arg("--strict")
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .expect("the validator runs");
        let said =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        let passed = said.matches(" passed for resource ").count();
        assert_eq!(passed, own.len(), "{said}");
        for object in &objects {
            let is_outside =
                ["Namespace", "PriorityClass"].contains(&object["kind"].as_str().expect("a kind"));
            assert!(
                is_outside || object["metadata"]["namespace"] == "lanekeeper",
                "{object}"
            );
        }
    }
}

#[test]
fn containers_run_without_privileges() {
    for (overlay, _, workloads) in everything() {
        for workload in workloads {
            let (pod, name) = (&workload.pod, &workload.name);
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            let seccomp = &pod["securityContext"]["seccompProfile"]["type"];
            assert_eq!(seccomp, "RuntimeDefault");
            assert_eq!(pod["automountServiceAccountToken"], false);
            assert_eq!(
                pod["serviceAccountName"],
                name.as_str(),
                "an account of its own"
            );
            let first = list(&pod["initContainers"]).iter();
            for container in first.chain([&workload.container]) {
                let context = &container["securityContext"];
                assert_eq!(
                    context["allowPrivilegeEscalation"], false,
                    "{overlay} {container}"
                );
                assert_eq!(context["readOnlyRootFilesystem"], true, "{container}");
                assert_eq!(
                    context["capabilities"]["drop"],
                    json!(["ALL"]),
                    "{container}"
                );
                assert!(
                    container["resources"]["limits"]["memory"].is_string(),
                    "{container}"
                );
                let requests = &container["resources"]["requests"];
                assert!(requests["cpu"].is_string() && requests["memory"].is_string());
                // The one that gives the node's folder to the agent, and it can nothing else.
                let owns = container["name"] == "own-cache";
                let added = if owns { json!(["CHOWN"]) } else { Value::Null };
                assert_eq!(context["capabilities"]["add"], added, "{container}");
                assert!(owns || context["runAsUser"].is_null(), "{container}");
            }
        }
    }
}

#[test]
fn probes_ask_the_listener_that_answers_before_the_stores_are_there() {
    for (_, _, workloads) in everything() {
        for workload in workloads {
            let wanted = if workload.command == "dashboard-api" {
                "http"
            } else {
                "ops"
            };
            for (probe, path) in [
                ("startupProbe", "/livez"),
                ("livenessProbe", "/livez"),
                ("readinessProbe", "/readyz"),
            ] {
                let get = &workload.container[probe]["httpGet"];
                let asked = (&get["path"], &get["port"]);
                assert_eq!(asked, (&path.into(), &wanted.into()), "{probe}");
            }
            assert!(ports(&workload).contains_key(wanted));
        }
    }
}

#[test]
fn every_node_keeps_an_agent_and_every_service_its_replicas() {
    for (overlay, objects, workloads) in everything() {
        let agents = find(&objects, "DaemonSet", "lanekeeper-agent");
        let update = &agents["spec"]["updateStrategy"]["rollingUpdate"];
        assert_eq!(*update, json!({"maxSurge": 1, "maxUnavailable": 0}));
        let service = find(&objects, "Service", "lanekeeper");
        assert_eq!(service["spec"]["internalTrafficPolicy"], "Local");
        // A node without a ready agent has somewhere else to turn.
        let any = &find(&objects, "Service", "lanekeeper-any")["spec"];
        assert!(any["internalTrafficPolicy"].is_null());
        assert_eq!(any["selector"], service["spec"]["selector"]);
        let pod = &agents["spec"]["template"]["spec"];
        let class = find(
            &objects,
            "PriorityClass",
            &string(&pod["priorityClassName"]),
        );
        assert!(class["value"].as_u64() > Some(0));
        // A changed Secret reaches files without a restart, unless they are mounted one by one.
        let mut mounts = list(&pod["containers"][0]["volumeMounts"]).iter();
        let keys = mounts.find(|it| it["name"] == "keys").expect("keys");
        assert_eq!(
            *keys,
            json!({"name": "keys", "mountPath": "/keys", "readOnly": true})
        );
        let deployments = of_kind(&objects, "Deployment");
        assert_eq!(deployments.is_empty(), overlay == "single");
        for deployment in deployments {
            let update = &deployment["spec"]["strategy"]["rollingUpdate"];
            assert_eq!(*update, json!({"maxSurge": 1, "maxUnavailable": 0}));
            let name = string(&deployment["metadata"]["name"]);
            let workload = workloads.iter().find(|it| it.name == name).expect("it");
            let budget = &find(&objects, "PodDisruptionBudget", &name)["spec"];
            assert_eq!(budget["maxUnavailable"], 1);
            let spread = &workload.pod["topologySpreadConstraints"][0];
            assert_eq!(spread["topologyKey"], "topology.kubernetes.io/zone");
            let apart = &workload.pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
                [0]["podAffinityTerm"];
            assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
            for selector in [
                &budget["selector"],
                &spread["labelSelector"],
                &apart["labelSelector"],
            ] {
                assert!(selects(selector, &workload.labels), "{selector}");
                let others = workloads.iter().filter(|it| it.name != name);
                assert!(others.into_iter().all(|it| !selects(selector, &it.labels)));
            }
            // Where an autoscaler counts, the manifest does not.
            let replicas = deployment["spec"]["replicas"].as_u64();
            if overlay == WHOLE {
                assert_eq!(replicas, None);
                let scaler = &find(&objects, "HorizontalPodAutoscaler", &name)["spec"];
                assert_eq!(scaler["scaleTargetRef"]["name"], name.as_str());
                assert!(scaler["minReplicas"].as_u64() >= Some(2));
            } else {
                assert!(replicas >= Some(2));
            }
        }
    }
}

#[test]
fn the_kubelet_waits_longer_than_a_process_needs_to_end() {
    for (_, _, workloads) in everything() {
        for workload in workloads {
            let pre_stop = workload.container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64();
            let pre_stop = pre_stop.expect("preStop sleeps");
            let seconds = |name: &str| workload.environment[name].parse::<u64>().expect("seconds");
            let end = match workload.command.as_str() {
                "agent" => {
                    seconds("LANEKEEPER_DRAIN_PAUSE_SECS") + seconds("LANEKEEPER_DRAIN_GRACE_SECS")
                }
                _ => SERVER_END_SECS,
            };
            let grace = workload.pod["terminationGracePeriodSeconds"].as_u64();
            assert!(grace > Some(pre_stop + end), "{} {grace:?}", workload.name);
        }
    }
}

#[test]
fn no_manifest_holds_a_secret() {
    for (_, objects, workloads) in everything() {
        assert!(of_kind(&objects, "Secret").is_empty());
        for workload in workloads {
            for name in ["LANEKEEPER_DATABASE_URL", "LANEKEEPER_REDIS_URL"] {
                let value = workload.environment.get(name);
                assert!(value.is_none_or(String::is_empty), "{name}");
            }
            // The authority's key goes where certificates are made and nowhere else.
            let volumes = Value::from(list(&workload.pod["volumes"])).to_string();
            let has_key = volumes.contains("\"secretName\":\"lanekeeper-authority\"");
            let issues = ["server", "control-plane"].contains(&workload.command.as_str());
            assert_eq!(has_key, issues, "{}", workload.name);
        }
    }
}

#[test]
fn every_variable_named_in_the_manifests_is_one_of_its_command() {
    for (_, _, workloads) in everything() {
        for workload in workloads {
            let output = Command::new(lanekeeper_tests::target_folder().join("lanekeeper"))
                .args([workload.command.as_str(), "--help"])
                .output()
                .expect("it runs");
            let help = String::from_utf8(output.stdout).expect("help is text");
            for name in workload.environment.keys() {
                let listed = help.lines().any(|line| {
                    let after = line.split(&format!("env: {name}")).nth(1);
                    after.is_some_and(|after| after.starts_with(['=', ']']))
                });
                assert!(listed, "{} does not read {name}", workload.command);
            }
            let mounts = list(&workload.container["volumeMounts"]);
            let paths: Vec<_> = mounts.iter().map(|it| string(&it["mountPath"])).collect();
            for (name, value) in &workload.environment {
                // A file or folder that a flag names lies on a mounted volume.
                if value.starts_with('/') {
                    let mounted = paths.iter().any(|path| value.starts_with(path));
                    assert!(mounted, "{name}={value} is on no volume");
                }
            }
        }
    }
}

#[test]
fn what_agents_show_is_what_the_control_plane_lets_in() {
    for (_, objects, workloads) in everything() {
        let by = |commands: &[&str]| {
            let mut found = workloads.iter();
            found
                .find(|it| commands.contains(&it.command.as_str()))
                .expect("it")
        };
        let (agent, plane) = (by(&["agent"]), by(&["server", "control-plane"]));
        let sources = list(&agent.pod["volumes"])
            .iter()
            .flat_map(|it| list(&it["projected"]["sources"]));
        let token = sources
            .map(|it| &it["serviceAccountToken"])
            .find(|it| !it.is_null());
        let token = token.expect("a projected token");
        // The program's own word for itself, which the control plane expects by default.
        assert_eq!(token["audience"], "lanekeeper");
        assert!(
            !plane
                .environment
                .contains_key("LANEKEEPER_KUBERNETES_AUDIENCE")
        );
        let account = string(&agent.pod["serviceAccountName"]);
        let gateway = &agent.environment["LANEKEEPER_GATEWAY"];
        let expected = format!("lanekeeper/{account}={gateway}");
        assert_eq!(
            plane.environment["LANEKEEPER_KUBERNETES_GATEWAYS"],
            expected
        );

        // Agents dial a service by a name that is in the control plane's certificate.
        let url = &agent.environment["LANEKEEPER_CONTROL_PLANE"];
        let (host, port) = url
            .trim_start_matches("https://")
            .split_once(':')
            .expect("a port");
        let names = plane.environment["LANEKEEPER_TLS_NAMES"].split(',');
        assert!(names.into_iter().any(|name| name == host), "{host}");
        let service = find(&objects, "Service", host);
        let selector = json!({"matchLabels": service["spec"]["selector"]});
        assert!(selects(&selector, &plane.labels));
        assert_eq!(service["spec"]["ports"][0]["port"].to_string(), port);
    }
}

#[test]
fn services_and_network_policies_name_ports_that_somebody_listens_on() {
    for (overlay, objects, workloads) in everything() {
        for service in of_kind(&objects, "Service") {
            let selector = json!({"matchLabels": service["spec"]["selector"]});
            let chosen = workloads.iter().find(|it| selects(&selector, &it.labels));
            let chosen = chosen.unwrap_or_else(|| panic!("{overlay}: nobody behind {service}"));
            for port in list(&service["spec"]["ports"]) {
                let target = string(&port["targetPort"]);
                assert!(ports(chosen).contains_key(&target), "{service}");
            }
        }
        let policies = of_kind(&objects, "NetworkPolicy");
        let closed = find(&objects, "NetworkPolicy", "default-deny");
        let wanted = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
        assert_eq!(closed["spec"], wanted);
        // A port that is served and not open, or open and not served, is a mistake.
        for workload in &workloads {
            let chosen = policies.iter().map(|policy| &policy["spec"]);
            let chosen = chosen.filter(|spec| selects(&spec["podSelector"], &workload.labels));
            let rules = chosen.flat_map(|spec| list(&spec["ingress"]));
            let open = rules.flat_map(|rule| list(&rule["ports"]));
            let open: BTreeSet<_> = open.filter_map(|port| port["port"].as_u64()).collect();
            let served: BTreeSet<_> = ports(workload).into_values().collect();
            assert_eq!(open, served, "{}", workload.name);
        }
        // Agents reach the control plane's pods, and no cloud's metadata service.
        let agent = &find(&objects, "NetworkPolicy", "agent")["spec"]["egress"];
        let plane = workloads
            .iter()
            .find(|it| it.environment.contains_key("LANEKEEPER_CA_KEY"));
        let plane = plane.expect("a control plane");
        assert!(selects(&agent[0]["to"][0]["podSelector"], &plane.labels));
        assert_eq!(
            agent[1]["to"][0]["ipBlock"]["except"],
            json!(["169.254.0.0/16"])
        );
    }
}
