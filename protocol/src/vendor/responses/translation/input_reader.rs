//! The input of a Responses request, read: items in the order of the conversation.

use std::borrow::Cow;

use crate::ir::{
    Arguments, Media, Message, Part, PartBody, Place, Reasoning, Request, Role, ToolCall,
    ToolResult,
};
use crate::translation::document::{At, Object, text};
use crate::translation::{Refusal, ids, media};
use crate::vendor::openai::translation::{audio, file_data};

use super::item::own_proof;

/// Items that report what the vendor's own tools did. What came of it is in the answer that follows.
const REPORTS: &[&str] = &[
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "mcp_list_tools",
];

/// Reads `input`: a text, or a list of items.
pub(super) fn read<'a>(
    document: &Object<'a, '_>,
    request: &mut Request<'a>,
) -> Result<(), Refusal> {
    let Some(input) = document.raw("input") else {
        return Err(document.refuse("input", "is required"));
    };
    if let Some(text) = text(input) {
        let part = Part::new(PartBody::Text(text), whole(0));
        request.messages.push(Message::new(Role::User, vec![part]));
        return Ok(());
    }
    let root = document.at();
    let at = At::Member(&root, "input");
    let list = { document.list("input") }.map_err(|_| at.refuse("must be a string or a list"))?;
    for (index, value) in list.into_iter().enumerate() {
        item(&Object::of(value, At::Item(&at, index))?, index, request)?;
    }
    Ok(())
}

const fn whole(item: usize) -> Place {
    Place {
        message: item,
        part: Place::WHOLE,
    }
}

fn item<'a>(item: &Object<'a, '_>, index: usize, request: &mut Request<'a>) -> Result<(), Refusal> {
    let kind = match item.text("type")? {
        Some(kind) => kind,
        None if item.raw("role").is_some() => Cow::Borrowed("message"),
        None => return Err(item.refuse("type", "is required")),
    };
    let (role, body) = match kind.as_ref() {
        "message" => {
            let (role, parts) = message(item, index, request)?;
            add(request, role, parts);
            return Ok(());
        }
        "function_call" => {
            let arguments = item.text("arguments")?;
            let call = call(
                item,
                arguments.unwrap_or(Cow::Borrowed(Arguments::NONE)),
                false,
            )?;
            (Role::Assistant, PartBody::ToolCall(call))
        }
        "custom_tool_call" => {
            let call = call(item, item.text("input")?.unwrap_or_default(), true)?;
            (Role::Assistant, PartBody::ToolCall(call))
        }
        "function_call_output" | "custom_tool_call_output" => {
            let result = ToolResult {
                call_id: item.needed_text("call_id")?,
                name: Cow::Borrowed(""),
                content: content(item, "output", index, request)?,
                is_error: false,
                is_custom: kind == "custom_tool_call_output",
            };
            (Role::Tool, PartBody::ToolResult(result))
        }
        "reasoning" => (Role::Assistant, PartBody::Reasoning(reasoning(item)?)),
        // It stands for something that only the account knows.
        "item_reference" => {
            request
                .untranslatable
                .push(Cow::Owned(item.at().to_string()));
            return Ok(());
        }
        kind if REPORTS.contains(&kind) => {
            request.unknown.push(Cow::Owned(format!("input.{kind}")));
            return Ok(());
        }
        _ => (Role::Assistant, PartBody::Foreign { kind }),
    };
    add(request, role, vec![Part::new(body, whole(index))]);
    Ok(())
}

/// Adds what an item says: the model's items of one turn are one message.
fn add<'a>(request: &mut Request<'a>, role: Role, mut parts: Vec<Part<'a>>) {
    let last = { request.messages.last_mut() }
        .filter(|last| last.role == role && matches!(role, Role::Assistant | Role::Tool));
    match last {
        Some(last) => last.parts.append(&mut parts),
        None => request.messages.push(Message::new(role, parts)),
    }
}

