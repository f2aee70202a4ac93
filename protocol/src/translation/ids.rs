//! Ids of tool calls, and what travels inside them.
//!
//! Agents keep nothing between two requests of a conversation, so an id must be all that is needed
//! to find a call again: a lane's id goes to the caller as it is, and an id that another lane's
//! protocol does not take is replaced by one made from it, the same on every agent. A proof that the
//! caller's dialect has no place for rides at the end of the id.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use lanekeeper_model::gateway::Protocol;
use sha2::{Digest as _, Sha256};

use crate::ir::{Event, PartBody, PartStart, Proof, Request, ToolCall};

/// Begins what the agent itself wrote. Behind it come a letter for the protocol, `_` and base64. It
/// is long enough to be in nobody's text by chance.
pub const MARK: &str = "lkproof1";
/// How [`MARK`] begins where it is encoded in base64 once more.
pub const ENCODED_MARK: &str = "bGtwcm9vZj";
/// Begins an id that is spelled in other letters than the lane's own.
const SPELLED: &str = "lkid1_";
/// Bytes of a digest that an id is made from: as many as a UUID has.
const DIGEST_BYTES: usize = 16;

/// Which ids a protocol takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRule {
    /// Longest id, in bytes.
    pub max_bytes: usize,
    /// Letters, digits, `_` and `-` only.
    pub is_plain: bool,
}

impl IdRule {
    fn takes(self, id: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        !id.is_empty() && id.len() <= self.max_bytes && (!self.is_plain || id.bytes().all(is_plain))
    }

    /// The id as the protocol takes it: unchanged where it is legal.
    #[must_use]
    pub fn legal<'a>(self, id: &'a str) -> Cow<'a, str> {
        if self.takes(id) {
            Cow::Borrowed(id)
        } else {
            Cow::Owned(format!("call_{}", digest(&[id.as_bytes()])))
        }
    }
}

/// A lane's id as callers of a protocol see it. One that the protocol's own lanes would not take is
/// spelled in letters that they do, since its next turn may go to one of them as it stands.
fn shown_id(id: &str, rule: IdRule) -> Cow<'_, str> {
    if rule.takes(id) {
        return Cow::Borrowed(id);
    }
    let spelled = format!("{SPELLED}{}", BASE64.encode(id));
    if rule.takes(&spelled) {
        Cow::Owned(spelled)
    } else {
        rule.legal(id)
    }
}

/// The id that [`shown_id`] spelled; any other as it is.
fn lane_id(id: &str) -> Cow<'_, str> {
    let bytes = { id.strip_prefix(SPELLED) }.and_then(|rest| BASE64.decode(rest).ok());
    let own = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    match own.filter(|own| !own.is_empty()) {
        Some(own) => Cow::Owned(own),
        None => Cow::Borrowed(id),
    }
}

/// The id of a call in a history whose dialect has none: the same on every agent.
#[must_use]
pub fn made_id(message: usize, part: usize, name: &str, arguments: &str) -> String {
    let place = format!("{message}/{part}");
    let digest = digest(&[place.as_bytes(), name.as_bytes(), arguments.as_bytes()]);
    format!("call_{digest}")
}

fn digest(pieces: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece.len().to_be_bytes());
        hasher.update(piece);
    }
    let digest = hasher.finalize();
    BASE64.encode(digest.get(..DIGEST_BYTES).unwrap_or(&digest))
}

/// A proof as text of letters, digits, `_` and `-`, for an opaque field of another dialect.
#[must_use]
pub fn seal(proof: &Proof<'_>) -> String {
    let letter = letter(proof.protocol, proof.is_redacted);
    format!("{MARK}{letter}_{}", BASE64.encode(proof.text.as_bytes()))
}

/// The proof that [`seal`] wrote; `None` for anything else.
#[must_use]
pub fn unseal(text: &str) -> Option<Proof<'static>> {
    let rest = text.strip_prefix(MARK)?;
    let (letter, encoded) = rest.split_once('_')?;
    let (protocol, is_redacted) = of_letter(letter)?;
    let bytes = BASE64.decode(encoded).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(Proof {
        protocol,
        text: Cow::Owned(text),
        is_redacted,
    })
}

