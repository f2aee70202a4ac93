//! Gemini's half of the translation.

mod answer_reader;
mod answer_writer;
mod calls;
mod count;
mod embeddings;
mod finish;
mod members;
mod parts;
mod request_reader;
mod request_reader_config;
mod request_reader_parts;
mod request_writer;
mod request_writer_turns;
mod schema;
mod stream_reader;
mod stream_writer;
mod usage;

use crate::dialect::Protocol;
use crate::ir::{Answer, Place, Request};
use crate::translation::{
    CallerFacts, Feature, IdRule, LaneFacts, Losses, NameRule, Refusal, StreamReader, StreamWriter,
    Take, Translator, Written,
};

/// The translator.
#[derive(Clone, Copy, Debug)]
pub(super) struct GeminiTranslator;

impl Translator for GeminiTranslator {
    fn protocol(&self) -> Protocol {
        Protocol::Gemini
    }

    fn takes(&self, feature: Feature) -> Take {
        match feature {
            // Addresses: only those of Google's own stores, which no other vendor's caller has.
            Feature::ImageUrls | Feature::DocumentUrls | Feature::Choices | Feature::Prefill => {
                Take::Refused
            }
            // Coding agents ask for one call at a time of every model, and take several.
            Feature::NoParallelCalls
            | Feature::StrictTools
            | Feature::ImageDetail
            | Feature::ParticipantNames
            | Feature::CacheMarks
            | Feature::User
            | Feature::Metadata
            | Feature::ServiceTier
            | Feature::PromptCacheKey => Take::Dropped,
            Feature::HighTemperature
            | Feature::TopK
            | Feature::FrequencyPenalty
            | Feature::PresencePenalty
            | Feature::Seed
            | Feature::Stop
            | Feature::ToolChoiceNone
            | Feature::ToolChoiceRequired
            | Feature::ToolChoiceOne
            | Feature::ToolErrors
            | Feature::ToolResultImages
            | Feature::JsonFormat
            | Feature::SchemaFormat
            | Feature::ReasoningBudget
            | Feature::Images
            | Feature::Documents
            | Feature::Audio => Take::Carried,
        }
    }

    /// Ids do not go to Gemini: results stand in the order of their calls.
    fn id_rule(&self) -> IdRule {
        IdRule {
            max_bytes: 4096,
            is_plain: false,
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule {
            max_bytes: 64,
            others: b".",
            begins_with_letter: true,
        }
    }

    fn place(&self, at: Place) -> String {
        format!("contents[{}].parts[{}]", at.message, at.part)
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

    fn write_answer(&self, answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8> {
        answer_writer::write(answer, caller)
    }

    fn stream_reader(&self) -> Box<dyn StreamReader> {
        Box::new(stream_reader::Reader::default())
    }

    fn stream_writer(&self, caller: &CallerFacts) -> Box<dyn StreamWriter> {
        Box::new(stream_writer::Writer::new(caller))
    }

    fn read_count<'a>(&self, body: &'a [u8]) -> Result<Request<'a>, Refusal> {
        request_reader::read_count(body)
    }

    fn write_count(
        &self,
        request: &Request<'_>,
        lane: &LaneFacts<'_>,
        losses: &mut Losses,
    ) -> Result<Vec<u8>, Refusal> {
        request_writer::write_count(request, lane, losses)
    }

    fn read_counted(&self, body: &[u8]) -> Option<u64> {
        count::read(body)
    }

    fn write_counted(&self, tokens: u64) -> Vec<u8> {
        count::write(tokens)
    }
}
