//! Responses streams, written for a caller: every item begins, grows and ends under one id, and every
//! event has the next number.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;

use super::answer_writer::{End, Identity, Response};
use super::item::{Content, Item, Said, Status, encrypted};
use crate::ir::{Arguments, Event, Finish, PartStart, Usage};
use crate::translation::custom::InputPieces;
use crate::translation::{CallerFacts, HeldTooMuch, StreamWriter, writing};

/// Most bytes of an answer: its last event repeats all of it.
const KEPT_MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Writer {
    facts: CallerFacts,
    identity: Identity,
    sequence: u64,
    items: Vec<Kept>,
    /// Which item a part is.
    places: HashMap<usize, usize>,
    kept_bytes: usize,
    finish: Option<End>,
    has_refusal: bool,
    usage: Option<Usage>,
}

/// An item, as far as it has come.
#[derive(Debug)]
struct Kept {
    id: String,
    said: Said,
    /// Takes the free text out of a call's arguments.
    pieces: Option<InputPieces>,
    is_whole: bool,
}

/// The members that events have beside their kind and number.
#[derive(Default, Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Response<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<[(); 0]>,
}

/// Writes events and numbers them.
struct Numbered<'a> {
    sequence: &'a mut u64,
    out: &'a mut Vec<u8>,
}

impl Numbered<'_> {
    fn event(&mut self, kind: &str, body: Body<'_>) {
        #[derive(Serialize)]
        struct Data<'a> {
            r#type: &'a str,
            sequence_number: u64,
            #[serde(flatten)]
            body: Body<'a>,
        }
        let data = Data {
            r#type: kind,
            sequence_number: *self.sequence,
            body,
        };
        *self.sequence = self.sequence.saturating_add(1);
        writing::event(self.out, kind, &data);
    }
}

impl Writer {
    pub(super) fn new(caller: &CallerFacts) -> Self {
        Self {
            facts: caller.clone(),
            identity: Identity::default(),
            sequence: 0,
            items: Vec::new(),
            places: HashMap::new(),
            kept_bytes: 0,
            finish: None,
            has_refusal: false,
            usage: None,
        }
    }

    fn start(&mut self, id: &str, model: &str, out: &mut Vec<u8>) {
        self.identity = Identity::new(id, model, &self.facts);
        let sequence = &mut self.sequence;
        let mut events = Numbered { sequence, out };
        for kind in ["response.created", "response.in_progress"] {
            let response = self.identity.response(Vec::new(), None, None);
            let response = Some(response);
            events.event(
                kind,
                Body {
                    response,
                    ..Body::default()
                },
            );
        }
    }

    fn begin(&mut self, part: usize, start: PartStart<'_>, out: &mut Vec<u8>) {
        let mut pieces = None;
        let said = match start {
            PartStart::Text => Said::Text(String::new()),
            PartStart::Refusal => {
                self.has_refusal = true;
                Said::Refusal(String::new())
            }
            PartStart::Reasoning => Said::Reasoning {
                text: String::new(),
                proof: None,
            },
            PartStart::ToolCall { id, name, .. } => {
                let (call_id, name) = (id.into_owned(), name.into_owned());
                if self.facts.custom_tools.contains(&name) {
                    pieces = Some(InputPieces::default());
                    let input = String::new();
                    Said::Custom {
                        call_id,
                        name,
                        input,
                    }
                } else {
                    let arguments = String::new();
                    Said::Function {
                        call_id,
                        name,
                        arguments,
                    }
                }
            }
        };
        let index = self.items.len();
        let id = said.id(&self.facts.unique, index);
        let sequence = &mut self.sequence;
        let mut events = Numbered { sequence, out };
        let mut item = said.item(&id, Status::InProgress);
        if let Item::Message { content, .. } = &mut item {
            content.clear();
        }
        events.event(
            "response.output_item.added",
            Body {
                output_index: Some(index),
                item: Some(item),
                ..Body::default()
            },
        );
        if let Some(content) = said.content() {
            events.event(
                "response.content_part.added",
                Body {
                    output_index: Some(index),
                    item_id: Some(&id),
                    content_index: Some(0),
                    part: Some(content),
                    ..Body::default()
                },
            );
        }
        self.places.insert(part, index);
        self.items.push(Kept {
            id,
            said,
            pieces,
            is_whole: false,
        });
    }

