//! The names everything is keyed by. Separate types, so that a lane is never passed for a pool.
//!
//! The types hold any string: the rules for new names live in the document's validation, because a
//! report of an older agent must stay readable whatever it calls its lanes.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest name of anything, in bytes.
pub const NAME_LEN_MAX: usize = 63;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(name.into())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    };
}

name_type! {
    /// Name of a gateway: a configuration that a group of agents serves.
    GatewayName
}
name_type! {
    /// Name of a provider: an upstream API with its base URL, protocol and credential.
    ProviderName
}
name_type! {
    /// Name of a lane: one model on one provider.
    LaneName
}
name_type! {
    /// Name of a pool: a weighted set of lanes that callers address as a model.
    PoolName
}

impl PoolName {
    /// The pool name of cells that belong to direct routes: the empty string.
    pub fn direct() -> Self {
        Self(Arc::from(""))
    }

    /// True for the name of direct routes.
    pub fn is_direct(&self) -> bool {
        self.0.is_empty()
    }
}

impl LaneName {
    /// The lane name of a provider's own cell: the empty string.
    pub fn none() -> Self {
        Self(Arc::from(""))
    }
}

/// Names one cell: the breaker of one (pool, lane) pair, with the provider the lane belongs to, or
/// a provider's own breaker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellName {
    /// The pool, or [`PoolName::direct`]; empty for a provider's own cell.
    pub pool: PoolName,
    /// The lane, or [`LaneName::none`] for a provider's own cell.
    pub lane: LaneName,
    /// The lane's provider, or the one whose own cell it is.
    pub provider: ProviderName,
}

impl CellName {
    /// Whose breaker the cell is.
    pub fn owner(&self) -> CellOwner {
        CellOwner::new(&self.pool, &self.lane, &self.provider)
    }
}

/// Whose breaker a cell is: what identifies it within a gateway, but for the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellOwner {
    /// A provider's own.
    Provider(ProviderName),
    /// A lane's in one pool, or on its direct route.
    Member {
        /// The pool, or [`PoolName::direct`].
        pool: PoolName,
        /// The lane.
        lane: LaneName,
    },
}

impl CellOwner {
    /// Reads names as reports carry them: those of a provider's own cell have no lane.
    pub fn new(pool: &PoolName, lane: &LaneName, provider: &ProviderName) -> Self {
        if lane.is_empty() {
            Self::Provider(provider.clone())
        } else {
            Self::Member {
                pool: pool.clone(),
                lane: lane.clone(),
            }
        }
    }

    /// The pool and the lane; `None` for a provider's own cell.
    pub fn member(&self) -> Option<(&PoolName, &LaneName)> {
        match self {
            Self::Provider(_) => None,
            Self::Member { pool, lane } => Some((pool, lane)),
        }
    }
}
