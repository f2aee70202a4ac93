//! One thing wrong with a document, in the shape the API, the CLI and the agents all pass on.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing wrong with a document.
///
/// Messages name what is wrong and what would be right. They never repeat a value that could be a
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Where, as a JSON pointer (RFC 6901). Empty for the document as a whole.
    pub pointer: String,
    /// What kind of problem, in snake case, for programs.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
}

impl Problem {
    /// Builds a problem.
    pub fn new(
        pointer: impl Into<String>,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            pointer: pointer.into(),
            code: code.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            write!(f, "{} ({})", self.message, self.code)
        } else {
            write!(f, "{}: {} ({})", self.pointer, self.message, self.code)
        }
    }
}

/// Writes a JSON pointer (RFC 6901) from its parts.
pub fn pointer<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for part in parts {
        text.push('/');
        text.push_str(&part.replace('~', "~0").replace('/', "~1"));
    }
    text
}
