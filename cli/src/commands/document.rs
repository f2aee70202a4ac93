//! Reads a gateway document from a file or standard input and checks it.

use crate::exit::{Failure, Kind};
use lanekeeper_model::{Checked, Problem, check_yaml};
use std::io::Read;
use std::path::Path;

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

/// The document as the agents and the API would check it. JSON is YAML.
pub(super) fn check(text: &str) -> Result<Checked, Vec<Problem>> {
    check_yaml(text)
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
