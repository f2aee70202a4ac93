//! Chat requests, read.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::content::{self, cache_mark, path_of, whole};
use super::wording;
use crate::ir::{
    Arguments, CustomTool, Format, Function, Json, Message, Part, PartBody, Reasoning, Request,
    Role, Tool, ToolCall, ToolChoice, ToolResult,
};
use crate::translation::Refusal;
use crate::translation::document::{At, Object, text};

/// The members of a request that mean something here.
const KNOWN: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "n",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "response_format",
    "reasoning_effort",
    "user",
    "safety_identifier",
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "logprobs",
    "top_logprobs",
    "modalities",
];
/// What asks for something that no other dialect gives.
const UNTRANSLATABLE: &[&str] = &[
    "logprobs",
    "top_logprobs",
    "web_search_options",
    "functions",
    "function_call",
];
/// The members of a message that mean something here, or nothing at all in what a client hands back.
const KNOWN_OF_MESSAGE: &[&str] = &[
    "role",
    "content",
    "name",
    "refusal",
    "reasoning_content",
    "reasoning",
    "tool_calls",
    "tool_call_id",
    "cache_control",
    "audio",
    "function_call",
];

pub(super) fn read<'a>(body: &'a [u8], streams: bool) -> Result<Request<'a>, Refusal> {
    let document = Object::document(body)?;
    let mut request = Request {
        streams: streams || document.flag("stream")? == Some(true),
        max_output_tokens: { document.count("max_completion_tokens")? }
            .map_or_else(|| document.count("max_tokens"), |count| Ok(Some(count)))?,
        choices: document.count("n")?,
        parallel_tool_calls: document.flag("parallel_tool_calls")?,
        ..Request::default()
    };
    for name in UNTRANSLATABLE
        .iter()
        .filter(|name| is_asked(&document, name))
    {
        request.untranslatable.push(Cow::Borrowed(name));
    }
    let modalities = document.list("modalities")?;
    if { modalities.into_iter() }.any(|kind| text(kind).as_deref() != Some("text")) {
        request.untranslatable.push(Cow::Borrowed("modalities"));
    }
    let unknown = document.others(KNOWN);
    let unknown = unknown.filter(|name| !UNTRANSLATABLE.contains(&name.as_str()));
    request.unknown.extend(unknown.map(Cow::Owned));
    tools(&document, &mut request)?;
    sampling(&document, &mut request)?;
    extras(&document, &mut request)?;
    messages(&document, &mut request)?;
    Ok(request)
}

/// True when a member asks for anything: `0` does not, and neither do `"none"` and `"auto"`.
fn is_asked(document: &Object<'_, '_>, name: &str) -> bool {
    let value = document.raw(name).map(RawValue::get);
    document.says(name) && !matches!(value, Some("0" | "\"none\"" | "\"auto\""))
        || (name == "web_search_options" && value.is_some())
}

fn sampling<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let sampling = &mut request.sampling;
    sampling.temperature = document.number("temperature")?;
    sampling.top_p = document.number("top_p")?;
    sampling.top_k = document.count("top_k")?;
    sampling.frequency_penalty = document.number("frequency_penalty")?;
    sampling.presence_penalty = document.number("presence_penalty")?;
    sampling.seed = document.value("seed", "a whole number")?;
    if let Some(stop) = document.raw("stop") {
        sampling.stop = match text(stop) {
            Some(stop) => vec![stop],
            None => texts(document, "stop")?,
        };
    }
    Ok(())
}

/// A list of strings.
fn texts<'a>(object: &Object<'a, '_>, name: &str) -> Result<Vec<Cow<'a, str>>, Refusal> {
    let texts: Option<Vec<_>> = { object.list(name)?.into_iter() }.map(text).collect();
    texts.ok_or_else(|| object.refuse(name, "must hold strings only"))
}

fn extras<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let at = document.at();
    if let Some(options) = document.raw("stream_options") {
        let options = Object::of(options, At::Member(&at, "stream_options"))?;
        request.stream_usage = options.flag("include_usage")? == Some(true);
    }
    if let Some(effort) = document.text("reasoning_effort")? {
        request.reasoning.budget = wording::budget_of(&effort);
        if request.reasoning.budget.is_none() {
            request.unknown.push(Cow::Borrowed("reasoning_effort"));
        }
    }
    if let Some(format) = document.raw("response_format") {
        let format = Object::of(format, At::Member(&at, "response_format"))?;
        request.format = response_format(&format, request)?;
    }
    let extras = &mut request.extras;
    extras.user = { document.text("safety_identifier")? }
        .map_or_else(|| document.text("user"), |user| Ok(Some(user)))?;
    extras.metadata = document.raw("metadata").map(Json::Borrowed);
    extras.service_tier = document.text("service_tier")?;
    extras.prompt_cache_key = document.text("prompt_cache_key")?;
    Ok(())
}

