//! Sign-ins: browsers that showed a token once and have had a secret of their own since, so that a
//! sign-out ends what the browser holds without ending the token.
//!
//! What a browser holds is `s.ID.SECRET`; only a hash of the secret is stored, as with tokens.

use std::time::Duration;

use subtle::ConstantTimeEq;

use crate::config_store::ConfigStore;
use crate::engine::{execute, fetch, from_stored, to_stored};
use crate::error::Error;
use crate::random;
use crate::tokens::{PRESENTED_MAX, Principal, Role, SecretString, hash};

/// How long a sign-in lasts; its token may end earlier.
pub const SIGN_IN_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// The most sign-ins of one token at one time. One more ends the oldest.
pub const SIGN_INS_MAX: u32 = 64;
/// What tells a sign-in from a token, whose ids are longer.
const PREFIX: &str = "s.";

/// Token, its name and role, hash of the secret, end.
type Columns = (String, String, String, String, i64);

/// True for the text of a sign-in, good or not.
#[must_use]
pub fn is_sign_in(presented: &str) -> bool {
    presented.starts_with(PREFIX)
}

fn parts(presented: &str) -> Option<(&str, &str)> {
    if presented.len() > PRESENTED_MAX || presented.contains('\0') {
        return None;
    }
    presented.strip_prefix(PREFIX)?.split_once('.')
}

impl ConfigStore {
    /// Signs a browser in with a token that was verified; the value is what it shows from then on,
    /// and until when in unix milliseconds. `None` when the token was revoked meanwhile.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn sign_in(
        &self,
        token: &Principal,
        now_ms: u64,
    ) -> Result<Option<(SecretString, u64)>, Error> {
        let (id, secret) = (random::identifier(), random::secret());
        let life_ms = u64::try_from(SIGN_IN_LIFE.as_millis()).unwrap_or(u64::MAX);
        let longest_ms = now_ms.saturating_add(life_ms);
        let expires_ms = token
            .expires_ms
            .map_or(longest_ms, |end| end.min(longest_ms));
        let mut session = self.engine.begin().await?;
        let written = async {
            let made = execute!(
                &mut session,
                sqlx::query(
                    "INSERT INTO sign_ins (id, token_id, secret_hash, created_ms, expires_ms)
                     SELECT $1, id, $3, $4, $5 FROM tokens WHERE id = $2 AND revoked_ms IS NULL",
                )
                .bind(&id)
                .bind(&token.id)
                .bind(hash(&secret))
                .bind(to_stored(now_ms))
                .bind(to_stored(expires_ms))
            )?;
            execute!(
                &mut session,
                sqlx::query(
                    "DELETE FROM sign_ins WHERE expires_ms <= $2 OR (token_id = $1 AND id NOT IN
                         (SELECT id FROM sign_ins WHERE token_id = $1
                          ORDER BY created_ms DESC, id LIMIT $3))",
                )
                .bind(&token.id)
                .bind(to_stored(now_ms))
                .bind(i64::from(SIGN_INS_MAX))
            )?;
            Ok(made > 0)
        }
        .await;
        let made = session.finish(written).await?;
        let whole = || SecretString::from(format!("{PREFIX}{id}.{secret}"));
        Ok(made.then(|| (whole(), expires_ms)))
    }

    /// Whose sign-in this is; `None` when it is malformed, unknown or ended, or its token is. The
    /// principal's end is the sign-in's.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn signed_in(
        &self,
        presented: &str,
        now_ms: u64,
    ) -> Result<Option<Principal>, Error> {
        let Some((id, secret)) = parts(presented) else {
            return Ok(None);
        };
        let mut session = self.engine.session().await?;
        let row: Option<Columns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT tokens.id, tokens.name, tokens.role, sign_ins.secret_hash,
                        sign_ins.expires_ms
                 FROM sign_ins JOIN tokens ON tokens.id = sign_ins.token_id
                 WHERE sign_ins.id = $1 AND tokens.revoked_ms IS NULL",
            )
            .bind(id)
            .fetch_optional(connection)
        })?;
        let Some((id, name, role, stored, expires_ms)) = row else {
            return Ok(None);
        };
        let expires_ms = from_stored(expires_ms)?;
        let genuine: bool = hash(secret).as_bytes().ct_eq(stored.as_bytes()).into();
        if !genuine || expires_ms <= now_ms {
            return Ok(None);
        }
        Ok(Some(Principal {
            id,
            name,
            role: Role::parse(&role)?,
            expires_ms: Some(expires_ms),
        }))
    }

    /// Ends a sign-in; false when it was none in force. Not an audited write: nothing that others
    /// rely on changes.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn sign_out(&self, presented: &str) -> Result<bool, Error> {
        let Some((id, secret)) = parts(presented) else {
            return Ok(false);
        };
        let mut session = self.engine.begin().await?;
        let ended = execute!(
            &mut session,
            sqlx::query("DELETE FROM sign_ins WHERE id = $1 AND secret_hash = $2")
                .bind(id)
                .bind(hash(secret))
        );
        Ok(session.finish(ended).await? > 0)
    }
}
