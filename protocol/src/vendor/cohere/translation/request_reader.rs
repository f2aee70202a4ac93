//! Cohere's chat requests, read.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::dialect::Protocol;
use crate::ir::{
    Arguments, Format, Function, Json, Media, Message, Part, PartBody, Place, Proof, Reasoning,
    ReasoningBudget, Request, Role, SchemaFormat, Tool, ToolCall, ToolChoice, ToolResult,
};
use crate::translation::document::{At, Object, text};
use crate::translation::{Refusal, media};
use crate::vendor::openai::translation::wording;

/// The members of a request that mean something here.
const KNOWN: &[&str] = &[
    "model",
    "messages",
    "tools",
    "strict_tools",
    "tool_choice",
    "stream",
    "response_format",
    "max_tokens",
    "stop_sequences",
    "temperature",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "k",
    "p",
    "thinking",
];
/// What asks for something that no other dialect gives: answers that cite documents, and likelihoods.
const UNTRANSLATABLE: &[&str] = &["documents", "logprobs", "raw_prompting"];
/// The members of a message that mean something here, or nothing in what a client hands back.
const KNOWN_OF_MESSAGE: &[&str] = &[
    "role",
    "content",
    "tool_calls",
    "tool_plan",
    "tool_call_id",
    "citations",
];

pub(super) fn read<'a>(body: &'a [u8], streams: bool) -> Result<Request<'a>, Refusal> {
    let document = Object::document(body)?;
    let mut request = Request {
        streams: streams || document.flag("stream")? == Some(true),
        // The last event always counts.
        stream_usage: true,
        max_output_tokens: document.count("max_tokens")?,
        ..Request::default()
    };
    for name in UNTRANSLATABLE {
        if document.says(name) {
            request.untranslatable.push(Cow::Borrowed(name));
        }
    }
    let unknown = document.others(KNOWN);
    let unknown = unknown.filter(|name| !UNTRANSLATABLE.contains(&name.as_str()));
    request.unknown.extend(unknown.map(Cow::Owned));
    sampling(&document, &mut request)?;
    options(&document, &mut request)?;
    tools(&document, &mut request)?;
    messages(&document, &mut request)?;
    Ok(request)
}

fn sampling<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let sampling = &mut request.sampling;
    sampling.temperature = document.number("temperature")?;
    sampling.top_p = document.number("p")?;
    // 0 switches it off.
    sampling.top_k = document.count("k")?.filter(|count| *count > 0);
    sampling.frequency_penalty = document.number("frequency_penalty")?;
    sampling.presence_penalty = document.number("presence_penalty")?;
    sampling.seed = document.value("seed", "a whole number")?;
    let stops: Option<Vec<_>> = { document.list("stop_sequences")?.into_iter() }
        .map(text)
        .collect();
    sampling.stop =
        stops.ok_or_else(|| document.refuse("stop_sequences", "must hold strings only"))?;
    Ok(())
}

fn options<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let at = document.at();
    if let Some(thinking) = document.raw("thinking") {
        let thinking = Object::of(thinking, At::Member(&at, "thinking"))?;
        let budget = thinking.count("token_budget")?;
        request.reasoning.budget = Some(match thinking.text("type")?.as_deref() {
            Some("disabled") => ReasoningBudget::Off,
            _ => budget.map_or(ReasoningBudget::Dynamic, ReasoningBudget::Tokens),
        });
    }
    if let Some(format) = document.raw("response_format") {
        let format = Object::of(format, At::Member(&at, "response_format"))?;
        let schema = format.raw("json_schema").or_else(|| format.raw("schema"));
        request.format = Some(match (format.needed_text("type")?.as_ref(), schema) {
            ("text", _) => Format::Text,
            ("json_object", None) => Format::Json,
            ("json_object", Some(schema)) => Format::Schema(SchemaFormat {
                name: None,
                description: None,
                schema: Json::Borrowed(schema),
                // It always keeps to the schema.
                is_strict: false,
            }),
            _ => return Err(format.refuse("type", "is neither text nor json_object")),
        });
    }
    Ok(())
}

fn tools<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let is_strict = document.flag("strict_tools")?.unwrap_or(false);
    let at = document.at();
    let at = At::Member(&at, "tools");
    for (index, value) in document.list("tools")?.into_iter().enumerate() {
        let value = Object::of(value, At::Item(&at, index))?;
        let kind = value.text("type")?.unwrap_or(Cow::Borrowed("function"));
        if kind != "function" {
            request.tools.push(Tool::BuiltIn { kind });
            continue;
        }
        let Some(function) = value.raw("function") else {
            return Err(value.refuse("function", "is required"));
        };
        let at = value.at();
        let function = Object::of(function, At::Member(&at, "function"))?;
        request.tools.push(Tool::Function(Function {
            name: function.needed_text("name")?,
            description: function
                .text("description")?
                .filter(|text| !text.is_empty()),
            parameters: wording::parameters(&function)?,
            is_strict,
            cache: None,
        }));
    }
    request.tool_choice = match document.text("tool_choice")?.as_deref() {
        None => None,
        Some("REQUIRED") => Some(ToolChoice::Required),
        Some("NONE") => Some(ToolChoice::None),
        Some(_) => return Err(document.refuse("tool_choice", "is neither REQUIRED nor NONE")),
    };
    Ok(())
}

