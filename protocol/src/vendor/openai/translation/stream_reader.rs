//! A lane's chat stream, read chunk by chunk.
//!
//! Servers of this protocol differ in much: chunks without choices, null for absent, a name that
//! comes late, usage in every chunk, calls that all have index 0. All of that is read.

use std::borrow::Cow;

use super::{answer_reader, wording};
use crate::ir::{Event, Finish, PartStart};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::text;
use crate::translation::extent::Extent;
use crate::translation::{BadFrame, StreamReader};

/// The data of the last frame.
const DONE: &[u8] = b"[DONE]";

/// A sink of events.
type Sink<'s> = dyn FnMut(Event<'_>) + 's;

#[derive(Debug, Default)]
pub(super) struct Reader {
    has_started: bool,
    is_over: bool,
    /// Parts that have begun.
    parts: usize,
    /// The part that is open and no call.
    open: Option<(Kind, usize)>,
    calls: Vec<Call>,
    model: String,
    has_refusal: bool,
    /// The first reason that was given; content may still follow it.
    finish: Option<Finish<'static>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Text,
    Refusal,
}

#[derive(Debug)]
struct Call {
    /// The lane's number of it.
    index: Option<u64>,
    id: String,
    name: String,
    /// Arguments that came before the name.
    early: String,
    /// Its part, once it has begun.
    part: Option<usize>,
    extent: Extent,
    has_ended: bool,
}

impl StreamReader for Reader {
    fn read(
        &mut self,
        _event: Option<&[u8]>,
        data: &[u8],
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), BadFrame> {
        let data = data.trim_ascii();
        if data.is_empty() || self.is_over {
            return Ok(());
        }
        if data == DONE {
            self.end(sink);
            return Ok(());
        }
        let chunk: Fields<'_> = serde_json::from_slice(data).map_err(|_| BadFrame)?;
        let choices: Vec<Fields<'_>> = parsed(chunk.get("choices")).unwrap_or_default();
        let choice = choices.first();
        if choice.is_some() && !self.has_started {
            self.has_started = true;
            let member = |name| chunk.get(name).and_then(text).unwrap_or_default();
            let (id, model) = (member("id"), member("model"));
            self.model = model.clone().into_owned();
            sink(Event::Start { id, model });
        }
        if let Some(choice) = choice {
            if let Some(delta) = parsed::<Fields<'_>>(choice.get("delta")) {
                self.delta(&delta, sink);
            }
            let reason = { choice.get("finish_reason") }.and_then(text);
            if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                let reason = answer_reader::finish(reason).into_owned();
                self.finish.get_or_insert(reason);
            }
        }
        if let Some(usage) = chunk.get("usage").and_then(answer_reader::usage)
            && self.has_started
        {
            sink(Event::Usage(usage));
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if !self.has_started {
            let (id, model) = (Cow::Borrowed(""), Cow::Borrowed(""));
            sink(Event::Start { id, model });
        }
        self.close(sink);
        let mut calls = std::mem::take(&mut self.calls);
        for call in &mut calls {
            if call.part.is_none() && !(call.id.is_empty() && call.early.is_empty()) {
                // It never got a name: the caller must see that a call was meant.
                self.begin(call, sink);
            }
            call.end(sink);
        }
        let reason = self.finish.take().unwrap_or_default();
        let finish = wording::finish(reason, !calls.is_empty(), self.has_refusal);
        sink(Event::Finish(finish));
        sink(Event::End);
    }
}

impl Reader {
    fn delta(&mut self, delta: &Fields<'_>, sink: &mut Sink<'_>) {
        let member = |name| { delta.get(name).and_then(text) }.filter(|text| !text.is_empty());
        let thought = member("reasoning_content").or_else(|| member("reasoning"));
        let said = [
            (Kind::Reasoning, thought),
            (Kind::Text, member("content")),
            (Kind::Refusal, member("refusal")),
        ];
        for (kind, text) in said {
            if let Some(text) = text {
                self.say(kind, text, sink);
            }
        }
        let calls: Vec<Fields<'_>> = parsed(delta.get("tool_calls")).unwrap_or_default();
        for call in &calls {
            self.call(call, sink);
        }
    }

