//! Validated routes and origins.

use crate::ids::PoolName;

/// A pattern of model names and the pool that serves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which names.
    pub pattern: Pattern,
    /// The pool.
    pub pool: PoolName,
}

/// A pattern in which `*` stands for any run of characters, the empty one included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern that is written so.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name matches as a whole. Linear for each `*`: the earliest place of a piece between
    /// two stars is as good as any later one.
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(mut left) = name.strip_prefix(first) else {
            return false;
        };
        let mut pieces = rest.split('*').peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                return left.ends_with(piece);
            }
            let Some((_, after)) = left.split_once(piece) else {
                return false;
            };
            left = after;
        }
        true
    }
}

/// Which pages may call from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cors {
    /// None.
    #[default]
    Off,
    /// Every one.
    Any,
    /// Those of these origins, as browsers write them.
    Origins(Vec<String>),
}

impl Cors {
    /// Whether a page of this origin may call.
    pub fn allows(&self, origin: &str) -> bool {
        match self {
            Self::Off => false,
            Self::Any => true,
            Self::Origins(origins) => origins.iter().any(|it| it == origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_run_of_characters() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "gpt", true),
            ("claude-*", "claude-", true),
            ("claude-*", "claude-sonnet", true),
            ("claude-*", "a-claude-sonnet", false),
            ("*-mini", "gpt-mini", true),
            ("*-mini", "gpt-mini-2", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a**a", "aa", true),
            ("gpt", "gpt", true),
            ("gpt", "gpt-4", false),
            ("*ab*ab", "ab", false),
            ("*ab*ab", "abab", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn only_listed_origins_are_allowed() {
        let some = Cors::Origins(vec!["https://app.example.com".to_owned()]);
        assert!(some.allows("https://app.example.com"));
        assert!(!some.allows("https://app.example.com.evil.example"));
        assert!(Cors::Any.allows("null"));
        assert!(!Cors::Off.allows("https://app.example.com"));
    }
}
