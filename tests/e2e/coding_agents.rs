//! Coding agents as they come from npm, driven without a terminal through a scripted task: read a
//! file with a shell command, write another, say what was read.

use crate::turns::{TROUBLES, Trouble};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lanekeeper_tests::{LaneCall, SCRIPTED_POOL, ScriptedLanes, http_client, run_npm_program};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use std::time::{SystemTime, UNIX_EPOCH};

const READ: &str = "cat seed.txt";
const WRITE: &str = "tr a-z A-Z < seed.txt > leaf.txt";
const QUESTION: &str = "What is the word in seed.txt?";
const LAST_TEXT: &str = "The word is heron, and it is in leaf.txt.";

/// A coding agent: what it calls its shell and the protocol it speaks.
#[derive(Debug, Clone, Copy)]
enum CodingAgent {
    ClaudeCode,
    /// With a key of its provider.
    Codex,
    /// As signed in to ChatGPT, which is when it compresses what it sends (zstd).
    CodexSignedIn,
    GeminiCli,
}

impl CodingAgent {
    fn protocol(self) -> &'static str {
        match self {
            Self::ClaudeCode => "anthropic",
            Self::Codex | Self::CodexSignedIn => "responses",
            Self::GeminiCli => "gemini",
        }
    }

    fn shell(self, command: &str) -> Value {
        match self {
            Self::ClaudeCode => json!({
                "name": "Bash", "arguments": {"command": command, "description": "Tend the seed"},
            }),
            Self::Codex | Self::CodexSignedIn => {
                json!({"name": "exec_command", "arguments": {"cmd": command}})
            }
            Self::GeminiCli => json!({
                "name": "run_shell_command",
                "arguments": {"command": command, "description": "Tend the seed"},
            }),
        }
    }

    async fn run(self, agent: &str, home: &Path, work: &Path) -> Output {
        let output = match self {
            Self::ClaudeCode => claude_code(agent, home, work).await,
            Self::Codex => codex_with_a_key(agent, home, work).await,
            Self::CodexSignedIn => codex_signed_in(agent, home, work).await,
            Self::GeminiCli => gemini_cli(agent, home, work).await,
        };
        output.unwrap()
    }
}

async fn claude_code(agent: &str, home: &Path, work: &Path) -> anyhow::Result<Output> {
    let environment = [
        ("ANTHROPIC_BASE_URL", agent.to_owned()),
        ("ANTHROPIC_API_KEY", "caller".to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_TELEMETRY", "1".to_owned()),
    ];
    let arguments = [
        "-p",
        QUESTION,
        "--model",
        SCRIPTED_POOL,
        "--allowedTools",
        "Bash",
    ];
    run_npm_program("claude", &arguments, &environment, home, work).await
}

/// With the WebSocket that it tries first, and with no retries of its own.
async fn codex_with_a_key(agent: &str, home: &Path, work: &Path) -> anyhow::Result<Output> {
    let settings = format!(
        r#"
        model = "{SCRIPTED_POOL}"
        model_provider = "lanekeeper"
        [analytics]
        enabled = false
        [model_providers.lanekeeper]
        name = "Lanekeeper"
        base_url = "{agent}/v1"
        wire_api = "responses"
        env_key = "GATEWAY_KEY"
        supports_websockets = true
        request_max_retries = 0
        stream_max_retries = 0
        "#
    );
    codex(&settings, home, work).await
}

/// With an invented session, of which every service is the agent.
async fn codex_signed_in(agent: &str, home: &Path, work: &Path) -> anyhow::Result<Output> {
    let settings = format!(
        r#"
        model = "{SCRIPTED_POOL}"
        openai_base_url = "{agent}/v1"
        chatgpt_base_url = "{agent}/backend-api/"
        check_for_update_on_startup = false
        [analytics]
        enabled = false
        [features]
        enable_request_compression = true
        "#
    );
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let claims = json!({
        "email": "caller@example.test",
        "exp": now + 864_000,
        "https://api.openai.com/auth": {
            "chatgpt_plan_type": "pro", "chatgpt_account_id": "account", "chatgpt_user_id": "caller",
        },
    });
    let token = format!("{}.{}.unsigned", part(json!({"alg": "none"})), part(claims));
    let session = json!({
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": null,
        "tokens": {
            "id_token": token, "access_token": token, "refresh_token": "none", "account_id": "account",
        },
        // Never old enough to be renewed.
        "last_refresh": "2099-01-01T00:00:00Z",
    });
    std::fs::write(home.join("auth.json"), session.to_string())?;
    codex(&settings, home, work).await
}

async fn codex(settings: &str, home: &Path, work: &Path) -> anyhow::Result<Output> {
    std::fs::write(home.join("config.toml"), settings)?;
    let environment = [
        ("CODEX_HOME", home.display().to_string()),
        ("GATEWAY_KEY", "caller".to_owned()),
    ];
    // A sandbox of its own needs user namespaces, which containers often lack.
    let arguments = [
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        QUESTION,
    ];
    run_npm_program("codex", &arguments, &environment, home, work).await
}

async fn gemini_cli(agent: &str, home: &Path, work: &Path) -> anyhow::Result<Output> {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": false},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"disableAutoUpdate": true, "disableUpdateNag": true},
    });
    std::fs::create_dir(home.join(".gemini"))?;
    std::fs::write(home.join(".gemini/settings.json"), settings.to_string())?;
    let environment = [
        ("GOOGLE_GEMINI_BASE_URL", agent.to_owned()),
        ("GEMINI_API_KEY", "caller".to_owned()),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
    ];
    let arguments = ["-m", SCRIPTED_POOL, "--yolo", "-p", QUESTION];
    run_npm_program("gemini", &arguments, &environment, home, work).await
}

