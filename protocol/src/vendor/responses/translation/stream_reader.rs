//! A lane's Responses stream, read event by event.
//!
//! Events are matched by the place of their item in the output: some services give an item another id
//! in every event.

use std::borrow::Cow;

use super::answer_reader;
use crate::ir::{Event, Finish, PartStart};
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
    has_refusal: bool,
}

/// A part that is open.
#[derive(Debug)]
struct Open {
    /// Its item's place in the output.
    item: u64,
    /// Its place in the item's content.
    content: u64,
    kind: Kind,
    part: usize,
    /// Some of its text has come.
    has_text: bool,
    /// The last piece of a thought's summary that was read.
    piece: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Refusal,
    Reasoning,
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
        let named = || event.map(String::from_utf8_lossy);
        let kind = { frame.get("type").and_then(text) }.or_else(named);
        let count = |name| parsed::<u64>(frame.get(name)).unwrap_or_default();
        let (item, content) = (count("output_index"), count("content_index"));
        let delta = || frame.get("delta").and_then(text);
        match kind.as_deref().unwrap_or_default() {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.start(&frame, sink);
            }
            "response.output_item.added" => {
                self.start(&frame, sink);
                let added: Option<Fields<'_>> = parsed(frame.get("item"));
                self.item(item, &added.unwrap_or_default(), sink);
            }
            "response.output_item.done" => {
                self.start(&frame, sink);
                let done: Option<Fields<'_>> = parsed(frame.get("item"));
                self.done(item, &done.unwrap_or_default(), sink);
            }
            "response.output_text.delta" => self.say(item, content, Kind::Text, delta(), sink),
            "response.refusal.delta" => self.say(item, content, Kind::Refusal, delta(), sink),
            "response.reasoning_summary_text.delta" => {
                self.think(item, count("summary_index"), delta(), sink);
            }
            "response.reasoning_text.delta" => self.think(item, content, delta(), sink),
            "response.function_call_arguments.delta" => {
                self.say(item, 0, Kind::Call, delta(), sink);
            }
            "response.function_call_arguments.done" => {
                let whole = frame.get("arguments").and_then(text);
                self.complete(item, 0, Kind::Call, whole, sink);
            }
            "response.output_text.done" => {
                self.complete(
                    item,
                    content,
                    Kind::Text,
                    frame.get("text").and_then(text),
                    sink,
                );
            }
            "response.refusal.done" => {
                let whole = frame.get("refusal").and_then(text);
                self.complete(item, content, Kind::Refusal, whole, sink);
            }
            "response.completed" | "response.incomplete" | "response.cancelled" => {
                self.start(&frame, sink);
                let response: Fields<'_> = parsed(frame.get("response")).unwrap_or_default();
                self.finish(&response, sink);
            }
            "ping" | "keepalive" => sink(Event::Ping),
            // Other events repeat what these say, or are of the vendor's own tools.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        self.finish(&Fields::default(), sink);
    }
}

