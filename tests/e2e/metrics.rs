//! The series that real processes print, compared with the page that describes them.

use lanekeeper_tests::{Fleet, LIVENESS, Options, Process, repository};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Label names by the series' name, and whether each stands on every series of it.
type Described = BTreeMap<String, BTreeMap<String, bool>>;

/// Series of the agent that are there after traffic, a failure and a failover.
const AGENT_ALWAYS: [&str; 26] = [
    "lanekeeper_requests_total",
    "lanekeeper_refusals_total",
    "lanekeeper_provider_breaker_state",
    "lanekeeper_provider_breaker_transitions_total",
    "lanekeeper_provider_breaker_trips_total",
    "lanekeeper_attempts_total",
    "lanekeeper_failures_total",
    "lanekeeper_failovers_total",
    "lanekeeper_breaker_state",
    "lanekeeper_breaker_transitions_total",
    "lanekeeper_breaker_trips_total",
    "lanekeeper_breaker_rejects_total",
    "lanekeeper_lane_inflight",
    "lanekeeper_lane_permits_available",
    "lanekeeper_pool_queued",
    "lanekeeper_pool_usable_members",
    "lanekeeper_lane_usable",
    "lanekeeper_problems",
    "lanekeeper_request_seconds",
    "lanekeeper_time_to_first_content_seconds",
    "lanekeeper_overhead_seconds",
    "lanekeeper_config_revision",
    "lanekeeper_config_rejects_total",
    "lanekeeper_reports_total",
    "lanekeeper_client_disconnects_total",
    "lanekeeper_panics_total",
];
const SERVER_ALWAYS: [&str; 3] = [
    "lanekeeper_sessions",
    "lanekeeper_push_seconds",
    "lanekeeper_reports_total",
];

/// The series of one section of the page.
fn described(section: &str) -> Described {
    let page = std::fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let is_agent = section == "Agent";
    let section = page.split("\n## ").find(|part| part.starts_with(section));
    let rows = section
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let series = row.split('`').next().unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(',');
        let labels = labels.filter(|label| !label.is_empty()).map(|label| {
            let bare = label.trim_matches(['[', ']']);
            (bare.to_owned(), bare == label)
        });
        // The page says it once for all of them.
        let gateway = is_agent.then(|| ("gateway".to_owned(), true));
        (name.to_owned(), labels.chain(gateway).collect())
    })
    .collect()
}

/// Name and label names of every sample a process prints.
fn printed(text: &str) -> Vec<(String, BTreeSet<String>)> {
    let histograms: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram"))
        .collect();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| {
            let end = line.find(['{', ' ']).unwrap();
            let (name, rest) = line.split_at(end);
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .filter(|base| histograms.contains(base));
            let labels = rest.strip_prefix('{').map_or("", |rest| {
                rest.rsplit_once('}').expect("labels are closed").0
            });
            let labels = labels
                .split("\",")
                .filter_map(|label| label.split_once("=\""))
                .map(|(label, _)| label.to_owned())
                .filter(|label| base.is_none() || label != "le");
            (base.unwrap_or(name).to_owned(), labels.collect())
        })
        .collect()
}

fn check(process: &str, text: &str, described: &Described, always: &[&str]) {
    let printed = printed(text);
    for (name, labels) in &printed {
        let wanted = described
            .get(name)
            .unwrap_or_else(|| panic!("docs/metrics.md lacks {name} of the {process}"));
        for (label, is_always) in wanted {
            assert!(
                !is_always || labels.contains(label),
                "{name} without {label}"
            );
        }
        for label in labels {
            assert!(
                wanted.contains_key(label),
                "docs/metrics.md lacks {label} of {name}"
            );
        }
    }
    for name in always {
        assert!(
            described.contains_key(*name),
            "docs/metrics.md lacks {name}"
        );
        let is_there = printed.iter().any(|(printed, _)| printed == name);
        assert!(is_there, "the {process} does not print {name}:\n{text}");
    }
}

async fn metrics(fleet: &Fleet, process: &Process) -> String {
    let url = format!("{}/metrics", process.url("ops"));
    fleet
        .http
        .get(url)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap()
}

async fn call(fleet: &Fleet, agent: &str, model: &str) -> u16 {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    let url = format!("{agent}/v1/chat/completions");
    let sent = fleet.http.post(url).json(&body).send().await;
    sent.unwrap().status().as_u16()
}

#[tokio::test]
async fn every_series_is_described_and_every_listed_one_is_there() {
    let fleet = Fleet::start(Options {
        agents: 1,
        breaker: json!({"trip": {"mode": "consecutive", "consecutive_n": 1}}),
        ..Options::default()
    })
    .await
    .unwrap();
    let mut document =
        fleet.document(&json!({"trip": {"mode": "consecutive", "consecutive_n": 1}}));
    document["models"]["gpt-east"]["max_concurrent"] = json!(8);
    document["providers"]["east"]["breaker"] =
        json!({"trip": {"mode": "consecutive", "consecutive_n": 1}});
    let answer = fleet.put_config(&document, 1).await.unwrap();
    assert!(
        answer.status().is_success(),
        "{}",
        answer.text().await.unwrap()
    );
    fleet.applied(2, 1, LIVENESS).await;

    let fault = json!({"model": "gpt-east", "status": 500});
    fleet.set_fault(fault).await.unwrap();
    let agent = fleet.agent_urls()[0].clone();
    for _ in 0..4 {
        assert_eq!(call(&fleet, &agent, "chat").await, 200);
    }
    assert_eq!(call(&fleet, &agent, "nowhere").await, 404);
    let text = metrics(&fleet, &fleet.agents[0]).await;
    check("agent", &text, &described("Agent"), &AGENT_ALWAYS);
    let text = metrics(&fleet, &fleet.server).await;
    check("server", &text, &described("Server"), &SERVER_ALWAYS);
}

#[tokio::test]
async fn strangers_make_no_series() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    let agent = fleet.agent_urls()[0].clone();
    assert_eq!(call(&fleet, &agent, "chat").await, 200);
    assert_eq!(call(&fleet, &agent, "unknown").await, 404);
    let names = |text: &str| -> BTreeSet<String> {
        let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
        samples.map(|(series, _)| series.to_owned()).collect()
    };
    let before = names(&metrics(&fleet, &fleet.agents[0]).await);
    for number in 0..200 {
        for model in [
            format!("model-{number}"),
            format!("chat\",lane=\"{number}"),
            format!("chat\nlanekeeper_requests_total {number}"),
            format!("east/{number}"),
        ] {
            assert_eq!(call(&fleet, &agent, &model).await, 404, "{model}");
        }
    }
    let after = names(&metrics(&fleet, &fleet.agents[0]).await);
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.is_empty(), "{new:?}");
}