/// On lanes of its own protocol.
async fn finishes(client: CodingAgent, trouble: Trouble) {
    finishes_on(client, [client.protocol(); 2], trouble).await;
}

async fn finishes_on(client: CodingAgent, lanes_speak: [&str; 2], trouble: Trouble) {
    let folder = tempfile::tempdir().unwrap();
    let (home, work) = (folder.path().join("home"), folder.path().join("work"));
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("seed.txt"), "heron\n").unwrap();
    let script = json!({"turns": [
        {"text": "Let me look. ", "tool_calls": [client.shell(READ)]},
        {"tool_calls": [client.shell(WRITE)]},
        {"text": LAST_TEXT},
    ]});
    let lanes = ScriptedLanes::start(folder.path(), lanes_speak, &script, trouble.fault())
        .await
        .unwrap();
    let output = client.run(&lanes.url(), &home, &work).await;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let seen = format!("{client:?} on {lanes_speak:?} {trouble:?}: {said}\n{errors}");
    assert!(output.status.success(), "{seen}");
    assert!(said.contains(LAST_TEXT), "{seen}");
    let written = std::fs::read_to_string(work.join("leaf.txt")).unwrap_or_default();
    assert_eq!(written, "HERON\n", "the tool ran; {seen}");
    trouble.check(&format!("{client:?}"), &lanes.calls().await.unwrap());
}

#[tokio::test]
async fn claude_code_finishes_its_task() {
    for trouble in TROUBLES {
        finishes(CodingAgent::ClaudeCode, trouble).await;
    }
}

#[tokio::test]
async fn codex_finishes_its_task() {
    for trouble in TROUBLES {
        finishes(CodingAgent::Codex, trouble).await;
    }
}

/// What the tests of Codex rest on: it asks for a WebSocket, which the agent has none of, and
/// compresses its requests when it is signed in.
#[tokio::test]
async fn codex_falls_back_from_web_sockets_and_compresses() {
    let folder = tempfile::tempdir().unwrap();
    let script = json!({"turns": [{"text": LAST_TEXT}]});
    let lanes = ScriptedLanes::start(folder.path(), ["responses"; 2], &script, None)
        .await
        .unwrap();
    let upgrade = http_client()
        .get(format!("{}/v1/responses", lanes.url()))
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .bearer_auth("caller")
        .send();
    assert_eq!(upgrade.await.unwrap().status(), 426);

    // The provider cannot read the body, and notes what it was called with all the same.
    _ = codex_signed_in(&lanes.provider_url(), folder.path(), folder.path()).await;
    let calls = lanes.calls().await.unwrap();
    let is_compressed = |call: &LaneCall| call.coding.as_deref() == Some("zstd");
    assert!(calls.iter().any(is_compressed), "{calls:?}");
}

#[tokio::test]
async fn codex_finishes_its_task_with_compressed_requests() {
    for trouble in TROUBLES {
        finishes(CodingAgent::CodexSignedIn, trouble).await;
    }
}

#[tokio::test]
async fn gemini_cli_finishes_its_task() {
    for trouble in TROUBLES {
        finishes(CodingAgent::GeminiCli, trouble).await;
    }
}

/// The protocols that a client is moved to when its own vendor's lane dies.
const VENDORS: [&str; 5] = ["openai", "responses", "anthropic", "gemini", "cohere"];

/// The first lane, of the client's own vendor, dies before every answer; the other lane, of another
/// vendor, serves all turns.
async fn finishes_at_every_other_vendor(client: CodingAgent) {
    for other in VENDORS.into_iter().filter(|it| *it != client.protocol()) {
        finishes_on(client, [client.protocol(), other], Trouble::Dies).await;
    }
}

#[tokio::test]
async fn claude_code_does_not_notice_that_its_vendor_is_down() {
    finishes_at_every_other_vendor(CodingAgent::ClaudeCode).await;
}

#[tokio::test]
async fn codex_does_not_notice_that_its_vendor_is_down() {
    finishes_at_every_other_vendor(CodingAgent::Codex).await;
}

#[tokio::test]
async fn gemini_cli_does_not_notice_that_its_vendor_is_down() {
    finishes_at_every_other_vendor(CodingAgent::GeminiCli).await;
}
