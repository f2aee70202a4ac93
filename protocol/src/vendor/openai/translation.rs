//! OpenAI chat completions in translation.

mod answer_reader;
mod answer_writer;
mod content;
mod embeddings;
mod request_reader;
mod request_writer;
mod stream_reader;
mod stream_writer;
pub(in crate::vendor) mod wording;

pub(in crate::vendor) use content::{audio, file_data};
pub(in crate::vendor) use request_reader::{allow, choice_of, has_grammar};

use super::OpenAi;
use crate::dialect::Protocol;
use crate::ir::{Answer, Place, Request};
use crate::translation::{
    CallerFacts, Feature, IdRule, LaneFacts, Losses, NameRule, Refusal, StreamReader, StreamWriter,
    Take, Translator, Written,
};

/// Longest id of a tool call, in bytes (OpenAI's error for longer ones).
pub(in crate::vendor) const ID_MAX_BYTES: usize = 64;
/// Longest name of a tool, in bytes (OpenAI's API reference).
pub(in crate::vendor) const NAME_MAX_BYTES: usize = 64;

impl Translator for OpenAi {
    fn protocol(&self) -> Protocol {
        Protocol::Openai
    }

    fn takes(&self, feature: Feature) -> Take {
        match feature {
            Feature::HighTemperature
            | Feature::FrequencyPenalty
            | Feature::PresencePenalty
            | Feature::Seed
            | Feature::Stop
            | Feature::NoParallelCalls
            | Feature::ToolChoiceNone
            | Feature::ToolChoiceRequired
            | Feature::ToolChoiceOne
            | Feature::StrictTools
            // They go into the user's message that follows.
            | Feature::ToolResultImages
            | Feature::JsonFormat
            | Feature::SchemaFormat
            | Feature::ReasoningBudget
            | Feature::Images
            | Feature::ImageUrls
            | Feature::ImageDetail
            | Feature::Documents
            | Feature::Audio
            | Feature::ParticipantNames
            | Feature::User
            | Feature::ServiceTier
            | Feature::PromptCacheKey => Take::Carried,
            Feature::TopK
            | Feature::ToolErrors
            | Feature::CacheMarks
            // It takes them only with what it stores.
            | Feature::Metadata => Take::Dropped,
            Feature::Choices | Feature::DocumentUrls | Feature::Prefill => Take::Refused,
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

    fn write_answer(&self, answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8> {
        answer_writer::write(answer, caller)
    }

    fn stream_reader(&self) -> Box<dyn StreamReader> {
        Box::<stream_reader::Reader>::default()
    }

    fn stream_writer(&self, caller: &CallerFacts) -> Box<dyn StreamWriter> {
        Box::new(stream_writer::Writer::new(caller))
    }
}
