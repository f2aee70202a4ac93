//! What comes of the configuration of other gateways. The files here are made up; docs/moving.md
//! says over how many real ones the importer was tried.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use lanekeeper_import::{Error, Import, Settings, System, Verdict, import};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn run(system: System, files: &[&str]) -> Import {
    run_with(system, files, &[])
}

fn run_with(system: System, files: &[&str], variables: &[(&str, &str)]) -> Import {
    let files: Vec<(String, String)> = files
        .iter()
        .enumerate()
        .map(|(index, text)| (format!("file-{index}"), (*text).to_owned()))
        .collect();
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    let settings = Settings {
        variables: variables.collect(),
        ..Settings::default()
    };
    match import(system, &files, &settings) {
        Ok(done) => done,
        Err(error) => panic!("{error}"),
    }
}

/// What became of an entry.
fn verdict(done: &Import, path: &str) -> Verdict {
    let line = done.lines.iter().find(|line| line.path == path);
    line.unwrap_or_else(|| panic!("no line for {path}: {:#?}", done.lines))
        .verdict
}

fn targets(done: &Import, pool: &str) -> Vec<String> {
    let members = done.document["pools"][pool]["members"].as_array().unwrap();
    members
        .iter()
        .map(|it| it["target"].as_str().unwrap().to_owned())
        .collect()
}

/// Every leaf of a file has exactly one line, and the lines are in the file's order.
fn is_accounted_for(done: &Import, leaves: usize) {
    assert_eq!(done.lines.len(), leaves, "{:#?}", done.lines);
    let mut paths: Vec<_> = done.lines.iter().map(|it| (&it.file, &it.path)).collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), leaves, "an entry has two lines");
    assert!(
        done.lines
            .iter()
            .all(|it| it.line > 0 && !it.text.is_empty())
    );
}

const LITELLM: &str = "\
model_list:
  - model_name: chat
    litellm_params:
      model: openai/gpt-4o
      api_key: os.environ/OPENAI_API_KEY
      rpm: 60
      weight: 3
  - model_name: chat
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://res.openai.azure.com/
      api_key: sk-this-must-not-be-copied-anywhere
      api_version: 2024-06-01
  - model_name: claude
    litellm_params: {model: anthropic/claude-sonnet-4-5, max_parallel_requests: 8}
    model_info: {max_input_tokens: 200000}
  - model_name: local
    litellm_params: {model: ollama_chat/llama3, api_base: 'http://gpu:11434', api_key: none}
  - model_name: titan
    litellm_params: {model: bedrock/amazon.titan, aws_region_name: eu-west-1}
litellm_settings:
  drop_params: true
  request_timeout: 120
  callbacks: [prometheus, langfuse]
router_settings:
  routing_strategy: least-busy
  num_retries: 2
  allowed_fails: 3
  cooldown_time: 30
  fallbacks:
    - chat: [claude, local]
    - claude: [chat]
  model_group_alias: {gpt-4: chat}
general_settings:
  master_key: os.environ/MASTER
  frobnicate: 7
";