/// A signature for thoughts that have none, where a caller's dialect demands one.
const UNSIGNED: &str = "lkproof1n_";

/// What stands as the signature of thoughts in a caller's dialect that is not that of the vendor
/// which made them: the proof, sealed, or a mark that there is none. [`is_marked`] knows both.
#[must_use]
pub fn signature(proof: Option<&Proof<'_>>) -> Cow<'static, str> {
    proof.map_or(Cow::Borrowed(UNSIGNED), |proof| Cow::Owned(seal(proof)))
}

/// True for a signature that the agent itself wrote.
#[must_use]
pub fn is_marked(signature: &str) -> bool {
    signature.starts_with(MARK)
}

/// The id with a proof at its end.
fn joined(id: &str, proof: &Proof<'_>) -> String {
    format!("{id}_{}", seal(proof))
}

/// The id as the lane gave it, and the proof at its end.
#[must_use]
pub fn parted(id: &str) -> (&str, Option<Proof<'static>>) {
    let parted = { id.find(MARK) }.and_then(|at| {
        let own = id.get(..at)?.strip_suffix('_')?;
        Some((own, unseal(id.get(at..)?)?))
    });
    match parted {
        Some((own, proof)) => (own, Some(proof)),
        None => (id, None),
    }
}

const fn letter(protocol: Protocol, is_redacted: bool) -> char {
    match (protocol, is_redacted) {
        (Protocol::Openai, _) => 'o',
        (Protocol::Responses, _) => 'r',
        (Protocol::Anthropic, false) => 'a',
        (Protocol::Anthropic, true) => 'b',
        (Protocol::Gemini, _) => 'g',
        (Protocol::Cohere, _) => 'c',
    }
}

fn of_letter(letter: &str) -> Option<(Protocol, bool)> {
    Some(match letter {
        "o" => (Protocol::Openai, false),
        "r" => (Protocol::Responses, false),
        "a" => (Protocol::Anthropic, false),
        "b" => (Protocol::Anthropic, true),
        "g" => (Protocol::Gemini, false),
        "c" => (Protocol::Cohere, false),
        _ => return None,
    })
}

/// Puts the ids of a request's history into the form that the lane takes, and the proofs in them in
/// their place, where they are the lane's.
pub(super) fn to_lane(request: &mut Request<'_>, rule: IdRule, lane: Protocol) {
    let parts = request.messages.iter_mut().flat_map(|it| &mut it.parts);
    for part in parts {
        match &mut part.body {
            PartBody::ToolCall(call) => {
                let (own, proof) = parted(&call.id);
                let proof = proof.or_else(|| call.proof.take());
                let id = rule.legal(&lane_id(own)).into_owned();
                call.id = Cow::Owned(id);
                call.proof = proof.filter(|proof| proof.protocol == lane);
            }
            PartBody::ToolResult(result) => {
                let own = lane_id(parted(&result.call_id).0);
                let id = rule.legal(&own).into_owned();
                result.call_id = Cow::Owned(id);
            }
            PartBody::Reasoning(reasoning) => {
                let foreign = |proof: &Proof<'_>| proof.protocol != lane;
                if reasoning.proof.as_ref().is_some_and(foreign) {
                    reasoning.proof = None;
                }
            }
            _ => {}
        }
    }
}

/// Gives a call of an answer the id that its caller sees.
pub(super) fn to_caller(call: &mut ToolCall<'_>, rule: IdRule, unique: &str, number: usize) {
    let id = shown(&call.id, call.proof.as_ref(), rule, unique, number);
    call.id = Cow::Owned(id);
}

/// As [`to_caller`], of the event with which a call begins.
pub(super) fn event_to_caller<'a>(event: Event<'a>, rule: IdRule, unique: &str) -> Event<'a> {
    match event {
        Event::PartStart {
            part,
            start: PartStart::ToolCall { id, name, proof },
        } => {
            let id = Cow::Owned(shown(&id, proof.as_ref(), rule, unique, part));
            let start = PartStart::ToolCall { id, name, proof };
            Event::PartStart { part, start }
        }
        event => event,
    }
}

