//! What the fuzz targets share: how the first bytes of an input choose the setting, so that one
//! target reaches every protocol.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lanekeeper_protocol::classify::Rules;
use lanekeeper_protocol::{Dialect, Protocol};
use lanekeeper_model::gateway::ErrorMeaning;

const DIALECTS: [Dialect; 15] = [
    Dialect::OpenAiChat,
    Dialect::OpenAiCompletions,
    Dialect::OpenAiEmbeddings,
    Dialect::OpenAiModels,
    Dialect::Responses,
    Dialect::Anthropic,
    Dialect::AnthropicCountTokens,
    Dialect::GeminiGenerate,
    Dialect::GeminiStream,
    Dialect::GeminiCountTokens,
    Dialect::GeminiEmbed,
    Dialect::GeminiEmbedBatch,
    Dialect::GeminiModels,
    Dialect::AnthropicModels,
    Dialect::Cohere,
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
        protocol,
        error_map: &ERROR_MAP,
        passthrough: byte.is_multiple_of(2),
    }
}
