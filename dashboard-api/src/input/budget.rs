//! How many bytes of bodies the whole API holds at once, and how many of them one caller.
//!
//! A body counts as it grows, until its request is answered: whoever sends much and then waits takes
//! from a fixed sum, and others still find room in the rest.

use super::body::MAX_DOCUMENT_BYTES;
use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of bodies that the API holds at once.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of them that one token holds: room for the largest document, and three tokens cannot keep a
/// fourth out.
const BODY_BYTES_OF_TOKEN_MAX: usize = BODY_BYTES_MAX / 4;
/// Largest body of a route that asks for no token, bytes: a sign-in has well under 1 KiB.
const PUBLIC_BODY_BYTES_MAX: usize = 4 * 1024;
/// Those without a token, as one caller. No token has an empty id.
const NOBODY: &str = "";

const _: () = assert!(BODY_BYTES_OF_TOKEN_MAX >= MAX_DOCUMENT_BYTES);

/// The bytes of bodies that are held now.
#[derive(Default)]
pub(crate) struct BodyBudget(Mutex<Held>);

#[derive(Default)]
struct Held {
    bytes: usize,
    /// By the id of the token; only those that hold any, so bounded by the connections.
    of: HashMap<Arc<str>, usize>,
}

/// What one request may hold and does, until the last copy is dropped.
#[derive(Clone)]
pub(crate) struct BodyShare(Arc<Share>);

struct Share {
    budget: Arc<BodyBudget>,
    who: Arc<str>,
    largest: usize,
    bytes: Mutex<usize>,
}

impl BodyBudget {
    /// The share of a request with the token of this id.
    pub(crate) fn share(self: &Arc<Self>, id: &str) -> BodyShare {
        self.share_of(id, usize::MAX)
    }

    /// The share of a request that needs no token.
    pub(crate) fn public_share(self: &Arc<Self>) -> BodyShare {
        self.share_of(NOBODY, PUBLIC_BODY_BYTES_MAX)
    }

    fn share_of(self: &Arc<Self>, who: &str, largest: usize) -> BodyShare {
        BodyShare(Arc::new(Share {
            budget: Arc::clone(self),
            who: Arc::from(who),
            largest,
            bytes: Mutex::new(0),
        }))
    }

    fn take(&self, who: &Arc<str>, bytes: usize) -> Result<(), Error> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = held.of.get(who).copied().unwrap_or_default();
        if of + bytes > BODY_BYTES_OF_TOKEN_MAX || held.bytes + bytes > BODY_BYTES_MAX {
            return Err(Error::BodiesBusy);
        }
        held.bytes += bytes;
        held.of.insert(Arc::clone(who), of + bytes);
        Ok(())
    }

    fn give_back(&self, who: &str, bytes: usize) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.bytes -= bytes;
        if let Some(of) = held.of.get_mut(who) {
            *of -= bytes;
            if *of == 0 {
                held.of.remove(who);
            }
        }
    }
}

impl BodyShare {
    /// Largest body that this request may have, bytes.
    pub(crate) fn largest(&self) -> usize {
        self.0.largest
    }

    /// Makes room for a body of so many bytes in all.
    ///
    /// # Errors
    ///
    /// [`Error::BodiesBusy`] when the caller, or all together, hold as much as they may.
    pub(crate) fn grow_to(&self, bytes: usize) -> Result<(), Error> {
        let mut held = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes > *held {
            self.0.budget.take(&self.0.who, bytes - *held)?;
            *held = bytes;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner);
        if bytes > 0 {
            self.budget.give_back(&self.who, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_takes_its_share_and_all_together_no_more_than_the_sum() {
        let budget = Arc::new(BodyBudget::default());
        let first = budget.share("a");
        first.grow_to(MAX_DOCUMENT_BYTES).unwrap();
        let again = budget.share("a");
        assert!(matches!(
            again.grow_to(MAX_DOCUMENT_BYTES),
            Err(Error::BodiesBusy)
        ));
        let others: Vec<_> = ["b", "c", "d"].map(|id| budget.share(id)).into();
        for share in &others {
            share.grow_to(BODY_BYTES_OF_TOKEN_MAX).unwrap();
        }
        let left = BODY_BYTES_OF_TOKEN_MAX - MAX_DOCUMENT_BYTES;
        let last = budget.share("e");
        assert!(matches!(last.grow_to(left + 1), Err(Error::BodiesBusy)));
        last.grow_to(left).unwrap();
        drop((first, again, others, last));
        let held = budget.0.lock().unwrap();
        assert_eq!((held.bytes, held.of.len()), (0, 0));
    }

    #[test]
    fn a_body_that_is_read_twice_counts_once() {
        let budget = Arc::new(BodyBudget::default());
        let share = budget.share("a");
        share.grow_to(1000).unwrap();
        share.grow_to(1000).unwrap();
        share.clone().grow_to(600).unwrap();
        assert_eq!(budget.0.lock().unwrap().bytes, 1000);
    }
}
