//! Texts and their vectors.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// A request for the vectors of texts.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingRequest<'a> {
    /// The texts, each of which gets one vector.
    pub texts: Vec<Cow<'a, str>>,
    /// How long the vectors are.
    pub dimensions: Option<u64>,
    /// What the vectors are for.
    pub purpose: Option<Purpose<'a>>,
    /// The caller wants them in base64.
    pub wants_base64: bool,
    /// The caller asked with the form for several texts, where its dialect has two.
    pub is_batch: bool,
    /// The end user, for the vendor's abuse checks.
    pub user: Option<Cow<'a, str>>,
    /// Fields that no other protocol can serve.
    pub untranslatable: Vec<Cow<'a, str>>,
    /// Fields that are dropped and named.
    pub unknown: Vec<Cow<'a, str>>,
}

/// What vectors are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// To be found.
    Document,
    /// To find others.
    Query,
    /// To be sorted into classes.
    Classification,
    /// To be grouped.
    Clustering,
    /// One that only the caller's dialect has.
    Other(Cow<'a, str>),
}

/// The vectors of texts, in the order of these.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingAnswer<'a> {
    /// The vectors.
    pub vectors: Vec<Vector<'a>>,
    /// The model, as the vendor names it; empty where it does not.
    pub model: Cow<'a, str>,
    /// Tokens of the texts, where they are counted.
    pub tokens: Option<u64>,
}

/// A vector, as the lane wrote it: its numbers keep their digits.
#[derive(Clone, Debug)]
pub enum Vector<'a> {
    /// A JSON list of numbers.
    Numbers(&'a RawValue),
    /// Little-endian 32-bit floats in base64.
    Base64(Cow<'a, str>),
}
