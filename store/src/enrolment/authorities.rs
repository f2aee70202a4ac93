//! The certificates of the authorities that are or were in force. Their keys are files of the
//! control plane and never come here.

use serde_json::json;

use super::lock;
use crate::audit::{self, NewEntry};
use crate::change::{Change, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;

/// The most authorities trusted at one time.
pub const AUTHORITIES_MAX: u32 = 8;

type Columns = (i64, String, String, i64, i64, Option<i64>);

/// One authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Counts up; the highest is the newest.
    pub generation: u64,
    /// SHA-256 over the certificate's DER, lower-case hex.
    pub fingerprint: String,
    /// The certificate, PEM.
    pub certificate: String,
    /// First seen, wall time in unix milliseconds.
    pub added_ms: u64,
    /// The certificate's own end, wall time in unix milliseconds.
    pub expires_ms: u64,
    /// Trusted until then because a newer one came; `None` for the newest.
    pub retires_ms: Option<u64>,
}

impl ConfigStore {
    /// Adds an authority unless its fingerprint is known, and lets the one before retire after
    /// `overlap_ms`. True when it is new. `generation` and `retires_ms` of the argument are not
    /// looked at.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn add_authority(
        &self,
        authority: &Authority,
        overlap_ms: u64,
        change: &Change,
    ) -> Result<bool, Error> {
        change.check()?;
        check_text("fingerprint", &authority.fingerprint)?;
        if authority.certificate.contains('\0') {
            return Err(Error::Invalid {
                field: "certificate",
                reason: "must not contain the character U+0000",
            });
        }
        let mut session = self.engine.begin().await?;
        let written = add(&mut session, authority, overlap_ms, change).await;
        session.finish(written).await
    }

    /// Ends the trust in an authority at once, because its key is no secret any more. The newest one
    /// only goes after another has come.
    ///
    /// # Errors
    /// [`Error::NotFound`] also for the newest and for one that has retired,
    /// [`Error::Unavailable`].
    pub async fn retire_authority(&self, fingerprint: &str, change: &Change) -> Result<(), Error> {
        change.check()?;
        check_text("fingerprint", fingerprint)?;
        let mut session = self.engine.begin().await?;
        let written = retire(&mut session, fingerprint, change).await;
        session.finish(written).await
    }

    /// The authorities to be trusted at a time, oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn authorities(&self, now_ms: u64) -> Result<Vec<Authority>, Error> {
        let mut session = self.engine.session().await?;
        trusted(&mut session, now_ms).await
    }
}

pub(super) async fn trusted(session: &mut Session, now_ms: u64) -> Result<Vec<Authority>, Error> {
    let rows: Vec<Columns> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT generation, fingerprint, certificate, added_ms, expires_ms, retires_ms
             FROM authorities
             WHERE expires_ms > $1 AND (retires_ms IS NULL OR retires_ms > $1)
             ORDER BY generation",
        )
        .bind(to_stored(now_ms))
        .fetch_all(connection)
    })?;
    rows.into_iter().map(authority_of).collect()
}

async fn add(
    session: &mut Session,
    authority: &Authority,
    overlap_ms: u64,
    change: &Change,
) -> Result<bool, Error> {
    lock(session).await?;
    let known: Option<(i64,)> = fetch!(session, connection => {
        sqlx::query_as("SELECT generation FROM authorities WHERE fingerprint = $1")
            .bind(&authority.fingerprint)
            .fetch_optional(connection)
    })?;
    if known.is_some() {
        return Ok(false);
    }
    if trusted(session, change.now_ms).await?.len() >= AUTHORITIES_MAX as usize {
        return Err(Error::Full {
            kind: "authority",
            max: u64::from(AUTHORITIES_MAX),
        });
    }
    execute!(
        session,
        sqlx::query("UPDATE authorities SET retires_ms = $1 WHERE retires_ms IS NULL")
            .bind(to_stored(change.now_ms.saturating_add(overlap_ms)))
    )?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO authorities
                 (generation, fingerprint, certificate, added_ms, expires_ms, retires_ms)
             SELECT COALESCE(MAX(generation), 0) + 1, $1, $2, $3, $4, NULL FROM authorities",
        )
        .bind(&authority.fingerprint)
        .bind(&authority.certificate)
        .bind(to_stored(change.now_ms))
        .bind(to_stored(authority.expires_ms))
    )?;
    let resource = format!("authorities/{}", authority.fingerprint);
    let entry = NewEntry::done("authority.add", resource, change)
        .after(json!({ "expires_ms": authority.expires_ms }));
    audit::append(session, entry).await?;
    Ok(true)
}

async fn retire(session: &mut Session, fingerprint: &str, change: &Change) -> Result<(), Error> {
    lock(session).await?;
    let retired = execute!(
        session,
        sqlx::query(
            "UPDATE authorities SET retires_ms = $2 WHERE fingerprint = $1 AND retires_ms > $2",
        )
        .bind(fingerprint)
        .bind(to_stored(change.now_ms))
    )?;
    if retired == 0 {
        return Err(Error::not_found("retiring authority", fingerprint));
    }
    let resource = format!("authorities/{fingerprint}");
    audit::append(
        session,
        NewEntry::done("authority.retire", resource, change),
    )
    .await
}

fn authority_of(row: Columns) -> Result<Authority, Error> {
    let (generation, fingerprint, certificate, added_ms, expires_ms, retires_ms) = row;
    Ok(Authority {
        generation: from_stored(generation)?,
        fingerprint,
        certificate,
        added_ms: from_stored(added_ms)?,
        expires_ms: from_stored(expires_ms)?,
        retires_ms: from_stored_opt(retires_ms)?,
    })
}
