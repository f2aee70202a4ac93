//! The messages of a chat request, written for a lane.
//!
//! Results of tools are messages of their own here, right behind the calls, and hold text only: their
//! pictures follow in the user's next message.

use std::borrow::Cow;

use serde::Serialize;

use crate::dialect::Protocol;
use crate::ir::{
    Media, MediaSource, Message as Said, Part, PartBody, Reasoning, Request, Role, ToolResult,
};
use crate::translation::{LaneFacts, Losses, Refusal, media};

/// What a document is called that has no name: the protocol wants one.
const UNNAMED: &str = "document.pdf";
/// What stands in a result whose pictures follow.
const PICTURES_FOLLOW: &str = "The result follows in the user's next message.";

#[derive(Serialize)]
pub(super) struct Message<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl<'a> Message<'a> {
    const fn new(role: &'static str, content: Content<'a>) -> Self {
        Self {
            role,
            content,
            name: None,
            refusal: None,
            reasoning_content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// A tool's result may follow it.
    fn precedes_results(&self) -> bool {
        self.role == TOOL || !self.tool_calls.is_empty()
    }
}

const SYSTEM: &str = "system";
const USER: &str = "user";
const ASSISTANT: &str = "assistant";
const TOOL: &str = "tool";

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Nothing,
    Text(Cow<'a, str>),
    Parts(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Image<'a> },
    InputAudio { input_audio: Audio<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct Image<'a> {
    url: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct Audio<'a> {
    data: &'a str,
    format: &'static str,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// Writes the messages of `request`.
pub(super) fn write<'a>(
    request: &'a Request<'_>,
    lane: &LaneFacts<'_>,
    losses: &mut Losses,
) -> Result<Vec<Message<'a>>, Refusal> {
    let mut writing = Writing {
        written: Vec::with_capacity(request.messages.len()),
        pictures: Vec::new(),
        model: lane.model,
        losses,
    };
    for message in &request.messages {
        match message.role {
            // Every server knows "system"; OpenAI's own take it for "developer" where they differ.
            Role::System | Role::Developer => writing.instructions(message)?,
            Role::User | Role::Tool => writing.user(message)?,
            Role::Assistant => writing.assistant(message),
        }
    }
    writing.flush();
    Ok(writing.written)
}

struct Writing<'a, 'l> {
    written: Vec<Message<'a>>,
    /// Pictures of results, until the user's next message.
    pictures: Vec<Piece<'a>>,
    model: &'l str,
    losses: &'l mut Losses,
}

impl<'a> Writing<'a, '_> {
    fn flush(&mut self) {
        if !self.pictures.is_empty() {
            let pictures = std::mem::take(&mut self.pictures);
            self.written.push(Message::new(USER, content(pictures)));
        }
    }

    fn instructions(&mut self, message: &'a Said<'_>) -> Result<(), Refusal> {
        self.flush();
        let pieces = self.pieces(message.parts.iter())?;
        let mut written = Message::new(SYSTEM, content(pieces));
        written.name = message.name.as_deref();
        self.written.push(written);
        Ok(())
    }

    fn user(&mut self, message: &'a Said<'_>) -> Result<(), Refusal> {
        for part in &message.parts {
            if let PartBody::ToolResult(result) = &part.body {
                self.result(result)?;
            }
        }
        let others =
            { message.parts.iter() }.filter(|part| !matches!(part.body, PartBody::ToolResult(_)));
        let mut pieces = self.pieces(others)?;
        if pieces.is_empty() {
            return Ok(());
        }
        if !self.pictures.is_empty() {
            let mut all = std::mem::take(&mut self.pictures);
            all.append(&mut pieces);
            pieces = all;
        }
        let mut written = Message::new(USER, content(pieces));
        written.name = message.name.as_deref();
        self.written.push(written);
        Ok(())
    }

    fn result(&mut self, result: &'a ToolResult<'_>) -> Result<(), Refusal> {
        let mut texts = Vec::new();
        let mut others = Vec::new();
        for piece in self.pieces(result.content.iter())? {
            match piece {
                Piece::Text { .. } => texts.push(piece),
                piece => others.push(piece),
            }
        }
        let text = match content(texts) {
            Content::Nothing if others.is_empty() => Content::Text(Cow::Borrowed("")),
            Content::Nothing => Content::Text(Cow::Borrowed(PICTURES_FOLLOW)),
            content => content,
        };
        if !others.is_empty() {
            let text = Cow::Owned(format!("From the result of {}:", result.call_id));
            self.pictures.push(Piece::Text { text });
            self.pictures.append(&mut others);
        }
        let mut written = Message::new(TOOL, text);
        written.tool_call_id = Some(&result.call_id);
        // Results follow the calls, whatever the user said between them.
        let last = self.written.iter().rposition(Message::precedes_results);
        let at = last.map_or(self.written.len(), |last| last.saturating_add(1));
        let is_users = |message: &Message<'_>| message.role == USER;
        if { self.written.iter().skip(at) }.all(is_users) {
            self.written.insert(at, written);
        } else {
            self.written.push(written);
        }
        Ok(())
    }

    fn assistant(&mut self, message: &'a Said<'_>) {
        self.flush();
        let mut written = Message::new(ASSISTANT, Content::Nothing);
        written.name = message.name.as_deref();
        let mut pieces = Vec::new();
        for part in &message.parts {
            match &part.body {
                PartBody::Text(text) => pieces.push(Piece::Text {
                    text: Cow::Borrowed(text),
                }),
                PartBody::Refusal(text) => append(&mut written.refusal, text),
                PartBody::Reasoning(reasoning) if self.is_own(reasoning) => {
                    append(&mut written.reasoning_content, &reasoning.text);
                }
                PartBody::ToolCall(call) => written.tool_calls.push(Call {
                    id: &call.id,
                    r#type: "function",
                    function: Called {
                        name: &call.name,
                        arguments: call.arguments.as_text(),
                    },
                }),
                _ => {}
            }
        }
        written.content = content(pieces);
        let is_empty = matches!(written.content, Content::Nothing)
            && written.tool_calls.is_empty()
            && written.refusal.is_none();
        // Of thoughts alone no server makes a turn.
        if !is_empty {
            self.join(written);
        }
    }

    /// Adds a turn of the model's to the one before it: what it said and called is one message here.
    fn join(&mut self, mut written: Message<'a>) {
        let last = { self.written.last_mut() }
            .filter(|last| last.role == ASSISTANT && last.name == written.name);
        let Some(last) = last else {
            self.written.push(written);
            return;
        };
        let own = std::mem::replace(&mut last.content, Content::Nothing);
        let mut pieces = pieces_of(own);
        pieces.append(&mut pieces_of(written.content));
        last.content = content(pieces);
        last.tool_calls.append(&mut written.tool_calls);
        if let Some(text) = written.refusal {
            append(&mut last.refusal, &text);
        }
        if let Some(text) = written.reasoning_content {
            append(&mut last.reasoning_content, &text);
        }
    }

    /// True for thoughts of the lane's own model: some servers want them back, and no other must see
    /// them.
    fn is_own(&self, reasoning: &Reasoning<'_>) -> bool {
        { reasoning.proof.as_ref() }.is_some_and(|proof| {
            let (own, other) = (self.model, proof.text.as_ref());
            proof.protocol == Protocol::Openai
                && !other.is_empty()
                && (own.starts_with(other) || other.starts_with(own))
        })
    }

    fn pieces<'p>(
        &mut self,
        parts: impl Iterator<Item = &'a Part<'p>>,
    ) -> Result<Vec<Piece<'a>>, Refusal>
    where
        'p: 'a,
    {
        let mut pieces = Vec::new();
        for part in parts {
            pieces.extend(match &part.body {
                PartBody::Text(text) | PartBody::Refusal(text) => Some(Piece::Text {
                    text: Cow::Borrowed(text),
                }),
                PartBody::Image(media) => Some(image(media)?),
                PartBody::Audio(media) => Some(audio(media)?),
                PartBody::Document(media) => Some(self.document(media)?),
                _ => None,
            });
        }
        Ok(pieces)
    }

    fn document(&mut self, media: &'a Media<'_>) -> Result<Piece<'a>, Refusal> {
        let text = match &media.source {
            MediaSource::Text(text) => Some(Cow::Borrowed(text.as_ref())),
            MediaSource::Base64 { media_type, data } => {
                media::text_within(media_type, data).map(Cow::Owned)
            }
            MediaSource::Url(_) => None,
        };
        if let Some(text) = text {
            if media.name.is_some() {
                self.losses.name("document.name");
            }
            return Ok(Piece::Text { text });
        }
        match &media.source {
            MediaSource::Base64 { media_type, data } if media_type == "application/pdf" => {
                Ok(Piece::File {
                    file: File {
                        filename: media.name.as_deref().unwrap_or(UNNAMED),
                        file_data: media::data_url(media_type, data),
                    },
                })
            }
            _ => Err(Refusal::new("document", "is neither a PDF nor text")),
        }
    }
}

