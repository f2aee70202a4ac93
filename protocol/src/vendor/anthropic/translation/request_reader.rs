//! Reads requests of Anthropic's callers.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::request_reader_blocks::Reader;
use crate::ir::{
    Effort, Format, Function, Message, Part, PartBody, Place, ReasoningBudget, Request, Role,
    SchemaFormat, Tool, ToolChoice,
};
use crate::json::fields::Fields;
use crate::translation::Refusal;
use crate::translation::members::{
    Within, anything, count, flag, is_null, is_text, list, number, object, optional, required,
    text, texts,
};
use crate::translation::schema::has_parameters;

/// Reads a request. `streams` is true when the path asks for a stream, which Anthropic's never does.
pub(super) fn read(body: &[u8], streams: bool) -> Result<Request<'_>, Refusal> {
    let request = read_count(body, streams)?;
    if request.max_output_tokens.is_none() {
        return Err(Refusal::new("max_tokens", "is missing"));
    }
    Ok(request)
}

/// Reads a request that is to be counted, for which an answer's limit means nothing.
pub(super) fn read_count(body: &[u8], streams: bool) -> Result<Request<'_>, Refusal> {
    let fields: Fields<'_> = serde_json::from_slice(body)
        .map_err(|_| Refusal::new("body", "must be one JSON object"))?;
    let mut reader = Reader::default();
    reader.request.streams = streams;
    // Answers always say what they cost.
    reader.request.stream_usage = true;
    if let Some(system) = optional(&fields, "system", anything)? {
        reader.system(system).within("system")?;
    }
    let messages = required(&fields, "messages", list)?;
    for (number, message) in messages.into_iter().enumerate() {
        { reader.message(message, number) }.within(format_args!("messages[{number}]"))?;
    }
    if reader.request.messages.is_empty() {
        return Err(Refusal::new("messages", "must not be empty"));
    }
    let mut thinking = ThinkingFields::default();
    for (name, value) in fields.iter() {
        if !is_null(value) {
            reader.field(name, value, &mut thinking).within(name)?;
        }
    }
    thinking.put_into(&mut reader.request);
    Ok(reader.request)
}

/// What says how much the model thinks: in two fields of the request.
#[derive(Default)]
struct ThinkingFields {
    budget: Option<ReasoningBudget>,
    effort: Option<Effort>,
    shows_thoughts: Option<bool>,
}

impl ThinkingFields {
    fn put_into(self, request: &mut Request<'_>) {
        let effort = self.effort.map(ReasoningBudget::Effort);
        request.reasoning.budget = match self.budget {
            None | Some(ReasoningBudget::Dynamic) => effort.or(self.budget),
            said => said,
        };
        request.reasoning.shows_thoughts = self.shows_thoughts;
    }
}

impl<'a> Reader<'a> {
    fn field(
        &mut self,
        name: &str,
        value: &'a RawValue,
        thinking: &mut ThinkingFields,
    ) -> Result<(), Refusal> {
        let request = &mut self.request;
        match name {
            "model" | "messages" | "system" => {}
            "max_tokens" => request.max_output_tokens = Some(count(value)?),
            "temperature" => request.sampling.temperature = Some(number(value)?),
            "top_p" => request.sampling.top_p = Some(number(value)?),
            "top_k" => request.sampling.top_k = Some(count(value)?),
            "stop_sequences" => request.sampling.stop = texts(value)?,
            "stream" => request.streams |= flag(value)?,
            "service_tier" => request.extras.service_tier = Some(text(value)?),
            "metadata" => self.metadata(value)?,
            "tools" => self.tools(value)?,
            "tool_choice" => self.tool_choice(value)?,
            "thinking" => self.thinking(value, thinking)?,
            "output_config" => self.output_config(value, thinking)?,
            "output_format" => self.request.format = self.format(value)?,
            // They name what an account keeps, what its vendor connects to, or where it computes.
            "container" | "inference_geo" => self.untranslatable(name),
            "mcp_servers" if list(value)?.is_empty() => {}
            "mcp_servers" => self.untranslatable(name),
            _ => self.unknown(name),
        }
        Ok(())
    }

    fn system(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let parts = self.content(value, 0)?;
        self.request
            .messages
            .push(Message::new(Role::System, parts));
        Ok(())
    }

    fn message(&mut self, value: &'a RawValue, number: usize) -> Result<(), Refusal> {
        let fields = object(value)?;
        let role = required(&fields, "role", text)?;
        let content = required(&fields, "content", anything)?;
        let parts = self.content(content, number).within("content")?;
        self.rest(&fields, "messages", &["role", "content"]);
        match role.as_ref() {
            "assistant" => self.push(Role::Assistant, parts),
            "system" => self.push(Role::System, parts),
            "user" => {
                let is_result = |part: &Part<'_>| matches!(part.body, PartBody::ToolResult(_));
                let (results, others) = parts.into_iter().partition(is_result);
                self.push(Role::Tool, results);
                self.push(Role::User, others);
            }
            _ => return Err(Refusal::new("role", "must be \"user\" or \"assistant\"")),
        }
        Ok(())
    }