fn message<'a>(
    item: &Object<'a, '_>,
    index: usize,
    request: &mut Request<'a>,
) -> Result<(Role, Vec<Part<'a>>), Refusal> {
    let role = match item.needed_text("role")?.as_ref() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => {
            let reason = "is none of system, developer, user and assistant";
            return Err(item.refuse("role", reason));
        }
    };
    Ok((role, content(item, "content", index, request)?))
}

/// A string or a list of parts.
fn content<'a>(
    item: &Object<'a, '_>,
    name: &str,
    index: usize,
    request: &mut Request<'a>,
) -> Result<Vec<Part<'a>>, Refusal> {
    let Some(content) = item.raw(name) else {
        return Ok(Vec::new());
    };
    if let Some(text) = text(content) {
        let at = Place {
            message: index,
            part: 0,
        };
        return Ok(vec![Part::new(PartBody::Text(text), at)]);
    }
    let at = item.at();
    let at = At::Member(&at, name);
    let list = { item.list(name) }.map_err(|_| at.refuse("must be a string or a list"))?;
    let mut parts = Vec::with_capacity(list.len());
    for (part, value) in list.into_iter().enumerate() {
        let value = Object::of(value, At::Item(&at, part))?;
        if let Some(body) = piece(&value, request)? {
            let at = Place {
                message: index,
                part,
            };
            parts.push(Part::new(body, at));
        }
    }
    Ok(parts)
}

fn piece<'a>(
    piece: &Object<'a, '_>,
    request: &mut Request<'a>,
) -> Result<Option<PartBody<'a>>, Refusal> {
    let kind = piece.needed_text("type")?;
    if piece.says("file_id") {
        let path = piece.path("file_id");
        request.untranslatable.push(Cow::Owned(path));
        return Ok(None);
    }
    Ok(Some(match kind.as_ref() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            PartBody::Text(piece.text("text")?.unwrap_or_default())
        }
        "refusal" => PartBody::Refusal(piece.text("refusal")?.unwrap_or_default()),
        "input_image" => PartBody::Image(Media {
            source: media::of_url(piece.needed_text("image_url")?)
                .ok_or_else(|| piece.refuse("image_url", "holds a data URL that cannot be read"))?,
            name: None,
            detail: piece.text("detail")?,
        }),
        "input_file" => PartBody::Document(match piece.text("file_url")? {
            Some(url) => Media {
                source: media::of_url(url).ok_or_else(|| {
                    piece.refuse("file_url", "holds a data URL that cannot be read")
                })?,
                name: piece.text("filename")?,
                detail: None,
            },
            None => file_data(piece)?,
        }),
        "input_audio" => PartBody::Audio(audio(piece)?),
        _ => PartBody::Foreign { kind },
    }))
}

fn call<'a>(
    item: &Object<'a, '_>,
    arguments: Cow<'a, str>,
    is_custom: bool,
) -> Result<ToolCall<'a>, Refusal> {
    Ok(ToolCall {
        id: item.needed_text("call_id")?,
        name: item.needed_text("name")?,
        arguments: Arguments(arguments),
        proof: None,
        is_custom,
    })
}

fn reasoning<'a>(item: &Object<'a, '_>) -> Result<Reasoning<'a>, Refusal> {
    let mut thoughts = Cow::Borrowed("");
    let at = item.at();
    for name in ["summary", "content"] {
        let at = At::Member(&at, name);
        for (index, value) in item.list(name)?.into_iter().enumerate() {
            let piece = Object::of(value, At::Item(&at, index))?;
            let Some(text) = piece.text("text")? else {
                continue;
            };
            if thoughts.is_empty() {
                thoughts = text;
            } else {
                thoughts.to_mut().push_str("\n\n");
                thoughts.to_mut().push_str(&text);
            }
        }
    }
    let proof = { item.text("encrypted_content")? }
        .filter(|text| !text.is_empty())
        .map(|text| ids::unseal(&text).unwrap_or_else(|| own_proof(text)));
    Ok(Reasoning {
        text: thoughts,
        proof,
    })
}
