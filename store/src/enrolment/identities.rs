//! The agents that hold certificates, and those whose certificates no longer count.

use serde_json::json;

use super::lock;
use crate::audit::{self, NewEntry};
use crate::change::{Change, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;

/// The glossary word in errors.
const KIND: &str = "identity";
/// The most identities that one list answers with, the latest renewed first.
pub const IDENTITIES_MAX: u32 = 20_000;
/// A revoked identity is kept for this long after its last certificate, so that a Kubernetes pod
/// that was sent away does not come back under the same identity: 30 days, in milliseconds.
const REVOKED_KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1000;

type Columns = (String, String, String, String, i64, i64, i64, Option<i64>);

/// An agent that is to get a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIdentity {
    /// Unique; part of the certificate.
    pub id: String,
    /// The gateway it claims.
    pub gateway: String,
    /// The agent's display name.
    pub name: String,
    /// When its certificate ends, wall time in unix milliseconds.
    pub expires_ms: u64,
}

/// An agent that holds a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Unique; part of the certificate.
    pub id: String,
    /// The one gateway it may serve.
    pub gateway: String,
    /// The agent's display name when it enrolled.
    pub name: String,
    /// What it joined with: `join-tokens/ID` or `kubernetes/NAMESPACE/SERVICE_ACCOUNT`.
    pub origin: String,
    /// Enrolled, wall time in unix milliseconds.
    pub created_ms: u64,
    /// Latest certificate issued, wall time in unix milliseconds.
    pub renewed_ms: u64,
    /// When that certificate ends, wall time in unix milliseconds.
    pub expires_ms: u64,
    /// Revoked, wall time in unix milliseconds; `None` when it is not.
    pub revoked_ms: Option<u64>,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It may have a new certificate.
    Granted,
    /// It is unknown, of another gateway, or revoked.
    Refused,
}

impl ConfigStore {
    /// Lets an agent in that something other than a join token vouched for; again when it is
    /// known, unless it was revoked.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn enrol_vouched(
        &self,
        identity: &NewIdentity,
        origin: &str,
        change: &Change,
    ) -> Result<Renewal, Error> {
        check(identity)?;
        check_text("origin", origin)?;
        let mut session = self.engine.begin().await?;
        let written = async {
            if insert(&mut session, identity, origin, change).await? == 0 {
                return Ok(Renewal::Refused);
            }
            let entry = NewEntry::done("agent.enrol", resource(&identity.id), change).after(
                json!({ "gateway": identity.gateway, "name": identity.name, "origin": origin }),
            );
            audit::append(&mut session, entry).await?;
            Ok(Renewal::Granted)
        }
        .await;
        session.finish(written).await
    }

    /// Grants an agent a certificate in place of the one it has. Not an audited write: no one
    /// decided anything.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn renew_identity(
        &self,
        id: &str,
        gateway: &str,
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<Renewal, Error> {
        check_text("id", id)?;
        check_text("gateway", gateway)?;
        let mut session = self.engine.begin().await?;
        let written = execute!(
            &mut session,
            sqlx::query(
                "UPDATE identities SET renewed_ms = $3, expires_ms = $4
                 WHERE id = $1 AND gateway = $2 AND revoked_ms IS NULL",
            )
            .bind(id)
            .bind(gateway)
            .bind(to_stored(now_ms))
            .bind(to_stored(expires_ms))
        );
        Ok(match session.finish(written).await? {
            0 => Renewal::Refused,
            _ => Renewal::Granted,
        })
    }

    /// The identities of one gateway or of all that are in force, or revoked while a certificate
    /// still lasts; the latest renewed first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn identities(
        &self,
        gateway: Option<&str>,
        now_ms: u64,
    ) -> Result<Vec<Identity>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<Columns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id, gateway, name, origin, created_ms, renewed_ms, expires_ms, revoked_ms
                 FROM identities WHERE ($1 = '' OR gateway = $1) AND expires_ms > $2
                 ORDER BY renewed_ms DESC, id LIMIT $3",
            )
            .bind(gateway.unwrap_or_default())
            .bind(to_stored(now_ms))
            .bind(i64::from(IDENTITIES_MAX))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(identity_of).collect()
    }

    /// The ids of revoked identities that have certificates which still last.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn revoked_identities(&self, now_ms: u64) -> Result<Vec<String>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<(String,)> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id FROM identities WHERE revoked_ms IS NOT NULL AND expires_ms > $1",
            )
            .bind(to_stored(now_ms))
            .fetch_all(connection)
        })?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// Makes an agent's certificates worthless.
    ///
    /// # Errors
    /// [`Error::NotFound`] also when it is revoked already, [`Error::Unavailable`].
    pub async fn revoke_identity(&self, id: &str, change: &Change) -> Result<(), Error> {
        change.check()?;
        check_text("id", id)?;
        let mut session = self.engine.begin().await?;
        let written = async {
            lock(&mut session).await?;
            let gone: Option<(String, String)> = fetch!(&mut session, connection => {
                sqlx::query_as(
                    "UPDATE identities SET revoked_ms = $2
                     WHERE id = $1 AND revoked_ms IS NULL RETURNING gateway, name",
                )
                .bind(id)
                .bind(to_stored(change.now_ms))
                .fetch_optional(connection)
            })?;
            let (gateway, name) = gone.ok_or_else(|| Error::not_found(KIND, id))?;
            let entry = NewEntry::done("identity.revoke", resource(id), change)
                .before(json!({ "gateway": gateway, "name": name }));
            audit::append(&mut session, entry).await
        }
        .await;
        session.finish(written).await
    }

    /// Forgets identities whose last certificate has ended, revoked ones a month later; the value
    /// is how many went. Housekeeping: not audited.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn prune_identities(&self, now_ms: u64) -> Result<u64, Error> {
        let mut session = self.engine.begin().await?;
        let pruned = execute!(
            &mut session,
            sqlx::query(
                "DELETE FROM identities
                 WHERE expires_ms <= CASE WHEN revoked_ms IS NULL THEN $1 ELSE $2 END",
            )
            .bind(to_stored(now_ms))
            .bind(to_stored(now_ms.saturating_sub(REVOKED_KEPT_MS)))
        );
        session.finish(pruned).await
    }
}