#[test]
fn litellm_models_become_lanes_and_groups_become_pools() {
    let done = run_with(System::Litellm, &[LITELLM], &[("MASTER", "sk-master")]);
    let document = &done.document;
    assert_eq!(targets(&done, "chat"), ["openai/gpt-4o", "azure/gpt-4o-eu"]);
    assert_eq!(document["pools"]["chat"]["members"][0]["weight"], 3);
    assert_eq!(document["pools"]["chat"]["strategy"], "least_loaded");
    let azure = &document["providers"]["azure"];
    let base = "https://res.openai.azure.com/openai/deployments/{model}";
    assert_eq!(azure["base_url"], base);
    assert_eq!(azure["query"], json!({"api-version": "2024-06-01"}));
    assert_eq!(azure["auth"], json!({"kind": "header", "name": "api-key"}));
    let claude = &document["models"]["anthropic/claude-sonnet-4-5"];
    assert_eq!(claude["max_concurrent"], 8);
    assert_eq!(claude["context_max"], 200_000);
    assert_eq!(
        document["providers"]["anthropic"]["api_key"],
        json!({"env": "ANTHROPIC_API_KEY"})
    );
    assert_eq!(
        document["providers"]["ollama_chat"]["base_url"],
        "http://gpu:11434/v1"
    );
    assert_eq!(document["providers"]["ollama_chat"]["api_key"], Value::Null);
    assert_eq!(document["allow_private_hosts"], json!(["gpu"]));
    let trip = &document["defaults"]["breaker"]["trip"];
    assert_eq!(
        *trip,
        json!({"mode": "count", "window_secs": 60, "failure_count": 4})
    );
    assert_eq!(document["pools"]["chat"]["failover"]["max_hops"], 2);
    assert_eq!(document["pools"]["chat"]["failover"]["timeout_secs"], 120.0);
    assert_eq!(
        document["routes"],
        json!([{"match": "gpt-4", "pool": "chat"}])
    );
    assert_eq!(document["clients"][0]["name"], "master");
    is_accounted_for(&done, 35);
    for (path, expected) in [
        ("model_list[0].litellm_params.rpm", Verdict::Lost),
        ("model_list[0].litellm_params.model", Verdict::Taken),
        ("model_list[1].litellm_params.api_key", Verdict::Changed),
        (
            "model_list[4].litellm_params.aws_region_name",
            Verdict::Lost,
        ),
        ("litellm_settings.callbacks[0]", Verdict::Dropped),
        ("litellm_settings.callbacks[1]", Verdict::Lost),
        ("general_settings.frobnicate", Verdict::Lost),
    ] {
        assert_eq!(verdict(&done, path), expected, "{path}");
    }
}

#[test]
fn fallbacks_are_chains_that_end_also_where_groups_fall_back_on_each_other() {
    let done = run(System::Litellm, &[LITELLM]);
    let pools = &done.document["pools"];
    assert_eq!(
        pools["chat"]["on_exhausted"],
        json!({"fallback_pool": "chat+fallback-1"})
    );
    assert_eq!(targets(&done, "chat+fallback-1"), targets(&done, "claude"));
    let next = &pools["chat+fallback-1"]["on_exhausted"];
    assert_eq!(*next, json!({"fallback_pool": "chat+fallback-2"}));
    assert_eq!(targets(&done, "chat+fallback-2"), targets(&done, "local"));
    assert_eq!(targets(&done, "claude+fallback-1"), targets(&done, "chat"));
}

#[test]
fn a_key_in_the_file_is_in_no_document_and_no_report() {
    let text = LITELLM.replace("os.environ/MASTER", "sk-master-in-the-file");
    for done in [run(System::Litellm, &[&text]), rolter()] {
        let report = format!("{:?}", done.lines);
        let document = done.document.to_string();
        for secret in ["must-not-be-copied", "sk-master-in-the-file", "sk-team-key"] {
            assert!(
                !document.contains(secret) && !report.contains(secret),
                "{secret}"
            );
        }
    }
    let digest = run(System::Litellm, &[&text]).document["clients"][0]["key_sha256"].clone();
    assert_eq!(digest.as_str().unwrap().len(), 64);
}

#[test]
fn an_open_gateway_is_a_loss_and_not_an_accident() {
    let done = run(System::Litellm, &[LITELLM]);
    assert!(done.document["clients"].is_null());
    assert_eq!(verdict(&done, "general_settings.master_key"), Verdict::Lost);
}

#[test]
fn a_pool_and_a_lane_of_one_name_get_two() {
    let text =
        "model_list:\n- model_name: openai/gpt-4o\n  litellm_params: {model: openai/gpt-4o}\n";
    let done = run(System::Litellm, &[text]);
    assert_eq!(targets(&done, "openai/gpt-4o"), ["openai/gpt-4o:lane"]);
}

#[test]
fn lines_are_those_of_the_file() {
    let done = run(System::Litellm, &[LITELLM]);
    let line = |path: &str| done.lines.iter().find(|it| it.path == path).unwrap().line;
    let number = |text: &str| {
        let at = LITELLM.lines().position(|line| line.contains(text));
        u64::try_from(at.unwrap() + 1).unwrap()
    };
    assert_eq!(line("model_list[0].litellm_params.rpm"), number("rpm: 60"));
    assert_eq!(line("general_settings.frobnicate"), number("frobnicate"));
    let done = rolter();
    let line = |path: &str| done.lines.iter().find(|it| it.path == path).unwrap().line;
    assert_eq!(line("retry.max_retries"), 33);
}

