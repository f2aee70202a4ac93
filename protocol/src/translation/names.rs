//! Names of tools: made legal for the lane, and turned back for the caller.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::ir::{Part, PartBody, Request, Tool, ToolChoice};

/// Hex digits of the digest that keeps shortened names apart.
const DIGEST_DIGITS: usize = 10;

/// Which names a protocol takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameRule {
    /// Longest name, in bytes.
    pub max_bytes: usize,
    /// What it takes beside letters, digits, `_` and `-`.
    pub others: &'static [u8],
    /// The first one must be a letter or `_`.
    pub begins_with_letter: bool,
}

impl NameRule {
    fn takes(self, name: &str) -> bool {
        let takes = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || byte == b'_'
                || byte == b'-'
                || self.others.contains(&byte)
        };
        let begins = { name.bytes().next() }.is_some_and(|first| {
            !self.begins_with_letter || first.is_ascii_alphabetic() || first == b'_'
        });
        begins && name.len() <= self.max_bytes && name.bytes().all(takes)
    }

    /// The name as the protocol takes it: unchanged where it is legal, else as much of it as is, with
    /// a digest of the whole.
    fn legal<'a>(self, name: &'a str) -> Cow<'a, str> {
        if self.takes(name) {
            return Cow::Borrowed(name);
        }
        let digest = Sha256::digest(name.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let digest = digest.get(..DIGEST_DIGITS).unwrap_or(&digest);
        let room = self
            .max_bytes
            .saturating_sub(DIGEST_DIGITS + "t_".len() + 1);
        let plain: String = { name.chars() }
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '_'
                }
            })
            .take(room)
            .collect();
        Cow::Owned(format!("t_{plain}_{digest}"))
    }
}

/// The names of one request that had to change: as the lane sees them, with the caller's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    changed: BTreeMap<String, String>,
}

impl Names {
    /// Makes every name of `request` legal. It is the same on every agent, so a conversation may move.
    pub(super) fn to_lane(request: &mut Request<'_>, rule: NameRule) -> Self {
        let mut names = Self::default();
        for tool in &mut request.tools {
            match tool {
                Tool::Function(function) => names.change(&mut function.name, rule),
                Tool::Custom(custom) => names.change(&mut custom.name, rule),
                Tool::BuiltIn { .. } => {}
            }
        }
        if let Some(ToolChoice::One(name)) = &mut request.tool_choice {
            names.change(name, rule);
        }
        let parts = request.messages.iter_mut().flat_map(|it| &mut it.parts);
        for Part { body, .. } in parts {
            match body {
                PartBody::ToolCall(call) => names.change(&mut call.name, rule),
                PartBody::ToolResult(result) if !result.name.is_empty() => {
                    names.change(&mut result.name, rule);
                }
                _ => {}
            }
        }
        names
    }

    fn change(&mut self, name: &mut Cow<'_, str>, rule: NameRule) {
        if let Cow::Owned(legal) = rule.legal(name) {
            self.changed
                .insert(legal.clone(), name.clone().into_owned());
            *name = Cow::Owned(legal);
        }
    }

    /// The caller's own name.
    pub(super) fn to_caller<'a>(&self, name: Cow<'a, str>) -> Cow<'a, str> {
        match self.changed.get(name.as_ref()) {
            Some(own) => Cow::Owned(own.clone()),
            None => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: NameRule = NameRule {
        max_bytes: 64,
        others: b"",
        begins_with_letter: true,
    };

    #[test]
    fn names_that_differ_stay_different_and_legal() {
        let head = "m".repeat(70);
        let names = [
            format!("{head}1"),
            format!("{head}2"),
            "get_wetter_größe".to_owned(),
            "get.time".to_owned(),
            "get/time".to_owned(),
            "1st".to_owned(),
            String::new(),
        ];
        let legal: std::collections::BTreeSet<_> =
            names.iter().map(|name| NARROW.legal(name)).collect();
        assert_eq!(legal.len(), names.len());
        assert!(legal.iter().all(|name| NARROW.takes(name)), "{legal:?}");
        assert_eq!(NARROW.legal("get_time-2"), "get_time-2");
    }
}
