//! Agents that were taken out of service: they stay until they are taken back or forgotten, across
//! reconnects and restarts of the control plane.

use serde_json::json;

use crate::audit::{self, NewEntry};
use crate::change::{Change, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, to_stored};
use crate::error::Error;

/// The glossary word in errors.
const KIND: &str = "drain";

impl ConfigStore {
    /// Takes an agent out of service. `live` names the agents of its gateway that take requests as
    /// far as is known; those whose identity was revoked do not count. When none of them would be
    /// left the order is refused. Repeating it changes nothing.
    ///
    /// # Errors
    /// [`Error::LastAgent`], [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn drain_agent(
        &self,
        gateway: &str,
        instance: &str,
        live: &[&str],
        change: &Change,
    ) -> Result<(), Error> {
        change.check()?;
        check_text("instance", instance)?;
        let mut session = self.engine.begin().await?;
        let written = drain(&mut session, gateway, instance, live, change).await;
        session.finish(written).await
    }

    /// Takes an agent back into service.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not drained, [`Error::Unavailable`].
    pub async fn undrain_agent(&self, instance: &str, change: &Change) -> Result<(), Error> {
        change.check()?;
        check_text("instance", instance)?;
        let mut session = self.engine.begin().await?;
        let written = undrain(&mut session, instance, change).await;
        session.finish(written).await
    }

    /// The instances that are out of service.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn drained_agents(&self) -> Result<Vec<String>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<(String,)> = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT instance FROM drains ORDER BY instance").fetch_all(connection)
        })?;
        Ok(rows.into_iter().map(|(instance,)| instance).collect())
    }
}

async fn drain(
    session: &mut Session,
    gateway: &str,
    instance: &str,
    live: &[&str],
    change: &Change,
) -> Result<(), Error> {
    // Two orders on the last two agents must not both be taken: the gateway's counter is its lock.
    execute!(
        session,
        sqlx::query("UPDATE revision_counters SET last = last WHERE gateway = $1").bind(gateway)
    )?;
    let drained: Vec<(String,)> = fetch!(session, connection => {
        sqlx::query_as("SELECT instance FROM drains WHERE gateway = $1")
            .bind(gateway)
            .fetch_all(connection)
    })?;
    let is_drained = |agent: &str| drained.iter().any(|(other,)| other == agent);
    if is_drained(instance) {
        return Ok(());
    }
    let serves = live.contains(&instance);
    let others = live.iter().filter(|agent| **agent != instance);
    let sent_away: Vec<(String,)> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT agents.instance FROM agents JOIN identities ON identities.id = agents.identity
             WHERE agents.gateway = $1 AND identities.revoked_ms IS NOT NULL",
        )
        .bind(gateway)
        .fetch_all(connection)
    })?;
    let is_sent_away = |agent: &str| sent_away.iter().any(|(other,)| other == agent);
    let is_last = !others
        .into_iter()
        .any(|agent| !is_drained(agent) && !is_sent_away(agent));
    if serves && !is_sent_away(instance) && is_last {
        return Err(Error::LastAgent);
    }
    execute!(
        session,
        sqlx::query(
            "INSERT INTO drains (instance, gateway, ordered_by, ordered_ms) VALUES ($1, $2, $3, $4)",
        )
        .bind(instance)
        .bind(gateway)
        .bind(change.signature())
        .bind(to_stored(change.now_ms))
    )?;
    let entry = NewEntry::done("agent.drain", format!("agents/{instance}"), change)
        .after(json!({ "gateway": gateway }));
    audit::append(session, entry).await
}

async fn undrain(session: &mut Session, instance: &str, change: &Change) -> Result<(), Error> {
    let gone = execute!(
        session,
        sqlx::query("DELETE FROM drains WHERE instance = $1").bind(instance)
    )?;
    if gone == 0 {
        return Err(Error::not_found(KIND, instance));
    }
    let entry = NewEntry::done("agent.undrain", format!("agents/{instance}"), change);
    audit::append(session, entry).await
}
