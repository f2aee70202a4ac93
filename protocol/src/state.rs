//! Ids of what a vendor keeps for one account, marked with the lane that gave them out.
//!
//! A pool whose lanes belong to several accounts must bring a request that names such an id to the
//! lane that knows it. Agents keep nothing, so the id itself says so: `resp_abc` reaches the caller
//! as `resp_lk0123456789_abc`, and the mark is taken off before it goes up again. All of it is
//! surgery on bytes: whatever holds no id stays as it is.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memmem;
use sha2::{Digest as _, Sha256};

/// Begins a mark.
const BEGIN: &[u8] = b"lk";
/// Hexadecimal digits of a mark: enough that two lanes of a gateway never share one.
const DIGITS: usize = 10;

/// What stands for a lane in ids: the same on every agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMark([u8; DIGITS]);

impl LaneMark {
    /// The mark of a lane, by its name.
    #[must_use]
    pub fn of(lane: &str) -> Self {
        let digest = Sha256::digest(lane.as_bytes());
        let mut digits = [0; DIGITS];
        for (at, digit) in digits.iter_mut().enumerate() {
            let byte = digest.get(at / 2).copied().unwrap_or_default();
            let half = if at % 2 == 0 { byte >> 4 } else { byte & 15 };
            *digit = b"0123456789abcdef"
                .get(usize::from(half))
                .copied()
                .unwrap_or(b'0');
        }
        Self(digits)
    }
}

/// Ids of two lanes in one request: no lane knows both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request names ids that two lanes gave out")]
pub struct SeveralLanes;

/// The lane whose ids `text` names, where it names any.
///
/// # Errors
///
/// It names those of two lanes.
pub fn lane_of(text: &[u8], prefixes: &[&str]) -> Result<Option<LaneMark>, SeveralLanes> {
    let mut found = None;
    for (_, mark) in marks(text, prefixes) {
        match found {
            Some(before) if before != mark => return Err(SeveralLanes),
            _ => found = Some(mark),
        }
    }
    Ok(found)
}

/// `text` with the marks taken off.
#[must_use]
pub fn without_marks<'a>(text: &'a [u8], prefixes: &[&str]) -> Cow<'a, [u8]> {
    let mut plain: Option<Vec<u8>> = None;
    let mut copied = 0;
    for (at, _) in marks(text, prefixes) {
        let before = text.get(copied..at).unwrap_or_default();
        plain.get_or_insert_default().extend_from_slice(before);
        copied = at + mark_len();
    }
    match plain {
        None => Cow::Borrowed(text),
        Some(mut plain) => {
            plain.extend_from_slice(text.get(copied..).unwrap_or_default());
            Cow::Owned(plain)
        }
    }
}

/// `document`, JSON or server-sent events of it, with the ids in it marked: the values of members
/// that are named `id`, or end with it, and begin with one of `prefixes`.
#[must_use]
pub fn with_marks(document: &Bytes, mark: LaneMark, prefixes: &[&str]) -> Bytes {
    let mut places: Vec<usize> = { prefixes.iter() }
        .flat_map(|prefix| {
            let begins = memmem::find_iter(document, prefix.as_bytes());
            begins.filter_map(|at| is_id(document, at).then_some(at + prefix.len()))
        })
        .collect();
    if places.is_empty() {
        return document.clone();
    }
    places.sort_unstable();
    let mut marked = Vec::with_capacity(document.len() + places.len() * mark_len());
    let mut copied = 0;
    for place in places {
        marked.extend_from_slice(document.get(copied..place).unwrap_or_default());
        marked.extend_from_slice(BEGIN);
        marked.extend_from_slice(&mark.0);
        marked.push(b'_');
        copied = place;
    }
    marked.extend_from_slice(document.get(copied..).unwrap_or_default());
    marked.into()
}

const fn mark_len() -> usize {
    BEGIN.len() + DIGITS + 1
}

/// Every mark in `text`, and where it begins.
fn marks<'a>(
    text: &'a [u8],
    prefixes: &'a [&str],
) -> impl Iterator<Item = (usize, LaneMark)> + use<'a> {
    memmem::find_iter(text, BEGIN).filter_map(move |at| {
        let digits = text.get(at + BEGIN.len()..at + BEGIN.len() + DIGITS)?;
        let ends = text.get(at + BEGIN.len() + DIGITS) == Some(&b'_');
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let before = text.get(..at)?;
        let is_prefixed = { prefixes.iter() }.any(|prefix| before.ends_with(prefix.as_bytes()));
        let is_mark = ends && is_prefixed && digits.iter().all(is_digit);
        let mark = LaneMark(digits.try_into().ok()?);
        is_mark.then_some((at, mark))
    })
}

/// True when what begins at `at` is the whole value of a member that names an id.
fn is_id(document: &[u8], at: usize) -> bool {
    let key = { document.get(..at) }
        .and_then(|before| before.strip_suffix(b"\""))
        .map(<[u8]>::trim_ascii_end)
        .and_then(|before| before.strip_suffix(b":"))
        .map(<[u8]>::trim_ascii_end)
        .and_then(|before| before.strip_suffix(b"\""));
    let Some(key) = key else {
        return false;
    };
    let begin = memchr::memrchr(b'"', key).map_or(0, |quote| quote + 1);
    let key = key.get(begin..).unwrap_or_default();
    key == b"id" || key.ends_with(b"_id")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIXES: &[&str] = &["resp_", "file-"];

    #[test]
    fn ids_go_out_marked_and_come_back_as_they_were() {
        let mark = LaneMark::of("east");
        let document = Bytes::from_static(
            b"data: {\"type\":\"response.created\",\"response\":{\"id\" : \"resp_abc\",\
              \"previous_response_id\":\"resp_1\",\"output\":[{\"id\":\"msg_1\",\"text\":\"resp_x\"}],\
              \"input_file_id\":\"file-9\",\"id\":null,\"note\":\"\\\"id\\\":\\\"resp_y\"}}\n\n",
        );
        let marked = with_marks(&document, mark, PREFIXES);
        let text = String::from_utf8_lossy(&marked).into_owned();
        assert_eq!(text.matches("lk").count(), 3, "{text}");
        assert!(text.contains("\"text\":\"resp_x\""), "{text}");
        assert_eq!(lane_of(&marked, PREFIXES), Ok(Some(mark)));
        assert_eq!(without_marks(&marked, PREFIXES), document.as_ref());
        assert_eq!(with_marks(&document, mark, &["conv_"]), document);
    }

    #[test]
    fn requests_name_one_lane_or_none() {
        let (east, west) = (LaneMark::of("east"), LaneMark::of("west"));
        let id = |mark: LaneMark| format!("resp_lk{}_1", String::from_utf8_lossy(&mark.0));
        for (text, expected) in [
            (String::new(), Ok(None)),
            (
                "{\"previous_response_id\":\"resp_abc\"}".to_owned(),
                Ok(None),
            ),
            ("folklk0123456789_ resp_lk012345678g_".to_owned(), Ok(None)),
            (id(east), Ok(Some(east))),
            (format!("/{}/cancel {}", id(west), id(west)), Ok(Some(west))),
            (format!("{} {}", id(east), id(west)), Err(SeveralLanes)),
        ] {
            assert_eq!(lane_of(text.as_bytes(), PREFIXES), expected, "{text}");
        }
        assert_ne!(east, west);
        assert_eq!(
            without_marks(id(east).as_bytes(), PREFIXES),
            b"resp_1".as_slice()
        );
    }
}
