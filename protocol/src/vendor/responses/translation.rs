//! OpenAI's Responses in translation.

mod answer_reader;
mod answer_writer;
mod count;
mod input_reader;
mod input_writer;
mod item;
mod request_reader;
mod request_writer;
mod stream_reader;
mod stream_writer;
mod strictness;

use super::Responses;
use crate::dialect::Protocol;
use crate::ir::{Answer, Place, Request};
use crate::translation::{
    CallerFacts, Feature, IdRule, LaneFacts, Losses, NameRule, Refusal, StreamReader, StreamWriter,
    Take, Translator, Written,
};
use crate::vendor::openai::translation::{ID_MAX_BYTES, NAME_MAX_BYTES};

impl Translator for Responses {
    fn protocol(&self) -> Protocol {
        Protocol::Responses
    }

    fn takes(&self, feature: Feature) -> Take {
        match feature {
            Feature::HighTemperature
            | Feature::NoParallelCalls
            | Feature::ToolChoiceNone
            | Feature::ToolChoiceRequired
            | Feature::ToolChoiceOne
            | Feature::StrictTools
            | Feature::ToolResultImages
            | Feature::JsonFormat
            | Feature::SchemaFormat
            | Feature::ReasoningBudget
            | Feature::Images
            | Feature::ImageUrls
            | Feature::ImageDetail
            | Feature::Documents
            | Feature::DocumentUrls
            | Feature::User
            | Feature::Metadata
            | Feature::ServiceTier
            | Feature::PromptCacheKey => Take::Carried,
            Feature::TopK
            | Feature::FrequencyPenalty
            | Feature::PresencePenalty
            | Feature::Seed
            | Feature::ToolErrors
            | Feature::ParticipantNames
            | Feature::CacheMarks => Take::Dropped,
            // It has no stop sequences, and without them the answer would be another one.
            Feature::Stop | Feature::Choices | Feature::Audio | Feature::Prefill => Take::Refused,
        }
    }

    fn id_rule(&self) -> IdRule {
        IdRule {
            max_bytes: ID_MAX_BYTES,
            is_plain: false,
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule {
            max_bytes: NAME_MAX_BYTES,
            others: b"",
            begins_with_letter: false,
        }
    }

    fn has_proofs_on_calls(&self) -> bool {
        false
    }

    fn place(&self, at: Place) -> String {
        match at.part {
            Place::WHOLE => format!("input[{}]", at.message),
            part => format!("input[{}].content[{part}]", at.message),
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

    fn write_answer(&self, answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8> {
        answer_writer::write(answer, caller)
    }

    fn stream_reader(&self) -> Box<dyn StreamReader> {
        Box::<stream_reader::Reader>::default()
    }

    fn stream_writer(&self, caller: &CallerFacts) -> Box<dyn StreamWriter> {
        Box::new(stream_writer::Writer::new(caller))
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
