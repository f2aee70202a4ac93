//! Reads `generationConfig`.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::members::{Members, count, number, texts, whole, word};
use super::request_reader::Reader;
use super::schema::to_json_schema;
use crate::ir::{Effort, Format, Json, ReasoningBudget, SchemaFormat};
use crate::translation::Refusal;
use crate::translation::members::{Within, flag, text};

impl<'a> Reader<'a> {
    pub(super) fn generation_config(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let config = Members::of(value)?;
        let mut form = Form::default();
        for (name, value) in config.iter() {
            { self.setting(name, value, &mut form) }.within(name)?;
        }
        self.request.format = match (form.media_type.as_deref(), form.schema) {
            (Some("text/plain"), _) | (None, None) => None,
            (Some("application/json") | None, Some(schema)) => Some(Format::Schema(SchemaFormat {
                name: None,
                description: None,
                schema,
                is_strict: false,
            })),
            (Some("application/json"), None) => Some(Format::Json),
            (Some(_), _) => {
                self.untranslatable("generationConfig.responseMimeType");
                None
            }
        };
        Ok(())
    }

    fn setting(
        &mut self,
        name: &str,
        value: &'a RawValue,
        form: &mut Form<'a>,
    ) -> Result<(), Refusal> {
        let request = &mut self.request;
        let sampling = &mut request.sampling;
        match name {
            "temperature" => sampling.temperature = Some(number(value)?),
            "topP" => sampling.top_p = Some(number(value)?),
            "topK" => sampling.top_k = Some(count(value)?),
            "frequencyPenalty" => sampling.frequency_penalty = Some(number(value)?),
            "presencePenalty" => sampling.presence_penalty = Some(number(value)?),
            "seed" => sampling.seed = Some(whole(value)?),
            "stopSequences" => sampling.stop = texts(value)?,
            "maxOutputTokens" => request.max_output_tokens = Some(count(value)?),
            "candidateCount" => request.choices = Some(count(value)?),
            "responseMimeType" => form.media_type = Some(text(value)?),
            "responseSchema" if form.schema.is_none() => {
                form.schema = Some(to_json_schema(value)?);
            }
            "responseSchema" => {}
            "responseJsonSchema" | "ResponseJsonSchema" => {
                form.schema = Some(Cow::Borrowed(value));
            }
            "thinkingConfig" => self.thinking_config(value)?,
            "responseLogprobs" => {
                if flag(value)? {
                    self.untranslatable("generationConfig.responseLogprobs");
                }
            }
            // It only says how many of them.
            "logprobs" => {}
            "responseModalities" => {
                let is_text = |word: &Cow<'_, str>| word.eq_ignore_ascii_case("text");
                if !texts(value)?.iter().all(is_text) {
                    self.untranslatable("generationConfig.responseModalities");
                }
            }
            "speechConfig" | "imageConfig" => {
                self.untranslatable(&format!("generationConfig.{name}"));
            }
            _ => self.unknown(&format!("generationConfig.{name}")),
        }
        Ok(())
    }

    fn thinking_config(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let config = Members::of(value)?;
        let reasoning = &mut self.request.reasoning;
        reasoning.shows_thoughts = config.optional("includeThoughts", flag)?;
        let level = config.optional("thinkingLevel", word)?;
        reasoning.budget = match config.optional("thinkingBudget", whole)? {
            Some(0) => Some(ReasoningBudget::Off),
            Some(tokens) => Some({ u64::try_from(tokens) }.map_or(
                // A negative one leaves it to the model.
                ReasoningBudget::Dynamic,
                ReasoningBudget::Tokens,
            )),
            None => level
                .as_deref()
                .and_then(effort)
                .map(ReasoningBudget::Effort),
        };
        Ok(())
    }
}

/// What says which form the answer has: in two or three settings.
#[derive(Default)]
struct Form<'a> {
    media_type: Option<Cow<'a, str>>,
    schema: Option<Json<'a>>,
}

fn effort(level: &str) -> Option<Effort> {
    Some(match level {
        "MINIMAL" => Effort::Minimal,
        "LOW" => Effort::Low,
        "MEDIUM" => Effort::Medium,
        "HIGH" => Effort::High,
        "XHIGH" => Effort::XHigh,
        _ => return None,
    })
}
