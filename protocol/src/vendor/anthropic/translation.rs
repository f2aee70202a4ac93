//! Anthropic's half of the translation.

mod answer_reader;
mod answer_tool;
mod answer_writer;
mod blocks;
mod count;
mod finish;
mod request_reader;
mod request_reader_blocks;
mod request_writer;
mod request_writer_turns;
mod stream_reader;
mod stream_writer;
mod thinking;
mod usage;

use crate::dialect::Protocol;
use crate::ir::{Answer, Place, Request};
use crate::translation::{
    CallerFacts, Feature, IdRule, LaneFacts, Losses, NameRule, Refusal, StreamReader, StreamWriter,
    Take, Translator, Written,
};

/// The translator.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnthropicTranslator;

impl Translator for AnthropicTranslator {
    fn protocol(&self) -> Protocol {
        Protocol::Anthropic
    }

    fn takes(&self, feature: Feature) -> Take {
        match feature {
            Feature::HighTemperature => Take::Cut,
            Feature::Choices | Feature::Audio => Take::Refused,
            // Schemas of strict tools must keep to a subset of JSON Schema, and older models know no
            // strict tools at all.
            Feature::StrictTools
            | Feature::FrequencyPenalty
            | Feature::PresencePenalty
            | Feature::Seed
            | Feature::ImageDetail
            | Feature::ParticipantNames
            | Feature::Metadata
            | Feature::ServiceTier
            | Feature::PromptCacheKey => Take::Dropped,
            Feature::TopK
            | Feature::Stop
            | Feature::NoParallelCalls
            | Feature::ToolChoiceNone
            | Feature::ToolChoiceRequired
            | Feature::ToolChoiceOne
            | Feature::ToolErrors
            | Feature::ToolResultImages
            | Feature::JsonFormat
            | Feature::SchemaFormat
            | Feature::ReasoningBudget
            | Feature::Images
            | Feature::ImageUrls
            | Feature::Documents
            | Feature::DocumentUrls
            | Feature::Prefill
            | Feature::CacheMarks
            | Feature::User => Take::Carried,
        }
    }

    /// The documents name the alphabet and no length.
    fn id_rule(&self) -> IdRule {
        IdRule {
            max_bytes: 256,
            is_plain: true,
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule {
            max_bytes: 128,
            others: b"",
            begins_with_letter: false,
        }
    }

    fn place(&self, at: Place) -> String {
        format!("messages[{}].content[{}]", at.message, at.part)
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
        request_writer::write(request, lane, false, losses)
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
        request_reader::read_count(body, false)
    }

    fn write_count(
        &self,
        request: &Request<'_>,
        lane: &LaneFacts<'_>,
        losses: &mut Losses,
    ) -> Result<Vec<u8>, Refusal> {
        request_writer::write(request, lane, true, losses).map(|written| written.body)
    }

    fn read_counted(&self, body: &[u8]) -> Option<u64> {
        count::read(body)
    }

    fn write_counted(&self, tokens: u64) -> Vec<u8> {
        count::write(tokens)
    }
}
