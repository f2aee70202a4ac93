//! Reads a gateway document from a file or standard input and checks it.

use crate::exit::{Failure, Kind};
use lanekeeper_model::{Checked, Problem, check_yaml, split_documents};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest document that is read, in bytes.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// The text of a document; `-` is standard input.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_BYTES).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text))
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::new(
            Kind::Other,
            format!("cannot read {}: {error}", path.display()),
        )),
    }
}

/// The documents of several files, all checked before anything is done with one of them.
pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<Checked>, Failure> {
    let mut documents: Vec<Checked> = Vec::new();
    for path in &files(paths)? {
        let text = read(path)?;
        let parts = split_documents(&text);
        for (index, part) in parts.iter().enumerate() {
            let checked = check(part)
                .map_err(|problems| invalid(&place(path, index, parts.len()), &problems))?;
            let name = &checked.gateway.name;
            if documents.iter().any(|other| other.gateway.name == *name) {
                let text = format!("{}: gateway {name} is defined twice", path.display());
                return Err(Failure::new(Kind::Invalid, text));
            }
            documents.push(checked);
        }
    }
    Ok(documents)
}

/// The files that paths name: a folder stands for the documents in it, by name.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot = |error: std::io::Error| {
            Failure::new(
                Kind::Other,
                format!("cannot read {}: {error}", path.display()),
            )
        };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?.path();
            let is_hidden = entry
                .file_name()
                .is_none_or(|name| name.to_string_lossy().starts_with('.'));
            let ending = entry.extension().and_then(|ending| ending.to_str());
            let is_document = ending.is_some_and(|it| ["yaml", "yml", "json"].contains(&it));
            if is_document && !is_hidden && entry.is_file() {
                found.push(entry);
            }
        }
        if found.is_empty() {
            let text = format!("{} holds no .yaml, .yml or .json file", path.display());
            return Err(Failure::new(Kind::Other, text));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// The document as the agents and the API would check it. JSON is YAML.
pub(super) fn check(text: &str) -> Result<Checked, Vec<Problem>> {
    check_yaml(text)
}

/// How a document of a file is called: by the file alone where it is the only one.
pub(super) fn place(path: &Path, index: usize, count: usize) -> PathBuf {
    if count == 1 {
        return path.to_owned();
    }
    PathBuf::from(format!("{}, document {}", path.display(), index + 1))
}

/// Problems as a failure, one a line.
pub(super) fn invalid(path: &Path, problems: &[Problem]) -> Failure {
    let mut text = format!("{} is not valid:", path.display());
    for problem in problems {
        let pointer = if problem.pointer.is_empty() {
            "/"
        } else {
            &problem.pointer
        };
        text += &format!("\n  {pointer}: {}", problem.message);
    }
    Failure::new(Kind::Invalid, text)
}