    fn piece(&mut self, part: usize, text: &str, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        let index = self.places.get(&part).copied();
        let Some((index, kept)) = index.and_then(|index| Some((index, self.items.get_mut(index)?)))
        else {
            return Ok(());
        };
        let text = match &mut kept.pieces {
            Some(pieces) => Cow::Owned(pieces.push(text)?),
            None => Cow::Borrowed(text),
        };
        self.kept_bytes = self.kept_bytes.saturating_add(text.len());
        if self.kept_bytes > KEPT_MAX_BYTES {
            return Err(HeldTooMuch);
        }
        let sequence = &mut self.sequence;
        kept.add(index, &text, &mut Numbered { sequence, out });
        Ok(())
    }

    fn proof(&mut self, part: usize, sealed: String) {
        let index = self.places.get(&part).copied();
        if let Some(kept) = index.and_then(|index| self.items.get_mut(index))
            && let Said::Reasoning { proof, .. } = &mut kept.said
        {
            *proof = Some(sealed);
        }
    }

    fn end_part(&mut self, part: usize, out: &mut Vec<u8>) {
        let index = self.places.remove(&part);
        let Some((index, kept)) = index.and_then(|index| Some((index, self.items.get_mut(index)?)))
        else {
            return;
        };
        let sequence = &mut self.sequence;
        kept.end(index, &mut Numbered { sequence, out });
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let mut open: Vec<_> = self.places.keys().copied().collect();
        open.sort_unstable();
        for part in open {
            self.end_part(part, out);
        }
        let end = { self.finish }.unwrap_or_else(|| End::of(&Finish::Stop, false));
        let output = { self.items.iter() }
            .map(|kept| kept.said.item(&kept.id, Status::Completed))
            .collect();
        let usage = Some(self.usage.unwrap_or_default());
        let response = self.identity.response(output, Some(&end), usage);
        let kind = match end.status() {
            Status::Incomplete => "response.incomplete",
            Status::Completed | Status::InProgress => "response.completed",
        };
        let sequence = &mut self.sequence;
        let mut events = Numbered { sequence, out };
        events.event(
            kind,
            Body {
                response: Some(response),
                ..Body::default()
            },
        );
    }
}

impl Kept {
    /// Adds more of its text.
    fn add(&mut self, index: usize, text: &str, events: &mut Numbered<'_>) {
        if text.is_empty() {
            return;
        }
        let id = self.id.as_str();
        let is_first = self.said.text_mut().is_empty();
        let mut body = Body {
            output_index: Some(index),
            item_id: Some(id),
            ..Body::default()
        };
        let kind = match &self.said {
            Said::Text(_) => {
                body.content_index = Some(0);
                body.logprobs = Some([]);
                "response.output_text.delta"
            }
            Said::Refusal(_) => {
                body.content_index = Some(0);
                "response.refusal.delta"
            }
            Said::Reasoning { .. } => {
                if is_first {
                    let part = Some(Content::SummaryText { text: "" });
                    let added = Body {
                        output_index: Some(index),
                        item_id: Some(id),
                        summary_index: Some(0),
                        part,
                        ..Body::default()
                    };
                    events.event("response.reasoning_summary_part.added", added);
                }
                body.summary_index = Some(0);
                "response.reasoning_summary_text.delta"
            }
            Said::Function { .. } => "response.function_call_arguments.delta",
            Said::Custom { .. } => "response.custom_tool_call_input.delta",
        };
        body.delta = Some(text);
        events.event(kind, body);
        self.said.text_mut().push_str(text);
    }

