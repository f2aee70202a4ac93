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
    let runbooks = std::fs::read_to_string(repository().join("docs/runbooks.md")).expect("a page");
    for (rule, selectors) in rules.iter().zip(selectors(&json!(expressions))) {
        let severity = string(&rule["labels"]["severity"]);
        assert!(
            ["warning", "critical"].contains(&severity.as_str()),
            "{rule}"
        );
        assert!(rule["annotations"]["summary"].is_string(), "{rule}");
        assert!(rule["annotations"]["description"].is_string(), "{rule}");
        are_described(&selectors, rule);
        // The link leads to a section of its own.
        let name = string(&rule["alert"]);
        let link = string(&rule["annotations"]["runbook_url"]);
        let (page, section) = link.split_once('#').expect("a section");
        assert_eq!(page, "https://lanekeeper.example/docs/runbooks.md");
        assert_eq!(section, name.to_lowercase());
        let heading = format!("\n## {name}\n");
        assert_eq!(
            runbooks.matches(&heading).count(),
            1,
            "docs/runbooks.md: {name}"
        );
    }
    let sections = runbooks
        .lines()
        .filter_map(|line| line.strip_prefix("## Lanekeeper"));
    for section in sections {
        let name = format!("Lanekeeper{section}");
        assert!(names.contains(&name), "docs/runbooks.md: no alert {name}");
    }
}

/// Every series is one that docs/metrics.md describes, with the labels that are asked for.
fn are_described(selectors: &Value, of: &Value) {
    let described = std::fs::read_to_string(repository().join("docs/metrics.md")).expect("a page");
    assert!(!list(selectors).is_empty(), "{of}");
    for selector in list(selectors) {
        let name = string(&selector["name"]);
        if name == "up" {
            continue;
        }
        // A histogram's parts are not described one by one.
        let name = name.strip_suffix("_bucket").unwrap_or(&name);
        let line = described.lines().find_map(|line| {
            let rest = line.strip_prefix("| `")?.strip_prefix(name)?;
            rest.starts_with(['{', '`']).then_some(rest)
        });
        let line = line.unwrap_or_else(|| panic!("docs/metrics.md lacks {name} of {of}"));
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

#[test]
fn alerts_fire_on_what_they_are_for_and_on_nothing_else() {
    let promtool = repository().join("target/tools/bin/promtool");
    assert!(promtool.exists(), "it is not installed: make setup");
    let objects = rendered(WHOLE);
    let rules = &find(&objects, "PrometheusRule", "lanekeeper")["spec"];
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("rules.yaml"), rules.to_string()).expect("a file");
    let cases = repository().join("tests/deploy/rules.yaml");
    let cases = std::fs::read_to_string(cases).expect("cases");
    std::fs::write(folder.path().join("cases.yaml"), &cases).expect("a file");
    let output = Command::new(promtool)
        .args(["test", "rules", "cases.yaml"])
        .current_dir(folder.path())
        .output()
        .expect("promtool runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for rule in list(&rules["groups"])
        .iter()
        .flat_map(|it| list(&it["rules"]))
    {
        let name = string(&rule["alert"]);
        let case = format!("alertname: {name}\n");
        assert!(
            cases.contains(&case),
            "tests/deploy/rules.yaml lacks {name}"
        );
    }
}

#[test]
fn the_dashboard_asks_for_series_that_exist() {
    let objects = rendered(WHOLE);
    let map = find(&objects, "ConfigMap", "lanekeeper-dashboard");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = string(&map["data"]["lanekeeper.json"]);
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = list(&dashboard["panels"]).iter();
    let targets: Vec<&Value> = panels.flat_map(|panel| list(&panel["targets"])).collect();
    assert!(targets.len() > 20);
    let expressions: Vec<String> = targets
        .iter()
        .map(|target| {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{target}");
            // Grafana fills these in.
            let text = string(&target["expr"]).replace("$__rate_interval", "1m");
            text.replace("$pool", ".*")
        })
        .collect();
    for (selectors, target) in selectors(&json!(expressions)).iter().zip(targets) {
        are_described(selectors, target);
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
