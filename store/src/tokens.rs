//! API tokens: who may call, and with what role.
//!
//! A token is `id.secret`. The id finds the row, the secret proves the owner. Only the secret's
//! SHA-256 is stored, and a plain fast hash is right here: slow hashes make guessing of low-entropy
//! passwords costly, while 256 random bits cannot be guessed at any speed, and every request has to
//! be checked.

use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use secrecy::{ExposeSecret, SecretString};

use crate::audit::{self, NewEntry};
use crate::change::{Change, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;
use crate::random;

/// The most tokens that are not revoked at one time.
pub const TOKENS_MAX: u32 = 1000;
/// Longer texts than this are no tokens; they are not even hashed.
pub(crate) const PRESENTED_MAX: usize = 256;
/// The glossary word in errors.
const KIND: &str = "token";
/// Who the audit trail says created the first token, and that token's name.
const BOOTSTRAP: &str = "bootstrap";

/// Name, role, hash of the secret, expiry.
type ProofColumns = (String, String, String, Option<i64>);
/// What a token's columns are read by, in the order of [`TokenRow`].
type TokenColumns = (String, String, String, String, i64, Option<i64>);

/// What a token's owner may do. Each role includes the ones before it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Viewer,
    /// Override and drain.
    Operator,
    /// Configure, and make tokens.
    Admin,
}

impl Role {
    /// The word stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "viewer" => Ok(Self::Viewer),
            "operator" => Ok(Self::Operator),
            "admin" => Ok(Self::Admin),
            _ => Err(Error::Corrupt(format!("a token's role is {text:?}"))),
        }
    }
}

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// What the owner is called in the audit trail.
    pub name: String,
    /// What the owner may do.
    pub role: Role,
    /// When it stops working, wall time in unix milliseconds; `None` for never.
    pub expires_ms: Option<u64>,
}

/// One line of the list of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// The public half of the token.
    pub id: String,
    /// What the owner is called.
    pub name: String,
    /// What the owner may do.
    pub role: Role,
    /// Who made it.
    pub created_by: String,
    /// Made, wall time in unix milliseconds.
    pub created_ms: u64,
    /// When it stops working, wall time in unix milliseconds; `None` for never.
    pub expires_ms: Option<u64>,
}

/// The owner of a token that was presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The token's id.
    pub id: String,
    /// What the owner is called.
    pub name: String,
    /// What the owner may do.
    pub role: Role,
    /// When the token stops working, wall time in unix milliseconds; `None` for never.
    pub expires_ms: Option<u64>,
}

impl ConfigStore {
    /// Makes a token. The second value is the whole token, `id.secret`: it exists nowhere else.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn create_token(
        &self,
        token: NewToken,
        change: &Change,
    ) -> Result<(TokenRow, SecretString), Error> {
        change.check()?;
        check_text("name", &token.name)?;
        let mut session = self.engine.begin().await?;
        let written = async {
            lock(&mut session).await?;
            let (in_force,): (i64,) = fetch!(&mut session, connection => {
                sqlx::query_as("SELECT COUNT(*) FROM tokens WHERE revoked_ms IS NULL")
                    .fetch_one(connection)
            })?;
            if in_force >= i64::from(TOKENS_MAX) {
                return Err(Error::Full {
                    kind: KIND,
                    max: u64::from(TOKENS_MAX),
                });
            }
            insert(&mut session, token, change).await
        }
        .await;
        session.finish(written).await
    }

    /// Makes the first admin token; `None` when this database has ever had a token. Of several
    /// processes that start together exactly one gets it.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn bootstrap_token(&self, now_ms: u64) -> Result<Option<SecretString>, Error> {
        let change = Change {
            actor: BOOTSTRAP.to_owned(),
            actor_id: String::new(),
            message: "first start".to_owned(),
            now_ms,
            idempotency: None,
        };
        let token = NewToken {
            name: BOOTSTRAP.to_owned(),
            role: Role::Admin,
            expires_ms: None,
        };
        let mut session = self.engine.begin().await?;
        let written = async {
            lock(&mut session).await?;
            let (ever,): (i64,) = fetch!(&mut session, connection => {
                sqlx::query_as("SELECT COUNT(*) FROM tokens").fetch_one(connection)
            })?;
            if ever > 0 {
                return Ok(None);
            }
            let (_row, secret) = insert(&mut session, token, &change).await?;
            Ok(Some(secret))
        }
        .await;
        session.finish(written).await
    }

    /// Whose token this is; `None` when it is malformed, unknown, revoked or expired.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn authenticate(
        &self,
        presented: &str,
        now_ms: u64,
    ) -> Result<Option<Principal>, Error> {
        if presented.len() > PRESENTED_MAX || presented.contains('\0') {
            return Ok(None);
        }
        let Some((id, secret)) = presented.split_once('.') else {
            return Ok(None);
        };
        let mut session = self.engine.session().await?;
        let row: Option<ProofColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT name, role, secret_hash, expires_ms FROM tokens
                 WHERE id = $1 AND revoked_ms IS NULL",
            )
            .bind(id)
            .fetch_optional(connection)
        })?;
        let Some((name, role, stored, expires_ms)) = row else {
            return Ok(None);
        };
        let expires_ms = from_stored_opt(expires_ms)?;
        let genuine: bool = hash(secret).as_bytes().ct_eq(stored.as_bytes()).into();
        if !genuine || expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
            return Ok(None);
        }
        Ok(Some(Principal {
            id: id.to_owned(),
            name,
            role: Role::parse(&role)?,
            expires_ms,
        }))
    }

    /// The tokens that are not revoked, oldest first, expired ones included.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn list_tokens(&self) -> Result<Vec<TokenRow>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<TokenColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id, name, role, created_by, created_ms, expires_ms
                 FROM tokens WHERE revoked_ms IS NULL ORDER BY created_ms, id LIMIT $1",
            )
            .bind(i64::from(TOKENS_MAX))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(token_of).collect()
    }

    /// Revokes a token. An admin token only goes while another one works that does not end before
    /// it would: otherwise the last way in could be about to close by itself.
    ///
    /// # Errors
    /// [`Error::NotFound`] also when it is revoked already, [`Error::LastAdmin`],
    /// [`Error::Unavailable`].
    pub async fn revoke_token(&self, id: &str, change: &Change) -> Result<(), Error> {
        change.check()?;
        check_text("id", id)?;
        let mut session = self.engine.begin().await?;
        let written = revoke(&mut session, id, change).await;
        session.finish(written).await
    }
}