    /// Says that it is whole.
    fn end(&mut self, index: usize, events: &mut Numbered<'_>) {
        if std::mem::replace(&mut self.is_whole, true) {
            return;
        }
        if let Some(mut pieces) = self.pieces.take() {
            let rest = pieces.end();
            self.add(index, &rest, events);
        }
        if let Said::Function { arguments, .. } = &self.said
            && arguments.is_empty()
        {
            self.add(index, Arguments::NONE, events);
        }
        let id = self.id.as_str();
        let body = || Body {
            output_index: Some(index),
            item_id: Some(id),
            ..Body::default()
        };
        match &self.said {
            Said::Text(text) => {
                let content_index = Some(0);
                let done = Body {
                    content_index,
                    text: Some(text),
                    logprobs: Some([]),
                    ..body()
                };
                events.event("response.output_text.done", done);
            }
            Said::Refusal(refusal) => {
                let content_index = Some(0);
                let done = Body {
                    content_index,
                    refusal: Some(refusal),
                    ..body()
                };
                events.event("response.refusal.done", done);
            }
            Said::Reasoning { text, .. } if !text.is_empty() => {
                let summary_index = Some(0);
                let done = Body {
                    summary_index,
                    text: Some(text),
                    ..body()
                };
                events.event("response.reasoning_summary_text.done", done);
                let part = Some(Content::SummaryText { text });
                let done = Body {
                    summary_index,
                    part,
                    ..body()
                };
                events.event("response.reasoning_summary_part.done", done);
            }
            Said::Reasoning { .. } => {}
            Said::Function {
                name, arguments, ..
            } => {
                let done = Body {
                    name: Some(name),
                    arguments: Some(arguments),
                    ..body()
                };
                events.event("response.function_call_arguments.done", done);
            }
            Said::Custom { input, .. } => {
                let done = Body {
                    input: Some(input),
                    ..body()
                };
                events.event("response.custom_tool_call_input.done", done);
            }
        }
        if let Some(part) = self.said.content() {
            let done = Body {
                content_index: Some(0),
                part: Some(part),
                ..body()
            };
            events.event("response.content_part.done", done);
        }
        let done = Body {
            output_index: Some(index),
            item: Some(self.said.item(id, Status::Completed)),
            ..Body::default()
        };
        events.event("response.output_item.done", done);
    }
}

impl StreamWriter for Writer {
    fn write(&mut self, event: Event<'_>, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        match event {
            Event::Start { id, model } => self.start(&id, &model, out),
            Event::PartStart { part, start } => self.begin(part, start, out),
            Event::Piece { part, text } => return self.piece(part, &text, out),
            Event::Proof { part, proof } => self.proof(part, encrypted(&proof)),
            Event::PartEnd { part } => self.end_part(part, out),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Finish(finish) => {
                self.finish = Some(End::of(&finish, self.has_refusal));
            }
            Event::Ping => out.extend_from_slice(writing::COMMENT),
            Event::End => self.end(out),
        }
        Ok(())
    }

    /// It has the next number, and is about the response that has begun.
    fn failure(&self, event: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(event).ok()?;
        let (head, data) = text.trim_end().split_once("\ndata: ")?;
        let mut data: serde_json::Value = serde_json::from_str(data).ok()?;
        *data.get_mut("sequence_number")? = self.sequence.into();
        if let Some(response) = data.get_mut("response").and_then(|it| it.as_object_mut()) {
            let begun = self.identity.response(Vec::new(), None, None);
            let begun = serde_json::to_value(begun).ok()?;
            for (name, value) in begun.as_object()? {
                if name == "id" || !response.contains_key(name) {
                    response.insert(name.clone(), value.clone());
                }
            }
        }
        Some(format!("{head}\ndata: {data}\n\n").into_bytes())
    }
}
