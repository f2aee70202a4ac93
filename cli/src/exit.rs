//! Exit codes, which scripts rely on, and the failures behind them.

use std::fmt;
use std::process::ExitCode;

/// What the `--help` of every command says at its end.
pub(crate) const HELP: &str = "Exit codes:
  0  done
  1  failed for another reason
  2  the command line is wrong
  3  the document or the request is not valid
  4  the server cannot be reached, or does not answer in time
  5  someone else changed it meanwhile
  6  not signed in, or the token's role is not enough
  7  not found
  8  diff --exit-code: there are differences; import: entries have no counterpart";

/// Why a command ends with another code than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Other = 1,
    Usage = 2,
    Invalid = 3,
    Unreachable = 4,
    Conflict = 5,
    Refused = 6,
    Missing = 7,
    Different = 8,
}

impl Failure {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// A failure of no special kind, with its chain of causes.
    pub(crate) fn other(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::Other, chain(&error.into()))
    }

    /// The same, with what it is about in front.
    pub(crate) fn about(self, what: &str) -> Self {
        Self {
            text: format!("{what}: {}", self.text),
            ..self
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}

/// An error and its causes on one line, each said once.
fn chain(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