    fn push(&mut self, role: Role, parts: Vec<Part<'a>>) {
        if !parts.is_empty() {
            self.request.messages.push(Message::new(role, parts));
        }
    }

    fn content(&mut self, value: &'a RawValue, message: usize) -> Result<Vec<Part<'a>>, Refusal> {
        let place = |part| Place { message, part };
        if is_text(value) {
            return Ok(vec![Part {
                at: place(0),
                ..Part::text(text(value)?)
            }]);
        }
        let blocks = list(value)?.into_iter().enumerate();
        { blocks }
            .map(|(part, block)| {
                self.block(block, place(part))
                    .within(format_args!("[{part}]"))
            })
            .collect()
    }

    fn metadata(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let fields = object(value)?;
        self.request.extras.user = optional(&fields, "user_id", text)?;
        self.rest(&fields, "metadata", &["user_id"]);
        Ok(())
    }

    fn tools(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        for (number, tool) in list(value)?.into_iter().enumerate() {
            let tool = self.tool(tool).within(format_args!("[{number}]"))?;
            self.request.tools.push(tool);
        }
        Ok(())
    }

    fn tool(&mut self, value: &'a RawValue) -> Result<Tool<'a>, Refusal> {
        const KNOWN: &[&str] = &[
            "type",
            "name",
            "description",
            "input_schema",
            "strict",
            "cache_control",
        ];
        let fields = object(value)?;
        let kind = optional(&fields, "type", text)?;
        if let Some(kind) = kind.filter(|kind| kind != "custom") {
            return Ok(Tool::BuiltIn { kind });
        }
        self.rest(&fields, "tools", KNOWN);
        let description = optional(&fields, "description", text)?;
        let parameters = optional(&fields, "input_schema", anything)?;
        Ok(Tool::Function(Function {
            name: required(&fields, "name", text)?,
            description: description.filter(|description| !description.is_empty()),
            parameters: parameters
                .filter(|schema| has_parameters(schema))
                .map(Cow::Borrowed),
            is_strict: optional(&fields, "strict", flag)?.unwrap_or(false),
            cache: self.cache_mark(&fields)?,
        }))
    }

    fn tool_choice(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let fields = object(value)?;
        let kind = required(&fields, "type", text)?;
        self.request.tool_choice = Some(match kind.as_ref() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "any" => ToolChoice::Required,
            "tool" => ToolChoice::One(required(&fields, "name", text)?),
            _ => {
                return Err(Refusal::new(
                    "type",
                    "must be \"auto\", \"any\", \"tool\" or \"none\"",
                ));
            }
        });
        let is_lone = optional(&fields, "disable_parallel_tool_use", flag)?;
        self.request.parallel_tool_calls = is_lone.map(|is_lone| !is_lone);
        Ok(())
    }

    fn thinking(
        &mut self,
        value: &'a RawValue,
        thinking: &mut ThinkingFields,
    ) -> Result<(), Refusal> {
        let fields = object(value)?;
        let kind = required(&fields, "type", text)?;
        thinking.budget = Some(match kind.as_ref() {
            "disabled" => ReasoningBudget::Off,
            "enabled" => ReasoningBudget::Tokens(required(&fields, "budget_tokens", count)?),
            _ => ReasoningBudget::Dynamic,
        });
        if kind != "disabled" {
            let display = optional(&fields, "display", text)?;
            thinking.shows_thoughts = Some(display.is_none_or(|display| display != "omitted"));
        }
        Ok(())
    }

    fn output_config(
        &mut self,
        value: &'a RawValue,
        thinking: &mut ThinkingFields,
    ) -> Result<(), Refusal> {
        let fields = object(value)?;
        let effort = optional(&fields, "effort", text)?;
        thinking.effort = match effort.as_deref() {
            None => None,
            Some("low") => Some(Effort::Low),
            Some("medium") => Some(Effort::Medium),
            Some("high") => Some(Effort::High),
            Some("xhigh" | "max") => Some(Effort::XHigh),
            Some(_) => {
                self.unknown("output_config.effort");
                None
            }
        };
        if let Some(format) = optional(&fields, "format", anything)? {
            self.request.format = self.format(format).within("format")?;
        }
        self.rest(&fields, "output_config", &["effort", "format"]);
        Ok(())
    }

    fn format(&mut self, value: &'a RawValue) -> Result<Option<Format<'a>>, Refusal> {
        let fields = object(value)?;
        let kind = required(&fields, "type", text)?;
        if kind != "json_schema" {
            return Err(Refusal::new("type", "must be \"json_schema\""));
        }
        Ok(Some(Format::Schema(SchemaFormat {
            name: optional(&fields, "name", text)?,
            description: None,
            schema: Cow::Borrowed(required(&fields, "schema", anything)?),
            is_strict: true,
        })))
    }
}
