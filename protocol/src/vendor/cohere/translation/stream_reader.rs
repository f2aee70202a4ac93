//! A lane's stream of Cohere's, read event by event.

use std::borrow::Cow;

use super::answer_reader;
use super::request_reader::own_thought;
use crate::ir::{Event, PartStart};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::text;
use crate::translation::{BadFrame, StreamReader};
use crate::vendor::openai::translation::wording;

/// A sink of events.
type Sink<'s> = dyn FnMut(Event<'_>) + 's;

#[derive(Debug, Default)]
pub(super) struct Reader {
    has_started: bool,
    is_over: bool,
    parts: usize,
    open: Vec<Open>,
    has_calls: bool,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    /// The lane's number of it, among those of its kind.
    index: u64,
    part: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Plan,
    Call,
}

impl StreamReader for Reader {
    fn read(
        &mut self,
        event: Option<&[u8]>,
        data: &[u8],
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), BadFrame> {
        let data = data.trim_ascii();
        if data.is_empty() || self.is_over || data == b"[DONE]" {
            return Ok(());
        }
        let frame: Fields<'_> = serde_json::from_slice(data).map_err(|_| BadFrame)?;
        let kind = { frame.get("type").and_then(text) }
            .or_else(|| event.map(String::from_utf8_lossy))
            .unwrap_or_default();
        if !matches!(kind.as_ref(), "ping" | "keepalive") {
            self.start(&frame, sink);
        }
        let index = parsed::<u64>(frame.get("index")).unwrap_or_default();
        let delta: Fields<'_> = parsed(frame.get("delta")).unwrap_or_default();
        let message: Fields<'_> = parsed(delta.get("message")).unwrap_or_default();
        match kind.as_ref() {
            "content-start" | "content-delta" => {
                let content: Fields<'_> = parsed(message.get("content")).unwrap_or_default();
                let member = |name| content.get(name).and_then(text);
                self.say(Kind::Thinking, index, member("thinking"), sink);
                self.say(Kind::Text, index, member("text"), sink);
            }
            "content-end" => {
                self.end_all(|open| open.kind != Kind::Call && open.index == index, sink);
            }
            "tool-plan-delta" => {
                self.say(Kind::Plan, 0, message.get("tool_plan").and_then(text), sink);
            }
            "tool-call-start" => {
                let call: Fields<'_> = parsed(message.get("tool_calls")).unwrap_or_default();
                self.call(index, &call, sink);
            }
            "tool-call-delta" => {
                let call: Fields<'_> = parsed(message.get("tool_calls")).unwrap_or_default();
                let function: Fields<'_> = parsed(call.get("function")).unwrap_or_default();
                self.more(index, function.get("arguments").and_then(text), sink);
            }
            "tool-call-end" => {
                self.end_all(|open| open.kind == Kind::Call && open.index == index, sink);
            }
            "message-end" => self.finish(&delta, sink),
            "ping" | "keepalive" => sink(Event::Ping),
            // Citations have no place in other dialects.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.start(&Fields::default(), sink);
        self.finish(&Fields::default(), sink);
    }
}

impl Reader {
    fn start(&mut self, frame: &Fields<'_>, sink: &mut Sink<'_>) {
        if !self.is_over && !std::mem::replace(&mut self.has_started, true) {
            let id = { frame.get("id").and_then(text) }.unwrap_or_default();
            let model = Cow::Borrowed("");
            sink(Event::Start { id, model });
        }
    }

    fn begin(
        &mut self,
        kind: Kind,
        index: u64,
        start: PartStart<'_>,
        sink: &mut Sink<'_>,
    ) -> usize {
        let part = self.parts;
        self.parts = part.saturating_add(1);
        self.open.push(Open { kind, index, part });
        sink(Event::PartStart { part, start });
        part
    }

    fn find(&self, kind: Kind, index: u64) -> Option<usize> {
        let found = { self.open.iter() }.find(|open| open.kind == kind && open.index == index);
        found.map(|open| open.part)
    }

    fn say(&mut self, kind: Kind, index: u64, said: Option<Cow<'_, str>>, sink: &mut Sink<'_>) {
        let Some(text) = said.filter(|said| !said.is_empty()) else {
            return;
        };
        let part = match self.find(kind, index) {
            Some(part) => part,
            None => {
                // One text at a time: what came before it is whole.
                self.end_all(|open| open.kind != Kind::Call, sink);
                let start = match kind {
                    Kind::Thinking => PartStart::Reasoning,
                    Kind::Text | Kind::Plan | Kind::Call => PartStart::Text,
                };
                self.begin(kind, index, start, sink)
            }
        };
        sink(Event::Piece { part, text });
    }

    fn call(&mut self, index: u64, call: &Fields<'_>, sink: &mut Sink<'_>) {
        let function: Fields<'_> = parsed(call.get("function")).unwrap_or_default();
        let id = { call.get("id").and_then(text) }.unwrap_or_default();
        let name = { function.get("name").and_then(text) }.unwrap_or_default();
        self.has_calls = true;
        // What has its number has ended, said or not.
        self.end_all(|open| open.kind != Kind::Call || open.index == index, sink);
        let proof = None;
        self.begin(
            Kind::Call,
            index,
            PartStart::ToolCall { id, name, proof },
            sink,
        );
        self.more(index, function.get("arguments").and_then(text), sink);
    }

    fn more(&mut self, index: u64, arguments: Option<Cow<'_, str>>, sink: &mut Sink<'_>) {
        if let Some(part) = self.find(Kind::Call, index)
            && let Some(text) = arguments.filter(|arguments| !arguments.is_empty())
        {
            sink(Event::Piece { part, text });
        }
    }

    /// Ends the parts that are meant.
    fn end_all(&mut self, is_meant: impl Fn(&Open) -> bool, sink: &mut Sink<'_>) {
        for open in self.open.extract_if(.., |open| is_meant(open)) {
            let part = open.part;
            if open.kind == Kind::Thinking {
                let proof = own_thought();
                sink(Event::Proof { part, proof });
            }
            sink(Event::PartEnd { part });
        }
    }

    fn finish(&mut self, delta: &Fields<'_>, sink: &mut Sink<'_>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.end_all(|_| true, sink);
        if let Some(usage) = delta.get("usage").and_then(answer_reader::usage) {
            sink(Event::Usage(usage));
        }
        let reason = { delta.get("finish_reason").and_then(text) }.unwrap_or_default();
        let reason = answer_reader::finish(reason);
        sink(Event::Finish(wording::finish(
            reason,
            self.has_calls,
            false,
        )));
        sink(Event::End);
    }
}
