//! Counts of tokens. Gemini counts thoughts and what its own tools read apart; the representation
//! counts them in.

use serde::{Deserialize, Serialize};

use crate::ir::Usage;

/// `usageMetadata`. Every chunk of a stream repeats it for all that came so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thoughts_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_token_count: Option<u64>,
}

impl Counts {
    pub(super) fn usage(self) -> Usage {
        let tools = self.tool_use_prompt_token_count.unwrap_or(0);
        let thoughts = self.thoughts_token_count.unwrap_or(0);
        Usage {
            input: self.prompt_token_count.unwrap_or(0).saturating_add(tools),
            output: { self.candidates_token_count.unwrap_or(0) }.saturating_add(thoughts),
            cache_read: self.cached_content_token_count,
            cache_write: None,
            reasoning: self.thoughts_token_count,
        }
    }
}

impl From<Usage> for Counts {
    fn from(usage: Usage) -> Self {
        let thoughts = usage.reasoning.unwrap_or(0);
        Self {
            prompt_token_count: Some(usage.input),
            tool_use_prompt_token_count: None,
            cached_content_token_count: usage.cache_read,
            candidates_token_count: Some(usage.output.saturating_sub(thoughts)),
            thoughts_token_count: usage.reasoning,
            total_token_count: Some(usage.input.saturating_add(usage.output)),
        }
    }
}
