//! What joining is made of: the text of a join token, and the name a certificate gives its agent.

use std::fmt;

/// The scheme of an agent's name.
const SCHEME: &str = "lanekeeper://";
/// Length of a fingerprint in characters: SHA-256 in hex.
const FINGERPRINT_LEN: usize = 64;
/// The most fingerprints in one token: authorities that may be in force at one time.
const PINS_MAX: usize = 8;

/// A join token as it is handed out: `id.secret.fingerprint`, with a further `.fingerprint` for
/// each authority in force while one replaces another.
///
/// The fingerprints (SHA-256 of the authority's certificate, hex) let an agent trust its first
/// connection.
///
/// # Examples
///
/// ```
/// use lanekeeper_model::enrolment::JoinToken;
///
/// let pin = "0".repeat(64);
/// let text = format!("id.secret.{pin}");
/// let token = JoinToken::parse(&text).unwrap();
/// assert_eq!((token.id, token.pins.len()), ("id", 1));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken<'a> {
    /// The public half.
    pub id: &'a str,
    /// The secret half.
    pub secret: &'a str,
    /// The authorities that may vouch for the control plane; empty for a token without.
    pub pins: Vec<&'a str>,
}

impl<'a> JoinToken<'a> {
    /// Takes a token apart; `None` when it is not of this form.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split('.');
        let (id, secret) = (parts.next()?, parts.next()?);
        let pins: Vec<_> = parts.take(PINS_MAX + 1).collect();
        let is_pin = |pin: &&str| {
            pin.len() == FINGERPRINT_LEN
                && pin
                    .bytes()
                    .all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
        };
        let is_part =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
        (is_part(id) && is_part(secret) && pins.len() <= PINS_MAX && pins.iter().all(is_pin))
            .then_some(Self { id, secret, pins })
    }
}

impl fmt::Debug for JoinToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken")
            .field("id", &self.id)
            .field("pins", &self.pins)
            .finish_non_exhaustive()
    }
}

/// Whom a certificate names as its holder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentIdentity {
    /// The one gateway it may serve.
    pub gateway: String,
    /// Its id, the same through all renewals.
    pub id: String,
}

impl fmt::Display for AgentIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}gateway/{}/agent/{}", self.gateway, self.id)
    }
}

impl AgentIdentity {
    /// Reads the name out of a certificate; `None` when it is another kind of name.
    #[must_use]
    pub fn parse(uri: &str) -> Option<Self> {
        let path = uri.strip_prefix(SCHEME)?.strip_prefix("gateway/")?;
        let (gateway, rest) = path.split_once('/')?;
        let id = rest.strip_prefix("agent/")?;
        let is_name = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        (is_name(gateway) && is_name(id)).then(|| Self {
            gateway: gateway.to_owned(),
            id: id.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_carry_one_pin_for_each_authority() {
        let pin = "a".repeat(64);
        let text = format!("id.secret.{pin}.{pin}");
        assert_eq!(JoinToken::parse(&text).unwrap().pins, [&pin, &pin]);
        assert!(JoinToken::parse("id.secret").unwrap().pins.is_empty());
        let many = format!("id.secret{}", format!(".{pin}").repeat(9));
        for wrong in ["", "id", "id.", ".secret", "id.secret.pin", "i d.s", &many] {
            assert!(JoinToken::parse(wrong).is_none(), "{wrong}");
        }
        let shouted = format!("id.secret.{}", "A".repeat(64));
        assert!(JoinToken::parse(&shouted).is_none());
    }

    #[test]
    fn no_log_shows_the_secret() {
        let shown = format!("{:?}", JoinToken::parse("id.hidden").unwrap());
        assert!(!shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn names_go_there_and_back_and_nothing_else_is_one() {
        let identity = AgentIdentity {
            gateway: "edge".to_owned(),
            id: "0af3".to_owned(),
        };
        let uri = identity.to_string();
        assert_eq!(uri, "lanekeeper://gateway/edge/agent/0af3");
        assert_eq!(AgentIdentity::parse(&uri), Some(identity));
        for wrong in [
            "",
            "spiffe://gateway/edge/agent/x",
            "lanekeeper://gateway/edge",
            "lanekeeper://gateway//agent/x",
            "lanekeeper://gateway/edge/agent/",
            "lanekeeper://gateway/edge/agent/x/y",
            "lanekeeper://gateway/edge/other/x",
        ] {
            assert_eq!(AgentIdentity::parse(wrong), None, "{wrong}");
        }
    }
}
