//! Counts of tokens. Anthropic counts what came from the cache, or went there, apart from the input;
//! the representation counts it in.

use serde::{Deserialize, Serialize};

use crate::ir::Usage;

/// Counts as a lane reports them: a later report replaces what it names of an earlier one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Counts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<Details>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Details {
    thinking_tokens: Option<u64>,
}

impl Counts {
    pub(super) fn update(&mut self, later: Self) {
        *self = Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            cache_creation_input_tokens: { later.cache_creation_input_tokens }
                .or(self.cache_creation_input_tokens),
            cache_read_input_tokens: { later.cache_read_input_tokens }
                .or(self.cache_read_input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            output_tokens_details: later.output_tokens_details.or(self.output_tokens_details),
        };
    }

    pub(super) fn usage(self) -> Usage {
        let cache_read = self.cache_read_input_tokens;
        let cache_write = self.cache_creation_input_tokens;
        let cached = { cache_read.unwrap_or(0) }.saturating_add(cache_write.unwrap_or(0));
        Usage {
            input: self.input_tokens.unwrap_or(0).saturating_add(cached),
            output: self.output_tokens.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: { self.output_tokens_details }.and_then(|details| details.thinking_tokens),
        }
    }
}

/// Counts as callers see them.
#[derive(Debug, Serialize)]
pub(super) struct WrittenCounts {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<Details>,
}

impl From<Usage> for WrittenCounts {
    fn from(usage: Usage) -> Self {
        let read = usage.cache_read.unwrap_or(0);
        let write = usage.cache_write.unwrap_or(0);
        Self {
            input_tokens: usage.input.saturating_sub(read.saturating_add(write)),
            cache_creation_input_tokens: write,
            cache_read_input_tokens: read,
            output_tokens: usage.output,
            output_tokens_details: usage.reasoning.map(|tokens| Details {
                thinking_tokens: Some(tokens),
            }),
        }
    }
}
