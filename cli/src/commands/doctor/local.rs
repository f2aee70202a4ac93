//! This machine, and the providers and keys of a document as this user and machine see them.

use super::Findings;
use crate::commands::document;
use crate::exit::Failure;
use lanekeeper_model::check_yaml;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Open files below which an agent soon meets its limit.
const FEW_FILES: u64 = 4096;
/// Longest wait for one provider.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn look(findings: &mut Findings) {
    findings.good("program", format!("lanekeeper {}", crate::args::VERSION));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    match limit.maximum {
        Some(most) if most < FEW_FILES => findings.warning(
            "open files",
            format!("at most {most} may be open"),
            "raise the hard limit: each call holds two; systemd: LimitNOFILE=65536",
        ),
        Some(most) => findings.good("open files", format!("at most {most} may be open")),
        None => findings.good("open files", "no limit"),
    }
}

/// A document: whether it is valid, and whether its keys are here and its providers answer.
pub(super) async fn document(path: &Path, findings: &mut Findings) -> Result<(), Failure> {
    let text = document::read(path)?;
    let about = path.display().to_string();
    let checked = match check_yaml(&text) {
        Ok(checked) => checked,
        Err(problems) => {
            for problem in problems {
                let place = if problem.pointer.is_empty() {
                    "/"
                } else {
                    &problem.pointer
                };
                let seen = format!("{place}: {} ({})", problem.message, problem.code);
                findings.bad(&about, seen, "docs/troubleshooting.md explains the code");
            }
            return Ok(());
        }
    };
    findings.good(&about, "the document is valid");
    let providers = checked.document.get("providers").and_then(Value::as_object);
    for (name, provider) in providers.into_iter().flatten() {
        let about = format!("provider {name}");
        keys(&about, provider.get("api_key"), findings);
        if let Some(url) = provider.get("base_url").and_then(Value::as_str) {
            reach(&about, url, findings).await;
        }
    }
    Ok(())
}

/// Whether the keys that a provider names are here, by this user's eyes. No key is shown.
fn keys(about: &str, keys: Option<&Value>, findings: &mut Findings) {
    let one = keys.into_iter().filter(|it| it.is_object());
    let several = keys.and_then(Value::as_array).into_iter().flatten();
    for key in one.chain(several) {
        let text = |kind: &str| key.get(kind).and_then(Value::as_str);
        if let Some(variable) = text("env") {
            match std::env::var(variable) {
                Ok(value) if !value.trim().is_empty() => {
                    findings.good(about, format!("the variable {variable} is set"));
                }
                _ => findings.warning(
                    about,
                    format!("the variable {variable} is not set here"),
                    "its lanes are unusable on an agent that lacks it",
                ),
            }
        } else if let Some(file) = text("file") {
            match std::fs::metadata(file).and_then(|_| std::fs::File::open(file)) {
                Ok(_) => findings.good(about, format!("{file} can be read")),
                Err(error) => findings.warning(
                    about,
                    format!("{file} cannot be read here: {error}"),
                    "its lanes are unusable on an agent that lacks it",
                ),
            }
        }
    }
}

/// Whether a provider's host answers. What it answers does not matter: no key is sent.
async fn reach(about: &str, base_url: &str, findings: &mut Findings) {
    let url = base_url.split("/{model}").next().unwrap_or(base_url);
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build();
    let Ok(client) = client else { return };
    match client.get(url).send().await {
        Ok(answer) => findings.good(
            about,
            format!("{url} answers ({})", answer.status().as_u16()),
        ),
        Err(error) => findings.bad(
            about,
            format!("{url}: {}", crate::api::reason(&error)),
            "look at the name, the network between, and a proxy that HTTPS_PROXY should name",
        ),
    }
}
