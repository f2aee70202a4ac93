//! Reads the configuration of other gateways and writes a gateway document. Every entry of the
//! foreign file is accounted for: taken, taken with a difference, not needed, or lost. No I/O:
//! texts come in, a document and its report go out.
//!
//! ```
//! use lanekeeper_import::{Settings, System, import};
//!
//! let text = "model_list:\n- model_name: gpt\n  litellm_params: {model: openai/gpt-4o}\n";
//! let files = [("config.yaml".to_owned(), text.to_owned())];
//! let done = import(System::Litellm, &files, &Settings::default()).unwrap();
//! assert!(done.document["pools"]["gpt"].is_object());
//! assert_eq!(done.losses(), 0);
//! ```

mod busbar;
mod draft;
mod envoy;
mod ledger;
mod litellm;
mod rolter;
mod source;
mod vendors;

pub use ledger::{Line, Verdict};

use draft::Draft;
use ledger::{Ledger, View};
use serde_json::Value;
use source::Node;
use std::collections::BTreeMap;

/// Whose configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// LiteLLM's proxy: `config.yaml`.
    Litellm,
    /// Busbar: `config.yaml`, with its `providers.yaml` where there is one.
    Busbar,
    /// Rolter: `rolter.toml`.
    Rolter,
    /// Envoy AI Gateway: its Kubernetes objects.
    EnvoyAi,
}

/// What the foreign file does not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The gateway's name. Default `edge`.
    pub gateway: String,
    /// Values of environment variables that the file names where a document holds no reference:
    /// addresses, and callers' keys, of which only the digest is written.
    pub variables: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gateway: "edge".to_owned(),
            variables: BTreeMap::new(),
        }
    }
}

/// A document and what became of every entry of the file.
#[derive(Debug)]
pub struct Import {
    /// The gateway document; `lanekeeper check` accepts it.
    pub document: Value,
    /// The entries in the order of the files.
    pub lines: Vec<Line>,
}

impl Import {
    /// Entries without a counterpart.
    #[must_use]
    pub fn losses(&self) -> usize {
        let lost = self.lines.iter().filter(|it| it.verdict == Verdict::Lost);
        lost.count()
    }
}

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is no YAML or TOML.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the parser says, with the line.
        reason: String,
    },
    /// Nothing in it is a model that could be served.
    #[error("nothing in it can be served: no model was taken")]
    Nothing {
        /// What became of every entry.
        lines: Vec<Line>,
    },
    /// What came out is not valid; what is wrong is listed.
    #[error("what was taken makes no valid document: {}", listed(.problems))]
    Invalid {
        /// Each problem of the document.
        problems: Vec<lanekeeper_model::Problem>,
        /// What became of every entry.
        lines: Vec<Line>,
    },
}

fn listed(problems: &[lanekeeper_model::Problem]) -> String {
    let lines = problems
        .iter()
        .map(|it| format!("{}: {}", it.pointer, it.message));
    lines.collect::<Vec<_>>().join("; ")
}

/// Makes a document of a foreign configuration, which may be in several files.
///
/// # Errors
///
/// [`Error::Unreadable`] for a file that is no YAML or TOML; [`Error::Nothing`] and
/// [`Error::Invalid`] when no valid document comes out, with the report all the same.
pub fn import(
    system: System,
    files: &[(String, String)],
    settings: &Settings,
) -> Result<Import, Error> {
    let mut roots: Vec<(String, Node)> = Vec::new();
    for (file, text) in files {
        let parsed = match system {
            System::Rolter => source::toml(text).map(|node| vec![node]),
            _ => source::yaml(text),
        };
        let parsed = parsed.map_err(|reason| Error::Unreadable {
            file: file.clone(),
            reason,
        })?;
        let several = parsed.len() > 1;
        for (index, node) in parsed.into_iter().enumerate() {
            let name = if several {
                format!("{file}#{}", index + 1)
            } else {
                file.clone()
            };
            roots.push((name, node));
        }
    }
    let ledger = Ledger::default();
    let views: Vec<View<'_>> = roots
        .iter()
        .map(|(file, node)| View::root(node, file, &ledger))
        .collect();
    let mut draft = Draft::new(settings);
    match system {
        System::Litellm => litellm::read(&views, &mut draft),
        System::Busbar => busbar::read(&views, &mut draft),
        System::Rolter => rolter::read(&views, &mut draft),
        System::EnvoyAi => envoy::read(&views, &mut draft),
    }
    drop(views);
    let lines = ledger.lines(&roots);
    if draft.is_empty() {
        return Err(Error::Nothing { lines });
    }
    let document = draft.finish();
    match lanekeeper_model::check_json(&document) {
        Ok(_) => Ok(Import { document, lines }),
        Err(problems) => Err(Error::Invalid { problems, lines }),
    }
}
