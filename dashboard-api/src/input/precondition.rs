//! `If-Match` and `If-None-Match` (RFC 9110, section 13).

use crate::error::Error;
use http::HeaderMap;
use http::header::{IF_MATCH, IF_NONE_MATCH};

/// What a write says about the revision it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// `*`: whichever there is.
    Any,
    /// One of these revisions.
    Revisions(Vec<u64>),
}

impl IfMatch {
    /// The header of a request; `None` when it has none.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, Error> {
        let mut revisions = Vec::new();
        for value in headers.get_all(IF_MATCH) {
            for tag in value.to_str().unwrap_or_default().split(',').map(str::trim) {
                if tag == "*" {
                    return Ok(Some(Self::Any));
                }
                revisions.push(revision(tag).ok_or_else(|| Error::InvalidHeader {
                    name: "if-match",
                    reason: format!("'{tag}' is not the ETag of a configuration, such as \"7\""),
                })?);
            }
        }
        Ok((!revisions.is_empty()).then_some(Self::Revisions(revisions)))
    }

    /// The same, where a write without it is refused.
    pub(crate) fn required(headers: &HeaderMap) -> Result<Self, Error> {
        Self::of(headers)?.ok_or(Error::NoIfMatch)
    }

    /// The revision that a write must still find, having seen `current`: `*` writes over whatever
    /// there is (RFC 9110, section 13.1.1).
    pub(crate) fn over(&self, current: u64) -> Option<u64> {
        match self {
            Self::Any => None,
            Self::Revisions(_) => Some(current),
        }
    }

    /// Refuses a write that is based on another revision than `current`.
    pub(crate) fn check(&self, current: u64) -> Result<(), Error> {
        match self {
            Self::Any => Ok(()),
            Self::Revisions(revisions) if revisions.contains(&current) => Ok(()),
            Self::Revisions(_) => Err(Error::RevisionMismatch { current }),
        }
    }
}

fn revision(tag: &str) -> Option<u64> {
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// The ETag of a configuration's revision.
pub(crate) fn revision_tag(revision: u64) -> String {
    format!("\"{revision}\"")
}

/// Whether the client holds what `etag` names already. The comparison is the weak one.
pub(crate) fn held(headers: &HeaderMap, etag: &str) -> bool {
    let wanted = etag.trim_start_matches("W/");
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.trim_start_matches("W/") == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn if_match(value: &'static str) -> Result<Option<IfMatch>, Error> {
        IfMatch::of(&HeaderMap::from_iter([(
            IF_MATCH,
            HeaderValue::from_static(value),
        )]))
    }

    #[test]
    fn tags_are_read_as_revisions() {
        assert_eq!(
            if_match("\"7\"").unwrap(),
            Some(IfMatch::Revisions(vec![7]))
        );
        assert_eq!(
            if_match("\"7\", \"9\"").unwrap(),
            Some(IfMatch::Revisions(vec![7, 9]))
        );
        assert_eq!(if_match("*").unwrap(), Some(IfMatch::Any));
    }

    #[test]
    fn a_tag_of_something_else_is_refused() {
        for value in ["7", "W/\"7\"", "\"abc\"", "\""] {
            assert!(
                matches!(if_match(value), Err(Error::InvalidHeader { .. })),
                "{value}"
            );
        }
    }

    #[test]
    fn a_write_without_the_header_is_refused() {
        assert!(matches!(
            IfMatch::required(&HeaderMap::new()),
            Err(Error::NoIfMatch)
        ));
    }

    #[test]
    fn only_the_current_revision_matches() {
        let based_on = IfMatch::Revisions(vec![7]);
        assert!(based_on.check(7).is_ok());
        assert!(matches!(
            based_on.check(8),
            Err(Error::RevisionMismatch { current: 8 })
        ));
        assert!(IfMatch::Any.check(8).is_ok());
    }

    #[test]
    fn a_held_entity_is_recognised_weakly() {
        let held_by = |value: &'static str| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))]);
            held(&headers, "W/\"abc\"")
        };
        assert!(held_by("W/\"abc\""));
        assert!(held_by("\"abc\""));
        assert!(held_by("\"x\", W/\"abc\""));
        assert!(held_by("*"));
        assert!(!held_by("\"abd\""));
    }
}
