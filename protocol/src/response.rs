//! Answers: what one proves about a lane (`verdict`, `error_signal`, `retry_after`), as a stream
//! (`frame`) or whole (`answer`), what it says about itself (`usage`), and how the agent's own errors
//! look to the caller (`error_body`).

pub mod answer;
pub mod error_body;
pub mod error_signal;
pub mod frame;
pub mod relayed_error;
pub mod retry_after;
pub mod usage;
pub mod verdict;
