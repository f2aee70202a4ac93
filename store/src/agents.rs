//! The agents' last known facts: what survives a restart of the control plane and an outage of the
//! live view.
//!
//! Written when something changes (a session begins or ends, a revision is applied or refused), not
//! with every report. An instance is a process, so rows of processes long gone pile up until they
//! are pruned.

use std::collections::BTreeMap;

use lanekeeper_model::fleet::{HeldOverrides, Rejected};
use lanekeeper_model::{AgentRecord, ConfigSource, GatewayName, Totals};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::audit::{self, NewEntry};
use crate::change::{Change, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::enrolment;
use crate::error::Error;

/// The glossary word in errors.
const KIND: &str = "agent";
/// The most rows that one call to [`ConfigStore::agent_facts`] answers with, the latest seen first.
pub const AGENT_FACTS_MAX: u32 = 50_000;

type FactsRow = (
    String,
    String,
    String,
    String,
    String,
    i64,
    i64,
    String,
    String,
    String,
    Option<String>,
    i64,
    i64,
    Option<i64>,
    Option<String>,
);

/// What is known for certain of one agent instance, whether or not it is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFacts {
    /// The gateway it serves.
    pub gateway: GatewayName,
    /// Fresh per process; the key together with the gateway.
    pub instance: String,
    /// The agent's name.
    pub name: String,
    /// The agent's labels.
    pub labels: BTreeMap<String, String>,
    /// The agent's version.
    pub version: String,
    /// The session these facts are from; facts of an earlier session never replace those of a later
    /// one.
    pub session_epoch: u64,
    /// The revision it acknowledged last; 0 = none.
    pub applied_revision: u64,
    /// Content hash of what it serves.
    pub applied_hash: String,
    /// Where that came from.
    pub config_source: ConfigSource,
    /// What is wrong there without preventing the revision.
    pub problems: Vec<String>,
    /// The latest revision it refused, until it applies another.
    pub rejected: Option<Rejected>,
    /// When the first facts were recorded, wall time in unix milliseconds. Kept from the first
    /// call.
    pub first_seen_ms: u64,
    /// When it was last heard of, wall time in unix milliseconds.
    pub last_seen_ms: u64,
    /// When it said goodbye, or else its identity was revoked, wall time in unix milliseconds; `None`
    /// while neither has happened.
    pub left_ms: Option<u64>,
    /// The identity whose certificate opened its session; `None` where agents have none.
    pub identity: Option<String>,
}

impl AgentFacts {
    /// The agent as the fleet view takes it while nothing else is known of it: silent since it was
    /// last heard of, with no report, so that no cell of it counts as anything.
    #[must_use]
    pub fn into_silent_record(self) -> AgentRecord {
        AgentRecord {
            gateway: self.gateway,
            instance: self.instance,
            name: self.name,
            identity: self.identity,
            labels: self.labels,
            version: self.version,
            session_epoch: self.session_epoch,
            seq: 0,
            connected_ms: self.last_seen_ms,
            report_received_ms: None,
            left: self.left_ms.is_some(),
            draining: false,
            applied_revision: self.applied_revision,
            applied_hash: self.applied_hash,
            config_source: self.config_source,
            problems: self.problems,
            last_error: self.rejected,
            clock_skew_ms: 0,
            cells: Vec::new(),
            pools: Vec::new(),
            totals: Totals::default(),
            overrides: HeldOverrides::default(),
        }
    }
}