/// Makes writers of tokens take turns, so that counts made in a transaction still hold when it
/// commits.
async fn lock(session: &mut Session) -> Result<(), Error> {
    execute!(
        session,
        sqlx::query("UPDATE control_state SET token_changes = token_changes + 1 WHERE id = 1")
    )?;
    Ok(())
}

async fn insert(
    session: &mut Session,
    token: NewToken,
    change: &Change,
) -> Result<(TokenRow, SecretString), Error> {
    let id = random::identifier();
    let secret = random::secret();
    execute!(
        session,
        sqlx::query(
            "INSERT INTO tokens (id, name, role, secret_hash, created_by, created_ms, expires_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(&id)
        .bind(&token.name)
        .bind(token.role.as_str())
        .bind(hash(&secret))
        .bind(&change.actor)
        .bind(to_stored(change.now_ms))
        .bind(token.expires_ms.map(to_stored))
    )?;
    let entry = NewEntry::done("token.create", resource(&id), change).after(json!({
        "name": token.name,
        "role": token.role.as_str(),
        "expires_ms": token.expires_ms,
    }));
    audit::append(session, entry).await?;
    let whole = SecretString::from(format!("{id}.{secret}"));
    let row = TokenRow {
        id,
        name: token.name,
        role: token.role,
        created_by: change.actor.clone(),
        created_ms: change.now_ms,
        expires_ms: token.expires_ms,
    };
    Ok((row, whole))
}

async fn revoke(session: &mut Session, id: &str, change: &Change) -> Result<(), Error> {
    lock(session).await?;
    let found: Option<(String, String, Option<i64>)> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT name, role, expires_ms FROM tokens WHERE id = $1 AND revoked_ms IS NULL",
        )
        .bind(id)
        .fetch_optional(connection)
    })?;
    let (name, role, expires_ms) = found.ok_or_else(|| Error::not_found(KIND, id))?;
    let now = to_stored(change.now_ms);
    let works = expires_ms.is_none_or(|expires_ms| expires_ms > now);
    if works && Role::parse(&role)? == Role::Admin {
        let lasts_until = expires_ms.unwrap_or(i64::MAX);
        let (others,): (i64,) = fetch!(session, connection => {
            sqlx::query_as(
                "SELECT COUNT(*) FROM tokens
                 WHERE role = 'admin' AND id <> $1 AND revoked_ms IS NULL
                   AND (expires_ms IS NULL OR (expires_ms > $2 AND expires_ms >= $3))",
            )
            .bind(id)
            .bind(now)
            .bind(lasts_until)
            .fetch_one(connection)
        })?;
        if others == 0 {
            return Err(Error::LastAdmin);
        }
    }
    execute!(
        session,
        sqlx::query("UPDATE tokens SET revoked_ms = $2 WHERE id = $1")
            .bind(id)
            .bind(now)
    )?;
    let entry = NewEntry::done("token.revoke", resource(id), change)
        .before(json!({ "name": name, "role": role }));
    audit::append(session, entry).await
}

fn resource(id: &str) -> String {
    format!("tokens/{id}")
}

/// What is stored of a secret.
pub(crate) fn hash(secret: &str) -> String {
    random::hex(&Sha256::digest(secret))
}

fn token_of(columns: TokenColumns) -> Result<TokenRow, Error> {
    let (id, name, role, created_by, created_ms, expires_ms) = columns;
    Ok(TokenRow {
        id,
        name,
        role: Role::parse(&role)?,
        created_by,
        created_ms: from_stored(created_ms)?,
        expires_ms: from_stored_opt(expires_ms)?,
    })
}
