//! What every write brings with it: who makes it, when, why, and under which key it may be repeated;
//! and the bounds of texts and pages.

use crate::error::Error;
use crate::random;

/// The most rows that one page of any list holds; a larger `limit` is cut to it.
pub const PAGE_MAX: u32 = 500;
/// The longest actor, message or reason that is stored, in bytes.
pub const TEXT_MAX: usize = 4096;
/// The longest key, in bytes.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;

/// Who changes what, when and why: recorded with every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The token's name or another word for who did it.
    pub actor: String,
    /// The id of that token, which tells two of one name apart in the audit trail; empty when no
    /// token did it.
    pub actor_id: String,
    /// The reason given; may be empty.
    pub message: String,
    /// Wall time in unix milliseconds.
    pub now_ms: u64,
    /// Under which key it may be asked for again without being made again.
    pub idempotency: Option<IdempotencyKey>,
}

impl Change {
    /// Who did it, as the audit trail has it.
    pub(crate) fn signature(&self) -> String {
        if self.actor_id.is_empty() {
            self.actor.clone()
        } else {
            format!("{} ({})", self.actor, self.actor_id)
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        check_text("actor", &self.actor)?;
        check_text("actor", &self.actor_id)?;
        if let Some(key) = &self.idempotency {
            key.check()?;
        }
        check_text("message", &self.message)
    }
}

/// PostgreSQL's text cannot hold U+0000 and SQLite's can: refused for both.
pub(crate) fn check_text(field: &'static str, text: &str) -> Result<(), Error> {
    if text.contains('\0') {
        Err(Error::Invalid {
            field,
            reason: "must not contain the character U+0000",
        })
    } else if text.len() > TEXT_MAX {
        Err(Error::Invalid {
            field,
            reason: "must not be longer than 4096 bytes",
        })
    } else {
        Ok(())
    }
}

/// The key of one request, as its sender chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub(crate) key: String,
    /// What the request asks for: two requests with one key must ask for the same.
    pub(crate) fingerprint: String,
    /// This request, among repetitions that run at the same time. All writes of one request are
    /// one attempt.
    pub(crate) attempt: String,
}

impl IdempotencyKey {
    /// A key for one request. `fingerprint` is a digest of all that decides what it does.
    #[must_use]
    pub fn new(key: &str, fingerprint: &str) -> Self {
        Self {
            key: key.to_owned(),
            fingerprint: fingerprint.to_owned(),
            attempt: random::identifier(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        check_text("idempotency key", &self.key)
    }
}
