//! `lanekeeper doctor`: looks at everything between a person and an answer, and says what is wrong and
//! what to do about it.

mod fleet;
mod local;

use crate::api::Api;
use crate::args::{DoctorArguments, Format};
use crate::exit::{Failure, Kind};
use crate::output;
use serde_json::{Value, json};

/// How a finding is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// As it should be.
    Good,
    /// It works, and will not for long or not for all.
    Warning,
    /// Something does not work.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
struct Finding {
    level: Level,
    /// What was looked at.
    about: String,
    /// What was seen.
    seen: String,
    /// What to do; empty when nothing is to be done.
    advice: String,
}

/// What was looked at, in this order.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn good(&mut self, about: &str, seen: impl Into<String>) {
        self.add(Level::Good, about, seen, "");
    }

    fn warning(&mut self, about: &str, seen: impl Into<String>, advice: &str) {
        self.add(Level::Warning, about, seen, advice);
    }

    fn bad(&mut self, about: &str, seen: impl Into<String>, advice: &str) {
        self.add(Level::Bad, about, seen, advice);
    }

    fn add(&mut self, level: Level, about: &str, seen: impl Into<String>, advice: &str) {
        self.0.push(Finding {
            level,
            about: about.to_owned(),
            seen: seen.into(),
            advice: advice.to_owned(),
        });
    }
}

pub(crate) async fn run(arguments: DoctorArguments) -> Result<(), Failure> {
    let mut findings = Findings::default();
    local::look(&mut findings);
    if let Some(path) = &arguments.config {
        local::document(path, &mut findings).await?;
    }
    // A document by itself is looked at without a server, unless one is named too.
    if arguments.config.is_none() || arguments.api.is_named() {
        let api = Api::new(&arguments.api)?;
        fleet::look(&api, &mut findings).await;
    }
    print(&findings, arguments.output)?;
    let bad = findings
        .0
        .iter()
        .filter(|it| it.level == Level::Bad)
        .count();
    if bad > 0 {
        return Err(Failure::new(
            Kind::Other,
            format!("{bad} thing(s) do not work"),
        ));
    }
    Ok(())
}

fn print(findings: &Findings, format: Format) -> Result<(), Failure> {
    let word = |level: Level| match level {
        Level::Good => "ok",
        Level::Warning => "warn",
        Level::Bad => "bad",
    };
    let values = findings.0.iter().map(|it| {
        json!({"level": word(it.level), "about": it.about, "seen": it.seen, "advice": it.advice})
    });
    match format {
        Format::Json => output::json(&Value::Array(values.collect())),
        Format::Yaml => output::yaml(&Value::Array(values.collect()))?,
        Format::Table | Format::Wide => {
            for finding in &findings.0 {
                let line = format!(
                    "{:<5} {}: {}",
                    word(finding.level),
                    finding.about,
                    finding.seen
                );
                output::line(&output::plain(&line));
                if !finding.advice.is_empty() {
                    output::line(&output::plain(&format!("      {}", finding.advice)));
                }
            }
        }
    }
    Ok(())
}
