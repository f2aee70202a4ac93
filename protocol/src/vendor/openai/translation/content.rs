//! Parts of a message's content, read.

use std::borrow::Cow;

use super::super::OpenAi;
use crate::ir::{CacheMark, Media, MediaSource, Part, PartBody, Place, Request};
use crate::translation::document::{At, Object, text};
use crate::translation::{Refusal, Translator as _, media};

/// Reads a message's content: a string, a list of parts, or nothing.
pub(super) fn read<'a>(
    message: &Object<'a, '_>,
    index: usize,
    request: &mut Request<'a>,
) -> Result<Vec<Part<'a>>, Refusal> {
    let Some(content) = message.raw("content") else {
        return Ok(Vec::new());
    };
    let mut parts = Vec::new();
    if let Some(text) = text(content) {
        let at = Place {
            message: index,
            part: 0,
        };
        parts.push(Part::new(PartBody::Text(text), at));
    } else {
        let (at, list) = (message.at(), message.list("content"));
        let list = list.map_err(|_| message.refuse("content", "must be a string or a list"))?;
        let at = At::Member(&at, "content");
        for (part, value) in list.into_iter().enumerate() {
            let value = Object::of(value, At::Item(&at, part))?;
            let place = Place {
                message: index,
                part,
            };
            parts.extend(read_part(&value, place, request)?);
        }
    }
    if let Some(last) = parts.last_mut()
        && let Some(mark) = cache_mark(message)?
    {
        last.cache = Some(mark);
    }
    Ok(parts)
}

fn read_part<'a>(
    part: &Object<'a, '_>,
    at: Place,
    request: &mut Request<'a>,
) -> Result<Option<Part<'a>>, Refusal> {
    let kind = match part.text("type")? {
        Some(kind) => kind,
        None if part.raw("text").is_some() => Cow::Borrowed("text"),
        None => return Err(part.refuse("type", "is required")),
    };
    let body = match kind.as_ref() {
        "text" | "input_text" | "output_text" => {
            PartBody::Text(part.text("text")?.unwrap_or_default())
        }
        "refusal" => PartBody::Refusal(part.text("refusal")?.unwrap_or_default()),
        "image_url" => PartBody::Image(image(part)?),
        "input_audio" => PartBody::Audio(audio(part)?),
        "file" => match document(part, request)? {
            Some(media) => PartBody::Document(media),
            None => return Ok(None),
        },
        _ => PartBody::Foreign { kind },
    };
    let mut part_read = Part::new(body, at);
    part_read.cache = cache_mark(part)?;
    Ok(Some(part_read))
}

/// A mark of the prompt cache as gateways of this dialect write it, for models of Anthropic.
pub(super) fn cache_mark<'a>(marked: &Object<'a, '_>) -> Result<Option<CacheMark<'a>>, Refusal> {
    let Some(mark) = marked.raw("cache_control") else {
        return Ok(None);
    };
    let at = marked.at();
    let mark = Object::of(mark, At::Member(&at, "cache_control"))?;
    Ok(Some(CacheMark {
        ttl: mark.text("ttl")?,
    }))
}

fn image<'a>(part: &Object<'a, '_>) -> Result<Media<'a>, Refusal> {
    let Some(value) = part.raw("image_url") else {
        return Err(part.refuse("image_url", "is required"));
    };
    let (url, detail) = match text(value) {
        Some(url) => (url, None),
        None => {
            let at = part.at();
            let image = Object::of(value, At::Member(&at, "image_url"))?;
            (image.needed_text("url")?, image.text("detail")?)
        }
    };
    let source = media::of_url(url)
        .ok_or_else(|| part.refuse("image_url", "holds a data URL that cannot be read"))?;
    Ok(Media {
        source,
        name: None,
        detail,
    })
}

/// Sound in one of the formats that the dialect names.
pub(in crate::vendor) fn audio<'a>(part: &Object<'a, '_>) -> Result<Media<'a>, Refusal> {
    let Some(value) = part.raw("input_audio") else {
        return Err(part.refuse("input_audio", "is required"));
    };
    let at = part.at();
    let audio = Object::of(value, At::Member(&at, "input_audio"))?;
    let format = audio.needed_text("format")?.to_ascii_lowercase();
    Ok(Media {
        source: MediaSource::Base64 {
            media_type: Cow::Owned(format!("audio/{format}")),
            data: audio.needed_text("data")?,
        },
        name: None,
        detail: None,
    })
}

fn document<'a>(
    part: &Object<'a, '_>,
    request: &mut Request<'a>,
) -> Result<Option<Media<'a>>, Refusal> {
    let Some(value) = part.raw("file") else {
        return Err(part.refuse("file", "is required"));
    };
    let at = part.at();
    let file = Object::of(value, At::Member(&at, "file"))?;
    if file.says("file_id") {
        let path = file.path("file_id");
        request.untranslatable.push(Cow::Owned(path));
        return Ok(None);
    }
    file_data(&file).map(Some)
}

/// The bytes of a file: a data URL, or base64 whose type its name says.
pub(in crate::vendor) fn file_data<'a>(file: &Object<'a, '_>) -> Result<Media<'a>, Refusal> {
    let data = file.needed_text("file_data")?;
    let name = file.text("filename")?;
    let source = match media::of_url(data) {
        Some(MediaSource::Url(data)) => MediaSource::Base64 {
            media_type: Cow::Borrowed(match name.as_deref().map(extension) {
                Some("txt" | "md" | "csv") => "text/plain",
                _ => "application/pdf",
            }),
            data,
        },
        Some(source) => source,
        None => return Err(file.refuse("file_data", "holds a data URL that cannot be read")),
    };
    Ok(Media {
        source,
        name,
        detail: None,
    })
}

fn extension(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// The place of a message as a whole.
pub(super) fn whole(message: usize) -> Place {
    Place {
        message,
        part: Place::WHOLE,
    }
}

/// How a message is called in a refusal.
pub(super) fn path_of(message: usize) -> String {
    OpenAi.place(whole(message))
}