fn response_format<'a>(
    format: &Object<'a, '_>,
    request: &mut Request<'a>,
) -> Result<Option<Format<'a>>, Refusal> {
    let kind = format.needed_text("type")?;
    Ok(Some(match kind.as_ref() {
        "text" => Format::Text,
        "json_object" => Format::Json,
        "json_schema" => {
            let at = format.at();
            let Some(schema) = format.raw("json_schema") else {
                return Err(format.refuse("json_schema", "is required"));
            };
            wording::schema_format(&Object::of(schema, At::Member(&at, "json_schema"))?)?
        }
        _ => {
            request.untranslatable.push(Cow::Owned(format.path("type")));
            return Ok(None);
        }
    }))
}

fn tools<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let root = document.at();
    let at = At::Member(&root, "tools");
    for (index, value) in document.list("tools")?.into_iter().enumerate() {
        let value = Object::of(value, At::Item(&at, index))?;
        let kind = value.text("type")?.unwrap_or(Cow::Borrowed("function"));
        let tool = match kind.as_ref() {
            "function" | "custom" => {
                let at = value.at();
                let Some(inner) = value.raw(&kind) else {
                    return Err(value.refuse(&kind, "is required"));
                };
                let inner = Object::of(inner, At::Member(&at, &kind))?;
                let name = inner.needed_text("name")?;
                let description = inner.text("description")?.filter(|text| !text.is_empty());
                if kind == "function" {
                    Tool::Function(Function {
                        name,
                        description,
                        parameters: wording::parameters(&inner)?,
                        is_strict: inner.flag("strict")?.unwrap_or(false),
                        cache: cache_mark(&value)?,
                    })
                } else {
                    Tool::Custom(CustomTool {
                        name,
                        description,
                        has_grammar: has_grammar(&inner)?,
                    })
                }
            }
            _ => Tool::BuiltIn { kind },
        };
        request.tools.push(tool);
    }
    let Some(choice) = document.raw("tool_choice") else {
        return Ok(());
    };
    if let Some(word) = text(choice) {
        request.tool_choice =
            Some(choice_of(&word).ok_or_else(|| {
                document.refuse("tool_choice", "is none of auto, none and required")
            })?);
        return Ok(());
    }
    let choice = Object::of(choice, At::Member(&root, "tool_choice"))?;
    tool_choice(&choice, request)
}

/// True when a tool of free text is held to a grammar.
pub(in crate::vendor) fn has_grammar(custom: &Object<'_, '_>) -> Result<bool, Refusal> {
    let Some(format) = custom.raw("format") else {
        return Ok(false);
    };
    let at = custom.at();
    let format = Object::of(format, At::Member(&at, "format"))?;
    Ok(format.text("type")?.as_deref() == Some("grammar"))
}

/// A choice of tools in one word.
pub(in crate::vendor) fn choice_of(word: &str) -> Option<ToolChoice<'static>> {
    Some(match word {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        _ => return None,
    })
}

fn tool_choice<'a>(choice: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let kind = choice.needed_text("type")?;
    let at = choice.at();
    let inner = match choice.raw(&kind) {
        Some(inner) => Object::of(inner, At::Member(&at, &kind))?,
        None => return Err(choice.refuse(&kind, "is required")),
    };
    match kind.as_ref() {
        "function" | "custom" => {
            request.tool_choice = Some(ToolChoice::One(inner.needed_text("name")?));
        }
        "allowed_tools" => {
            let at = inner.at();
            let at = At::Member(&at, "tools");
            let mut names = Vec::new();
            for (index, tool) in inner.list("tools")?.into_iter().enumerate() {
                let tool = Object::of(tool, At::Item(&at, index))?;
                let at = tool.at();
                let kind = tool.needed_text("type")?;
                if let Some(inner) = tool.raw(&kind) {
                    names.push(Object::of(inner, At::Member(&at, &kind))?.needed_text("name")?);
                }
            }
            allow(request, &names, &inner.needed_text("mode")?);
        }
        _ => request
            .untranslatable
            .push(Cow::Borrowed("tool_choice.type")),
    }
    Ok(())
}

