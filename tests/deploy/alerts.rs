//! What is scraped, and what alerts go by.

use crate::manifests::{WHOLE, find, list, of_kind, rendered, selects, string};
use lanekeeper_tests::repository;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn what_is_scraped_is_there_and_alerts_go_by_series_that_exist() {
    let objects = rendered(WHOLE);
    let services = of_kind(&objects, "Service");
    let monitors = of_kind(&objects, "ServiceMonitor");
    assert_eq!(monitors.len(), 2);
    for monitor in monitors {
        let spec = &monitor["spec"];
        assert_eq!(spec["jobLabel"], "app.kubernetes.io/name");
        let chosen = services
            .iter()
            .filter(|it| selects(&spec["selector"], &it["metadata"]["labels"]));
        let chosen: Vec<_> = chosen.collect();
        assert_eq!(chosen.len(), 1, "{monitor}");
        let named = &chosen[0]["metadata"]["labels"]["app.kubernetes.io/name"];
        assert_eq!(*named, monitor["metadata"]["name"], "the job's name");
        for endpoint in list(&spec["endpoints"]) {
            assert_eq!(endpoint["path"], "/metrics");
            let mut ports = list(&chosen[0]["spec"]["ports"]).iter();
            assert!(
                ports.any(|port| port["name"] == endpoint["port"]),
                "{monitor}"
            );
        }
    }

    let described = std::fs::read_to_string(repository().join("docs/metrics.md")).expect("a page");
    let groups = &find(&objects, "PrometheusRule", "lanekeeper")["spec"]["groups"];
    let rules: Vec<_> = list(groups)
        .iter()
        .flat_map(|group| list(&group["rules"]))
        .collect();
    let names: BTreeSet<_> = rules.iter().map(|rule| string(&rule["alert"])).collect();
    assert_eq!(names.len(), rules.len());
    for wanted in [
        "CertificateNearEnd",
        "SessionsLost",
        "RevisionRefused",
        "PoolExhausted",
    ] {
        assert!(names.contains(&format!("Lanekeeper{wanted}")), "{wanted}");
    }
    let expressions: Vec<_> = rules.iter().map(|rule| &rule["expr"]).collect();
    for (rule, selectors) in rules.iter().zip(selectors(&json!(expressions))) {
        let severity = string(&rule["labels"]["severity"]);
        assert!(
            ["warning", "critical"].contains(&severity.as_str()),
            "{rule}"
        );
        assert!(rule["annotations"]["summary"].is_string(), "{rule}");
        assert!(rule["annotations"]["description"].is_string(), "{rule}");
        assert!(!list(&selectors).is_empty(), "{rule}");
        for selector in list(&selectors) {
            let name = string(&selector["name"]);
            if name == "up" {
                continue;
            }
            let line = described.lines().find_map(|line| {
                let rest = line.strip_prefix("| `")?.strip_prefix(name.as_str())?;
                rest.starts_with(['{', '`']).then_some(rest)
            });
            let line = line.unwrap_or_else(|| panic!("docs/metrics.md lacks {name} of {rule}"));
            let labels = line.split('`').next().unwrap_or_default();
            let labels: BTreeSet<_> = labels.split(['{', '}', ',']).collect();
            for label in list(&selector["labels"]) {
                let label = string(label);
                // Made by the scrape.
                assert!(
                    label == "job" || labels.contains(label.as_str()),
                    "{label} of {name}"
                );
            }
        }
    }
}

/// What each expression asks for, by a parser of the language.
fn selectors(expressions: &Value) -> Vec<Value> {
    let root = repository();
    let python = root.join(".venv/bin/python");
    assert!(python.exists(), "it is not installed: make setup");
    let mut child = Command::new(python)
        .arg(root.join("tests/python/rules.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(expressions.to_string().as_bytes())
        .expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "an expression is no PromQL");
    serde_json::from_slice(&output.stdout).expect("a list")
}
