//! Writes the instructions and turns of requests.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::parts::{
    Blob, Content, FunctionCall, FunctionResponse, Response, WrittenPart, sign_foreign_calls,
};
use crate::dialect::Protocol;
use crate::ir::{
    Media, MediaSource, Message, Part, PartBody, Proof, Request, Role, ToolCall, ToolResult,
};
use crate::translation::{Feature, Refusal};

/// The pictures that the API takes.
const IMAGES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
];
const MODEL: &str = "model";

/// The instructions before the first turn, and the turns, which alternate and begin with the user's.
/// Later instructions stand in the user's turn at their place, behind its results of tools.
pub(super) fn turns<'a>(
    request: &'a Request<'_>,
) -> Result<(Option<Content<'a>>, Vec<Content<'a>>), Refusal> {
    let is_instruction =
        |message: &&Message<'_>| matches!(message.role, Role::System | Role::Developer);
    let mut instructions = Vec::new();
    for message in request.messages.iter().take_while(is_instruction) {
        for part in &message.parts {
            instructions.extend(written(part)?);
        }
    }
    let mut writing = Writing::default();
    for message in request.messages.iter().skip_while(is_instruction) {
        writing.message(message)?;
    }
    writing.end_turn();
    match writing.done.first() {
        None => return Err(Refusal::new("messages", "hold nothing but instructions")),
        Some(first) if first.role == Some(MODEL) => {
            let reason = "begin with the model's turn, which the lane's protocol does not take";
            return Err(Refusal::new("messages", reason));
        }
        Some(_) => {}
    }
    let system = (!instructions.is_empty()).then_some(Content {
        role: None,
        parts: instructions,
    });
    Ok((system, writing.done))
}

#[derive(Default)]
struct Writing<'a> {
    done: Vec<Content<'a>>,
    is_model: bool,
    /// The turn that is being written. Results come first, in the order of their calls.
    results: Vec<(usize, WrittenPart<'a>)>,
    /// Pictures and documents among the results, which have no place within them.
    attached: Vec<WrittenPart<'a>>,
    others: Vec<WrittenPart<'a>>,
    /// Ids of the calls of the model's last turn.
    calls: Vec<&'a str>,
}

impl<'a> Writing<'a> {
    fn message(&mut self, message: &'a Message<'_>) -> Result<(), Refusal> {
        let is_model = message.role == Role::Assistant;
        if is_model != self.is_model {
            self.end_turn();
            if is_model {
                self.calls.clear();
            }
        }
        self.is_model = is_model;
        for part in &message.parts {
            match &part.body {
                PartBody::ToolResult(result) => self.result(result)?,
                PartBody::ToolCall(call) => {
                    self.calls.push(&call.id);
                    self.others.push(called(call));
                }
                _ => self.others.extend(written(part)?),
            }
        }
        Ok(())
    }

    fn result(&mut self, result: &'a ToolResult<'_>) -> Result<(), Refusal> {
        let place = { self.calls.iter() }.position(|id| *id == result.call_id);
        let mut texts: Vec<&str> = Vec::new();
        let mut attached = Vec::new();
        for part in &result.content {
            match &part.body {
                PartBody::Text(text) => texts.push(text),
                _ => attached.extend(written(part)?),
            }
        }
        let text = match texts.as_slice() {
            [text] => Cow::Borrowed(*text),
            texts => Cow::Owned(texts.concat()),
        };
        let response = if result.is_error {
            Response::Error(text)
        } else {
            Response::Output(text)
        };
        let part = WrittenPart {
            function_response: Some(FunctionResponse {
                name: &result.name,
                response,
            }),
            ..WrittenPart::default()
        };
        self.results.push((place.unwrap_or(usize::MAX), part));
        if !attached.is_empty() {
            let name = &result.name;
            let marker = match place {
                Some(place) => format!("From call {} ({name}):", place + 1),
                None => format!("From {name}:"),
            };
            self.attached.push(WrittenPart::text(marker));
            self.attached.append(&mut attached);
        }
        Ok(())
    }

    fn end_turn(&mut self) {
        self.results.sort_by_key(|(place, _)| *place);
        let mut parts: Vec<_> = self.results.drain(..).map(|(_, part)| part).collect();
        parts.append(&mut self.attached);
        parts.append(&mut self.others);
        if self.is_model {
            sign_foreign_calls(&mut parts);
        }
        if !parts.is_empty() {
            let role = Some(if self.is_model { MODEL } else { "user" });
            self.done.push(Content { role, parts });
        }
    }
}

fn own<'a>(proof: Option<&'a Proof<'_>>) -> Option<&'a Proof<'a>> {
    proof.filter(|proof| proof.protocol == Protocol::Gemini)
}

fn called<'a>(call: &'a ToolCall<'_>) -> WrittenPart<'a> {
    WrittenPart {
        function_call: Some(FunctionCall {
            id: None,
            name: Cow::Borrowed(&call.name),
            args: call.arguments.to_object().0,
        }),
        thought_signature: own(call.proof.as_ref()).map(|proof| Cow::Borrowed(proof.text.as_ref())),
        ..WrittenPart::default()
    }
}

/// The part of any other body; `None` where there is nothing to say.
fn written<'a>(part: &'a Part<'_>) -> Result<Option<WrittenPart<'a>>, Refusal> {
    Ok(Some(match &part.body {
        PartBody::Text(text) | PartBody::Refusal(text) => WrittenPart::text(text.as_ref()),
        PartBody::Reasoning(reasoning) => match own(reasoning.proof.as_ref()) {
            Some(proof) => WrittenPart::thought(reasoning.text.as_ref(), Some(proof)),
            None => return Ok(None),
        },
        PartBody::Image(media) => blob(media, Feature::Images, |kind| IMAGES.contains(&kind))?,
        PartBody::Audio(media) => blob(media, Feature::Audio, |kind| kind.starts_with("audio/"))?,
        PartBody::Document(media) => blob(media, Feature::Documents, |kind| {
            kind == "application/pdf" || kind.starts_with("text/")
        })?,
        PartBody::ToolCall(call) => called(call),
        PartBody::ToolResult(_) => return Err(Refusal::untranslatable("tool_result")),
        PartBody::Foreign { kind } => return Err(Refusal::untranslatable(kind.as_ref())),
    }))
}

fn blob<'a>(
    media: &'a Media<'_>,
    feature: Feature,
    takes: impl Fn(&str) -> bool,
) -> Result<WrittenPart<'a>, Refusal> {
    let (mime_type, data) = match &media.source {
        MediaSource::Base64 { media_type, data } => {
            (media_type.as_ref(), Cow::Borrowed(data.as_ref()))
        }
        MediaSource::Text(text) => {
            let data = BASE64_STANDARD.encode(text.as_bytes());
            ("text/plain", Cow::Owned(data))
        }
        MediaSource::Url(_) => return Err(Refusal::untranslatable(feature.name())),
    };
    if !takes(mime_type) {
        let kind = mime_type.escape_debug();
        let reason = format!("is of type \"{kind}\", which the lane's protocol does not take");
        return Err(Refusal::new(feature.name(), reason));
    }
    Ok(WrittenPart {
        inline_data: Some(Blob {
            mime_type: Cow::Borrowed(mime_type),
            data,
        }),
        ..WrittenPart::default()
    })
}
