//! Reads requests of Gemini's callers.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::calls::Calls;
use super::members::{Members, items, texts, word};
use super::schema::to_json_schema;
use crate::ir::{Function, Message, Part, PartBody, Place, Request, Role, Tool, ToolChoice};
use crate::json::fields::Fields;
use crate::translation::Refusal;
use crate::translation::members::{Within, is_text, text};
use crate::translation::schema::has_parameters;

/// A request while it is read.
#[derive(Default)]
pub(super) struct Reader<'a> {
    pub(super) request: Request<'a>,
    pub(super) calls: Calls<'a>,
}

/// Reads a request. `streams` is true when the path asks for a stream.
pub(super) fn read(body: &[u8], streams: bool) -> Result<Request<'_>, Refusal> {
    request(&document(body)?, streams)
}

/// Reads a request that is to be counted: a whole one under its own member, or a few of its members.
pub(super) fn read_count(body: &[u8]) -> Result<Request<'_>, Refusal> {
    let members = document(body)?;
    match members.get("generateContentRequest") {
        Some(inner) => { Members::of(inner) }
            .and_then(|inner| request(&inner, false))
            .within("generateContentRequest"),
        None => request(&members, false),
    }
}

fn document(body: &[u8]) -> Result<Members<'_>, Refusal> {
    let fields: Fields<'_> = serde_json::from_slice(body)
        .map_err(|_| Refusal::new("body", "must be one JSON object"))?;
    Ok(Members::from(fields))
}

fn request<'a>(members: &Members<'a>, streams: bool) -> Result<Request<'a>, Refusal> {
    let mut reader = Reader::default();
    reader.request.streams = streams;
    // Answers always say what they cost.
    reader.request.stream_usage = true;
    members.optional("systemInstruction", |value| reader.system(value))?;
    let contents = members.required("contents", items)?;
    for (number, content) in contents.into_iter().enumerate() {
        { reader.content(content, number) }.within(format_args!("contents[{number}]"))?;
    }
    if reader.request.messages.is_empty() {
        return Err(Refusal::new("contents", "must not be empty"));
    }
    for (name, value) in members.iter() {
        reader.field(name, value).within(name)?;
    }
    // What may be called is known only now.
    if let Some(config) = members.get("toolConfig") {
        reader.tool_config(config).within("toolConfig")?;
    }
    Ok(reader.request)
}

impl<'a> Reader<'a> {
    pub(super) fn untranslatable(&mut self, field: &str) {
        let field = Cow::Owned(field.to_owned());
        self.request.untranslatable.push(field);
    }

    pub(super) fn unknown(&mut self, field: &str) {
        self.request.unknown.push(Cow::Owned(field.to_owned()));
    }

    fn field(&mut self, name: &str, value: &'a RawValue) -> Result<(), Refusal> {
        match name {
            // The path names the model, and whether the vendor keeps the answer is its own matter.
            "model" | "contents" | "systemInstruction" | "toolConfig" | "store" => {}
            "generationConfig" => self.generation_config(value)?,
            "tools" => {
                for (number, tool) in items(value)?.into_iter().enumerate() {
                    self.tool(tool).within(format_args!("[{number}]"))?;
                }
            }
            "labels" => self.request.extras.metadata = Some(Cow::Borrowed(value)),
            "serviceTier" => self.request.extras.service_tier = Some(text(value)?),
            "cachedContent" => self.untranslatable(name),
            _ => self.unknown(name),
        }
        Ok(())
    }

    fn system(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let parts = if is_text(value) {
            vec![Part::text(text(value)?)]
        } else {
            self.parts(&Members::of(value)?, 0)?
        };
        if !parts.is_empty() {
            let message = Message::new(Role::System, parts);
            self.request.messages.push(message);
        }
        Ok(())
    }

