//! Join tokens: each lets a number of agents of one gateway in, until its end.

use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::identities::{NewIdentity, check, insert, resource as identity_resource, revoke_origin};
use super::lock;
use crate::audit::{self, NewEntry};
use crate::change::{Change, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, to_stored};
use crate::error::Error;
use crate::random;
use crate::tokens::SecretString;

/// The most join tokens that are neither revoked nor expired at one time.
pub const JOIN_TOKENS_MAX: u32 = 1000;
/// The glossary word in errors.
const KIND: &str = "join token";
/// Longer ids and secrets than this are none; they are not even hashed.
const PRESENTED_MAX: usize = 128;
/// Compared with when there is no such token, so that a wrong id costs what a wrong secret costs.
const NO_HASH: &str = "----------------------------------------------------------------";

type Columns = (String, String, String, i64, i64, i64, i64);

/// A join token to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJoinToken {
    /// The gateway that agents may join with it.
    pub gateway: String,
    /// When it stops working, wall time in unix milliseconds.
    pub expires_ms: u64,
    /// How many agents may join with it, at least 1.
    pub max_uses: u64,
}

/// One line of the list of join tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    /// The public half.
    pub id: String,
    /// The gateway that agents may join with it.
    pub gateway: String,
    /// Who made it.
    pub created_by: String,
    /// Made, wall time in unix milliseconds.
    pub created_ms: u64,
    /// When it stops working, wall time in unix milliseconds.
    pub expires_ms: u64,
    /// How many agents may join with it.
    pub max_uses: u64,
    /// How many agents have joined with it.
    pub uses: u64,
}

impl ConfigStore {
    /// Makes a join token. The second value is `id.secret`: it exists nowhere else.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn create_join_token(
        &self,
        token: NewJoinToken,
        change: &Change,
    ) -> Result<(JoinToken, SecretString), Error> {
        change.check()?;
        check_text("gateway", &token.gateway)?;
        if token.max_uses == 0 {
            return Err(Error::Invalid {
                field: "max_uses",
                reason: "must be at least 1",
            });
        }
        let mut session = self.engine.begin().await?;
        let written = create(&mut session, token, change).await;
        session.finish(written).await
    }

    /// The join tokens that are not revoked, oldest first; expired and used ones of the last day
    /// included.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn list_join_tokens(&self, now_ms: u64) -> Result<Vec<JoinToken>, Error> {
        const SHOWN_AFTER_END_MS: u64 = 24 * 60 * 60 * 1000;
        let mut session = self.engine.session().await?;
        let rows: Vec<Columns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id, gateway, created_by, created_ms, expires_ms, max_uses, uses
                 FROM join_tokens WHERE revoked_ms IS NULL AND expires_ms > $1
                 ORDER BY created_ms, id LIMIT $2",
            )
            .bind(to_stored(now_ms.saturating_sub(SHOWN_AFTER_END_MS)))
            .bind(i64::from(JOIN_TOKENS_MAX))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(token_of).collect()
    }

    /// Revokes a join token, and on demand every agent that it let in; the value is how many
    /// agents that were.
    ///
    /// # Errors
    /// [`Error::NotFound`] also when it is revoked already, [`Error::Unavailable`].
    pub async fn revoke_join_token(
        &self,
        id: &str,
        agents: bool,
        change: &Change,
    ) -> Result<u64, Error> {
        change.check()?;
        check_text("id", id)?;
        let mut session = self.engine.begin().await?;
        let written = revoke(&mut session, id, agents, change).await;
        session.finish(written).await
    }

    /// Lets an agent in by a join token's id and secret, and counts the use, in one transaction.
    /// False when the token is malformed, unknown, wrong, of another gateway, expired, revoked or
    /// used up; which of these is not told.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn enrol_by_token(
        &self,
        id: &str,
        secret: &str,
        identity: &NewIdentity,
        now_ms: u64,
    ) -> Result<bool, Error> {
        if id.len() > PRESENTED_MAX || secret.len() > PRESENTED_MAX || id.contains('\0') {
            return Ok(false);
        }
        check(identity)?;
        // Proven before a write transaction is opened, so that strangers cannot queue writers.
        let mut reading = self.engine.session().await?;
        let stored: Option<(String,)> = fetch!(&mut reading, connection => {
            sqlx::query_as("SELECT secret_hash FROM join_tokens WHERE id = $1")
                .bind(id)
                .fetch_optional(connection)
        })?;
        drop(reading);
        let stored = stored.map_or_else(|| NO_HASH.to_owned(), |(hash,)| hash);
        let genuine: bool = hash(secret).as_bytes().ct_eq(stored.as_bytes()).into();
        if !genuine {
            return Ok(false);
        }
        let change = Change {
            actor: format!("{KIND} {id}"),
            actor_id: String::new(),
            message: String::new(),
            now_ms,
            idempotency: None,
        };
        let mut session = self.engine.begin().await?;
        let written = enrol(&mut session, id, identity, &change).await;
        match session.finish(written).await {
            Err(Error::NotFound { .. }) => Ok(false),
            answer => answer,
        }
    }

    /// Forgets join tokens that ended before a time, in unix milliseconds; the value is how many
    /// went. Housekeeping: not audited.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn prune_join_tokens(&self, ended_before_ms: u64) -> Result<u64, Error> {
        let mut session = self.engine.begin().await?;
        let pruned = execute!(
            &mut session,
            sqlx::query("DELETE FROM join_tokens WHERE expires_ms < $1")
                .bind(to_stored(ended_before_ms))
        );
        session.finish(pruned).await
    }
}

