//! Content blocks as Anthropic's requests and answers hold them.

use std::borrow::Cow;

use serde::Serialize;

use crate::dialect::Protocol;
use crate::ir::{Json, Reasoning};
use crate::translation::ids;

/// A content block.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    /// Text.
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl<'a>>,
    },
    /// A picture.
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl<'a>>,
    },
    /// A document.
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl<'a>>,
    },
    /// Thoughts.
    Thinking {
        thinking: Cow<'a, str>,
        signature: Cow<'a, str>,
    },
    /// Thoughts that the vendor hides.
    RedactedThinking { data: Cow<'a, str> },
    /// A call of a tool.
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Json<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl<'a>>,
    },
    /// What a tool gave.
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl<'a>>,
    },
}

/// A mark of the prompt cache.
#[derive(Debug, Serialize)]
pub(super) struct CacheControl<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ttl: Option<&'a str>,
}

/// Where the bytes of a picture or a document are.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    /// Here.
    Base64 { media_type: &'a str, data: &'a str },
    /// At an address that the vendor fetches.
    Url { url: &'a str },
    /// Here, as plain text.
    Text {
        media_type: &'static str,
        data: Cow<'a, str>,
    },
}

impl<'a> Block<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text {
            text: text.into(),
            cache_control: None,
        }
    }

    /// Thoughts as a caller sees them. Those that are not Anthropic's have a signature too: clients
    /// demand one and send it back, and by it the proof finds its way to its own vendor.
    pub(super) fn thoughts(reasoning: &'a Reasoning<'_>) -> Self {
        let text = Cow::Borrowed(reasoning.text.as_ref());
        let own =
            { reasoning.proof.as_ref() }.filter(|proof| proof.protocol == Protocol::Anthropic);
        match own {
            Some(proof) if proof.is_redacted => Self::RedactedThinking {
                data: Cow::Borrowed(&proof.text),
            },
            Some(proof) => Self::Thinking {
                thinking: text,
                signature: Cow::Borrowed(&proof.text),
            },
            None => Self::Thinking {
                thinking: text,
                signature: ids::signature(reasoning.proof.as_ref()),
            },
        }
    }
}
