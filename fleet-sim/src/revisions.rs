//! Pushed documents, checked once for the whole swarm: a machine that plays thousands of agents
//! would otherwise measure its own parser.

use lanekeeper_model::ids::{CellName, LaneName, PoolName, ProviderName};
use lanekeeper_model::{Problem, check_json, content_hash};
use lanekeeper_proto::message::ConfigPush;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Revisions remembered. Agents that are pushed to at one moment are pushed the newest ones.
const KEPT_MAX: usize = 16;
/// Pool and provider of the cells that no document names.
const MADE_UP: &str = "sim";

/// What checking a document showed.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The cells that agents script.
    pub(crate) cells: Arc<[CellName]>,
    /// Why it is refused; empty when it is applied.
    pub(crate) errors: Vec<Problem>,
}

type Shared = Arc<OnceCell<Arc<Checked>>>;

/// The revisions that were pushed lately.
pub(crate) struct Revisions {
    cells: usize,
    kept: Mutex<VecDeque<(String, Shared)>>,
}

impl Revisions {
    /// For agents of `cells` cells each.
    pub(crate) fn new(cells: usize) -> Self {
        Self {
            cells,
            kept: Mutex::default(),
        }
    }

    /// The cells of an agent that has no document yet.
    pub(crate) fn without_document(&self) -> Arc<[CellName]> {
        filled(Vec::new(), self.cells)
    }

    /// Checks a push, or remembers what checking it showed.
    pub(crate) async fn check(&self, push: &ConfigPush) -> Arc<Checked> {
        let shared = self.shared(&push.hash);
        let (document, hash, cells) = (push.document.clone(), push.hash.clone(), self.cells);
        let checked = shared.get_or_init(|| async move {
            let checked = tokio::task::spawn_blocking(move || check(&document, &hash, cells)).await;
            Arc::new(checked.unwrap_or_else(|error| refused("panicked", error.to_string(), cells)))
        });
        Arc::clone(checked.await)
    }

    fn shared(&self, hash: &str) -> Shared {
        let mut kept = self.kept.lock();
        if let Some((_, shared)) = kept.iter().find(|(known, _)| known == hash) {
            return Arc::clone(shared);
        }
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        let shared = Shared::default();
        kept.push_back((hash.to_owned(), Arc::clone(&shared)));
        shared
    }
}

fn check(document: &[u8], hash: &str, cells: usize) -> Checked {
    let value: serde_json::Value = match serde_json::from_slice(document) {
        Ok(value) => value,
        Err(error) => return refused("syntax", error.to_string(), cells),
    };
    if content_hash(&value) != hash {
        return refused("hash", "the document has another hash".to_owned(), cells);
    }
    match check_json(&value) {
        Ok(checked) => Checked {
            cells: filled(checked.gateway.cells(), cells),
            errors: Vec::new(),
        },
        Err(errors) => Checked {
            cells: filled(Vec::new(), cells),
            errors,
        },
    }
}

fn refused(code: &str, message: String, cells: usize) -> Checked {
    Checked {
        cells: filled(Vec::new(), cells),
        errors: vec![Problem::new("", code, message)],
    }
}

/// Exactly `wanted` cells: the named ones, then made-up ones.
fn filled(mut cells: Vec<CellName>, wanted: usize) -> Arc<[CellName]> {
    cells.truncate(wanted);
    let (pool, provider) = (PoolName::from(MADE_UP), ProviderName::from(MADE_UP));
    for number in cells.len()..wanted {
        cells.push(CellName {
            pool: pool.clone(),
            lane: LaneName::from(format!("lane-{number:04}")),
            provider: provider.clone(),
        });
    }
    cells.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn push(document: &serde_json::Value) -> ConfigPush {
        ConfigPush {
            nonce: 1,
            revision: 1,
            document: serde_json::to_vec(document).unwrap().into(),
            hash: content_hash(document),
        }
    }

    #[tokio::test]
    async fn cells_are_those_of_the_document_and_then_made_up_ones() {
        let document = json!({
            "gateway": "edge",
            "providers": {"one": {"protocol": "openai", "api_key": null,
                "base_url": "http://127.0.0.1:1"}},
            "models": {"a": {"provider": "one"}},
            "pools": {"chat": {"members": [{"target": "a"}]}},
        });
        let checked = Revisions::new(3).check(&push(&document)).await;
        assert!(checked.errors.is_empty(), "{:?}", checked.errors);
        let names: Vec<(&str, &str)> = checked
            .cells
            .iter()
            .map(|cell| (cell.pool.as_str(), cell.lane.as_str()))
            .collect();
        assert_eq!(names, [("", "a"), ("chat", "a"), ("sim", "lane-0002")]);
    }

    #[tokio::test]
    async fn a_document_that_does_not_hold_is_refused_with_reasons() {
        let revisions = Revisions::new(0);
        assert!(
            !revisions
                .check(&push(&json!({"pools": 1})))
                .await
                .errors
                .is_empty()
        );
        let mut torn = push(&json!({}));
        torn.hash = "other".to_owned();
        let errors = &revisions.check(&torn).await.errors;
        assert_eq!(errors.first().unwrap().code, "hash");
    }
}