/// Leaves only the tools of these names.
pub(in crate::vendor) fn allow(request: &mut Request<'_>, names: &[Cow<'_, str>], mode: &str) {
    request.tool_choice = choice_of(mode);
    request.tools.retain(|tool| match tool {
        Tool::Function(function) => names.contains(&function.name),
        Tool::Custom(custom) => names.contains(&custom.name),
        Tool::BuiltIn { .. } => false,
    });
}

fn messages<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let root = document.at();
    let at = At::Member(&root, "messages");
    let list = document.list("messages")?;
    if list.is_empty() {
        return Err(at.refuse("must hold at least one message"));
    }
    for (index, value) in list.into_iter().enumerate() {
        let value = Object::of(value, At::Item(&at, index))?;
        if let Some(message) = message(&value, index, request)? {
            request.messages.push(message);
        }
    }
    Ok(())
}

fn message<'a>(
    message: &Object<'a, '_>,
    index: usize,
    request: &mut Request<'a>,
) -> Result<Option<Message<'a>>, Refusal> {
    for name in message.others(KNOWN_OF_MESSAGE) {
        request.unknown.push(Cow::Owned(format!("messages.{name}")));
    }
    for name in ["audio", "function_call"] {
        if message.says(name) {
            request.untranslatable.push(Cow::Owned(message.path(name)));
        }
    }
    let role = message.needed_text("role")?;
    let mut parts = content::read(message, index, request)?;
    let role = match role.as_ref() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => {
            assistant(message, index, &mut parts)?;
            Role::Assistant
        }
        "tool" => {
            let result = PartBody::ToolResult(ToolResult {
                call_id: message.needed_text("tool_call_id")?,
                name: Cow::Borrowed(""),
                content: parts,
                is_error: false,
                is_custom: false,
            });
            parts = vec![Part::new(result, whole(index))];
            Role::Tool
        }
        "function" => {
            let path = format!("{}.role", path_of(index));
            request.untranslatable.push(Cow::Owned(path));
            return Ok(None);
        }
        _ => {
            let reason = "is none of system, developer, user, assistant and tool";
            return Err(message.refuse("role", reason));
        }
    };
    Ok(Some(Message {
        role,
        parts,
        name: message.text("name")?.filter(|name| !name.is_empty()),
    }))
}

fn assistant<'a>(
    message: &Object<'a, '_>,
    index: usize,
    parts: &mut Vec<Part<'a>>,
) -> Result<(), Refusal> {
    let thought = match message.text("reasoning_content")? {
        Some(thought) => Some(thought),
        // Other servers give an object here, or a list.
        None => message.raw("reasoning").and_then(text),
    };
    if let Some(text) = thought.filter(|text| !text.is_empty()) {
        let reasoning = Reasoning { text, proof: None };
        parts.insert(0, Part::new(PartBody::Reasoning(reasoning), whole(index)));
    }
    if let Some(refusal) = message.text("refusal")?.filter(|text| !text.is_empty()) {
        parts.push(Part::new(PartBody::Refusal(refusal), whole(index)));
    }
    let at = message.at();
    let at = At::Member(&at, "tool_calls");
    for (place, value) in message.list("tool_calls")?.into_iter().enumerate() {
        let value = Object::of(value, At::Item(&at, place))?;
        let body = PartBody::ToolCall(call(&value)?);
        parts.push(Part::new(body, whole(index)));
    }
    Ok(())
}

fn call<'a>(call: &Object<'a, '_>) -> Result<ToolCall<'a>, Refusal> {
    let kind = call.text("type")?.unwrap_or(Cow::Borrowed("function"));
    let is_custom = match kind.as_ref() {
        "function" => false,
        "custom" => true,
        _ => return Err(call.refuse("type", "is neither function nor custom")),
    };
    let Some(inner) = call.raw(&kind) else {
        return Err(call.refuse(&kind, "is required"));
    };
    let at = call.at();
    let inner = Object::of(inner, At::Member(&at, &kind))?;
    let arguments = if is_custom {
        inner.text("input")?.unwrap_or_default()
    } else {
        match inner.raw("arguments") {
            // Some clients hand them back as the object that they are.
            Some(value) => text(value).unwrap_or(Cow::Borrowed(value.get())),
            None => Cow::Borrowed(Arguments::NONE),
        }
    };
    Ok(ToolCall {
        id: call.needed_text("id")?,
        name: inner.needed_text("name")?,
        arguments: Arguments(arguments),
        proof: None,
        is_custom,
    })
}
