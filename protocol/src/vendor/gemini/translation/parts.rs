//! Parts as Gemini's requests and answers hold them.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use crate::dialect::Protocol;
use crate::ir::{Json, Proof};
use crate::translation::ids;

/// The signature that the vendor documents for calls that another model made. It stands on the first
/// call of a turn, where the vendor's own would.
pub(super) const SKIP_VALIDATION: &str = "skip_thought_signature_validator";

/// A turn, or the instructions.
#[derive(Debug, Serialize)]
pub(super) struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    pub(super) parts: Vec<WrittenPart<'a>>,
}

/// A part: one of its kinds, and what goes with it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<Cow<'a, str>>,
}

impl<'a> WrittenPart<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// A thought, which may be nothing but its signature.
    pub(super) fn thought(text: impl Into<Cow<'a, str>>, proof: Option<&'a Proof<'_>>) -> Self {
        Self {
            thought: true,
            thought_signature: proof.map(signature),
            ..Self::text(text)
        }
    }
}

/// The signature for a proof. Google's packages decode it as base64, so another vendor's, which is
/// sealed, is encoded once more.
fn signature<'a>(proof: &'a Proof<'_>) -> Cow<'a, str> {
    if proof.protocol == Protocol::Gemini {
        Cow::Borrowed(&proof.text)
    } else {
        Cow::Owned(BASE64_STANDARD.encode(ids::seal(proof)))
    }
}

/// Bytes in base64.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob<'a> {
    pub(super) mime_type: Cow<'a, str>,
    pub(super) data: Cow<'a, str>,
}

/// A call of a function.
#[derive(Debug, Serialize)]
pub(super) struct FunctionCall<'a> {
    /// Callers get one; lanes do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) args: Json<'a>,
}

/// What a function gave: its text under one key, so that no key of the data means anything to the
/// vendor.
#[derive(Debug, Serialize)]
pub(super) struct FunctionResponse<'a> {
    pub(super) name: &'a str,
    pub(super) response: Response<'a>,
}

/// Text under the key that the vendor's reference names for it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response<'a> {
    /// It worked.
    Output(Cow<'a, str>),
    /// It failed.
    Error(Cow<'a, str>),
}

/// Newer models refuse a turn of calls without a signature. Of parallel calls the first has one; a
/// turn with any is the vendor's own and stays as it is.
pub(super) fn sign_foreign_calls(parts: &mut [WrittenPart<'_>]) {
    let is_call = |part: &&mut WrittenPart<'_>| part.function_call.is_some();
    let mut calls: Vec<_> = parts.iter_mut().filter(is_call).collect();
    if calls.iter().any(|call| call.thought_signature.is_some()) {
        return;
    }
    if let Some(first) = calls.first_mut() {
        first.thought_signature = Some(Cow::Borrowed(SKIP_VALIDATION));
    }
}