impl ConfigStore {
    /// Records the facts of an agent, unless those of a later session are there or its identity was
    /// revoked: one that was sent away does not come back into the lists by its last words. Not an
    /// audited write: no one decided anything.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn record_agent(&self, facts: &AgentFacts) -> Result<(), Error> {
        self.record_agents(&[facts]).await
    }

    /// Records the facts of many agents, each of them as [`ConfigStore::record_agent`] does, in one
    /// transaction: all of them or none.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn record_agents(&self, all: &[&AgentFacts]) -> Result<(), Error> {
        for facts in all {
            for (field, text) in [
                ("gateway", facts.gateway.as_str()),
                ("instance", &facts.instance),
                ("name", &facts.name),
                ("version", &facts.version),
                ("applied_hash", &facts.applied_hash),
            ] {
                check_text(field, text)?;
            }
        }
        // In one order, so that two that write the same agents never wait for each other.
        let mut sorted = all.to_vec();
        sorted.sort_by_key(|facts| (facts.gateway.as_str(), facts.instance.as_str()));
        let mut session = self.engine.begin().await?;
        let written = upsert_all(&mut session, &sorted).await;
        session.finish(written).await
    }

    /// The facts of the agents of one gateway or of all, the latest seen first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn agent_facts(&self, gateway: Option<&str>) -> Result<Vec<AgentFacts>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<FactsRow> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT gateway, instance, name, labels, version, session_epoch, applied_revision,
                        applied_hash, config_source, problems, rejected, first_seen_ms, last_seen_ms,
                        COALESCE(left_ms, revoked_ms), identity
                 FROM agents LEFT JOIN
                     (SELECT id, revoked_ms FROM identities WHERE revoked_ms IS NOT NULL) AS revoked
                     ON revoked.id = agents.identity
                 WHERE $1 = '' OR gateway = $1
                 ORDER BY last_seen_ms DESC, gateway, instance LIMIT $2",
            )
            .bind(gateway.unwrap_or_default())
            .bind(i64::from(AGENT_FACTS_MAX))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(facts_of).collect()
    }

    /// Forgets an agent instance on someone's order, and revokes the identity it came with, so that
    /// it does not come back. Only when that process is known to be over and a later one came with
    /// the identity since, the identity stays: of two that live under it one is a copy. The value says
    /// whether an identity was revoked.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn forget_agent(
        &self,
        instance: &str,
        is_over: bool,
        change: &Change,
    ) -> Result<bool, Error> {
        change.check()?;
        check_text("instance", instance)?;
        let mut session = self.engine.begin().await?;
        let written = forget(&mut session, instance, is_over, change).await;
        session.finish(written).await
    }

    /// Drops the facts of agents that were last heard of before a time, in unix milliseconds; the
    /// value is how many went. Housekeeping: not audited.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn prune_agents(&self, seen_before_ms: u64) -> Result<u64, Error> {
        let mut session = self.engine.begin().await?;
        let pruned = prune(&mut session, to_stored(seen_before_ms)).await;
        session.finish(pruned).await
    }
}

async fn prune(session: &mut Session, seen_before: i64) -> Result<u64, Error> {
    execute!(
        session,
        sqlx::query(
            "DELETE FROM drains WHERE instance IN
                 (SELECT instance FROM agents WHERE last_seen_ms < $1)",
        )
        .bind(seen_before)
    )?;
    execute!(
        session,
        sqlx::query("DELETE FROM agents WHERE last_seen_ms < $1").bind(seen_before)
    )
}

async fn upsert_all(session: &mut Session, all: &[&AgentFacts]) -> Result<(), Error> {
    for facts in all {
        upsert(session, facts).await?;
    }
    Ok(())
}

async fn upsert(session: &mut Session, facts: &AgentFacts) -> Result<(), Error> {
    let labels = encode(&facts.labels)?;
    let config_source = encode(&facts.config_source)?;
    let problems = encode(&facts.problems)?;
    let rejected = facts.rejected.as_ref().map(encode).transpose()?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO agents (gateway, instance, name, labels, version, session_epoch,
                                 applied_revision, applied_hash, config_source, problems, rejected,
                                 first_seen_ms, last_seen_ms, left_ms, identity)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15
             WHERE NOT EXISTS
                 (SELECT 1 FROM identities WHERE id = $15 AND revoked_ms IS NOT NULL)
             ON CONFLICT (gateway, instance) DO UPDATE SET
                 name = excluded.name, labels = excluded.labels, version = excluded.version,
                 session_epoch = excluded.session_epoch,
                 applied_revision = excluded.applied_revision,
                 applied_hash = excluded.applied_hash, config_source = excluded.config_source,
                 problems = excluded.problems, rejected = excluded.rejected,
                 last_seen_ms = excluded.last_seen_ms, left_ms = excluded.left_ms,
                 identity = excluded.identity
             WHERE excluded.session_epoch >= agents.session_epoch",
        )
        .bind(facts.gateway.as_str())
        .bind(&facts.instance)
        .bind(&facts.name)
        .bind(&labels)
        .bind(&facts.version)
        .bind(to_stored(facts.session_epoch))
        .bind(to_stored(facts.applied_revision))
        .bind(&facts.applied_hash)
        .bind(&config_source)
        .bind(&problems)
        .bind(rejected.as_deref())
        .bind(to_stored(facts.first_seen_ms))
        .bind(to_stored(facts.last_seen_ms))
        .bind(facts.left_ms.map(to_stored))
        .bind(facts.identity.as_deref())
    )?;
    Ok(())
}