fn shown(id: &str, proof: Option<&Proof<'_>>, rule: IdRule, unique: &str, number: usize) -> String {
    let id = if id.is_empty() {
        format!("call_{unique}_{number}")
    } else {
        shown_id(id, rule).into_owned()
    };
    match proof {
        Some(proof) => joined(&id, proof),
        None => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: IdRule = IdRule {
        max_bytes: 64,
        is_plain: true,
    };

    #[test]
    fn a_legal_id_stays_and_others_never_collide() {
        for id in ["toolu_01", "call-1", &"x".repeat(64)] {
            assert_eq!(NARROW.legal(id), id);
        }
        let long = "y".repeat(83);
        let illegal = ["a.b:1", "a_b.1", "functions.bash:0", "", &long, "größe"];
        let legal: std::collections::BTreeSet<_> =
            { illegal.iter() }.map(|id| NARROW.legal(id)).collect();
        assert_eq!(legal.len(), illegal.len());
        for id in legal {
            assert_eq!(NARROW.legal(&id), id, "what is made is legal itself");
        }
    }

    #[test]
    fn an_id_that_the_callers_own_lanes_refuse_is_spelled_in_their_letters() {
        for id in ["functions.bash:0", "größe", "a b", "a_b:1", "a.b_1"] {
            let shown = shown_id(id, NARROW);
            assert!(NARROW.takes(&shown), "{shown}");
            assert_eq!(lane_id(&shown), id);
        }
        for id in ["toolu_1", "lkid1_", "lkid1_!", "lkid1"] {
            assert_eq!(lane_id(id), id);
        }
        assert_eq!(shown_id("toolu_1", NARROW), "toolu_1");
        let long = "y".repeat(83);
        assert_eq!(shown_id(&long, NARROW), NARROW.legal(&long));
    }

    #[test]
    fn a_proof_survives_the_way_through_an_id_whatever_it_holds() {
        for text in ["c2lnLTE=", "", "a+b/c==", &"é\n\"".repeat(600)] {
            for (protocol, is_redacted) in [
                (Protocol::Gemini, false),
                (Protocol::Anthropic, true),
                (Protocol::Anthropic, false),
            ] {
                let proof = Proof {
                    protocol,
                    text: Cow::Borrowed(text),
                    is_redacted,
                };
                assert_eq!(unseal(&seal(&proof)), Some(proof.clone()));
                assert_eq!(parted(&joined("call_1", &proof)), ("call_1", Some(proof)));
            }
        }
        for id in [
            "call_1",
            "",
            "lkproof1",
            "x_lkproof1",
            "x_lkproof1z_AA",
            "x_lkproof1g_!",
        ] {
            assert_eq!(parted(id), (id, None));
        }
    }

    #[test]
    fn an_encoded_mark_is_known_whatever_follows_it() {
        for rest in ["", "g_AA", "z", "\u{7f}"] {
            let encoded = base64::prelude::BASE64_STANDARD.encode(format!("{MARK}{rest}"));
            assert!(encoded.starts_with(ENCODED_MARK), "{encoded}");
        }
    }

    #[test]
    fn calls_without_ids_get_different_ones_by_place_and_content() {
        let ids = [
            made_id(1, 0, "f", "{}"),
            made_id(1, 1, "f", "{}"),
            made_id(2, 0, "f", "{}"),
            made_id(1, 0, "g", "{}"),
            made_id(1, 0, "f", "{\"a\":1}"),
        ];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        assert_eq!(made_id(1, 0, "f", "{}"), ids[0]);
        assert!(ids.iter().all(|id| NARROW.legal(id) == *id));
    }
}