impl Reader {
    fn start(&mut self, frame: &Fields<'_>, sink: &mut Sink<'_>) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let response: Fields<'_> = parsed(frame.get("response")).unwrap_or_default();
        let member = |name| response.get(name).and_then(text).unwrap_or_default();
        let (id, model) = (member("id"), member("model"));
        sink(Event::Start { id, model });
    }

    /// An item begins. Only a call says all that its beginning must.
    fn item(&mut self, item: u64, added: &Fields<'_>, sink: &mut Sink<'_>) {
        let member = |name| added.get(name).and_then(text).unwrap_or_default();
        if member("type") != "function_call" {
            return;
        }
        let (id, name) = (member("call_id"), member("name"));
        let proof = None;
        self.has_calls = true;
        self.begin(
            item,
            0,
            Kind::Call,
            PartStart::ToolCall { id, name, proof },
            sink,
        );
        let early = Some(member("arguments")).filter(|early| !early.is_empty());
        self.say(item, 0, Kind::Call, early, sink);
    }

    fn begin(
        &mut self,
        item: u64,
        content: u64,
        kind: Kind,
        start: PartStart<'_>,
        sink: &mut Sink<'_>,
    ) {
        let part = self.parts;
        self.parts = part.saturating_add(1);
        self.open.push(Open {
            item,
            content,
            kind,
            part,
            has_text: false,
            piece: 0,
        });
        sink(Event::PartStart { part, start });
    }

    fn find(&mut self, item: u64, content: u64, kind: Kind) -> Option<&mut Open> {
        self.open
            .iter_mut()
            .find(|open| open.item == item && open.content == content && open.kind == kind)
    }

    fn say(
        &mut self,
        item: u64,
        content: u64,
        kind: Kind,
        said: Option<Cow<'_, str>>,
        sink: &mut Sink<'_>,
    ) {
        let Some(text) = said.filter(|said| !said.is_empty()) else {
            return;
        };
        if self.find(item, content, kind).is_none() {
            let start = match kind {
                Kind::Text => PartStart::Text,
                Kind::Refusal => PartStart::Refusal,
                Kind::Reasoning => PartStart::Reasoning,
                // Nobody knows whose arguments these are.
                Kind::Call => return,
            };
            self.has_refusal |= kind == Kind::Refusal;
            self.begin(item, content, kind, start, sink);
        }
        if let Some(open) = self.find(item, content, kind) {
            open.has_text = true;
            let part = open.part;
            sink(Event::Piece { part, text });
        }
    }

    /// A piece of a thought. Its summary has several pieces, which are paragraphs.
    fn think(&mut self, item: u64, piece: u64, said: Option<Cow<'_, str>>, sink: &mut Sink<'_>) {
        if let Some(open) = self.find(item, 0, Kind::Reasoning)
            && open.piece != piece
        {
            open.piece = piece;
            let (part, text) = (open.part, Cow::Borrowed("\n\n"));
            sink(Event::Piece { part, text });
        }
        self.say(item, 0, Kind::Reasoning, said, sink);
        if let Some(open) = self.find(item, 0, Kind::Reasoning) {
            open.piece = piece;
        }
    }

    /// A text is whole. Some services send it only now.
    fn complete(
        &mut self,
        item: u64,
        content: u64,
        kind: Kind,
        whole: Option<Cow<'_, str>>,
        sink: &mut Sink<'_>,
    ) {
        if self
            .find(item, content, kind)
            .is_none_or(|open| !open.has_text)
        {
            self.say(item, content, kind, whole, sink);
        }
    }

    /// An item is whole.
    fn done(&mut self, item: u64, done: &Fields<'_>, sink: &mut Sink<'_>) {
        let member = |name| done.get(name).and_then(text);
        match member("type").as_deref() {
            Some("message") => {
                let pieces: Vec<Fields<'_>> = parsed(done.get("content")).unwrap_or_default();
                for (content, piece) in (0..).zip(&pieces) {
                    let member = |name| piece.get(name).and_then(text);
                    self.complete(item, content, Kind::Refusal, member("refusal"), sink);
                    self.complete(item, content, Kind::Text, member("text"), sink);
                }
            }
            Some("reasoning") => {
                let reasoning = answer_reader::reasoning(done);
                self.complete(item, 0, Kind::Reasoning, Some(reasoning.text), sink);
                if let Some(proof) = reasoning.proof {
                    if self.find(item, 0, Kind::Reasoning).is_none() {
                        self.begin(item, 0, Kind::Reasoning, PartStart::Reasoning, sink);
                    }
                    if let Some(open) = self.find(item, 0, Kind::Reasoning) {
                        let part = open.part;
                        sink(Event::Proof { part, proof });
                    }
                }
            }
            Some("function_call") => {
                if self.find(item, 0, Kind::Call).is_none() {
                    self.item(item, done, sink);
                }
                self.complete(item, 0, Kind::Call, member("arguments"), sink);
            }
            _ => {}
        }
        for open in self.open.extract_if(.., |open| open.item == item) {
            sink(Event::PartEnd { part: open.part });
        }
    }

    fn finish(&mut self, response: &Fields<'_>, sink: &mut Sink<'_>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if !std::mem::replace(&mut self.has_started, true) {
            let (id, model) = (Cow::Borrowed(""), Cow::Borrowed(""));
            sink(Event::Start { id, model });
        }
        // Some services say nothing before the end.
        if self.parts == 0 {
            let items: Vec<Fields<'_>> = parsed(response.get("output")).unwrap_or_default();
            for (place, item) in (0..).zip(&items) {
                self.done(place, item, sink);
            }
        }
        for open in std::mem::take(&mut self.open) {
            sink(Event::PartEnd { part: open.part });
        }
        if let Some(usage) = response.get("usage").and_then(answer_reader::usage) {
            sink(Event::Usage(usage));
        }
        let reason = answer_reader::finish(response).unwrap_or(Finish::Stop);
        let finish = wording::finish(reason, self.has_calls, self.has_refusal);
        sink(Event::Finish(finish));
        sink(Event::End);
    }
}
