//! `lanekeeper import`: another gateway's configuration as a document, and what became of each entry.

use super::document;
use crate::args::{ForeignSystem, ImportArguments, ImportFormat};
use crate::exit::{Failure, Kind};
use crate::output;
use lanekeeper_import::{Error, Line, Settings, System, Verdict, import};
use serde_json::{Value, json};

pub(crate) fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    let mut files = Vec::new();
    for path in &arguments.files {
        files.push((path.display().to_string(), document::read(path)?));
    }
    let settings = Settings {
        gateway: arguments.gateway.clone(),
        variables: arguments.variables.iter().cloned().collect(),
    };
    let system = match arguments.system {
        ForeignSystem::Litellm => System::Litellm,
        ForeignSystem::Busbar => System::Busbar,
        ForeignSystem::Rolter => System::Rolter,
        ForeignSystem::EnvoyAi => System::EnvoyAi,
    };
    let done = match import(system, &files, &settings) {
        Ok(done) => done,
        Err(error) => {
            let invalid = Failure::new(Kind::Invalid, error.to_string());
            if let Error::Nothing { lines } | Error::Invalid { lines, .. } = &error {
                output::report(&report(lines));
            }
            return Err(invalid);
        }
    };
    match arguments.output {
        ImportFormat::Yaml => {
            output::yaml(&done.document)?;
            output::report(&report(&done.lines));
        }
        ImportFormat::Json => {
            let lines: Vec<Value> = done.lines.iter().map(as_json).collect();
            output::json(&json!({"document": done.document, "report": lines}));
        }
    }
    let losses = done.losses();
    if losses > 0 && !arguments.lossy {
        let text =
            format!("{losses} entries have no counterpart in the document; --lossy accepts that");
        return Err(Failure::new(Kind::Different, text));
    }
    Ok(())
}

fn as_json(line: &Line) -> Value {
    json!({
        "file": line.file, "line": line.line, "entry": line.path,
        "verdict": line.verdict.to_string(), "text": line.text,
    })
}

/// The report for a person: a line for each entry, and how many there are of each kind.
fn report(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut file = "";
    for line in lines {
        if line.file != file {
            file = &line.file;
            text.push_str(&format!("{file}:\n"));
        }
        let Line {
            line: number,
            path,
            verdict,
            text: what,
            ..
        } = line;
        text.push_str(&format!("{number:>6}  {verdict:<8} {path}: {what}\n"));
    }
    let count = |wanted: Verdict| lines.iter().filter(|it| it.verdict == wanted).count();
    text.push_str(&format!(
        "{} taken, {} changed, {} dropped, {} lost",
        count(Verdict::Taken),
        count(Verdict::Changed),
        count(Verdict::Dropped),
        count(Verdict::Lost)
    ));
    text
}
