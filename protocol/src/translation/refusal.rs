//! Why a lane of another protocol cannot serve a request.

use std::fmt::Display;

/// A request that a lane of another protocol cannot serve, or that breaks its own dialect's rules:
/// the member is skipped without a mark, and where none is left the caller gets 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Refusal {
    /// The field, as the caller writes it.
    pub field: String,
    /// Why, as half a sentence that follows the field's name: "has no counterpart there".
    pub reason: String,
}

impl Refusal {
    /// A refusal of `field`, because of `reason`.
    #[must_use]
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// The lane's protocol has nothing that means the same.
    #[must_use]
    pub fn untranslatable(field: impl Into<String>) -> Self {
        Self::new(field, "means nothing in the lane's protocol")
    }

    /// The same refusal of a member of `parent`.
    #[must_use]
    pub fn within(mut self, parent: impl Display) -> Self {
        let dot = if self.field.is_empty() || self.field.starts_with('[') {
            ""
        } else {
            "."
        };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }
}
