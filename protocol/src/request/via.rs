//! The mark that a request carries from one Lanekeeper to the next, so that a gateway whose
//! provider is itself is found out after a few requests and not after thousands.
//!
//! It is an entry of `Via` (RFC 9110, 7.6.3) with one pseudonym for all gateways of this kind. What
//! other proxies wrote there says how callers reach the gateway, and stays here.

use http::HeaderMap;
use http::header::{HeaderValue, VIA};

/// What every Lanekeeper calls itself.
const PSEUDONYM: &str = "lanekeeper";
/// The mark of one gateway.
const MARK: &str = "1.1 lanekeeper";

/// How many gateways of this kind a request has passed.
#[must_use]
pub fn hops(headers: &HeaderMap) -> u32 {
    let entries = headers
        .get_all(VIA)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','));
    let marks = entries.filter(|entry| is_mark(entry)).count();
    u32::try_from(marks).unwrap_or(u32::MAX)
}

/// `Via` of the request that goes upstream for one with these headers: one mark more.
pub(crate) fn upstream(caller: &HeaderMap) -> HeaderValue {
    let hops = hops(caller);
    if hops == 0 {
        return HeaderValue::from_static(MARK);
    }
    // A request with more marks than `limits.hops_max` is refused before it comes here.
    let marks = vec![MARK; hops as usize + 1].join(", ");
    HeaderValue::try_from(marks).unwrap_or_else(|_| HeaderValue::from_static(MARK))
}

/// True for a protocol of any version before the pseudonym, and a comment behind it or none.
fn is_mark(entry: &str) -> bool {
    let by = entry.split_ascii_whitespace().nth(1);
    by.is_some_and(|by| by.eq_ignore_ascii_case(PSEUDONYM))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via(lines: &[&str]) -> HeaderMap {
        let lines = lines.iter().map(|line| HeaderValue::from_str(line));
        lines.map(|line| (VIA, line.unwrap())).collect()
    }

    #[test]
    fn marks_are_counted_in_every_form_and_nothing_else_is() {
        for (lines, expected) in [
            (&[][..], 0),
            (&["1.1 lanekeeper"], 1),
            (&["1.1 lanekeeper, 1.1 lanekeeper"], 2),
            (&["1.1 lanekeeper", "2 edge, HTTP/2.0 LaneKeeper (eu)"], 2),
            (&["1.1 edge,1.1\tlanekeeper"], 1),
            (&["1.1 lanekeeper.example", "1.1 edge (lanekeeper)"], 0),
            (&["lanekeeper", "", ",", "1.1"], 0),
        ] {
            assert_eq!(hops(&via(lines)), expected, "{lines:?}");
            let sent = HeaderMap::from_iter([(VIA, upstream(&via(lines)))]);
            assert_eq!(hops(&sent), expected + 1, "{lines:?}");
            assert!(!sent[VIA].to_str().unwrap().contains("edge"), "{lines:?}");
        }
    }
}
