//! What operators did around an incident: what may have caused it, and what was done about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CONTEXT_MAX, Incident};

/// What began so shortly before an incident is a suspect: two minutes, in milliseconds.
pub const SUSPECT_WINDOW_MS: u64 = 120_000;

/// What was done.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ContextKind {
    /// A revision was written, for all agents at once.
    Revision,
    /// A revision was rolled out in stages.
    Rollout,
    /// An override was given.
    Override,
}

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextMark {
    /// What.
    pub kind: ContextKind,
    /// The revision's number, or the override's id.
    pub id: String,
    /// When it began, unix milliseconds.
    pub at_ms: u64,
    /// When it ended, unix milliseconds; `None` while it has not, and for what has no end.
    pub ended_ms: Option<u64>,
    /// Who did it.
    pub actor: String,
    /// What it was, in words.
    pub detail: String,
}

/// All that was done in a gateway lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// In any order.
    pub marks: Vec<ContextMark>,
}

impl Incident {
    /// Takes in what was done in the incident's time and shortly before. True when that is news.
    pub fn note_context(&mut self, context: &Context) -> bool {
        let from_ms = self.opened_ms.saturating_sub(SUSPECT_WINDOW_MS);
        let until_ms = self.ended_ms().unwrap_or(u64::MAX);
        let mut news = false;
        for mark in &context.marks {
            let lasts = mark.ended_ms.is_none_or(|ended| ended >= from_ms);
            let began_in_time = mark.at_ms >= from_ms;
            // An override that was given long before may still be in force now.
            let concerns = match mark.kind {
                ContextKind::Override => lasts,
                ContextKind::Revision | ContextKind::Rollout => began_in_time,
            };
            if !concerns || mark.at_ms > until_ms {
                continue;
            }
            let has_room = self.has_room(mark.kind);
            let is_same = |known: &&mut ContextMark| known.kind == mark.kind && known.id == mark.id;
            match self.context.iter_mut().find(is_same) {
                Some(known) if known == mark => {}
                Some(known) => {
                    *known = mark.clone();
                    news = true;
                }
                None if has_room => {
                    self.context.push(mark.clone());
                    news = true;
                }
                None => {}
            }
        }
        if news {
            self.context.sort_by_key(|mark| mark.at_ms);
        }
        news
    }

    /// The marks that may have caused it: those that began within two minutes before.
    pub fn suspects(&self) -> impl Iterator<Item = &ContextMark> {
        let from_ms = self.opened_ms.saturating_sub(SUSPECT_WINDOW_MS);
        self.context
            .iter()
            .filter(move |mark| (from_ms..=self.opened_ms).contains(&mark.at_ms))
    }

    fn has_room(&self, kind: ContextKind) -> bool {
        let is_override = |kind: ContextKind| kind == ContextKind::Override;
        let alike = self
            .context
            .iter()
            .filter(|known| is_override(known.kind) == is_override(kind));
        alike.count() < CONTEXT_MAX
    }
}
