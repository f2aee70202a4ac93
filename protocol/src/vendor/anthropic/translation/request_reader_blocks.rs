//! Reads the content blocks of requests.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::dialect::Protocol;
use crate::ir::{
    Arguments, CacheMark, Media, MediaSource, Part, PartBody, Place, Proof, Reasoning, Request,
    ToolCall, ToolResult,
};
use crate::json::fields::Fields;
use crate::translation::members::{
    Within, anything, flag, is_null, is_text, list, object, optional, required, text,
};
use crate::translation::{Refusal, ids, media};

/// A request while it is read.
#[derive(Default)]
pub(super) struct Reader<'a> {
    pub(super) request: Request<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn untranslatable(&mut self, field: &str) {
        let field = Cow::Owned(field.to_owned());
        self.request.untranslatable.push(field);
    }

    pub(super) fn unknown(&mut self, field: &str) {
        self.request.unknown.push(Cow::Owned(field.to_owned()));
    }

    /// Names the members of an object that are none of `known`.
    pub(super) fn rest(&mut self, fields: &Fields<'a>, parent: &str, known: &[&str]) {
        for (name, value) in fields.iter() {
            if !is_null(value) && !known.contains(&name) {
                self.unknown(&format!("{parent}.{name}"));
            }
        }
    }

    pub(super) fn cache_mark(
        &mut self,
        fields: &Fields<'a>,
    ) -> Result<Option<CacheMark<'a>>, Refusal> {
        let Some(mark) = optional(fields, "cache_control", object)? else {
            return Ok(None);
        };
        let ttl = optional(&mark, "ttl", text).within("cache_control")?;
        Ok(Some(CacheMark { ttl }))
    }

    pub(super) fn block(&mut self, value: &'a RawValue, at: Place) -> Result<Part<'a>, Refusal> {
        let fields = object(value)?;
        let kind = required(&fields, "type", text)?;
        let (body, known): (_, &[&str]) = match kind.as_ref() {
            "text" => (PartBody::Text(required(&fields, "text", text)?), &["text"]),
            "image" => {
                let source = required(&fields, "source", object)?;
                (self.image(&source, at).within("source")?, &["source"])
            }
            "document" => (
                self.document(&fields, at)?,
                &["source", "title", "citations"],
            ),
            "thinking" => (thinking(&fields)?, &["thinking", "signature"]),
            "redacted_thinking" => (redacted(&fields)?, &["data"]),
            // Who may call a tool is for the vendor's own code that calls tools.
            "tool_use" => (tool_call(&fields)?, &["id", "name", "input", "caller"]),
            "tool_result" => {
                let known = &["tool_use_id", "content", "is_error"];
                (self.tool_result(&fields, at)?, known)
            }
            _ => return Ok(Part::new(PartBody::Foreign { kind }, at)),
        };
        let cache = self.cache_mark(&fields)?;
        for (name, value) in fields.iter() {
            let is_known = known.contains(&name) || matches!(name, "type" | "cache_control");
            if !is_known && !is_null(value) {
                self.unknown(&format!("messages.content.{name}"));
            }
        }
        Ok(Part { body, cache, at })
    }

    fn image(&mut self, source: &Fields<'a>, at: Place) -> Result<PartBody<'a>, Refusal> {
        let kind = required(source, "type", text)?;
        let source = match kind.as_ref() {
            "base64" => base64(source)?,
            "url" => address(source)?,
            _ => return Ok(self.kept_elsewhere(kind, at)),
        };
        Ok(PartBody::Image(Media {
            source,
            name: None,
            detail: None,
        }))
    }

    fn document(&mut self, fields: &Fields<'a>, at: Place) -> Result<PartBody<'a>, Refusal> {
        let source = required(fields, "source", object)?;
        let kind = required(&source, "type", text).within("source")?;
        let source = match kind.as_ref() {
            "base64" => base64(&source).within("source")?,
            "url" => address(&source).within("source")?,
            "text" => MediaSource::Text(required(&source, "data", text).within("source")?),
            "content" => match joined(&source).within("source")? {
                Some(text) => MediaSource::Text(text),
                None => return Ok(PartBody::Foreign { kind }),
            },
            _ => return Ok(self.kept_elsewhere(kind, at)),
        };
        if let Some(citations) = optional(fields, "citations", object)?
            && optional(&citations, "enabled", flag).within("citations")? == Some(true)
        {
            self.unknown("messages.content.citations");
        }
        Ok(PartBody::Document(Media {
            source,
            name: optional(fields, "title", text)?,
            detail: None,
        }))
    }

    /// A file in the caller's account, or something that only this protocol has.
    fn kept_elsewhere(&mut self, kind: Cow<'a, str>, at: Place) -> PartBody<'a> {
        if kind == "file" {
            let (message, part) = (at.message, at.part);
            let field = format!("messages[{message}].content[{part}].source.file_id");
            self.untranslatable(&field);
        }
        PartBody::Foreign { kind }
    }

    fn tool_result(&mut self, fields: &Fields<'a>, at: Place) -> Result<PartBody<'a>, Refusal> {
        let content = match optional(fields, "content", anything)? {
            None => Vec::new(),
            Some(value) if is_text(value) => vec![Part {
                at,
                ..Part::text(text(value).within("content")?)
            }],
            Some(value) => {
                let blocks = list(value).within("content")?.into_iter().enumerate();
                let read = |(number, block)| {
                    { self.block(block, at) }.within(format_args!("content[{number}]"))
                };
                blocks.map(read).collect::<Result<_, _>>()?
            }
        };
        Ok(PartBody::ToolResult(ToolResult {
            call_id: required(fields, "tool_use_id", text)?,
            name: Cow::Borrowed(""),
            content,
            is_error: optional(fields, "is_error", flag)?.unwrap_or(false),
            is_custom: false,
        }))
    }
}

fn base64<'a>(source: &Fields<'a>) -> Result<MediaSource<'a>, Refusal> {
    let given = required(source, "media_type", text)?;
    Ok(MediaSource::Base64 {
        media_type: Cow::Owned(media::media_type(&given).into_owned()),
        data: required(source, "data", text)?,
    })
}

fn address<'a>(source: &Fields<'a>) -> Result<MediaSource<'a>, Refusal> {
    let url = required(source, "url", text)?;
    media::of_url(url).ok_or_else(|| Refusal::new("url", "cannot be read"))
}

