//! Why a decoded message cannot be taken. Each variant names the field, so that the other end knows
//! what to mend.

/// A message that is valid protobuf but not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The envelope holds nothing this build knows: a newer peer's message, to be skipped once the
    /// session is open.
    #[error("message: nothing this version knows")]
    Empty,
    /// A required field is absent or empty.
    #[error("{field}: is missing")]
    Missing {
        /// Dotted path of the field.
        field: String,
    },
    /// An enum value this build does not know.
    #[error("{field}: value {value} is not known")]
    UnknownValue {
        /// Dotted path of the field.
        field: String,
        /// The number received.
        value: i32,
    },
    /// A number outside of its range.
    #[error("{field}: {value} is above {limit}")]
    OutOfRange {
        /// Dotted path of the field.
        field: String,
        /// The number received.
        value: u64,
        /// The greatest one allowed.
        limit: u64,
    },
    /// A name with characters that names do not have.
    #[error("{field}: a name consists of letters, digits and the characters -_.")]
    NotAName {
        /// Dotted path of the field.
        field: String,
    },
    /// A name with a control character.
    #[error("{field}: must not have control characters")]
    ControlCharacter {
        /// Dotted path of the field.
        field: String,
    },
    /// A field beside others that exclude it.
    #[error("{field}: is given beside fields that exclude it")]
    Excluded {
        /// Dotted path of the field.
        field: String,
    },
    /// A text longer than allowed.
    #[error("{field}: longer than {limit} bytes")]
    TooLong {
        /// Dotted path of the field.
        field: String,
        /// Bytes allowed.
        limit: usize,
    },
    /// A list longer than allowed.
    #[error("{field}: more than {limit} entries")]
    TooMany {
        /// Dotted path of the field.
        field: String,
        /// Entries allowed.
        limit: usize,
    },
}

impl WireError {
    /// Puts an outer field's name before the path, as conversion goes back up.
    pub(crate) fn within(self, outer: &str) -> Self {
        let join = |field: String| format!("{outer}.{field}");
        match self {
            Self::Empty => Self::Empty,
            Self::Missing { field } => Self::Missing { field: join(field) },
            Self::UnknownValue { field, value } => Self::UnknownValue {
                field: join(field),
                value,
            },
            Self::OutOfRange {
                field,
                value,
                limit,
            } => Self::OutOfRange {
                field: join(field),
                value,
                limit,
            },
            Self::NotAName { field } => Self::NotAName { field: join(field) },
            Self::ControlCharacter { field } => Self::ControlCharacter { field: join(field) },
            Self::Excluded { field } => Self::Excluded { field: join(field) },
            Self::TooLong { field, limit } => Self::TooLong {
                field: join(field),
                limit,
            },
            Self::TooMany { field, limit } => Self::TooMany {
                field: join(field),
                limit,
            },
        }
    }
}

/// An agent's message that was refused, with what is needed to answer it in-band.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Unfit {
    /// The report's number, when it was a report: the ack then carries the reason.
    pub report_seq: Option<u64>,
    /// The push's nonce, when it was the answer to one: the push then counts as refused.
    pub push_nonce: Option<u64>,
    /// What is wrong.
    pub error: WireError,
}

impl From<WireError> for Unfit {
    fn from(error: WireError) -> Self {
        Self {
            report_seq: None,
            push_nonce: None,
            error,
        }
    }
}
