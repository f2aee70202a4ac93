//! Responses requests, read.

use std::borrow::Cow;

use super::{input_reader, strictness};
use crate::ir::{
    CustomTool, Format, Function, Json, Message, Part, PartBody, Place, Request, Role, Tool,
    ToolChoice,
};
use crate::translation::Refusal;
use crate::translation::document::{At, Object, text};
use crate::vendor::openai::translation::{allow, choice_of, has_grammar, wording};

/// The members of a request that mean something here.
const KNOWN: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "max_output_tokens",
    "temperature",
    "top_p",
    "reasoning",
    "text",
    "include",
    "user",
    "safety_identifier",
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "truncation",
];
/// What asks for something that only the account that the caller spoke with before knows, or that no
/// other dialect gives.
const UNTRANSLATABLE: &[&str] = &[
    "previous_response_id",
    "conversation",
    "background",
    "prompt",
    "top_logprobs",
];
/// What can be asked to be included that every dialect includes, or that none but the vendor's own
/// tools has.
const INCLUDED: &str = "reasoning.encrypted_content";
const LOGPROBS: &str = "message.output_text.logprobs";

pub(super) fn read<'a>(body: &'a [u8], streams: bool) -> Result<Request<'a>, Refusal> {
    let document = Object::document(body)?;
    let mut request = Request {
        streams: streams || document.flag("stream")? == Some(true),
        // The last event always counts.
        stream_usage: true,
        max_output_tokens: document.count("max_output_tokens")?,
        parallel_tool_calls: document.flag("parallel_tool_calls")?,
        ..Request::default()
    };
    request.sampling.temperature = document.number("temperature")?;
    request.sampling.top_p = document.number("top_p")?;
    for name in UNTRANSLATABLE {
        let is_zero = document.raw(name).is_some_and(|value| value.get() == "0");
        if document.says(name) && !is_zero {
            request.untranslatable.push(Cow::Borrowed(name));
        }
    }
    let unknown = document.others(KNOWN);
    let unknown = unknown.filter(|name| !UNTRANSLATABLE.contains(&name.as_str()));
    request.unknown.extend(unknown.map(Cow::Owned));
    extras(&document, &mut request)?;
    tools(&document, &mut request)?;
    if let Some(instructions) = document.text("instructions")? {
        let part = Part::new(PartBody::Text(instructions), Place::default());
        request
            .messages
            .push(Message::new(Role::System, vec![part]));
    }
    input_reader::read(&document, &mut request)?;
    Ok(request)
}

fn extras<'a>(document: &Object<'a, '_>, request: &mut Request<'a>) -> Result<(), Refusal> {
    let at = document.at();
    if let Some(reasoning) = document.raw("reasoning") {
        let reasoning = Object::of(reasoning, At::Member(&at, "reasoning"))?;
        if let Some(effort) = reasoning.text("effort")? {
            request.reasoning.budget = wording::budget_of(&effort);
            if request.reasoning.budget.is_none() {
                request.unknown.push(Cow::Borrowed("reasoning.effort"));
            }
        }
        let shows = reasoning.says("summary") || reasoning.says("generate_summary");
        request.reasoning.shows_thoughts = shows.then_some(true);
    }
    if let Some(said) = document.raw("text") {
        let said = Object::of(said, At::Member(&at, "text"))?;
        for name in said.others(&["format"]) {
            request.unknown.push(Cow::Owned(format!("text.{name}")));
        }
        if let Some(format) = said.raw("format") {
            let at = said.at();
            let format = Object::of(format, At::Member(&at, "format"))?;
            request.format = text_format(&format, request)?;
        }
    }
    for included in document.list("include")? {
        match text(included).as_deref() {
            Some(INCLUDED) => {}
            Some(LOGPROBS) => request.untranslatable.push(Cow::Borrowed("include")),
            _ => request.unknown.push(Cow::Borrowed("include")),
        }
    }
    if document
        .text("truncation")?
        .is_some_and(|how| how != "disabled")
    {
        request.unknown.push(Cow::Borrowed("truncation"));
    }
    let extras = &mut request.extras;
    extras.user = { document.text("safety_identifier")? }
        .map_or_else(|| document.text("user"), |user| Ok(Some(user)))?;
    extras.metadata = { document.raw("metadata") }
        .filter(|_| document.says("metadata"))
        .map(Json::Borrowed);
    extras.service_tier = document.text("service_tier")?;
    extras.prompt_cache_key = document.text("prompt_cache_key")?;
    Ok(())
}

fn text_format<'a>(
    format: &Object<'a, '_>,
    request: &mut Request<'a>,
) -> Result<Option<Format<'a>>, Refusal> {
    Ok(Some(match format.needed_text("type")?.as_ref() {
        "text" => Format::Text,
        "json_object" => Format::Json,
        "json_schema" => wording::schema_format(format)?,
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
        let tool = tool(&Object::of(value, At::Item(&at, index))?)?;
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
    match choice.needed_text("type")?.as_ref() {
        "function" | "custom" => {
            request.tool_choice = Some(ToolChoice::One(choice.needed_text("name")?));
        }
        "allowed_tools" => {
            let at = choice.at();
            let at = At::Member(&at, "tools");
            let mut names = Vec::new();
            for (index, tool) in choice.list("tools")?.into_iter().enumerate() {
                names.extend(Object::of(tool, At::Item(&at, index))?.text("name")?);
            }
            allow(request, &names, &choice.needed_text("mode")?);
        }
        _ => request
            .untranslatable
            .push(Cow::Borrowed("tool_choice.type")),
    }
    Ok(())
}

fn tool<'a>(tool: &Object<'a, '_>) -> Result<Tool<'a>, Refusal> {
    let kind = tool.needed_text("type")?;
    let description = || Ok(tool.text("description")?.filter(|text| !text.is_empty()));
    Ok(match kind.as_ref() {
        "function" => {
            let parameters = wording::parameters(tool)?;
            let is_strict = { tool.flag("strict")? }
                .unwrap_or_else(|| strictness::allows_strict(parameters.as_ref()));
            Tool::Function(Function {
                name: tool.needed_text("name")?,
                description: description()?,
                parameters,
                is_strict,
                cache: None,
            })
        }
        "custom" => Tool::Custom(CustomTool {
            name: tool.needed_text("name")?,
            description: description()?,
            has_grammar: has_grammar(tool)?,
        }),
        _ => Tool::BuiltIn { kind },
    })
}
