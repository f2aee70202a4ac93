//! Structured output: a tool that we make up, whose arguments are the answer. Every model can be held
//! to one, which is not so of the API's own output format.

use std::borrow::Cow;

use serde_json::json;
use serde_json::value::RawValue;

use crate::ir::{Format, Json, Request, Tool, ToolChoice, raw};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::json::text::Text;
use crate::translation::{Feature, Refusal};

/// The tool's name, unless the caller has one of that name.
const NAME: &str = "json_answer";
/// What the model reads about it.
const DESCRIPTION: &str = "Gives the answer to the user, as JSON.";

/// The tool.
#[derive(Debug)]
pub(super) struct AnswerTool<'a> {
    pub(super) name: String,
    pub(super) description: Cow<'a, str>,
    pub(super) schema: Json<'a>,
}

/// The tool that gives the answer the form that the request asks for. `None` when it asks for none, or
/// when the model must call a tool of the caller's anyway.
///
/// # Errors
///
/// Arguments are always an object, and the answer would be none.
pub(super) fn of<'a>(request: &'a Request<'_>) -> Result<Option<AnswerTool<'a>>, Refusal> {
    let is_call = matches!(
        request.tool_choice,
        Some(ToolChoice::Required | ToolChoice::One(_))
    );
    if is_call {
        return Ok(None);
    }
    let (schema, description) = match &request.format {
        None | Some(Format::Text) => return Ok(None),
        Some(Format::Json) => (raw(&json!({"type": "object"})), None),
        Some(Format::Schema(format)) => {
            if !is_object(&format.schema) {
                let reason = "has a schema of something else than an object, which the lane's \
                              protocol cannot hold an answer to";
                return Err(Refusal::new(Feature::SchemaFormat.name(), reason));
            }
            let schema = Cow::Borrowed(format.schema.as_ref());
            (schema, format.description.as_deref())
        }
    };
    let mut name = NAME.to_owned();
    let is_taken = |name: &str| {
        { request.tools.iter() }
            .any(|tool| matches!(tool, Tool::Function(function) if function.name == name))
    };
    while is_taken(&name) {
        name.push('_');
    }
    Ok(Some(AnswerTool {
        name,
        description: description.map_or(Cow::Borrowed(DESCRIPTION), |description| {
            Cow::Owned(format!("{DESCRIPTION} {description}"))
        }),
        schema,
    }))
}

fn is_object(schema: &RawValue) -> bool {
    let fields: Option<Fields<'_>> = parsed(Some(schema));
    fields.is_some_and(|fields| {
        parsed::<Text<'_>>(fields.get("type")).is_some_and(|kind| kind.0 == "object")
    })
}
