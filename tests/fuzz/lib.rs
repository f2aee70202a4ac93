//! What the fuzz targets share: how the first bytes of an input choose the setting, so that one
//! target reaches every protocol.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lanekeeper_model::gateway::ErrorMeaning;
use lanekeeper_protocol::verdict::Rules;
use lanekeeper_protocol::{Dialect, Protocol, vendor};

const DIALECTS: [Dialect; 15] = [
    Dialect::OPENAI_CHAT,
    Dialect::OPENAI_COMPLETIONS,
    Dialect::OPENAI_EMBEDDINGS,
    Dialect::OPENAI_MODELS,
    Dialect::RESPONSES,
    Dialect::ANTHROPIC,
    Dialect::ANTHROPIC_COUNT_TOKENS,
    Dialect::GEMINI_GENERATE,
    Dialect::GEMINI_STREAM,
    Dialect::GEMINI_COUNT_TOKENS,
    Dialect::GEMINI_EMBED,
    Dialect::GEMINI_EMBED_BATCH,
    Dialect::GEMINI_MODELS,
    Dialect::ANTHROPIC_MODELS,
    Dialect::COHERE,
];

static ERROR_MAP: LazyLock<BTreeMap<String, ErrorMeaning>> = LazyLock::new(|| {
    BTreeMap::from([
        ("1113".to_owned(), ErrorMeaning::Billing),
        ("too_long".to_owned(), ErrorMeaning::ContextLength),
    ])
});

/// The dialect that a byte chooses.
#[must_use]
pub fn dialect(byte: u8) -> Dialect {
    DIALECTS[usize::from(byte) % DIALECTS.len()]
}

/// The rules of a lane; a byte chooses whose credential is used.
#[must_use]
pub fn rules(protocol: Protocol, byte: u8) -> Rules<'static> {
    Rules {
        vendor: vendor(protocol),
        error_map: &ERROR_MAP,
        passthrough: byte.is_multiple_of(2),
    }
}