const BUSBAR_PROVIDERS: &str = "\
providers:
  glm: {protocol: openai, base_url: 'https://api.z.ai/api/paas/v4', error_map: {'1113': billing}}
";
const BUSBAR: &str = "\
listen: 0.0.0.0:8080
providers:
  anthropic: {api_key: {env: ANTHROPIC_KEY}, health: {mode: dead, interval_secs: 30}}
  glm: {api_key: {file: /run/secrets/glm}}
  bedrock: {api_key: {env: AWS}}
models:
  sonnet: {provider: anthropic, max_concurrent: 20, max_requests: -1}
  glm-4: {provider: glm, max_requests: 500, default_max_tokens: 4096}
  nova: {provider: bedrock}
pools:
  upstream_credentials: own
  smart:
    members:
      - {model: sonnet, weight: 8, context_max: 200000}
      - {target: glm-4, attempt_timeout_ms: 2500}
      - {model: nova}
    breaker: {base_cooldown_secs: 5, trip: {mode: consecutive, consecutive_n: 2}}
    failover: {timeout_secs: 30, max_hops: 2, exclusions: [glm-4]}
    affinity: {mode: session, header_name: x-tenant}
    on_exhausted: {fallback_pool: last}
  last:
    members: [glm-4]
    on_exhausted: least_bad
groups:
  org: {limits: [{budget: 5, per: month}]}
";

#[test]
fn busbar_is_taken_almost_word_by_word() {
    let done = run(System::Busbar, &[BUSBAR, BUSBAR_PROVIDERS]);
    let document = &done.document;
    let glm = &document["providers"]["glm"];
    assert_eq!(glm["base_url"], "https://api.z.ai/api/paas/v4");
    assert_eq!(glm["api_key"], json!({"file": "/run/secrets/glm"}));
    assert_eq!(glm["error_map"], json!({"1113": "billing"}));
    assert_eq!(
        document["providers"]["anthropic"]["base_url"],
        "https://api.anthropic.com"
    );
    assert_eq!(document["models"]["sonnet"]["max_concurrent"], 20);
    assert!(document["models"]["sonnet"]["max_requests"].is_null());
    assert_eq!(document["models"]["glm-4"]["max_requests"], 500);
    let smart = &document["pools"]["smart"];
    assert_eq!(targets(&done, "smart"), ["sonnet", "glm-4"]);
    assert_eq!(smart["members"][1]["attempt_timeout_ms"], 2500);
    let breaker =
        json!({"base_cooldown_secs": 5, "trip": {"mode": "consecutive", "consecutive_n": 2}});
    assert_eq!(smart["breaker"], breaker);
    let failover = json!({"timeout_secs": 30, "max_hops": 2, "exclusions": ["glm-4"]});
    assert_eq!(smart["failover"], failover);
    assert_eq!(smart["on_exhausted"], json!({"fallback_pool": "last"}));
    assert_eq!(document["pools"]["last"]["on_exhausted"], "least_bad");
    for (path, expected) in [
        ("listen", Verdict::Dropped),
        ("models.glm-4.default_max_tokens", Verdict::Taken),
        ("models.nova.provider", Verdict::Lost),
        ("pools.smart.members[2].model", Verdict::Lost),
        ("groups.org.limits[0].budget", Verdict::Lost),
        ("pools.smart.failover.exclusions[0]", Verdict::Changed),
    ] {
        assert_eq!(verdict(&done, path), expected, "{path}");
    }
}

#[test]
fn a_fallback_pool_that_was_not_taken_is_not_named() {
    let text = "providers:\n  openai: {api_key: {env: A}}\nmodels:\n  m: {provider: openai}\npools:\n  \
        a: {members: [m], on_exhausted: {fallback_pool: gone}}\n";
    let done = run(System::Busbar, &[text]);
    assert!(done.document["pools"]["a"]["on_exhausted"].is_null());
}

