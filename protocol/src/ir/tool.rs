//! Tools, and how the model may use them.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{CacheMark, Json};

/// Something that the model may call.
#[derive(Clone, Debug)]
pub enum Tool<'a> {
    /// A function of the caller's.
    Function(Function<'a>),
    /// A tool of the caller's that takes free text.
    Custom(CustomTool<'a>),
    /// A tool that the caller's vendor runs itself, such as a web search.
    BuiltIn {
        /// What the caller's vendor calls it.
        kind: Cow<'a, str>,
    },
}

/// A function of the caller's.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// What it does. Never empty.
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema of the object it takes. `None` for a function without parameters, however the
    /// caller's dialect says that.
    pub parameters: Option<Json<'a>>,
    /// The model must keep to the schema exactly. Always said: readers put in their dialect's
    /// default.
    pub is_strict: bool,
    /// Everything up to here may be kept in the vendor's prompt cache.
    pub cache: Option<CacheMark<'a>>,
}

/// A tool that takes free text.
#[derive(Clone, Debug)]
pub struct CustomTool<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// What it does. Never empty.
    pub description: Option<Cow<'a, str>>,
    /// A grammar, which only the caller's own protocol can hold the model to.
    pub has_grammar: bool,
}

/// How the model may use tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// As it sees fit.
    Auto,
    /// Not at all.
    None,
    /// It must call one.
    Required,
    /// It must call this one.
    One(Cow<'a, str>),
}

/// What a tool is called with: JSON text of an object, or whatever the model wrote in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments<'a>(pub Cow<'a, str>);

/// The member under which text that is no JSON object travels where only objects can.
const UNREADABLE_ARGUMENTS: &str = "_unreadable_arguments";

impl<'a> Arguments<'a> {
    /// Those of a call without any.
    pub const NONE: &'static str = "{}";

    /// The arguments as a dialect that holds text wants them. Never empty.
    #[must_use]
    pub fn as_text(&self) -> &str {
        if self.0.trim().is_empty() {
            Self::NONE
        } else {
            &self.0
        }
    }

    /// The arguments as a dialect that holds objects wants them, and whether they had to be wrapped
    /// because they are no JSON object.
    #[must_use]
    pub fn to_object(&self) -> (Json<'_>, bool) {
        let text = self.as_text();
        if text.trim_start().starts_with('{')
            && let Ok(raw) = serde_json::from_str::<&RawValue>(text)
        {
            return (Cow::Borrowed(raw), false);
        }
        let wrapped = serde_json::json!({ UNREADABLE_ARGUMENTS: text });
        (raw(&wrapped), true)
    }

    /// The text within, where [`Self::to_object`] had to wrap it on an earlier turn.
    #[must_use]
    pub fn unwrapped(object: &'a RawValue) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wrapped<'a> {
            #[serde(rename = "_unreadable_arguments", borrow)]
            text: Cow<'a, str>,
        }
        match serde_json::from_str::<Wrapped<'a>>(object.get()) {
            Ok(wrapped) => Self(wrapped.text),
            Err(_) => Self(Cow::Borrowed(object.get())),
        }
    }
}

/// A value as JSON text. Values always have one; `null` stands in for one that has not.
#[must_use]
pub fn raw<'a>(value: &Value) -> Json<'a> {
    match serde_json::value::to_raw_value(value) {
        Ok(raw) => Cow::Owned(raw),
        Err(_) => Cow::Borrowed(RawValue::NULL),
    }
}
