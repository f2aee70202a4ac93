//! What a translation left out or changed, by name.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Most losses that are named: more are "and others".
const MAX_NAMED: usize = 32;
/// Longest name, in bytes: names may come from the caller.
const NAME_MAX_BYTES: usize = 64;

/// The fields that were dropped, cut or changed, as the caller writes them: each once, in order of
/// the alphabet, never a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    names: BTreeSet<Cow<'static, str>>,
    has_more: bool,
}

impl Losses {
    /// Names a loss.
    pub fn name(&mut self, field: impl Into<Cow<'static, str>>) {
        let field = field.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-[]$/".contains(&byte);
        if self.names.len() >= MAX_NAMED
            || field.is_empty()
            || field.len() > NAME_MAX_BYTES
            || !field.bytes().all(is_plain)
        {
            self.has_more |= !self.names.contains(&field);
            return;
        }
        self.names.insert(field);
    }

    /// Names a loss that a caller's document named.
    pub fn name_given(&mut self, field: &str) {
        self.name(field.to_owned());
    }

    /// True when nothing was lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.has_more
    }

    /// The names, separated by commas; `other` stands for those that cannot be shown.
    #[must_use]
    pub fn header(&self) -> String {
        let mut names: Vec<&str> = self.names.iter().map(AsRef::as_ref).collect();
        if self.has_more {
            names.push("other");
        }
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_named_once_in_order_and_never_with_what_a_header_must_not_hold() {
        let mut losses = Losses::default();
        assert!(losses.is_empty());
        for field in ["seed", "user", "seed", "bad\r\nname", &"x".repeat(65)] {
            losses.name_given(field);
        }
        assert_eq!(losses.header(), "seed, user, other");
        for number in 0..100 {
            losses.name(format!("field{number:03}"));
        }
        assert_eq!(losses.header().split(", ").count(), MAX_NAMED + 1);
    }
}
