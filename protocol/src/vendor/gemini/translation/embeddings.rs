//! Gemini's embeddings in translation. A lane is always asked for several at a time.

use std::borrow::Cow;

use serde::Serialize;

use super::GeminiTranslator;
use crate::dialect::Protocol;
use crate::ir::{EmbeddingAnswer, EmbeddingRequest, Purpose, Vector};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::{At, Object};
use crate::translation::embeddings::{Embedder, EmbeddingFacts, at_most};
use crate::translation::{Losses, Refusal, writing};

/// Most texts of one request (Google's documentation of `batchEmbedContents`).
const MAX_TEXTS: usize = 100;
/// The members of one text's request that mean something here, in both spellings of Google's JSON.
const KNOWN: &[&str] = &[
    "model",
    "content",
    "taskType",
    "task_type",
    "outputDimensionality",
    "output_dimensionality",
];

#[derive(Serialize)]
struct Batch<'a> {
    requests: Vec<Request<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    model: &'a str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<u64>,
}

#[derive(Serialize)]
struct Content<'a> {
    parts: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Values<'a> {
    values: &'a Vector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Batch { embeddings: Vec<Values<'a>> },
    Single { embedding: Values<'a> },
}

impl Embedder for GeminiTranslator {
    fn protocol(&self) -> Protocol {
        Protocol::Gemini
    }

    fn read_embeddings<'a>(&self, body: &'a [u8]) -> Result<EmbeddingRequest<'a>, Refusal> {
        let document = Object::document(body)?;
        let mut request = EmbeddingRequest::default();
        if document.raw("requests").is_none() {
            read_one(&document, &mut request)?;
            return Ok(request);
        }
        request.is_batch = true;
        let at = document.at();
        let at = At::Member(&at, "requests");
        let list = document.list("requests")?;
        if list.is_empty() {
            return Err(at.refuse("must hold at least one request"));
        }
        request.texts.reserve(list.len());
        for (index, value) in list.into_iter().enumerate() {
            let one = Object::of(value, At::Item(&at, index))?;
            let (dimensions, purpose) = (request.dimensions, request.purpose.clone());
            read_one(&one, &mut request)?;
            // Other dialects say it once for all.
            if index > 0 && (dimensions != request.dimensions || purpose != request.purpose) {
                request.untranslatable.push(Cow::Borrowed("requests"));
            }
        }
        Ok(request)
    }

    fn write_embeddings(
        &self,
        request: &EmbeddingRequest<'_>,
        model: &str,
        losses: &mut Losses,
    ) -> Result<Vec<u8>, Refusal> {
        at_most(request.texts.len(), MAX_TEXTS)?;
        if request.user.is_some() {
            losses.name("user");
        }
        let model = format!("models/{}", model.strip_prefix("models/").unwrap_or(model));
        let task_type = match &request.purpose {
            None => None,
            Some(Purpose::Document) => Some("RETRIEVAL_DOCUMENT"),
            Some(Purpose::Query) => Some("RETRIEVAL_QUERY"),
            Some(Purpose::Classification) => Some("CLASSIFICATION"),
            Some(Purpose::Clustering) => Some("CLUSTERING"),
            Some(Purpose::Other(_)) => {
                losses.name("input_type");
                None
            }
        };
        let requests = { request.texts.iter() }
            .map(|text| Request {
                model: &model,
                content: Content {
                    parts: [Text { text }],
                },
                task_type,
                output_dimensionality: request.dimensions,
            })
            .collect();
        Ok(writing::document(&Batch { requests }))
    }

    fn read_vectors<'a>(&self, body: &'a [u8]) -> Option<EmbeddingAnswer<'a>> {
        let document: Fields<'_> = serde_json::from_slice(body).ok()?;
        let items: Vec<Fields<'_>> = parsed(document.get("embeddings"))?;
        let vectors: Option<_> = { items.iter() }
            .map(|item| item.get("values").map(Vector::Numbers))
            .collect();
        let usage: Option<Fields<'_>> = parsed(document.get("usageMetadata"));
        Some(EmbeddingAnswer {
            vectors: vectors?,
            model: Cow::Borrowed(""),
            tokens: usage.and_then(|usage| parsed(usage.get("promptTokenCount"))),
        })
    }

    fn write_vectors(
        &self,
        answer: &EmbeddingAnswer<'_>,
        facts: &EmbeddingFacts,
    ) -> Option<Vec<u8>> {
        if !answer.vectors.iter().all(Vector::is_readable) {
            return None;
        }
        let written = if facts.is_batch {
            let all = answer.vectors.iter();
            Answer::Batch {
                embeddings: all.map(|values| Values { values }).collect(),
            }
        } else {
            let values = answer.vectors.first()?;
            Answer::Single {
                embedding: Values { values },
            }
        };
        Some(writing::document(&written))
    }
}

/// Reads what is asked about one text.
fn read_one<'a>(one: &Object<'a, '_>, request: &mut EmbeddingRequest<'a>) -> Result<(), Refusal> {
    request.unknown.extend(one.others(KNOWN).map(Cow::Owned));
    let purpose = match one.text("taskType")? {
        Some(purpose) => Some(purpose),
        None => one.text("task_type")?,
    };
    request.purpose = purpose.and_then(|purpose| match purpose.as_ref() {
        "TASK_TYPE_UNSPECIFIED" => None,
        "RETRIEVAL_DOCUMENT" => Some(Purpose::Document),
        "RETRIEVAL_QUERY" => Some(Purpose::Query),
        "CLASSIFICATION" => Some(Purpose::Classification),
        "CLUSTERING" => Some(Purpose::Clustering),
        _ => Some(Purpose::Other(purpose)),
    });
    request.dimensions = match one.count("outputDimensionality")? {
        Some(dimensions) => Some(dimensions),
        None => one.count("output_dimensionality")?,
    };
    let Some(content) = one.raw("content") else {
        return Err(one.refuse("content", "is required"));
    };
    let at = one.at();
    let content = Object::of(content, At::Member(&at, "content"))?;
    let at = content.at();
    let at = At::Member(&at, "parts");
    // One object stands for a list of one, as everywhere in Google's JSON.
    let parts = match content.raw("parts") {
        Some(lone) if lone.get().starts_with('{') => vec![lone],
        _ => content.list("parts")?,
    };
    let mut whole: Option<Cow<'a, str>> = None;
    for (index, value) in parts.into_iter().enumerate() {
        let part = Object::of(value, At::Item(&at, index))?;
        match (part.text("text")?, &mut whole) {
            (Some(text), None) => whole = Some(text),
            (Some(text), Some(whole)) => whole.to_mut().push_str(&text),
            (None, _) => {
                let path = part.at().to_string();
                request.untranslatable.push(Cow::Owned(path));
            }
        }
    }
    let whole = whole.ok_or_else(|| at.refuse("must hold a text"));
    if request.untranslatable.is_empty() {
        request.texts.push(whole?);
    }
    Ok(())
}
