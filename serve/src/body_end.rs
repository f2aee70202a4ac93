//! How the body of an answer may end other than by its own end.

/// Any error of a service or a body.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of an answer's body. A listener knows it whatever the service's own type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyEnd {
    /// What was to be written is, and nothing further must be asked on the connection: the body
    /// ends as a whole one does, and the connection with it.
    #[error("the answer ends its connection")]
    WithConnection,
    /// The answer was broken off; it must not look as if it ended well.
    #[error("the answer was broken off")]
    BrokenOff,
}