const ROLTER: &str = r#"[server]
host = "0.0.0.0"
max_body_bytes = 1048576

[[providers]]
name = "openai"
kind = "openai"
api_base = "https://api.openai.com"
api_key_env = "OPENAI_API_KEY"

[[providers]]
name = "vllm-1"
kind = "openai_compatible"
api_base = "http://10.0.0.7:8001"

[[routes]]
model = "llama"
strategy = "power_of_two"
[[routes.targets]]
provider = "vllm-1"
model = "meta-llama/Llama-3.1-8B"
weight = 3
[[routes.targets]]
provider = "openai"
model = "gpt-4o-mini"

[[virtual_keys]]
key = "sk-team-key"
name = "team"
models = ["llama"]

[retry]
max_retries = 4

[breaker]
enabled = true
failure_threshold = 5
open_secs = 30

[timeouts]
connect_secs = 3

[guardrails]
enabled = true
"#;

fn rolter() -> Import {
    run(System::Rolter, &[ROLTER])
}

#[test]
fn rolter_routes_become_pools_and_keys_become_digests() {
    let done = rolter();
    let document = &done.document;
    assert_eq!(
        targets(&done, "llama"),
        ["vllm-1/meta-llama/Llama-3.1-8B", "openai/gpt-4o-mini"]
    );
    assert_eq!(document["pools"]["llama"]["members"][0]["weight"], 3);
    assert_eq!(document["pools"]["llama"]["strategy"], "least_loaded");
    assert_eq!(document["pools"]["llama"]["on_exhausted"], "fail_open");
    assert_eq!(document["pools"]["llama"]["failover"]["max_hops"], 4);
    assert_eq!(document["allow_private_hosts"], json!(["10.0.0.7"]));
    assert_eq!(document["limits"]["body_max_bytes"], 1_048_576);
    let breaker = &document["defaults"]["breaker"];
    assert_eq!(breaker["preset"], "rolter");
    assert_eq!(breaker["trip"]["consecutive_n"], 5);
    assert_eq!(document["clients"][0]["pools"], json!(["llama"]));
    assert_eq!(document["providers"]["openai"]["connect_timeout_secs"], 3.0);
    assert_eq!(verdict(&done, "guardrails.enabled"), Verdict::Lost);
    assert_eq!(verdict(&done, "server.host"), Verdict::Dropped);
    is_accounted_for(&done, 25);
}

const ENVOY: &str = "\
apiVersion: aigateway.envoyproxy.io/v1alpha1
kind: AIGatewayRoute
metadata: {name: r}
spec:
  rules:
    - matches:
        - headers: [{type: Exact, name: x-ai-eg-model, value: gpt-4o}]
      backendRefs:
        - {name: openai, priority: 0}
        - {name: azure, priority: 1, modelNameOverride: gpt-4o-eu}
        - {name: aws, priority: 2}
  llmRequestCosts: [{metadataKey: t, type: TotalToken}]
---
apiVersion: aigateway.envoyproxy.io/v1alpha1
kind: AIServiceBackend
metadata: {name: openai}
spec: {schema: {name: OpenAI}, backendRef: {name: openai, kind: Backend, group: gateway.envoyproxy.io}}
---
apiVersion: aigateway.envoyproxy.io/v1alpha1
kind: AIServiceBackend
metadata: {name: azure}
spec:
  schema: {name: AzureOpenAI, version: 2025-01-01-preview}
  backendRef: {name: azure, kind: Backend, group: gateway.envoyproxy.io}
---
apiVersion: aigateway.envoyproxy.io/v1alpha1
kind: AIServiceBackend
metadata: {name: aws}
spec: {schema: {name: AWSBedrock}, backendRef: {name: aws, kind: Backend}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: openai}
spec: {endpoints: [{fqdn: {hostname: api.openai.com, port: 443}}]}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: azure}
spec: {endpoints: [{fqdn: {hostname: res.openai.azure.com, port: 443}}]}
---
apiVersion: aigateway.envoyproxy.io/v1alpha1
kind: BackendSecurityPolicy
metadata: {name: key}
spec:
  targetRefs: [{group: aigateway.envoyproxy.io, kind: AIServiceBackend, name: openai}]
  type: APIKey
  apiKey: {secretRef: {name: openai-key}}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: p}