    fn parts(&mut self, content: &Members<'a>, number: usize) -> Result<Vec<Part<'a>>, Refusal> {
        let Some(given) = content.optional("parts", items)? else {
            return Ok(Vec::new());
        };
        let mut parts = Vec::with_capacity(given.len());
        for (part, value) in given.into_iter().enumerate() {
            let at = Place {
                message: number,
                part,
            };
            let read = self.part(value, at);
            parts.extend(read.within(format_args!("parts[{part}]"))?);
        }
        Ok(parts)
    }

    fn content(&mut self, value: &'a RawValue, number: usize) -> Result<(), Refusal> {
        let content = Members::of(value)?;
        let role = content.optional("role", text)?;
        let is_model = match role.as_deref() {
            Some("model") => true,
            None | Some("" | "user" | "function" | "tool") => false,
            Some(_) => return Err(Refusal::new("role", "must be \"user\" or \"model\"")),
        };
        let last = self.request.messages.last().map(|message| message.role);
        if is_model && last != Some(Role::Assistant) {
            self.calls.forget();
        }
        let parts = self.parts(&content, number)?;
        if is_model {
            self.push(Role::Assistant, parts);
        } else {
            let is_result = |part: &Part<'_>| matches!(part.body, PartBody::ToolResult(_));
            let (results, others) = parts.into_iter().partition(is_result);
            self.push(Role::Tool, results);
            self.push(Role::User, others);
        }
        Ok(())
    }

    fn push(&mut self, role: Role, parts: Vec<Part<'a>>) {
        if !parts.is_empty() {
            self.request.messages.push(Message::new(role, parts));
        }
    }

    fn tool(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        for (name, value) in Members::of(value)?.iter() {
            if name != "functionDeclarations" {
                let kind = Cow::Owned(name.to_owned());
                self.request.tools.push(Tool::BuiltIn { kind });
                continue;
            }
            let declarations = items(value).within(name)?;
            for (number, declaration) in declarations.into_iter().enumerate() {
                { self.function(declaration) }.within(format_args!("{name}[{number}]"))?;
            }
        }
        Ok(())
    }

    fn function(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let members = Members::of(value)?;
        let schema = match members.get("parametersJsonSchema") {
            Some(schema) => Some(Cow::Borrowed(schema)),
            None => members.optional("parameters", to_json_schema)?,
        };
        for (name, _) in members.iter() {
            match name {
                "name" | "description" | "parameters" | "parametersJsonSchema" => {}
                _ => self.unknown(&format!("tools.{name}")),
            }
        }
        let description = members.optional("description", text)?;
        self.request.tools.push(Tool::Function(Function {
            name: members.required("name", text)?,
            description: description.filter(|description| !description.is_empty()),
            parameters: schema.filter(|schema| has_parameters(schema)),
            is_strict: false,
            cache: None,
        }));
        Ok(())
    }

    fn tool_config(&mut self, value: &'a RawValue) -> Result<(), Refusal> {
        let config = Members::of(value)?;
        for (name, _) in config.iter() {
            if name != "functionCallingConfig" {
                self.unknown(&format!("toolConfig.{name}"));
            }
        }
        let Some(calling) = config.optional("functionCallingConfig", Members::of)? else {
            return Ok(());
        };
        let mode = calling.optional("mode", word)?;
        let allowed = calling.optional("allowedFunctionNames", texts)?;
        let choice = match mode.as_deref() {
            None | Some("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED") => ToolChoice::Auto,
            Some("NONE") => ToolChoice::None,
            Some("ANY") => ToolChoice::Required,
            Some(_) => {
                let reason = "must be AUTO, ANY, NONE or VALIDATED";
                return Err(Refusal::new("functionCallingConfig.mode", reason));
            }
        };
        self.request.tool_choice = Some(choice);
        match allowed.as_deref() {
            None | Some([]) => {}
            Some([name]) if self.request.tool_choice == Some(ToolChoice::Required) => {
                self.request.tool_choice = Some(ToolChoice::One(name.clone()));
            }
            // Only these may be called: the others might as well not be there.
            Some(allowed) => self.request.tools.retain(|tool| match tool {
                Tool::Function(function) => allowed.contains(&function.name),
                Tool::Custom(_) | Tool::BuiltIn { .. } => true,
            }),
        }
        Ok(())
    }
}
