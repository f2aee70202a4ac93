//! The input of a Responses request, written for a lane: items in the order of the conversation.

use std::borrow::Cow;

use serde::Serialize;

use crate::dialect::Protocol;
use crate::ir::{Media, MediaSource, Message, Part, PartBody, Role, ToolResult};
use crate::translation::{Losses, Refusal, media};

/// What a document is called that has no name: the protocol wants one.
const UNNAMED: &str = "document.pdf";

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Item<'a> {
    Message {
        r#type: &'static str,
        role: &'static str,
        content: Content<'a>,
    },
    Call {
        r#type: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    Result {
        r#type: &'static str,
        call_id: &'a str,
        output: Content<'a>,
    },
    Reasoning {
        r#type: &'static str,
        summary: Vec<Piece<'a>>,
        encrypted_content: &'a str,
    },
}

impl Item<'_> {
    pub(super) const fn is_reasoning(&self) -> bool {
        matches!(self, Self::Reasoning { .. })
    }
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Piece<'a> {
    InputText {
        text: Cow<'a, str>,
    },
    OutputText {
        text: &'a str,
    },
    SummaryText {
        text: &'a str,
    },
    Refusal {
        refusal: &'a str,
    },
    InputImage {
        image_url: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a str>,
    },
    InputFile {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
    },
}

/// A first message of the operator's that is one text goes as the instructions; the rest is input.
pub(super) fn instructions<'a, 'p>(
    messages: &'a [Message<'p>],
) -> (Option<&'a str>, &'a [Message<'p>]) {
    if let [first, rest @ ..] = messages
        && first.role == Role::System
        && !rest.is_empty()
        && let [part] = first.parts.as_slice()
        && let PartBody::Text(text) = &part.body
    {
        return (Some(text), rest);
    }
    (None, messages)
}

pub(super) fn write<'a>(
    messages: &'a [Message<'_>],
    losses: &mut Losses,
) -> Result<Vec<Item<'a>>, Refusal> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match message.role {
            Role::Assistant => assistant(message, &mut items),
            role => others(message, role, &mut items, losses)?,
        }
    }
    Ok(items)
}

fn others<'a>(
    message: &'a Message<'_>,
    role: Role,
    items: &mut Vec<Item<'a>>,
    losses: &mut Losses,
) -> Result<(), Refusal> {
    let role = match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User | Role::Tool | Role::Assistant => "user",
    };
    // Results come first, as they answer the turn before.
    for part in &message.parts {
        if let PartBody::ToolResult(result) = &part.body {
            items.push(result_item(result, losses)?);
        }
    }
    let said =
        { message.parts.iter() }.filter(|part| !matches!(part.body, PartBody::ToolResult(_)));
    if let Some(content) = content(said, losses)? {
        items.push(Item::Message {
            r#type: "message",
            role,
            content,
        });
    }
    Ok(())
}

fn result_item<'a>(result: &'a ToolResult<'_>, losses: &mut Losses) -> Result<Item<'a>, Refusal> {
    let output = content(result.content.iter(), losses)?;
    Ok(Item::Result {
        r#type: "function_call_output",
        call_id: &result.call_id,
        output: output.unwrap_or(Content::Text("")),
    })
}

/// What the user, the operator or a tool says; `None` for nothing.
fn content<'a, 'p: 'a>(
    parts: impl Iterator<Item = &'a Part<'p>>,
    losses: &mut Losses,
) -> Result<Option<Content<'a>>, Refusal> {
    let parts: Vec<_> = parts.collect();
    if let [part] = parts.as_slice()
        && let PartBody::Text(text) = &part.body
    {
        return Ok(Some(Content::Text(text)));
    }
    let mut pieces = Vec::with_capacity(parts.len());
    for part in parts {
        pieces.extend(match &part.body {
            PartBody::Text(text) | PartBody::Refusal(text) => Some(Piece::InputText {
                text: Cow::Borrowed(text),
            }),
            PartBody::Image(media) => Some(image(media)?),
            PartBody::Document(media) => Some(document(media, losses)?),
            _ => None,
        });
    }
    Ok((!pieces.is_empty()).then_some(Content::Parts(pieces)))
}

fn assistant<'a>(message: &'a Message<'_>, items: &mut Vec<Item<'a>>) {
    let mut pieces = Vec::new();
    for part in &message.parts {
        let item = match &part.body {
            PartBody::Text(text) => {
                pieces.push(Piece::OutputText { text });
                continue;
            }
            PartBody::Refusal(refusal) => {
                pieces.push(Piece::Refusal { refusal });
                continue;
            }
            PartBody::ToolCall(call) => Item::Call {
                r#type: "function_call",
                call_id: &call.id,
                name: &call.name,
                arguments: call.arguments.as_text(),
            },
            // Thoughts that are not its own, or that nothing proves, mean nothing to it.
            PartBody::Reasoning(reasoning) => match &reasoning.proof {
                Some(proof) if proof.protocol == Protocol::Responses => Item::Reasoning {
                    r#type: "reasoning",
                    summary: { !reasoning.text.is_empty() }
                        .then_some(Piece::SummaryText {
                            text: &reasoning.text,
                        })
                        .into_iter()
                        .collect(),
                    encrypted_content: &proof.text,
                },
                _ => continue,
            },
            _ => continue,
        };
        flush(&mut pieces, items);
        items.push(item);
    }
    flush(&mut pieces, items);
}

fn flush<'a>(pieces: &mut Vec<Piece<'a>>, items: &mut Vec<Item<'a>>) {
    if !pieces.is_empty() {
        items.push(Item::Message {
            r#type: "message",
            role: "assistant",
            content: Content::Parts(std::mem::take(pieces)),
        });
    }
}

fn image<'a>(media: &'a Media<'_>) -> Result<Piece<'a>, Refusal> {
    let image_url = match &media.source {
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
    Ok(Piece::InputImage { image_url, detail })
}

fn document<'a>(media: &'a Media<'_>, losses: &mut Losses) -> Result<Piece<'a>, Refusal> {
    let filename = media.name.as_deref();
    let text = match &media.source {
        MediaSource::Url(url) => {
            if filename.is_some() {
                losses.name("document.name");
            }
            return Ok(Piece::InputFile {
                filename: None,
                file_data: None,
                file_url: Some(url),
            });
        }
        MediaSource::Base64 { media_type, data } if media_type == "application/pdf" => {
            return Ok(Piece::InputFile {
                filename: Some(filename.unwrap_or(UNNAMED)),
                file_data: Some(media::data_url(media_type, data)),
                file_url: None,
            });
        }
        MediaSource::Base64 { media_type, data } => {
            media::text_within(media_type, data).map(Cow::Owned)
        }
        MediaSource::Text(text) => Some(Cow::Borrowed(text.as_ref())),
    };
    let Some(text) = text else {
        return Err(Refusal::new("document", "is neither a PDF nor text"));
    };
    if filename.is_some() {
        losses.name("document.name");
    }
    Ok(Piece::InputText { text })
}
