//! Cohere's chat, version 2, in translation.
//!
//! Beside calls of tools it has no content but a plan: text of the model's that comes with calls is the
//! plan, both ways.

mod answer_reader;
mod answer_writer;
mod embeddings;
mod request_reader;
mod request_writer;
mod stream_reader;
mod stream_writer;

use super::Cohere;
use crate::dialect::Protocol;
use crate::ir::{Answer, Place, Request};
use crate::translation::{
    CallerFacts, Feature, IdRule, LaneFacts, Losses, NameRule, Refusal, StreamReader, StreamWriter,
    Take, Translator, Written,
};

/// Longest id and name, in bytes. Cohere publishes no limit; this is what others take.
const MAX_BYTES: usize = 64;

impl Translator for Cohere {
    fn protocol(&self) -> Protocol {
        Protocol::Cohere
    }

    fn takes(&self, feature: Feature) -> Take {
        match feature {
            Feature::TopK
            | Feature::FrequencyPenalty
            | Feature::PresencePenalty
            | Feature::Seed
            | Feature::Stop
            | Feature::ToolChoiceNone
            | Feature::ToolChoiceRequired
            // Only that tool is offered then.
            | Feature::ToolChoiceOne
            | Feature::StrictTools
            | Feature::JsonFormat
            | Feature::SchemaFormat
            | Feature::ReasoningBudget
            | Feature::Images
            | Feature::ImageUrls
            | Feature::ImageDetail => Take::Carried,
            Feature::HighTemperature => Take::Cut,
            // Coding agents ask for one call at a time of every model, and take several.
            Feature::NoParallelCalls
            | Feature::ToolErrors
            | Feature::ParticipantNames
            | Feature::CacheMarks
            | Feature::User
            | Feature::Metadata
            | Feature::ServiceTier
            | Feature::PromptCacheKey => Take::Dropped,
            Feature::Choices
            | Feature::ToolResultImages
            | Feature::Documents
            | Feature::DocumentUrls
            | Feature::Audio
            | Feature::Prefill => Take::Refused,
        }
    }

    fn id_rule(&self) -> IdRule {
        IdRule {
            max_bytes: MAX_BYTES,
            is_plain: false,
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule {
            max_bytes: MAX_BYTES,
            others: b"",
            begins_with_letter: true,
        }
    }

    fn keeps_proofs(&self) -> bool {
        false
    }

    fn has_proofs_on_calls(&self) -> bool {
        false
    }

    fn place(&self, at: Place) -> String {
        match at.part {
            Place::WHOLE => format!("messages[{}]", at.message),
            part => format!("messages[{}].content[{part}]", at.message),
        }
    }

    fn read_request<'a>(&self, body: &'a [u8], streams: bool) -> Result<Request<'a>, Refusal> {
        request_reader::read(body, streams)
    }

    fn write_request(
        &self,
        request: &Request<'_>,
        lane: &LaneFacts<'_>,
        losses: &mut Losses,
    ) -> Result<Written, Refusal> {
        request_writer::write(request, lane, losses).map(Written::from)
    }

    fn read_answer<'a>(&self, body: &'a [u8]) -> Option<Answer<'a>> {
        answer_reader::read(body)
    }

    fn write_answer(&self, answer: &Answer<'_>, _caller: &CallerFacts) -> Vec<u8> {
        answer_writer::write(answer)
    }

    fn stream_reader(&self) -> Box<dyn StreamReader> {
        Box::<stream_reader::Reader>::default()
    }

    fn stream_writer(&self, _caller: &CallerFacts) -> Box<dyn StreamWriter> {
        Box::<stream_writer::Writer>::default()
    }
}