fn messages<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let at = document.at();
    let at = At::Member(&at, "messages");
    let list = document.list("messages")?;
    if list.is_empty() {
        return Err(at.refuse("must hold at least one message"));
    }
    for (index, value) in list.into_iter().enumerate() {
        let value = Object::of(value, At::Item(&at, index))?;
        let message = message(&value, index, request)?;
        request.messages.push(message);
    }
    Ok(())
}

fn message<'a>(
    message: &Object<'a, '_>,
    index: usize,
    request: &mut Request<'a>,
) -> Result<Message<'a>, Refusal> {
    for name in message.others(KNOWN_OF_MESSAGE) {
        request.unknown.push(Cow::Owned(format!("messages.{name}")));
    }
    let role = message.needed_text("role")?.to_ascii_lowercase();
    let parts = content(message, index)?;
    let whole = Place {
        message: index,
        part: Place::WHOLE,
    };
    let (role, parts) = match role.as_str() {
        "system" => (Role::System, parts),
        "user" => (Role::User, parts),
        "assistant" => (Role::Assistant, assistant(message, whole, parts)?),
        "tool" => {
            let result = PartBody::ToolResult(ToolResult {
                call_id: message.needed_text("tool_call_id")?,
                name: Cow::Borrowed(""),
                content: parts,
                is_error: false,
                is_custom: false,
            });
            (Role::Tool, vec![Part::new(result, whole)])
        }
        _ => {
            let reason = "is none of system, user, assistant and tool";
            return Err(message.refuse("role", reason));
        }
    };
    Ok(Message::new(role, parts))
}

fn assistant<'a>(
    message: &Object<'a, '_>,
    whole: Place,
    mut parts: Vec<Part<'a>>,
) -> Result<Vec<Part<'a>>, Refusal> {
    if let Some(plan) = message.text("tool_plan")?.filter(|plan| !plan.is_empty()) {
        parts.push(Part::new(PartBody::Text(plan), whole));
    }
    let at = message.at();
    let at = At::Member(&at, "tool_calls");
    for (place, value) in message.list("tool_calls")?.into_iter().enumerate() {
        let call = Object::of(value, At::Item(&at, place))?;
        let Some(function) = call.raw("function") else {
            return Err(call.refuse("function", "is required"));
        };
        let at = call.at();
        let function = Object::of(function, At::Member(&at, "function"))?;
        let arguments = match function.raw("arguments") {
            Some(value) => text(value).unwrap_or(Cow::Borrowed(value.get())),
            None => Cow::Borrowed(Arguments::NONE),
        };
        let body = PartBody::ToolCall(ToolCall {
            id: call.needed_text("id")?,
            name: function.needed_text("name")?,
            arguments: Arguments(arguments),
            proof: None,
            is_custom: false,
        });
        parts.push(Part::new(body, whole));
    }
    Ok(parts)
}

/// A string, a list of parts, or nothing.
fn content<'a>(message: &Object<'a, '_>, index: usize) -> Result<Vec<Part<'a>>, Refusal> {
    let Some(content) = message.raw("content") else {
        return Ok(Vec::new());
    };
    let place = |part| Place {
        message: index,
        part,
    };
    if let Some(text) = text(content) {
        return Ok(vec![Part::new(PartBody::Text(text), place(0))]);
    }
    let at = message.at();
    let at = At::Member(&at, "content");
    let list = { message.list("content") }.map_err(|_| at.refuse("must be a string or a list"))?;
    let mut parts = Vec::with_capacity(list.len());
    for (number, value) in list.into_iter().enumerate() {
        let piece = Object::of(value, At::Item(&at, number))?;
        let kind = piece.needed_text("type")?;
        let body = match kind.as_ref() {
            "text" => PartBody::Text(piece.text("text")?.unwrap_or_default()),
            "thinking" => PartBody::Reasoning(Reasoning {
                text: piece.text("thinking")?.unwrap_or_default(),
                proof: None,
            }),
            "image_url" => image(&piece)?,
            "document" => PartBody::Text(document(&piece)?),
            _ => PartBody::Foreign { kind },
        };
        parts.push(Part::new(body, place(number)));
    }
    Ok(parts)
}

fn image<'a>(piece: &Object<'a, '_>) -> Result<PartBody<'a>, Refusal> {
    let Some(image) = piece.raw("image_url") else {
        return Err(piece.refuse("image_url", "is required"));
    };
    let at = piece.at();
    let image = Object::of(image, At::Member(&at, "image_url"))?;
    let source = media::of_url(image.needed_text("url")?)
        .ok_or_else(|| image.refuse("url", "is a data URL that cannot be read"))?;
    Ok(PartBody::Image(Media {
        source,
        name: None,
        detail: image.text("detail")?,
    }))
}

/// What a document in a tool's result says: its text, or its members as they stand.
fn document<'a>(piece: &Object<'a, '_>) -> Result<Cow<'a, str>, Refusal> {
    let Some(document) = piece.raw("document") else {
        return Err(piece.refuse("document", "is required"));
    };
    let at = piece.at();
    let document = Object::of(document, At::Member(&at, "document"))?;
    let data: Option<&RawValue> = document.raw("data");
    match data {
        Some(data) => Ok(text(data).unwrap_or(Cow::Borrowed(data.get()))),
        None => Err(document.refuse("data", "is required")),
    }
}

/// The proof of thoughts that Cohere shows. They have no signature: it is only whose they are.
pub(super) const fn own_thought() -> Proof<'static> {
    Proof {
        protocol: Protocol::Cohere,
        text: Cow::Borrowed(""),
        is_redacted: false,
    }
}