pub(super) fn check(identity: &NewIdentity) -> Result<(), Error> {
    check_text("id", &identity.id)?;
    check_text("gateway", &identity.gateway)?;
    check_text("name", &identity.name)
}

/// Writes an identity; nothing when its id is taken by a revoked one or by another gateway's.
pub(super) async fn insert(
    session: &mut Session,
    identity: &NewIdentity,
    origin: &str,
    change: &Change,
) -> Result<u64, Error> {
    execute!(
        session,
        sqlx::query(
            "INSERT INTO identities
                 (id, gateway, name, origin, created_ms, renewed_ms, expires_ms, revoked_ms)
             VALUES ($1, $2, $3, $4, $5, $5, $6, NULL)
             ON CONFLICT (id) DO UPDATE SET
                 name = excluded.name, renewed_ms = excluded.renewed_ms,
                 expires_ms = excluded.expires_ms
             WHERE identities.revoked_ms IS NULL AND identities.gateway = excluded.gateway
               AND identities.origin = excluded.origin",
        )
        .bind(&identity.id)
        .bind(&identity.gateway)
        .bind(&identity.name)
        .bind(origin)
        .bind(to_stored(change.now_ms))
        .bind(to_stored(identity.expires_ms))
    )
}

/// Revokes everything an origin let in; the value is how many. The caller holds the lock.
pub(super) async fn revoke_origin(
    session: &mut Session,
    origin: &str,
    now_ms: u64,
) -> Result<u64, Error> {
    execute!(
        session,
        sqlx::query(
            "UPDATE identities SET revoked_ms = $2 WHERE origin = $1 AND revoked_ms IS NULL",
        )
        .bind(origin)
        .bind(to_stored(now_ms))
    )
}

pub(super) fn resource(id: &str) -> String {
    format!("identities/{id}")
}

fn identity_of(row: Columns) -> Result<Identity, Error> {
    let (id, gateway, name, origin, created_ms, renewed_ms, expires_ms, revoked_ms) = row;
    Ok(Identity {
        id,
        gateway,
        name,
        origin,
        created_ms: from_stored(created_ms)?,
        renewed_ms: from_stored(renewed_ms)?,
        expires_ms: from_stored(expires_ms)?,
        revoked_ms: from_stored_opt(revoked_ms)?,
    })
}
