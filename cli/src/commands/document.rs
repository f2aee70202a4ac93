//! Reads a gateway document from a file or standard input and checks it.

use crate::exit::{Failure, Kind};
use lanekeeper_model::{Checked, Problem, check_yaml};
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

/// The documents of a text, which `---` lines part as YAML has it; empty ones are left out, unless
/// all are.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_mark = line.strip_prefix("---").is_some_and(|rest| {
            let rest = rest.trim_end();
            rest.is_empty() || rest.trim_start().starts_with('#') && rest.starts_with([' ', '\t'])
        });
        if is_mark {
            parts.extend(text.get(start..at));
            start = at + line.len();
        }
        at += line.len();
    }
    parts.extend(text.get(start..));
    let is_empty = |part: &&str| {
        let mut lines = part.lines().map(str::trim);
        lines.all(|line| line.is_empty() || line.starts_with('#') || line == "...")
    };
    if parts.iter().all(is_empty) {
        return vec![text];
    }
    parts.retain(|part| !is_empty(part));
    parts
}

/// The documents of several files, all checked before anything is done with one of them.
pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<Checked>, Failure> {
    let mut documents: Vec<Checked> = Vec::new();
    for path in paths {
        let text = read(path)?;
        let parts = split(&text);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_parted_where_yaml_parts_them() {
        for (text, parts) in [
            ("a: 1\n", vec!["a: 1\n"]),
            ("---\na: 1\n", vec!["a: 1\n"]),
            ("a: 1\n---\nb: 2\n", vec!["a: 1\n", "b: 2\n"]),
            ("a: 1\r\n--- # next\r\nb: 2", vec!["a: 1\r\n", "b: 2"]),
            (
                "# head\n---\na: 1\n---\n\n---\nb: 2\n",
                vec!["a: 1\n", "b: 2\n"],
            ),
            ("a: |\n  ---\n  x\n", vec!["a: |\n  ---\n  x\n"]),
            ("a: '----'\n----\n", vec!["a: '----'\n----\n"]),
            ("{\"a\": 1}", vec!["{\"a\": 1}"]),
            ("", vec![""]),
            ("---\n", vec!["---\n"]),
        ] {
            assert_eq!(split(text), parts, "{text:?}");
        }
    }
}
