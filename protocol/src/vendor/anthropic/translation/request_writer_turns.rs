//! Writes the instructions and turns of requests.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use super::blocks::{Block, CacheControl, Source};
use crate::dialect::Protocol;
use crate::ir::{
    CacheMark, Media, MediaSource, Message, Part, PartBody, Proof, Request, Role, Tool, ToolResult,
};
use crate::translation::{Feature, Losses, Refusal};

/// Most marks of the prompt cache in a request.
const MARKS_MAX: usize = 4;
/// The pictures that the API takes.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// A turn.
#[derive(Debug, Serialize)]
pub(super) struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// The marks of the prompt cache, in the order of the document; of too many the first are left out.
#[derive(Debug)]
pub(super) struct Marks {
    left_out: usize,
}

impl Marks {
    pub(super) fn of(request: &Request<'_>, losses: &mut Losses) -> Self {
        let on_tools = { request.tools.iter() }
            .filter(|tool| matches!(tool, Tool::Function(function) if function.cache.is_some()))
            .count();
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        let on_parts: usize = parts.map(marks_on).sum();
        let left_out = (on_tools + on_parts).saturating_sub(MARKS_MAX);
        if left_out > 0 {
            losses.name(Feature::CacheMarks.name());
        }
        Self { left_out }
    }

    pub(super) fn next<'a>(&mut self, mark: Option<&'a CacheMark<'_>>) -> Option<CacheControl<'a>> {
        let mark = mark?;
        if self.left_out > 0 {
            self.left_out -= 1;
            return None;
        }
        Some(CacheControl {
            kind: "ephemeral",
            ttl: mark.ttl.as_deref(),
        })
    }
}

fn marks_on(part: &Part<'_>) -> usize {
    let inner = match &part.body {
        PartBody::ToolResult(result) => result.content.iter().map(marks_on).sum(),
        _ => 0,
    };
    inner + usize::from(part.cache.is_some())
}

/// The instructions before the first turn, and the turns, which alternate and begin with the user's.
/// Later instructions stand in the user's turn at their place, behind its results of tools.
pub(super) fn turns<'a>(
    request: &'a Request<'_>,
    marks: &mut Marks,
    keeps_thoughts: bool,
    losses: &mut Losses,
) -> Result<(Vec<Block<'a>>, Vec<Turn<'a>>), Refusal> {
    let is_instruction =
        |message: &&Message<'_>| matches!(message.role, Role::System | Role::Developer);
    let mut writing = Writing {
        marks,
        keeps_thoughts,
        done: Vec::new(),
        results: Vec::new(),
        others: Vec::new(),
        proof: None,
        is_model: false,
    };
    let mut system = Vec::new();
    for message in request.messages.iter().take_while(is_instruction) {
        for part in &message.parts {
            system.extend(writing.block(part)?);
        }
    }
    for message in request.messages.iter().skip_while(is_instruction) {
        writing.message(message)?;
    }
    writing.end_turn();
    let mut turns = writing.done;
    match turns.first() {
        None => return Err(Refusal::new("messages", "hold nothing but instructions")),
        Some(first) if first.role == MODEL => {
            let reason = "begin with the model's turn, which the lane's protocol does not take";
            return Err(Refusal::new("messages", reason));
        }
        Some(_) => {}
    }
    trim_prefill(&mut turns, losses);
    Ok((system, turns))
}

const MODEL: &str = "assistant";

