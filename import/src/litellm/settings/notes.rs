//! Settings that need no reading: what becomes of each, by its name.

use crate::ledger::Verdict;

/// Callbacks whose work is done without one.
pub(super) const SERVED_CALLBACKS: &[(&str, &str)] = &[
    ("prometheus", "/metrics of every agent has it"),
    ("otel", "agent --otlp-endpoint"),
    ("opentelemetry", "agent --otlp-endpoint"),
];

/// Settings of the router and of the library that need no reading.
pub(super) const NOTES: &[(&str, Verdict, &str)] = &[
    (
        "default_model",
        Verdict::Lost,
        "callers name a model; a route * catches every other name",
    ),
    ("custom_provider_map", Verdict::Lost, "there are no hooks"),
    (
        "redis_url",
        Verdict::Dropped,
        "no store stands in a request's way",
    ),
    (
        "redis_host",
        Verdict::Dropped,
        "no store stands in a request's way",
    ),
    (
        "redis_port",
        Verdict::Dropped,
        "no store stands in a request's way",
    ),
    (
        "redis_password",
        Verdict::Dropped,
        "no store stands in a request's way",
    ),
    (
        "enable_pre_call_checks",
        Verdict::Dropped,
        "context_max of a lane is always regarded",
    ),
    (
        "enable_tag_filtering",
        Verdict::Lost,
        "requests are not routed by tags",
    ),
    (
        "retry_after",
        Verdict::Dropped,
        "a provider's Retry-After is obeyed, and backoff is exponential",
    ),
    ("debug_level", Verdict::Dropped, "--log"),
    ("set_verbose", Verdict::Dropped, "--log"),
    ("json_logs", Verdict::Dropped, "--log-format json"),
    ("suppress_debug_info", Verdict::Dropped, "--log"),
    (
        "turn_off_message_logging",
        Verdict::Dropped,
        "prompts are never logged",
    ),
    (
        "redact_user_api_key_info",
        Verdict::Dropped,
        "keys are never logged",
    ),
    (
        "log_raw_request_response",
        Verdict::Lost,
        "prompts are never logged",
    ),
    ("telemetry", Verdict::Dropped, "there is none"),
    (
        "drop_params",
        Verdict::Lost,
        "parameters go to the provider as the caller sent them",
    ),
    (
        "modify_params",
        Verdict::Lost,
        "parameters go to the provider as the caller sent them",
    ),
    (
        "add_function_to_prompt",
        Verdict::Lost,
        "parameters go to the provider as the caller sent them",
    ),
    ("cache", Verdict::Lost, "answers are not cached"),
    ("cache_params", Verdict::Lost, "answers are not cached"),
    ("cache_responses", Verdict::Lost, "answers are not cached"),
    (
        "retry_policy",
        Verdict::Lost,
        "the classification decides which failures are tried elsewhere",
    ),
    (
        "allowed_fails_policy",
        Verdict::Lost,
        "breaker.failure_status_codes names the failures that count",
    ),
    (
        "provider_budget_config",
        Verdict::Lost,
        "costs are not counted",
    ),
    ("max_budget", Verdict::Lost, "costs are not counted"),
    ("budget_duration", Verdict::Lost, "costs are not counted"),
    (
        "content_policy_fallbacks",
        Verdict::Lost,
        "a refusal for its content is relayed to the caller",
    ),
    (
        "ssl_verify",
        Verdict::Lost,
        "certificates are always checked; SSL_CERT_FILE of the agent names more authorities",
    ),
    (
        "force_ipv4",
        Verdict::Dropped,
        "both kinds of addresses are tried",
    ),
    (
        "forward_traceparent_to_llm_provider",
        Verdict::Dropped,
        "traceparent always goes on",
    ),
    (
        "routing_strategy_args",
        Verdict::Dropped,
        "the strategy has no settings",
    ),
    ("callback_settings", Verdict::Lost, "there are no callbacks"),
    (
        "default_internal_user_params",
        Verdict::Lost,
        "there are no users",
    ),
    ("default_team_settings", Verdict::Lost, "there are no teams"),
];

/// Settings of the proxy.
pub(super) const GENERAL: &[(&str, Verdict, &str)] = &[
    (
        "database_url",
        Verdict::Lost,
        "keys, teams and spending in the database stay there",
    ),
    (
        "store_model_in_db",
        Verdict::Lost,
        "models in the database stay there: export them into the file first",
    ),
    (
        "store_prompts_in_spend_logs",
        Verdict::Lost,
        "prompts are never logged",
    ),
    (
        "disable_spend_logs",
        Verdict::Dropped,
        "costs are not counted",
    ),
    (
        "database_connection_pool_limit",
        Verdict::Dropped,
        "agents have no database",
    ),
    (
        "database_connection_timeout",
        Verdict::Dropped,
        "agents have no database",
    ),
    (
        "proxy_batch_write_at",
        Verdict::Dropped,
        "agents have no database",
    ),
    (
        "alerting",
        Verdict::Dropped,
        "alerts are Prometheus rules: deploy/kubernetes/components/monitoring",
    ),
    (
        "alerting_threshold",
        Verdict::Dropped,
        "alerts are Prometheus rules",
    ),
    (
        "alert_types",
        Verdict::Dropped,
        "alerts are Prometheus rules",
    ),
    (
        "alerting_args",
        Verdict::Dropped,
        "alerts are Prometheus rules",
    ),
    (
        "background_health_checks",
        Verdict::Dropped,
        "providers.*.health probes lanes that are open",
    ),
    (
        "health_check_interval",
        Verdict::Dropped,
        "providers.*.health.interval_secs",
    ),
    (
        "health_check_details",
        Verdict::Dropped,
        "/stats has the details",
    ),
    (
        "custom_auth",
        Verdict::Lost,
        "callers are known by keys: clients",
    ),
    (
        "enable_jwt_auth",
        Verdict::Lost,
        "callers are known by keys: clients",
    ),
    (
        "litellm_jwtauth",
        Verdict::Lost,
        "callers are known by keys: clients",
    ),
    (
        "pass_through_endpoints",
        Verdict::Lost,
        "other paths of a vendor are served by status (docs/routes.md); foreign ones are not",
    ),
    ("ui_access_mode", Verdict::Dropped, "the page has roles"),
    ("allow_user_auth", Verdict::Dropped, "the page has roles"),
    ("completion_model", Verdict::Lost, "callers name a model"),
    ("infer_model_from_keys", Verdict::Lost, "name every model"),
    (
        "alert_to_webhook_url",
        Verdict::Dropped,
        "alerts are Prometheus rules",
    ),
    (
        "max_request_size_mb",
        Verdict::Dropped,
        "limits.body_max_bytes, 32 MiB by default",
    ),
    ("user_header_name", Verdict::Lost, "there are no users"),
];
