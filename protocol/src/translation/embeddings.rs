//! Embeddings in translation: a reader and a writer per protocol, and what is the same for all.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lanekeeper_model::gateway::Protocol;
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

use super::{Losses, Refusal};
use crate::ir::{EmbeddingAnswer, EmbeddingRequest, Vector};

/// One protocol's half of the translation of embeddings. All methods are pure.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// The protocol.
    fn protocol(&self) -> Protocol;

    /// Reads a caller's request.
    ///
    /// # Errors
    ///
    /// The request breaks a rule of the dialect.
    fn read_embeddings<'a>(&self, body: &'a [u8]) -> Result<EmbeddingRequest<'a>, Refusal>;

    /// Writes a request for a lane, in its form for several texts where it has two.
    ///
    /// # Errors
    ///
    /// The protocol cannot say it.
    fn write_embeddings(
        &self,
        request: &EmbeddingRequest<'_>,
        model: &str,
        losses: &mut Losses,
    ) -> Result<Vec<u8>, Refusal>;

    /// Reads a lane's answer to what [`Self::write_embeddings`] wrote. `None` when it is none.
    fn read_vectors<'a>(&self, body: &'a [u8]) -> Option<EmbeddingAnswer<'a>>;

    /// Writes an answer for a caller. `None` when a vector is none.
    fn write_vectors(
        &self,
        answer: &EmbeddingAnswer<'_>,
        facts: &EmbeddingFacts,
    ) -> Option<Vec<u8>>;
}

/// What the writer of an answer must know of the request.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingFacts {
    /// The model as the caller named it.
    pub model: String,
    /// An id that no other answer has.
    pub unique: String,
    /// The caller wants base64.
    pub wants_base64: bool,
    /// The caller asked with the form for several texts.
    pub is_batch: bool,
    /// How many texts there are.
    pub texts: usize,
}

/// A request as the lane takes it.
#[derive(Debug)]
pub struct TranslatedEmbeddings {
    /// The lane's document.
    pub body: Vec<u8>,
    /// What was left out or changed.
    pub losses: Losses,
    /// What brings the answer back.
    pub exchange: EmbeddingExchange,
}

/// What brings an answer back to its caller.
#[derive(Clone, Debug)]
pub struct EmbeddingExchange {
    caller: &'static dyn Embedder,
    lane: &'static dyn Embedder,
    facts: EmbeddingFacts,
}

/// Translates a request for embeddings. `model` and `unique` are those of
/// [`EmbeddingFacts`], `lane_model` is the provider's name of the model.
///
/// # Errors
///
/// The lane's protocol cannot say what is asked for, or the request breaks a rule of its own.
pub fn embeddings(
    caller: &'static dyn Embedder,
    lane: &'static dyn Embedder,
    body: &[u8],
    model: String,
    unique: String,
    lane_model: &str,
) -> Result<TranslatedEmbeddings, Refusal> {
    let request = caller.read_embeddings(body)?;
    if let Some(field) = request.untranslatable.first() {
        return Err(Refusal::untranslatable(field.clone()));
    }
    let mut losses = Losses::default();
    for field in &request.unknown {
        losses.name_given(field);
    }
    let body = lane.write_embeddings(&request, lane_model, &mut losses)?;
    Ok(TranslatedEmbeddings {
        body,
        losses,
        exchange: EmbeddingExchange {
            caller,
            lane,
            facts: EmbeddingFacts {
                model,
                unique,
                wants_base64: request.wants_base64,
                is_batch: request.is_batch,
                texts: request.texts.len(),
            },
        },
    })
}

impl EmbeddingExchange {
    /// A lane's answer for its caller. `None` when it is none, also when it does not hold one vector
    /// for each text: a shorter list would pair texts with the vectors of others.
    #[must_use]
    pub fn answer(&self, body: &[u8]) -> Option<Vec<u8>> {
        let answer = self.lane.read_vectors(body)?;
        if answer.vectors.len() != self.facts.texts {
            return None;
        }
        self.caller.write_vectors(&answer, &self.facts)
    }
}

/// Refuses more texts than a lane takes at once.
pub(crate) fn at_most(texts: usize, most: usize) -> Result<(), Refusal> {
    if texts <= most {
        return Ok(());
    }
    let reason = format!("holds more than the {most} texts that the lane takes at once");
    Err(Refusal::new("input", reason))
}

impl Vector<'_> {
    /// The vector in base64; `None` when it is no list of numbers.
    #[must_use]
    pub fn base64(&self) -> Option<Cow<'_, str>> {
        let numbers = match self {
            Self::Base64(text) => return Some(Cow::Borrowed(text)),
            Self::Numbers(raw) => serde_json::from_str::<Vec<f32>>(raw.get()).ok()?,
        };
        let bytes: Vec<u8> = numbers.iter().copied().flat_map(f32::to_le_bytes).collect();
        Some(Cow::Owned(BASE64_STANDARD.encode(bytes)))
    }

    /// True when it can be read either way.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        match self {
            Self::Numbers(raw) => serde_json::from_str::<Vec<f32>>(raw.get()).is_ok(),
            Self::Base64(text) => floats(text).is_some(),
        }
    }
}

/// The floats that `text` in base64 is.
fn floats(text: &str) -> Option<Vec<f32>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    let (whole, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| {
        whole
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect()
    })
}

/// As a list of numbers.
impl Serialize for Vector<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Numbers(raw) => raw.serialize(serializer),
            Self::Base64(text) => {
                let floats = floats(text).ok_or_else(|| S::Error::custom("no vector"))?;
                let mut list = serializer.serialize_seq(Some(floats.len()))?;
                for float in floats {
                    list.serialize_element(&float)?;
                }
                list.end()
            }
        }
    }
}
