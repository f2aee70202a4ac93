//! What agents wrote into ids and thoughts of earlier answers, taken off a request.

use super::{Named, named};
use crate::lanes::pool::Pool;
use bytes::Bytes;
use lanekeeper_protocol::error_body::ErrorKind;
use lanekeeper_protocol::rewrite::ModelPlaces;
use lanekeeper_protocol::state::{self, LaneMark, SeveralLanes};
use lanekeeper_protocol::translation::marks;
use lanekeeper_protocol::{Dialect, Operation};

/// A request without marks.
pub(super) struct Unmarked {
    /// The lane that keeps what the request names.
    pub(super) kept_at: Option<LaneMark>,
    /// What lanes of the caller's own protocol get in place of the body, where that held any.
    pub(super) cleaned: Option<Box<(Bytes, ModelPlaces)>>,
    pub(super) tail: String,
    pub(super) query: Option<String>,
}

/// Takes the marks off. Bodies of pools that never mark anything are not looked at.
///
/// # Errors
///
/// The request names things that two lanes keep.
pub(super) fn take_off(
    pool: &Pool,
    dialect: Dialect,
    body: &Bytes,
    mut tail: String,
    mut query: Option<String>,
) -> Result<Unmarked, ErrorKind> {
    let prefixes = dialect.vendor().kept_ids();
    let mut kept_at = None;
    let mut plain = body.clone();
    if pool.marks_ids && !prefixes.is_empty() {
        let texts = [
            body.as_ref(),
            tail.as_bytes(),
            query.as_deref().unwrap_or_default().as_bytes(),
        ];
        for text in texts {
            let found = state::lane_of(text, prefixes).map_err(of_several)?;
            if kept_at.is_some() && found.is_some() && found != kept_at {
                return Err(of_several(SeveralLanes));
            }
            kept_at = kept_at.or(found);
        }
        if kept_at.is_some() {
            plain = state::without_marks(body, prefixes).into_owned().into();
            tail = unmarked(&tail, prefixes);
            query = query.map(|query| unmarked(&query, prefixes));
        }
    }
    if (is_chat(dialect) || dialect.counts_tokens()) && pool.mixes(dialect.protocol()) {
        plain = marks::taken_off(&plain);
    }
    let is_changed = plain != *body;
    Ok(Unmarked {
        kept_at,
        cleaned: is_changed.then(|| placed(plain, dialect)).flatten(),
        tail,
        query,
    })
}

/// The body with the places of the model in it.
fn placed(body: Bytes, dialect: Dialect) -> Option<Box<(Bytes, ModelPlaces)>> {
    let in_path = dialect.has_model_in_path().then(String::new);
    let Named { places, .. } = named(&body, dialect, in_path).ok()?;
    Some(Box::new((body, places)))
}

fn unmarked(text: &str, prefixes: &[&str]) -> String {
    let plain = state::without_marks(text.as_bytes(), prefixes);
    String::from_utf8_lossy(&plain).into_owned()
}

fn is_chat(dialect: Dialect) -> bool {
    matches!(dialect.operation(), Operation::Chat | Operation::ChatStream)
}

fn of_several(error: SeveralLanes) -> ErrorKind {
    ErrorKind::BadRequest {
        message: format!("{error}; no lane knows them all."),
        field: None,
    }
}