/// The text of a document that is given as blocks; `None` when it is more than text.
fn joined<'a>(source: &Fields<'a>) -> Result<Option<Cow<'a, str>>, Refusal> {
    let content = required(source, "content", anything)?;
    if is_text(content) {
        return text(content).within("content").map(Some);
    }
    let mut all = String::new();
    for block in list(content).within("content")? {
        let fields = object(block).within("content")?;
        if required(&fields, "type", text).within("content")? != "text" {
            return Ok(None);
        }
        all.push_str(&required(&fields, "text", text).within("content")?);
    }
    Ok(Some(Cow::Owned(all)))
}

fn thinking<'a>(fields: &Fields<'a>) -> Result<PartBody<'a>, Refusal> {
    let signature = optional(fields, "signature", text)?.unwrap_or_default();
    Ok(PartBody::Reasoning(Reasoning {
        text: required(fields, "thinking", text)?,
        proof: proof(signature, false),
    }))
}

fn redacted<'a>(fields: &Fields<'a>) -> Result<PartBody<'a>, Refusal> {
    Ok(PartBody::Reasoning(Reasoning {
        text: Cow::Borrowed(""),
        proof: proof(required(fields, "data", text)?, true),
    }))
}

/// The proof in a signature: the vendor's own, or another's that was sealed into it.
fn proof(text: Cow<'_, str>, is_redacted: bool) -> Option<Proof<'_>> {
    if text.is_empty() {
        return None;
    }
    if ids::is_marked(&text) {
        return ids::unseal(&text);
    }
    Some(Proof {
        protocol: Protocol::Anthropic,
        text,
        is_redacted,
    })
}

fn tool_call<'a>(fields: &Fields<'a>) -> Result<PartBody<'a>, Refusal> {
    let input = optional(fields, "input", anything)?;
    Ok(PartBody::ToolCall(ToolCall {
        id: required(fields, "id", text)?,
        name: required(fields, "name", text)?,
        arguments: input.map_or(Arguments(Cow::Borrowed("")), Arguments::unwrapped),
        proof: None,
        is_custom: false,
    }))
}
