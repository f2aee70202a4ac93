//! Reads the parts of requests.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;

use super::members::{Members, items};
use super::parts::SKIP_VALIDATION;
use super::request_reader::Reader;
use crate::dialect::Protocol;
use crate::ir::{
    Arguments, Media, MediaSource, Part, PartBody, Place, Proof, Reasoning, ToolCall, ToolResult,
};
use crate::json::filled::parsed;
use crate::json::text::Text;
use crate::translation::members::{Within, anything, flag, text};
use crate::translation::{Refusal, ids, media};

impl<'a> Reader<'a> {
    /// A part; `None` for one without anything in it.
    pub(super) fn part(
        &mut self,
        value: &'a RawValue,
        at: Place,
    ) -> Result<Option<Part<'a>>, Refusal> {
        let members = Members::of(value)?;
        let proof = { members.optional("thoughtSignature", text)? }.and_then(proof);
        let is_thought = members.optional("thought", flag)?.unwrap_or(false);
        let mut body = None;
        for (name, value) in members.iter() {
            let read = match name {
                "thought" | "thoughtSignature" => continue,
                "text" => text(value).map(PartBody::Text),
                "inlineData" => Members::of(value).and_then(|blob| inline(&blob)),
                "fileData" => self.file(value, at),
                "functionCall" => self.call(value, at),
                "functionResponse" => self.result(value, at),
                "videoMetadata" | "mediaResolution" | "partMetadata" | "mediaProcessing" => {
                    self.unknown(&format!("contents.parts.{name}"));
                    continue;
                }
                _ => Ok(PartBody::Foreign {
                    kind: Cow::Owned(name.to_owned()),
                }),
            };
            body = Some(read.within(name)?);
        }
        let body = match body {
            Some(PartBody::Text(text)) if is_thought => {
                PartBody::Reasoning(Reasoning { text, proof })
            }
            None if is_thought && proof.is_some() => PartBody::Reasoning(Reasoning {
                text: Cow::Borrowed(""),
                proof,
            }),
            Some(PartBody::ToolCall(call)) => PartBody::ToolCall(ToolCall { proof, ..call }),
            Some(body) => body,
            None => return Ok(None),
        };
        Ok(Some(Part::new(body, at)))
    }

    /// A file: one that Google keeps belongs to an account.
    fn file(&mut self, value: &'a RawValue, at: Place) -> Result<PartBody<'a>, Refusal> {
        let members = Members::of(value)?;
        let url = members.required("fileUri", text)?;
        let given = members.optional("mimeType", text)?.unwrap_or_default();
        let is_kept =
            !url.starts_with("https://") || url.contains("generativelanguage.googleapis.com/");
        if is_kept || given.is_empty() {
            let (content, part) = (at.message, at.part);
            let field = format!("contents[{content}].parts[{part}].fileData.fileUri");
            self.untranslatable(&field);
        }
        Ok(of_type(
            &media::media_type(&given),
            MediaSource::Url(url),
            None,
        ))
    }

    fn call(&mut self, value: &'a RawValue, at: Place) -> Result<PartBody<'a>, Refusal> {
        let members = Members::of(value)?;
        let name = members.required("name", text)?;
        let arguments = { members.get("args") }.map_or(Arguments(Cow::Borrowed("")), |args| {
            Arguments::unwrapped(args)
        });
        let id = members.optional("id", text)?;
        let place = (at.message, at.part);
        Ok(PartBody::ToolCall(ToolCall {
            id: self.calls.made(id, &name, arguments.as_text(), place),
            name,
            arguments,
            proof: None,
            is_custom: false,
        }))
    }

    fn result(&mut self, value: &'a RawValue, at: Place) -> Result<PartBody<'a>, Refusal> {
        let members = Members::of(value)?;
        let name = members.required("name", text)?;
        let id = members.optional("id", text)?;
        let Some(call_id) = self.calls.answered(id.as_deref(), &name) else {
            let name = name.escape_debug();
            let reason = format!("answers a call of \"{name}\" that the turn before does not make");
            return Err(Refusal::new("", reason));
        };
        let response = members.required("response", anything)?;
        let (text, is_error) = outcome(response).within("response")?;
        let mut content = vec![Part {
            at,
            ..Part::text(text)
        }];
        for value in members.optional("parts", items)?.unwrap_or_default() {
            content.extend(self.part(value, at).within("parts")?);
        }
        for (name, _) in members.iter() {
            if !matches!(name, "id" | "name" | "response" | "parts") {
                self.unknown(&format!("contents.parts.functionResponse.{name}"));
            }
        }
        Ok(PartBody::ToolResult(ToolResult {
            call_id,
            name,
            content,
            is_error,
            is_custom: false,
        }))
    }
}

/// What a function gave, and whether it failed. Under the one key that stands for output or failure
/// is the text itself; any other object is the text.
fn outcome(response: &RawValue) -> Result<(Cow<'_, str>, bool), Refusal> {
    let members = Members::of(response)?;
    let mut all = members.iter();
    let (Some((name, value)), None) = (all.next(), all.next()) else {
        return Ok((Cow::Borrowed(response.get()), false));
    };
    let text = || match parsed::<Text<'_>>(Some(value)) {
        Some(text) => text.0,
        None => Cow::Borrowed(value.get()),
    };
    Ok(match name {
        "output" | "result" => (text(), false),
        "error" => (text(), true),
        _ => (Cow::Borrowed(response.get()), false),
    })
}

fn inline<'a>(blob: &Members<'a>) -> Result<PartBody<'a>, Refusal> {
    let given = blob.required("mimeType", text)?;
    let media_type = media::media_type(&given).into_owned();
    let source = MediaSource::Base64 {
        media_type: Cow::Owned(media_type.clone()),
        data: blob.required("data", text)?,
    };
    Ok(of_type(
        &media_type,
        source,
        blob.optional("displayName", text)?,
    ))
}

fn of_type<'a>(
    media_type: &str,
    source: MediaSource<'a>,
    name: Option<Cow<'a, str>>,
) -> PartBody<'a> {
    let media = Media {
        source,
        name,
        detail: None,
    };
    match media_type.split_once('/') {
        Some(("image", _)) => PartBody::Image(media),
        Some(("audio", _)) => PartBody::Audio(media),
        Some(("video", _)) => PartBody::Foreign {
            kind: Cow::Borrowed("video"),
        },
        _ => PartBody::Document(media),
    }
}

/// The proof in a signature: Gemini's own, or another's that was sealed into it. The value that asks
/// for no check proves nothing.
fn proof(signature: Cow<'_, str>) -> Option<Proof<'_>> {
    if signature.is_empty() || signature == SKIP_VALIDATION {
        return None;
    }
    // Clients write either alphabet.
    let plain = signature.replace('-', "+").replace('_', "/");
    let decoded = BASE64_STANDARD.decode(plain).ok();
    let sealed = { decoded.as_deref() }
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .filter(|text| ids::is_marked(text));
    match sealed {
        Some(sealed) => ids::unseal(sealed),
        None => Some(Proof {
            protocol: Protocol::Gemini,
            text: signature,
            is_redacted: false,
        }),
    }
}