/// A beginning that the model goes on with must not end in blanks.
fn trim_prefill(turns: &mut [Turn<'_>], losses: &mut Losses) {
    let Some(last) = turns.last_mut().filter(|last| last.role == MODEL) else {
        return;
    };
    if let Some(Block::Text { text, .. }) = last.content.last_mut()
        && text.trim_end().len() < text.len()
    {
        losses.name(Feature::Prefill.name());
        *text = Cow::Owned(text.trim_end().to_owned());
    }
}

struct Writing<'a, 'm> {
    marks: &'m mut Marks,
    keeps_thoughts: bool,
    done: Vec<Turn<'a>>,
    /// The turn that is being written.
    results: Vec<Block<'a>>,
    others: Vec<Block<'a>>,
    /// The proof of thoughts that came inside the id of one of its calls.
    proof: Option<&'a Proof<'a>>,
    is_model: bool,
}

impl<'a> Writing<'a, '_> {
    fn message(&mut self, message: &'a Message<'_>) -> Result<(), Refusal> {
        let is_model = message.role == Role::Assistant;
        if is_model != self.is_model {
            self.end_turn();
        }
        self.is_model = is_model;
        for part in &message.parts {
            let block = self.block(part)?;
            match &part.body {
                PartBody::ToolResult(_) => self.results.extend(block),
                PartBody::ToolCall(call) if self.keeps_thoughts => {
                    let own = |proof: &&Proof<'_>| proof.protocol == Protocol::Anthropic;
                    self.proof = self.proof.or_else(|| call.proof.as_ref().filter(own));
                    self.others.extend(block);
                }
                _ => self.others.extend(block),
            }
        }
        Ok(())
    }

    fn end_turn(&mut self) {
        let mut content = std::mem::take(&mut self.results);
        content.append(&mut self.others);
        let begins_with_thoughts = matches!(
            content.first(),
            Some(Block::Thinking { .. } | Block::RedactedThinking { .. })
        );
        if let Some(proof) = self.proof.take().filter(|_| !begins_with_thoughts) {
            content.insert(0, thought(proof));
        }
        if !content.is_empty() {
            let role = if self.is_model { MODEL } else { "user" };
            self.done.push(Turn { role, content });
        }
    }

    /// The block of a part; `None` where there is nothing to say.
    fn block(&mut self, part: &'a Part<'_>) -> Result<Option<Block<'a>>, Refusal> {
        let cache_control = self.marks.next(part.cache.as_ref());
        Ok(Some(match &part.body {
            PartBody::Text(text) | PartBody::Refusal(text) => {
                // The API refuses text of nothing but blanks.
                if text.trim().is_empty() {
                    return Ok(None);
                }
                Block::Text {
                    text: Cow::Borrowed(text),
                    cache_control,
                }
            }
            PartBody::Image(media) => Block::Image {
                source: image(media)?,
                cache_control,
            },
            PartBody::Document(media) => Block::Document {
                source: document(media)?,
                title: media.name.as_deref(),
                cache_control,
            },
            PartBody::Reasoning(reasoning) => {
                let proof = reasoning.proof.as_ref().filter(|_| self.keeps_thoughts);
                if proof.is_none_or(|proof| proof.protocol != Protocol::Anthropic) {
                    return Ok(None);
                }
                Block::thoughts(reasoning)
            }
            PartBody::ToolCall(call) => Block::ToolUse {
                id: Cow::Borrowed(&call.id),
                name: Cow::Borrowed(&call.name),
                input: call.arguments.to_object().0,
                cache_control,
            },
            PartBody::ToolResult(result) => self.result(result, cache_control)?,
            PartBody::Audio(_) => return Err(Refusal::untranslatable(Feature::Audio.name())),
            PartBody::Foreign { kind } => return Err(Refusal::untranslatable(kind.as_ref())),
        }))
    }

    fn result(
        &mut self,
        result: &'a ToolResult<'_>,
        cache_control: Option<CacheControl<'a>>,
    ) -> Result<Block<'a>, Refusal> {
        let mut content = Vec::with_capacity(result.content.len());
        for part in &result.content {
            content.extend(self.block(part)?);
        }
        Ok(Block::ToolResult {
            tool_use_id: &result.call_id,
            content,
            is_error: result.is_error,
            cache_control,
        })
    }
}

/// The block of a thought whose text did not come back. The API reads the thought from its proof.
fn thought<'a>(proof: &'a Proof<'_>) -> Block<'a> {
    let text = Cow::Borrowed(proof.text.as_ref());
    if proof.is_redacted {
        Block::RedactedThinking { data: text }
    } else {
        Block::Thinking {
            thinking: Cow::Borrowed(""),
            signature: text,
        }
    }
}

fn image<'a>(media: &'a Media<'_>) -> Result<Source<'a>, Refusal> {
    match &media.source {
        MediaSource::Base64 { media_type, data } if IMAGES.contains(&media_type.as_ref()) => {
            Ok(Source::Base64 { media_type, data })
        }
        MediaSource::Url(url) => Ok(Source::Url { url }),
        MediaSource::Base64 { media_type, .. } => Err(untaken(Feature::Images, media_type)),
        MediaSource::Text(_) => Err(untaken(Feature::Images, "text/plain")),
    }
}

fn document<'a>(media: &'a Media<'_>) -> Result<Source<'a>, Refusal> {
    let plain = |data| Source::Text {
        media_type: "text/plain",
        data,
    };
    match &media.source {
        MediaSource::Url(url) => Ok(Source::Url { url }),
        MediaSource::Text(text) => Ok(plain(Cow::Borrowed(text.as_ref()))),
        MediaSource::Base64 { media_type, data } if media_type == "application/pdf" => {
            Ok(Source::Base64 { media_type, data })
        }
        MediaSource::Base64 { media_type, data } => {
            let text = { BASE64_STANDARD.decode(data.as_bytes()).ok() }
                .filter(|_| media_type.starts_with("text/"))
                .and_then(|bytes| String::from_utf8(bytes).ok());
            text.map(|text| plain(Cow::Owned(text)))
                .ok_or_else(|| untaken(Feature::Documents, media_type))
        }
    }
}

fn untaken(feature: Feature, media_type: &str) -> Refusal {
    let media_type = media_type.escape_debug();
    let reason = format!("is of type \"{media_type}\", which the lane's protocol does not take");
    Refusal::new(feature.name(), reason)
}
