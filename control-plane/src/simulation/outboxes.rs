//! What a control plane writes to the live view and the database, in the order in which it is due.

use lanekeeper_model::AgentRecord;
use lanekeeper_store::AgentFacts;

use super::{Due, Replica, Written};

impl Replica {
    /// Takes the next record for the live view.
    pub fn next_record(&mut self) -> Option<Due<AgentRecord>> {
        let (key, value, notable) = self.records.next()?;
        Some(Due {
            key,
            value,
            notable,
        })
    }

    /// Tells what came of writing a record.
    pub fn record_written(&mut self, due: Due<AgentRecord>, written: Written) {
        if written == Written::Older {
            self.sessions.outlived(&due.key, due.value.session_epoch);
        }
        self.records.done(due.key, due.notable, written.into());
    }

    /// Takes the next facts for the configuration database.
    pub fn next_facts(&mut self) -> Option<Due<AgentFacts>> {
        let (key, value, notable) = self.facts.next()?;
        Some(Due {
            key,
            value,
            notable,
        })
    }

    /// Tells what came of writing facts.
    pub fn facts_written(&mut self, due: Due<AgentFacts>, written: Written) {
        self.facts.done(due.key, due.notable, written.into());
    }

    /// The live view has lost its memory: every record is to be written again.
    pub fn rewrite(&mut self) {
        self.records.requeue();
    }

    /// Records wait to be written.
    pub fn has_backlog(&self) -> bool {
        self.records.has_queue()
    }
}