    fn say(&mut self, kind: Kind, text: Cow<'_, str>, sink: &mut Sink<'_>) {
        let part = match self.open {
            Some((open, part)) if open == kind => part,
            _ => {
                self.close(sink);
                let part = self.next_part();
                let start = match kind {
                    Kind::Reasoning => PartStart::Reasoning,
                    Kind::Text => PartStart::Text,
                    Kind::Refusal => PartStart::Refusal,
                };
                self.has_refusal |= kind == Kind::Refusal;
                sink(Event::PartStart { part, start });
                self.open = Some((kind, part));
                part
            }
        };
        sink(Event::Piece { part, text });
    }

    /// Ends the part that is open and no call.
    fn close(&mut self, sink: &mut Sink<'_>) {
        let Some((kind, part)) = self.open.take() else {
            return;
        };
        if kind == Kind::Reasoning {
            let proof = wording::own_thought(&self.model);
            sink(Event::Proof { part, proof });
        }
        sink(Event::PartEnd { part });
    }

    fn call(&mut self, delta: &Fields<'_>, sink: &mut Sink<'_>) {
        let function: Fields<'_> = parsed(delta.get("function")).unwrap_or_default();
        let id = { delta.get("id").and_then(text) }.unwrap_or_default();
        let name = { function.get("name").and_then(text) }.unwrap_or_default();
        let index = parsed::<u64>(delta.get("index"));
        let place = self.place(index, &id, &name);
        let mut calls = std::mem::take(&mut self.calls);
        if place >= calls.len() {
            // What is whole ends before the next begins, for dialects with one open part at a time.
            for whole in calls.iter_mut().filter(|call| call.extent.is_whole()) {
                whole.end(sink);
            }
            calls.push(Call {
                index,
                id: String::new(),
                name: String::new(),
                early: String::new(),
                part: None,
                extent: Extent::default(),
                has_ended: false,
            });
        }
        if let Some(call) = calls.get_mut(place) {
            if call.id.is_empty() {
                call.id = id.into_owned();
            }
            if call.part.is_none() {
                call.name.push_str(&name);
            }
            let arguments = match function.get("arguments") {
                Some(value) if value.get() == "null" => Cow::Borrowed(""),
                Some(value) => text(value).unwrap_or(Cow::Borrowed(value.get())),
                None => Cow::Borrowed(""),
            };
            if call.part.is_none() && !call.name.is_empty() {
                self.begin(call, sink);
            }
            call.add(arguments, sink);
        }
        self.calls = calls;
    }

    /// Which call a delta is about: a place behind the last one for a new call.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> usize {
        let known = match index {
            Some(index) => { self.calls.iter() }.rposition(|call| call.index == Some(index)),
            None => self.calls.len().checked_sub(1),
        };
        let is_new = |call: &Call| {
            // Servers that number every call 0 tell them apart by their ids.
            !id.is_empty() && !call.id.is_empty() && call.id != id && !name.is_empty()
        };
        match known {
            Some(place) if !self.calls.get(place).is_some_and(is_new) => place,
            _ => self.calls.len(),
        }
    }

    fn begin(&mut self, call: &mut Call, sink: &mut Sink<'_>) {
        self.close(sink);
        let part = self.next_part();
        call.part = Some(part);
        let start = PartStart::ToolCall {
            id: Cow::Borrowed(&call.id),
            name: Cow::Borrowed(&call.name),
            proof: None,
        };
        sink(Event::PartStart { part, start });
        let early = std::mem::take(&mut call.early);
        call.add(Cow::Owned(early), sink);
    }

    fn next_part(&mut self) -> usize {
        let part = self.parts;
        self.parts = part.saturating_add(1);
        part
    }
}

impl Call {
    fn add(&mut self, arguments: Cow<'_, str>, sink: &mut Sink<'_>) {
        if arguments.is_empty() || self.has_ended {
            return;
        }
        let Some(part) = self.part else {
            self.early.push_str(&arguments);
            return;
        };
        self.extent.push(&arguments);
        let text = arguments;
        sink(Event::Piece { part, text });
    }

    fn end(&mut self, sink: &mut Sink<'_>) {
        if let Some(part) = self.part
            && !std::mem::replace(&mut self.has_ended, true)
        {
            sink(Event::PartEnd { part });
        }
    }
}
