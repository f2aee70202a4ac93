//! Opaque cursors of paged lists: where the next page starts, in a form nobody is tempted to build.

use crate::error::Error;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Entries of a page when the client does not say.
const DEFAULT_LIMIT: u32 = 100;
/// Entries of the largest page; the store gives out one more, which tells that there is a next.
const MAX_LIMIT: u32 = 250;
/// Tells our cursors from other text and leaves room for a later form.
const MARK: &str = "1:";

/// The cursor that continues after the entry with this key.
pub(crate) fn after(key: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{MARK}{key}"))
}

/// The key that a cursor continues after.
pub(crate) fn key(cursor: &str) -> Result<String, Error> {
    BASE64_URL_SAFE_NO_PAD
        .decode(cursor)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .filter(|text| !text.contains('\0'))
        .and_then(|text| text.strip_prefix(MARK).map(str::to_owned))
        .ok_or_else(|| Error::InvalidParameter {
            name: "cursor".to_owned(),
            reason: "is not a cursor that this server gave out".to_owned(),
        })
}

/// The key of an optional cursor, parsed into the list's own key type.
pub(crate) fn parsed<K: std::str::FromStr>(cursor: Option<&str>) -> Result<Option<K>, Error> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let text = key(cursor)?;
    text.parse().map(Some).map_err(|_| Error::InvalidParameter {
        name: "cursor".to_owned(),
        reason: "belongs to another list".to_owned(),
    })
}

/// Takes the one entry that was read beyond the page, and gives the cursor to the next page then.
pub(crate) fn cut<T>(
    entries: &mut Vec<T>,
    limit: u32,
    key: impl FnOnce(&T) -> String,
) -> Option<String> {
    let limit = limit as usize;
    if entries.len() <= limit {
        return None;
    }
    entries.truncate(limit);
    entries.last().map(|last| after(&key(last)))
}

/// The page size asked for.
pub(crate) fn limit(asked: Option<&str>) -> Result<u32, Error> {
    let Some(asked) = asked else {
        return Ok(DEFAULT_LIMIT);
    };
    match asked.parse() {
        Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
        Ok(_) | Err(_) => Err(Error::InvalidParameter {
            name: "limit".to_owned(),
            reason: format!("must be a whole number from 1 to {MAX_LIMIT}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_gives_its_key_back() {
        assert_eq!(key(&after("edge-1")).unwrap(), "edge-1");
        assert_eq!(parsed::<u64>(Some(&after("41"))).unwrap(), Some(41));
    }

    #[test]
    fn foreign_text_is_no_cursor() {
        for text in ["edge", "", "!!", "ZWRnZQ", &after("x")[1..]] {
            assert!(key(text).is_err(), "{text}");
        }
        assert!(parsed::<u64>(Some(&after("edge"))).is_err());
    }

    #[test]
    fn a_page_is_never_empty_and_never_unbounded() {
        assert_eq!(limit(None).unwrap(), DEFAULT_LIMIT);
        assert_eq!(limit(Some("1")).unwrap(), 1);
        for text in ["0", "251", "abc", "-1", "", "99999999999999999999"] {
            let error = limit(Some(text)).unwrap_err().to_string();
            assert_eq!(
                error,
                "parameter 'limit': must be a whole number from 1 to 250"
            );
        }
    }
}
