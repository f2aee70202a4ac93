//! OpenAI's embeddings in translation.

use std::borrow::Cow;

use serde::Serialize;

use super::super::OpenAi;
use super::wording;
use crate::dialect::Protocol;
use crate::ir::{EmbeddingAnswer, EmbeddingRequest, Vector};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::{Object, text};
use crate::translation::embeddings::{Embedder, EmbeddingFacts, at_most};
use crate::translation::{Losses, Refusal, writing};

/// Most texts of one request (OpenAI's API reference).
const MAX_TEXTS: usize = 2_048;
/// The members of a request that mean something here.
const KNOWN: &[&str] = &["model", "input", "encoding_format", "dimensions", "user"];

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [Cow<'a, str>],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Answer<'a> {
    object: &'static str,
    data: Vec<Item<'a>>,
    model: &'a str,
    usage: Usage,
}

#[derive(Serialize)]
struct Item<'a> {
    object: &'static str,
    index: usize,
    embedding: Embedding<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Embedding<'a> {
    Numbers(&'a Vector<'a>),
    Base64(Cow<'a, str>),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
}

impl Embedder for OpenAi {
    fn protocol(&self) -> Protocol {
        Protocol::Openai
    }

    fn read_embeddings<'a>(&self, body: &'a [u8]) -> Result<EmbeddingRequest<'a>, Refusal> {
        let document = Object::document(body)?;
        let mut request = EmbeddingRequest {
            dimensions: document.count("dimensions")?,
            user: document.text("user")?,
            unknown: document.others(KNOWN).map(Cow::Owned).collect(),
            is_batch: true,
            ..EmbeddingRequest::default()
        };
        request.wants_base64 = match document.text("encoding_format")?.as_deref() {
            None | Some("float") => false,
            Some("base64") => true,
            Some(_) => {
                return Err(document.refuse("encoding_format", "is neither float nor base64"));
            }
        };
        let Some(input) = document.raw("input") else {
            return Err(document.refuse("input", "is required"));
        };
        if let Some(text) = text(input) {
            request.texts.push(text);
            return Ok(request);
        }
        let list = document.list("input");
        let list = list.map_err(|_| document.refuse("input", "must be a string or a list"))?;
        if list.is_empty() {
            return Err(document.refuse("input", "must hold at least one text"));
        }
        match list.into_iter().map(text).collect() {
            Some(texts) => request.texts = texts,
            // Tokens mean something to one vendor's models only.
            None => request.untranslatable.push(Cow::Borrowed("input")),
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
        if request.purpose.is_some() {
            losses.name("input_type");
        }
        let user = request.user.as_deref();
        Ok(writing::document(&Request {
            model,
            input: &request.texts,
            encoding_format: "float",
            dimensions: request.dimensions,
            user: user.map(|user| wording::key(user, "user", losses)),
        }))
    }

    fn read_vectors<'a>(&self, body: &'a [u8]) -> Option<EmbeddingAnswer<'a>> {
        let document: Fields<'_> = serde_json::from_slice(body).ok()?;
        let items: Vec<Fields<'_>> = parsed(document.get("data"))?;
        let mut vectors = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            let value = item.get("embedding")?;
            let index = parsed::<usize>(item.get("index")).unwrap_or(place);
            vectors.push((
                index,
                match text(value) {
                    Some(text) => Vector::Base64(text),
                    None => Vector::Numbers(value),
                },
            ));
        }
        vectors.sort_by_key(|(index, _)| *index);
        let usage: Option<Fields<'_>> = parsed(document.get("usage"));
        Some(EmbeddingAnswer {
            vectors: vectors.into_iter().map(|(_, vector)| vector).collect(),
            model: { document.get("model").and_then(text) }.unwrap_or_default(),
            tokens: usage.and_then(|usage| parsed(usage.get("prompt_tokens"))),
        })
    }

    fn write_vectors(
        &self,
        answer: &EmbeddingAnswer<'_>,
        facts: &EmbeddingFacts,
    ) -> Option<Vec<u8>> {
        let tokens = answer.tokens.unwrap_or_default();
        let mut data = Vec::with_capacity(answer.vectors.len());
        for (index, vector) in answer.vectors.iter().enumerate() {
            let embedding = if facts.wants_base64 {
                Embedding::Base64(vector.base64()?)
            } else {
                { vector.is_readable() }.then_some(Embedding::Numbers(vector))?
            };
            data.push(Item {
                object: "embedding",
                index,
                embedding,
            });
        }
        let model = if answer.model.is_empty() {
            &facts.model
        } else {
            answer.model.as_ref()
        };
        Some(writing::document(&Answer {
            object: "list",
            data,
            model,
            usage: Usage {
                prompt_tokens: tokens,
                total_tokens: tokens,
            },
        }))
    }
}