spec:
  retry: {numRetries: 5, perRetry: {timeout: 30s}}
  healthCheck: {passive: {consecutive5XxErrors: 2, baseEjectionTime: 5s}}
  rateLimit: {type: Global}
---
apiVersion: v1
kind: Secret
metadata: {name: openai-key}
stringData: {apiKey: sk-secret-of-the-cluster}
";

#[test]
fn envoy_priorities_become_a_chain_of_pools() {
    let done = run(System::EnvoyAi, &[ENVOY]);
    let document = &done.document;
    assert_eq!(targets(&done, "gpt-4o"), ["openai/gpt-4o"]);
    let next = &document["pools"]["gpt-4o"]["on_exhausted"];
    assert_eq!(*next, json!({"fallback_pool": "gpt-4o+fallback-1"}));
    assert_eq!(targets(&done, "gpt-4o+fallback-1"), ["azure/gpt-4o-eu"]);
    assert_eq!(
        document["providers"]["openai"]["base_url"],
        "https://api.openai.com/v1"
    );
    assert_eq!(
        document["providers"]["openai"]["api_key"],
        json!({"file": "/keys/openai-key"})
    );
    let azure = &document["providers"]["azure"];
    assert_eq!(azure["query"], json!({"api-version": "2025-01-01-preview"}));
    assert_eq!(document["pools"]["gpt-4o"]["failover"]["max_hops"], 5);
    assert_eq!(
        document["models"]["openai/gpt-4o"]["attempt_timeout_ms"],
        30_000
    );
    let trip = json!({"mode": "consecutive", "consecutive_n": 2});
    assert_eq!(document["defaults"]["breaker"]["trip"], trip);
    let said = format!("{document} {:?}", done.lines);
    assert!(!said.contains("sk-secret-of-the-cluster"));
    for (path, expected) in [
        ("spec.rules[0].backendRefs[2].name", Verdict::Lost),
        ("spec.llmRequestCosts[0].type", Verdict::Lost),
        ("spec.rateLimit.type", Verdict::Lost),
        ("spec.retry.numRetries", Verdict::Taken),
        ("stringData.apiKey", Verdict::Dropped),
    ] {
        assert_eq!(verdict(&done, path), expected, "{path}");
    }
}

#[test]
fn what_is_no_configuration_is_refused_with_its_place() {
    let settings = Settings::default();
    let file = |text: &str| [("f".to_owned(), text.to_owned())];
    let unreadable = import(System::Litellm, &file("a: [1\nb: 2"), &settings);
    assert!(
        matches!(unreadable, Err(Error::Unreadable { .. })),
        "{unreadable:?}"
    );
    let unreadable = import(System::Rolter, &file("a = ["), &settings);
    assert!(
        matches!(unreadable, Err(Error::Unreadable { .. })),
        "{unreadable:?}"
    );
    let nothing = import(System::Litellm, &file("model_list: []\nx: 1\n"), &settings);
    let Err(Error::Nothing { lines }) = nothing else {
        panic!("{nothing:?}");
    };
    assert_eq!(lines.len(), 2);
}

#[test]
fn variables_stand_for_addresses_and_their_absence_is_a_loss() {
    let text = "model_list:\n- model_name: a\n  litellm_params: {model: openai/m, api_base: os.environ/BASE}\n\
        - model_name: b\n  litellm_params: {model: groq/m}\n";
    let done = run(System::Litellm, &[text]);
    assert_eq!(
        verdict(&done, "model_list[0].litellm_params.api_base"),
        Verdict::Lost
    );
    assert!(done.document["pools"]["a"].is_null());
    let done = run_with(
        System::Litellm,
        &[text],
        &[("BASE", "https://llm.example.com/v1")],
    );
    assert_eq!(done.losses(), 0, "{:#?}", done.lines);
    let base: BTreeMap<String, Value> =
        serde_json::from_value(done.document["providers"].clone()).unwrap();
    assert_eq!(base["openai"]["base_url"], "https://llm.example.com/v1");
}
