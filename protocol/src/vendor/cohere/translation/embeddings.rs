//! Cohere's embeddings in translation.

use std::borrow::Cow;

use serde::Serialize;

use super::super::Cohere;
use crate::dialect::Protocol;
use crate::ir::{EmbeddingAnswer, EmbeddingRequest, Purpose, Vector};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::{Object, text};
use crate::translation::embeddings::{Embedder, EmbeddingFacts, at_most};
use crate::translation::{Losses, Refusal, writing};

/// Most texts of one request (Cohere's API reference).
const MAX_TEXTS: usize = 96;
/// What the vectors are for where the caller does not say: Cohere demands that something is said.
const DEFAULT_INPUT_TYPE: &str = "search_document";
/// The members of a request that mean something here.
const KNOWN: &[&str] = &[
    "model",
    "texts",
    "input_type",
    "embedding_types",
    "output_dimension",
];
/// What asks for vectors of something else than texts.
const UNTRANSLATABLE: &[&str] = &["images", "inputs"];

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    texts: &'a [Cow<'a, str>],
    input_type: &'a str,
    embedding_types: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    embeddings: Embeddings<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
    response_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Embeddings<'a> {
    Float(&'a [Vector<'a>]),
    Base64(Vec<Cow<'a, str>>),
}

#[derive(Serialize)]
struct Meta {
    api_version: Version,
    billed_units: Units,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

#[derive(Serialize)]
struct Units {
    input_tokens: u64,
}

impl Embedder for Cohere {
    fn protocol(&self) -> Protocol {
        Protocol::Cohere
    }

    fn read_embeddings<'a>(&self, body: &'a [u8]) -> Result<EmbeddingRequest<'a>, Refusal> {
        let document = Object::document(body)?;
        let mut request = EmbeddingRequest {
            dimensions: document.count("output_dimension")?,
            is_batch: true,
            ..EmbeddingRequest::default()
        };
        for name in UNTRANSLATABLE.iter().filter(|name| document.says(name)) {
            request.untranslatable.push(Cow::Borrowed(name));
        }
        let unknown = document.others(KNOWN);
        let unknown = unknown.filter(|name| !UNTRANSLATABLE.contains(&name.as_str()));
        request.unknown.extend(unknown.map(Cow::Owned));
        request.purpose = document
            .text("input_type")?
            .map(|kind| match kind.as_ref() {
                "search_document" => Purpose::Document,
                "search_query" => Purpose::Query,
                "classification" => Purpose::Classification,
                "clustering" => Purpose::Clustering,
                _ => Purpose::Other(kind),
            });
        let kinds = document.list("embedding_types")?;
        match kinds.as_slice() {
            [] => {}
            [kind] if text(kind).as_deref() == Some("float") => {}
            [kind] if text(kind).as_deref() == Some("base64") => request.wants_base64 = true,
            // Others are made by the model, or several at once.
            _ => request
                .untranslatable
                .push(Cow::Borrowed("embedding_types")),
        }
        let texts: Option<Vec<_>> = { document.list("texts")?.into_iter() }.map(text).collect();
        request.texts = texts.ok_or_else(|| document.refuse("texts", "must hold strings only"))?;
        if request.texts.is_empty() && request.untranslatable.is_empty() {
            return Err(document.refuse("texts", "must hold at least one text"));
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
        let input_type = match &request.purpose {
            None | Some(Purpose::Document) => DEFAULT_INPUT_TYPE,
            Some(Purpose::Query) => "search_query",
            Some(Purpose::Classification) => "classification",
            Some(Purpose::Clustering) => "clustering",
            Some(Purpose::Other(_)) => {
                losses.name("input_type");
                DEFAULT_INPUT_TYPE
            }
        };
        Ok(writing::document(&Request {
            model,
            texts: &request.texts,
            input_type,
            embedding_types: ["float"],
            output_dimension: request.dimensions,
        }))
    }

    fn read_vectors<'a>(&self, body: &'a [u8]) -> Option<EmbeddingAnswer<'a>> {
        let document: Fields<'_> = serde_json::from_slice(body).ok()?;
        let kinds: Fields<'_> = parsed(document.get("embeddings"))?;
        let vectors: Vec<_> = parsed(kinds.get("float"))?;
        let meta: Option<Fields<'_>> = parsed(document.get("meta"));
        let units: Option<Fields<'_>> = meta.and_then(|meta| parsed(meta.get("billed_units")));
        Some(EmbeddingAnswer {
            vectors: vectors.into_iter().map(Vector::Numbers).collect(),
            model: Cow::Borrowed(""),
            tokens: units.and_then(|units| parsed(units.get("input_tokens"))),
        })
    }

    fn write_vectors(
        &self,
        answer: &EmbeddingAnswer<'_>,
        facts: &EmbeddingFacts,
    ) -> Option<Vec<u8>> {
        let embeddings = if facts.wants_base64 {
            let all: Option<Vec<_>> = answer.vectors.iter().map(Vector::base64).collect();
            Embeddings::Base64(all?)
        } else {
            let is_readable = answer.vectors.iter().all(Vector::is_readable);
            { is_readable }.then_some(Embeddings::Float(&answer.vectors))?
        };
        Some(writing::document(&Answer {
            id: &facts.unique,
            embeddings,
            meta: answer.tokens.map(|input_tokens| Meta {
                api_version: Version { version: "2" },
                billed_units: Units { input_tokens },
            }),
            response_type: "embeddings_by_type",
        }))
    }
}