fn image<'a>(media: &'a Media<'_>) -> Result<Piece<'a>, Refusal> {
    let url = match &media.source {
        MediaSource::Url(url) => Cow::Borrowed(url.as_ref()),
        MediaSource::Base64 { media_type, data } if media::is_common_picture(media_type) => {
            Cow::Owned(media::data_url(media_type, data))
        }
        MediaSource::Base64 { .. } | MediaSource::Text(_) => {
            return Err(Refusal::new(
                "image",
                "is of a kind that the lane does not read",
            ));
        }
    };
    let detail = media.detail.as_deref();
    Ok(Piece::ImageUrl {
        image_url: Image { url, detail },
    })
}

fn audio<'a>(media: &'a Media<'_>) -> Result<Piece<'a>, Refusal> {
    let MediaSource::Base64 { media_type, data } = &media.source else {
        return Err(Refusal::new("audio", "must be in base64"));
    };
    let format = match media_type.as_ref() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mp3" | "audio/mpeg" => "mp3",
        _ => return Err(Refusal::new("audio", "is neither WAV nor MP3")),
    };
    Ok(Piece::InputAudio {
        input_audio: Audio { data, format },
    })
}

/// A lone text is a string, which every server takes.
fn content(mut pieces: Vec<Piece<'_>>) -> Content<'_> {
    if pieces.len() > 1 {
        return Content::Parts(pieces);
    }
    match pieces.pop() {
        None => Content::Nothing,
        Some(Piece::Text { text }) => Content::Text(text),
        Some(piece) => Content::Parts(vec![piece]),
    }
}

fn pieces_of(content: Content<'_>) -> Vec<Piece<'_>> {
    match content {
        Content::Nothing => Vec::new(),
        Content::Text(text) => vec![Piece::Text { text }],
        Content::Parts(pieces) => pieces,
    }
}

fn append<'a>(to: &mut Option<Cow<'a, str>>, text: &str) {
    to.get_or_insert_with(|| Cow::Borrowed(""))
        .to_mut()
        .push_str(text);
}
