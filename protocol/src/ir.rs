//! The internal representation: what a request, an answer and a stream mean, whichever dialect says
//! it.
//!
//! It borrows from the document that it was read from. Text that the agent must not touch, such as
//! tool arguments and JSON Schemas, stays the JSON text that it was: every digit and the order of
//! keys survive.

mod answer;
mod embedding;
mod event;
mod part;
mod request;
mod tool;

use std::borrow::Cow;

use serde_json::value::RawValue;

pub use answer::{Answer, Finish, Usage};
pub use embedding::{EmbeddingAnswer, EmbeddingRequest, Purpose, Vector};
pub use event::{Event, PartStart};
pub use part::{
    CacheMark, Media, MediaSource, Part, PartBody, Place, Proof, Reasoning, ToolCall, ToolResult,
};
pub use request::{
    Effort, Extras, Format, Message, ReasoningBudget, ReasoningOptions, Request, Role, Sampling,
    SchemaFormat,
};
pub use tool::{Arguments, CustomTool, Function, Tool, ToolChoice, raw};

/// JSON text that passes through unread.
pub type Json<'a> = Cow<'a, RawValue>;
