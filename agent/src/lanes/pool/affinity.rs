//! Rendezvous hashing: which member a session belongs to.
//!
//! Each (session, lane) pair has one score, the same on every agent; the session goes to the
//! highest among the members that can serve. Adding a member therefore moves only the sessions it
//! wins, and nothing is stored per session.

use sha2::{Digest, Sha256};

/// Separates the two names inside the hash, so that ("ab", "c") and ("a", "bc") differ.
const SEPARATOR: &[u8] = &[0];

/// The score of one (session, lane) pair; members get sessions in proportion to `weight`.
///
/// The session is an opaque byte string of any length.
pub(crate) fn score(session: &[u8], lane: &str, weight: f64) -> f64 {
    let mut hash = Sha256::new();
    hash.update(session);
    hash.update(SEPARATOR);
    hash.update(lane.as_bytes());
    let digest = hash.finalize();
    let mut number = 0u64;
    for byte in digest.iter().take(8) {
        number = (number << 8) | u64::from(*byte);
    }
    // 53 bits fill a double's mantissa; the half keeps the value strictly inside (0, 1).
    let unit = ((number >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -weight / unit.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn winner<'a>(session: &[u8], lanes: &[&'a str]) -> &'a str {
        lanes
            .iter()
            .copied()
            .max_by(|a, b| score(session, a, 1.0).total_cmp(&score(session, b, 1.0)))
            .expect("lanes")
    }

    #[test]
    fn adding_a_member_moves_only_its_share() {
        let sessions: Vec<String> = (0..3000).map(|n| format!("session-{n}")).collect();
        let moved: Vec<_> = sessions
            .iter()
            .filter(|session| {
                winner(session.as_bytes(), &["a", "b"])
                    != winner(session.as_bytes(), &["a", "b", "c"])
            })
            .collect();
        assert!(
            moved
                .iter()
                .all(|session| winner(session.as_bytes(), &["a", "b", "c"]) == "c")
        );
        assert!((800..1200).contains(&moved.len()), "{} moved", moved.len());
    }

    #[test]
    fn bytes_that_are_no_text_are_a_session_too() {
        assert!(score(&[0xff, 0x00, 0xfe], "a", 1.0).is_finite());
        assert!(score(&[], "a", 1.0).is_finite());
    }

    #[test]
    fn scores_are_the_same_on_every_agent_and_in_every_version() {
        for (session, lane, weight, expected) in [
            ("session-1", "sonnet", 1.0, 0.977_123_869_095_211_9),
            ("session-1", "gpt", 1.0, 0.312_537_476_314_960_2),
            ("sesi\u{f3}n", "sonnet", 3.0, 3.955_352_805_578_685),
        ] {
            let found: f64 = score(session.as_bytes(), lane, weight);
            assert!(
                (found - expected).abs() < 1e-12,
                "{session} on {lane}: {found}"
            );
        }
    }
}
