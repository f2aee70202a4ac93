//! Refuses writes that would leave a gateway which serves without any usable pool.

use super::flag;
use crate::error::Error;
use lanekeeper_model::{Checked, Gateway};
use serde_json::Value;

/// Whether a write may leave a serving gateway without any usable pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emptying {
    /// Its sender said so with `allow_empty`.
    Allowed,
    /// It is taken for a mistake, such as a half-rendered template.
    Refused,
}

impl Emptying {
    /// As the query parameter `allow_empty` has it.
    pub(super) fn of_query(value: Option<&str>) -> Result<Self, Error> {
        flag("allow_empty", value).map(Self::from)
    }

    /// Refuses `next` when it has no usable pool and the `current` document has one.
    pub(super) fn check(self, current: &Value, next: &Checked) -> Result<(), Error> {
        let empties = !next.gateway.has_usable_pool() && Gateway::document_has_usable_pool(current);
        match self {
            Self::Refused if empties => Err(Error::EmptyGateway { pointer: "/pools" }),
            Self::Refused | Self::Allowed => Ok(()),
        }
    }
}

impl From<bool> for Emptying {
    fn from(is_allowed: bool) -> Self {
        if is_allowed {
            Self::Allowed
        } else {
            Self::Refused
        }
    }
}