async fn create(
    session: &mut Session,
    token: NewJoinToken,
    change: &Change,
) -> Result<(JoinToken, SecretString), Error> {
    lock(session).await?;
    let (in_force,): (i64,) = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT COUNT(*) FROM join_tokens WHERE revoked_ms IS NULL AND expires_ms > $1",
        )
        .bind(to_stored(change.now_ms))
        .fetch_one(connection)
    })?;
    if in_force >= i64::from(JOIN_TOKENS_MAX) {
        return Err(Error::Full {
            kind: KIND,
            max: u64::from(JOIN_TOKENS_MAX),
        });
    }
    let (id, secret) = (random::identifier(), random::secret());
    execute!(
        session,
        sqlx::query(
            "INSERT INTO join_tokens (id, gateway, secret_hash, created_by, created_ms, expires_ms,
                                      max_uses, uses)
             VALUES ($1, $2, $3, $4, $5, $6, $7, 0)",
        )
        .bind(&id)
        .bind(&token.gateway)
        .bind(hash(&secret))
        .bind(&change.actor)
        .bind(to_stored(change.now_ms))
        .bind(to_stored(token.expires_ms))
        .bind(to_stored(token.max_uses))
    )?;
    let entry = NewEntry::done("join_token.create", resource(&id), change).after(json!({
        "gateway": token.gateway,
        "expires_ms": token.expires_ms,
        "max_uses": token.max_uses,
    }));
    audit::append(session, entry).await?;
    let whole = SecretString::from(format!("{id}.{secret}"));
    let row = JoinToken {
        id,
        gateway: token.gateway,
        created_by: change.actor.clone(),
        created_ms: change.now_ms,
        expires_ms: token.expires_ms,
        max_uses: token.max_uses,
        uses: 0,
    };
    Ok((row, whole))
}

async fn revoke(
    session: &mut Session,
    id: &str,
    agents: bool,
    change: &Change,
) -> Result<u64, Error> {
    lock(session).await?;
    let gone: Option<(String,)> = fetch!(session, connection => {
        sqlx::query_as(
            "UPDATE join_tokens SET revoked_ms = $2
             WHERE id = $1 AND revoked_ms IS NULL RETURNING gateway",
        )
        .bind(id)
        .bind(to_stored(change.now_ms))
        .fetch_optional(connection)
    })?;
    let (gateway,) = gone.ok_or_else(|| Error::not_found(KIND, id))?;
    let revoked = if agents {
        revoke_origin(session, &resource(id), change.now_ms).await?
    } else {
        0
    };
    let entry = NewEntry::done("join_token.revoke", resource(id), change)
        .before(json!({ "gateway": gateway }))
        .after(json!({ "agents_revoked": revoked }));
    audit::append(session, entry).await?;
    Ok(revoked)
}

async fn enrol(
    session: &mut Session,
    id: &str,
    identity: &NewIdentity,
    change: &Change,
) -> Result<bool, Error> {
    let used = execute!(
        session,
        sqlx::query(
            "UPDATE join_tokens SET uses = uses + 1
             WHERE id = $1 AND gateway = $2 AND revoked_ms IS NULL AND expires_ms > $3
               AND uses < max_uses",
        )
        .bind(id)
        .bind(&identity.gateway)
        .bind(to_stored(change.now_ms))
    )?;
    if used == 0 && !may_ask_again(session, id, identity, change.now_ms).await? {
        return Ok(false);
    }
    if insert(session, identity, &resource(id), change).await? == 0 {
        // Its identity was revoked.
        return Err(Error::not_found("identity", &identity.id));
    }
    let entry =
        NewEntry::done("agent.enrol", identity_resource(&identity.id), change).after(json!({
            "gateway": identity.gateway,
            "name": identity.name,
            "origin": resource(id),
        }));
    audit::append(session, entry).await?;
    Ok(true)
}

/// An agent that the token let in and that did not get the answer may ask again; the token is
/// neither expired nor revoked.
async fn may_ask_again(
    session: &mut Session,
    id: &str,
    identity: &NewIdentity,
    now_ms: u64,
) -> Result<bool, Error> {
    let known: Option<(String,)> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT identities.id FROM identities, join_tokens
             WHERE identities.id = $1 AND identities.gateway = $2 AND identities.origin = $3
               AND identities.revoked_ms IS NULL AND join_tokens.id = $4
               AND join_tokens.revoked_ms IS NULL AND join_tokens.expires_ms > $5",
        )
        .bind(&identity.id)
        .bind(&identity.gateway)
        .bind(resource(id))
        .bind(id)
        .bind(to_stored(now_ms))
        .fetch_optional(connection)
    })?;
    Ok(known.is_some())
}

fn resource(id: &str) -> String {
    format!("join-tokens/{id}")
}

fn hash(secret: &str) -> String {
    random::hex(&Sha256::digest(secret))
}

fn token_of(columns: Columns) -> Result<JoinToken, Error> {
    let (id, gateway, created_by, created_ms, expires_ms, max_uses, uses) = columns;
    Ok(JoinToken {
        id,
        gateway,
        created_by,
        created_ms: from_stored(created_ms)?,
        expires_ms: from_stored(expires_ms)?,
        max_uses: from_stored(max_uses)?,
        uses: from_stored(uses)?,
    })
}
