//! What became of every entry of a foreign file. Nothing is forgotten: what no reader marked is
//! lost.

use crate::source::{Kind, Node};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It means the same here.
    Taken,
    /// It was taken, with a difference that the text names.
    Changed,
    /// It is not needed, or is said elsewhere; nothing that callers notice is missing.
    Dropped,
    /// It has no counterpart.
    Lost,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Taken => "taken",
            Self::Changed => "changed",
            Self::Dropped => "dropped",
            Self::Lost => "lost",
        })
    }
}

/// One entry of a file and what became of it.
#[derive(Clone, Debug)]
pub struct Line {
    /// The file; `file.yaml#2` is its second document.
    pub file: String,
    /// The line, from 1; 0 when it is not known.
    pub line: u64,
    /// The entry, such as `model_list[0].model_name`.
    pub path: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Where it went, or why not.
    pub text: String,
}

/// The marks that readers leave, by file and path.
#[derive(Default)]
pub(crate) struct Ledger(RefCell<BTreeMap<(String, String), (Verdict, String)>>);

/// What is said of an entry that no reader knows.
const UNKNOWN: &str = "not known here";
/// What is said of an entry without a value.
const NOTHING: &str = "it says nothing";

impl Ledger {
    fn mark(&self, file: &str, path: &str, verdict: Verdict, text: String) {
        let key = (file.to_owned(), path.to_owned());
        self.0.borrow_mut().insert(key, (verdict, text));
    }

    /// A line for every entry, in the order of the files.
    pub(crate) fn lines(&self, roots: &[(String, Node)]) -> Vec<Line> {
        let mut lines = Vec::new();
        for (file, node) in roots {
            self.walk(file, node, "", None, &mut lines);
        }
        lines
    }

    fn walk(
        &self,
        file: &str,
        node: &Node,
        path: &str,
        above: Option<&(Verdict, String)>,
        lines: &mut Vec<Line>,
    ) {
        let own = {
            let marks = self.0.borrow();
            marks.get(&(file.to_owned(), path.to_owned())).cloned()
        };
        // The nearest mark counts: a whole block may be lost but for one entry that is taken.
        let mark = own.as_ref().or(above);
        match &node.kind {
            Kind::List(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.walk(file, item, &format!("{path}[{index}]"), mark, lines);
                }
            }
            Kind::Map(entries) if !entries.is_empty() => {
                for (key, item) in entries {
                    self.walk(file, item, &below(path, key), mark, lines);
                }
            }
            _ => {
                let (verdict, text) = match mark {
                    Some((verdict, text)) => (*verdict, text.clone()),
                    None if matches!(node.kind, Kind::Null) => {
                        (Verdict::Dropped, NOTHING.to_owned())
                    }
                    None => (Verdict::Lost, UNKNOWN.to_owned()),
                };
                lines.push(Line {
                    file: file.to_owned(),
                    line: node.line,
                    path: path.to_owned(),
                    verdict,
                    text,
                });
            }
        }
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// A node as a reader sees it, with what it may say of it.
#[derive(Clone)]
pub(crate) struct View<'a> {
    node: &'a Node,
    file: &'a str,
    path: String,
    ledger: &'a Ledger,
}

impl<'a> View<'a> {
    pub(crate) fn root(node: &'a Node, file: &'a str, ledger: &'a Ledger) -> Self {
        Self {
            node,
            file,
            path: String::new(),
            ledger,
        }
    }

    fn to(&self, node: &'a Node, path: String) -> Self {
        Self {
            node,
            path,
            ..self.clone()
        }
    }

    /// An entry of a map; none that is null.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        let found = self.entries().into_iter().find(|(name, _)| name == key);
        let (_, view) = found?;
        if matches!(view.node.kind, Kind::Null) {
            view.dropped(NOTHING);
            return None;
        }
        Some(view)
    }

    /// An entry below entries.
    pub(crate) fn at(&self, keys: &[&str]) -> Option<Self> {
        let mut view = self.clone();
        for key in keys {
            view = view.get(key)?;
        }
        Some(view)
    }

    /// The entries of a map.
    pub(crate) fn entries(&self) -> Vec<(String, Self)> {
        let Kind::Map(entries) = &self.node.kind else {
            return Vec::new();
        };
        let views = entries
            .iter()
            .map(|(key, node)| (key.clone(), self.to(node, below(&self.path, key))));
        views.collect()
    }

    /// The items of a list; of anything else, itself.
    pub(crate) fn items(&self) -> Vec<Self> {
        match &self.node.kind {
            Kind::List(items) => {
                let views = items.iter().enumerate();
                views
                    .map(|(index, node)| self.to(node, format!("{}[{index}]", self.path)))
                    .collect()
            }
            Kind::Null => Vec::new(),
            _ => vec![self.clone()],
        }
    }

    /// Text; numbers and booleans as they are written.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.node.kind {
            Kind::Text(text) => Some(text.clone()),
            Kind::Number(number) => Some(number.to_string()),
            Kind::Bool(value) => Some(value.to_string()),
            _ => None,
        }
    }

    /// A number, also one that is written as text.
    pub(crate) fn number(&self) -> Option<f64> {
        match &self.node.kind {
            Kind::Number(number) => Some(*number),
            Kind::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// A count: a whole number of at least 1.
    pub(crate) fn count(&self) -> Option<u64> {
        let number = self.number()?;
        let is_count = (1.0..=9_007_199_254_740_991.0).contains(&number) && number.fract() == 0.0;
        is_count.then_some(number as u64)
    }

    /// True or false.
    pub(crate) fn flag(&self) -> Option<bool> {
        match &self.node.kind {
            Kind::Bool(value) => Some(*value),
            Kind::Text(text) => text.to_ascii_lowercase().parse().ok(),
            _ => None,
        }
    }

    /// Whether it is a map.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.node.kind, Kind::Map(_))
    }

    /// It means the same at `target` of the document.
    pub(crate) fn taken(&self, target: impl Into<String>) {
        self.mark(Verdict::Taken, target);
    }

    /// It was taken with a difference.
    pub(crate) fn changed(&self, text: impl Into<String>) {
        self.mark(Verdict::Changed, text);
    }

    /// It is not needed.
    pub(crate) fn dropped(&self, text: impl Into<String>) {
        self.mark(Verdict::Dropped, text);
    }

    /// It has no counterpart.
    pub(crate) fn lost(&self, text: impl Into<String>) {
        self.mark(Verdict::Lost, text);
    }

    /// It is not needed, unless something else was said of it as a whole.
    pub(crate) fn unless_marked(&self, text: &str) {
        let key = (self.file.to_owned(), self.path.clone());
        if !self.ledger.0.borrow().contains_key(&key) {
            self.dropped(text);
        }
    }

    fn mark(&self, verdict: Verdict, text: impl Into<String>) {
        self.ledger
            .mark(self.file, &self.path, verdict, text.into());
    }

    /// Marks the entries of a map that have nothing else said of them, by a table of keys.
    pub(crate) fn note(&self, notes: &[(&str, Verdict, &str)]) {
        for (key, view) in self.entries() {
            let note = notes.iter().find(|(name, ..)| *name == key);
            if let Some((_, verdict, text)) = note {
                view.mark(*verdict, *text);
            }
        }
    }
}
