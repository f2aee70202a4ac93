//! Remembers for a few seconds whom a token belongs to, so that not each request asks the store.
//!
//! Only good tokens are remembered, under their hash: guessing cannot fill the memory, and the
//! memory holds no secret. A revoked token acts at most [`TTL`] longer; where the revocation's
//! notice arrives, not even that.

use lanekeeper_store::Principal;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a verdict is reused. Revocation must act within 5 s, the store's answer included.
const TTL: Duration = Duration::from_secs(2);
/// How long a verdict is used for reads while the store does not answer. A revocation cannot be
/// learned of in that time; in an outage the view is worth more.
const OUTAGE_TTL: Duration = Duration::from_secs(15 * 60);
/// Tokens remembered at once.
const MAX_TOKENS: usize = 4096;

type Key = [u8; 32];

/// Verdicts about tokens, each for [`TTL`].
#[derive(Debug, Default)]
pub(crate) struct TokenCache {
    known: Mutex<HashMap<Key, (Principal, Instant)>>,
}

impl TokenCache {
    /// The principal of a token that was verified less than [`TTL`] before `now`.
    pub(crate) fn get(&self, token: &str, now: Instant) -> Option<Principal> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (principal, since) = known.get(&key(token))?;
        (now.saturating_duration_since(*since) < TTL).then(|| principal.clone())
    }

    /// The principal of a token that was verified less than [`OUTAGE_TTL`] before `now` and has not
    /// expired since. For reads during an outage of the store only.
    pub(crate) fn get_unverified(
        &self,
        token: &str,
        now: Instant,
        now_ms: u64,
    ) -> Option<Principal> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (principal, since) = known.get(&key(token))?;
        let is_recent = now.saturating_duration_since(*since) < OUTAGE_TTL;
        let has_expired = principal.expires_ms.is_some_and(|end| end <= now_ms);
        (is_recent && !has_expired).then(|| principal.clone())
    }

    /// Remembers that the store knew the token when it was asked.
    pub(crate) fn insert(&self, token: &str, principal: Principal, asked: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_TOKENS {
            known.retain(|_, (_, since)| asked.saturating_duration_since(*since) < TTL);
        }
        if known.len() < MAX_TOKENS {
            known.insert(key(token), (principal, asked));
        }
    }

    /// Forgets everything: some token was revoked.
    pub(crate) fn clear(&self) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

fn key(token: &str) -> Key {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use lanekeeper_store::Role;

    fn principal(name: &str) -> Principal {
        Principal {
            id: name.to_owned(),
            name: name.to_owned(),
            role: Role::Viewer,
            expires_ms: None,
        }
    }

    #[test]
    fn a_verdict_is_reused_for_two_seconds_and_no_longer() {
        let cache = TokenCache::default();
        let start = clock::instant();
        cache.insert("id.secret", principal("ann"), start);
        let just_before = start + TTL - Duration::from_millis(1);
        assert_eq!(
            cache.get("id.secret", just_before).map(|p| p.name),
            Some("ann".to_owned())
        );
        assert!(cache.get("id.secret", start + TTL).is_none());
        assert!(cache.get("id.other", start).is_none());
    }

    #[test]
    fn an_outage_is_bridged_for_fifteen_minutes_and_not_past_the_tokens_end() {
        let cache = TokenCache::default();
        let start = clock::instant();
        cache.insert("id.secret", principal("ann"), start);
        let brief = Principal {
            expires_ms: Some(1000),
            ..principal("bob")
        };
        cache.insert("id.brief", brief, start);
        let late = start + OUTAGE_TTL - Duration::from_millis(1);
        assert!(cache.get("id.secret", late).is_none());
        assert!(cache.get_unverified("id.secret", late, 1000).is_some());
        assert!(
            cache
                .get_unverified("id.secret", start + OUTAGE_TTL, 0)
                .is_none()
        );
        assert!(cache.get_unverified("id.brief", start, 999).is_some());
        assert!(cache.get_unverified("id.brief", start, 1000).is_none());
        assert!(cache.get_unverified("id.other", start, 0).is_none());
    }

    #[test]
    fn a_revocation_forgets_at_once() {
        let cache = TokenCache::default();
        let start = clock::instant();
        cache.insert("id.secret", principal("ann"), start);
        cache.clear();
        assert!(cache.get("id.secret", start).is_none());
        assert!(cache.get_unverified("id.secret", start, 0).is_none());
    }

    #[test]
    fn the_memory_is_bounded_and_makes_room_by_age() {
        let cache = TokenCache::default();
        let start = clock::instant();
        for n in 0..=MAX_TOKENS {
            cache.insert(&format!("id.{n}"), principal("ann"), start);
        }
        assert_eq!(cache.known.lock().unwrap().len(), MAX_TOKENS);
        cache.insert("id.later", principal("bob"), start + TTL);
        assert_eq!(cache.known.lock().unwrap().len(), 1);
    }
}