async fn forget(
    session: &mut Session,
    instance: &str,
    is_over: bool,
    change: &Change,
) -> Result<bool, Error> {
    // Before the agent's own rows, as every writer of identities does.
    enrolment::lock(session).await?;
    let gone: Vec<(String, String, Option<String>, i64)> = fetch!(session, connection => {
        sqlx::query_as(
            "DELETE FROM agents WHERE instance = $1
             RETURNING gateway, name, identity, session_epoch",
        )
        .bind(instance)
        .fetch_all(connection)
    })?;
    if gone.is_empty() {
        return Err(Error::not_found(KIND, instance));
    }
    execute!(
        session,
        sqlx::query("DELETE FROM drains WHERE instance = $1").bind(instance)
    )?;
    let mut revoked = Vec::new();
    for (_, _, identity, session_epoch) in &gone {
        let Some(identity) = identity else { continue };
        // No session is later than that of a process that lives.
        let session_epoch = if is_over { *session_epoch } else { i64::MAX };
        if revoke_left(session, identity, session_epoch, change).await? > 0 {
            revoked.push(identity.clone());
        }
    }
    let before: Vec<_> = gone
        .iter()
        .map(|(gateway, name, ..)| json!({ "gateway": gateway, "name": name }))
        .collect();
    let entry = NewEntry::done("agent.forget", format!("agents/{instance}"), change)
        .before(json!(before))
        .after(json!({ "revoked_identities": revoked }));
    audit::append(session, entry).await?;
    Ok(!revoked.is_empty())
}

/// Revokes an identity unless a later session than this one came with it.
async fn revoke_left(
    session: &mut Session,
    identity: &str,
    session_epoch: i64,
    change: &Change,
) -> Result<u64, Error> {
    execute!(
        session,
        sqlx::query(
            "UPDATE identities SET revoked_ms = $2
             WHERE id = $1 AND revoked_ms IS NULL AND NOT EXISTS
                 (SELECT 1 FROM agents WHERE identity = $1 AND session_epoch > $3)",
        )
        .bind(identity)
        .bind(to_stored(change.now_ms))
        .bind(session_epoch)
    )
}

fn encode(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Corrupt(error.to_string()))
}

fn decode<T: DeserializeOwned>(instance: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::Corrupt(format!("facts of agent {instance:?}: {error}")))
}

fn facts_of(row: FactsRow) -> Result<AgentFacts, Error> {
    let instance = row.1;
    Ok(AgentFacts {
        gateway: GatewayName::from(row.0),
        name: row.2,
        labels: decode(&instance, &row.3)?,
        version: row.4,
        session_epoch: from_stored(row.5)?,
        applied_revision: from_stored(row.6)?,
        applied_hash: row.7,
        config_source: decode(&instance, &row.8)?,
        problems: decode(&instance, &row.9)?,
        rejected: row
            .10
            .as_deref()
            .map(|text| decode(&instance, text))
            .transpose()?,
        first_seen_ms: from_stored(row.11)?,
        last_seen_ms: from_stored(row.12)?,
        left_ms: from_stored_opt(row.13)?,
        identity: row.14,
        instance,
    })
}
