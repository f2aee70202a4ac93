//! Writes streams for Gemini's callers, who get whole calls only.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::answer_writer::{WrittenCandidate, WrittenChunk, called};
use super::finish;
use super::parts::{WrittenPart, sign_foreign_calls};
use super::usage::Counts;
use crate::ir::{Arguments, Event, Finish, PartStart, Usage};
use crate::translation::{CallerFacts, HELD_MAX_BYTES, HeldTooMuch, StreamWriter};

/// A stream while it is written.
#[derive(Debug)]
pub(super) struct Writer {
    model: String,
    id: String,
    /// Thoughts that are open, by their parts.
    thoughts: Vec<usize>,
    /// Calls that are not whole yet, by their parts.
    calls: BTreeMap<usize, Call>,
    held_bytes: usize,
    /// A call was written already.
    has_calls: bool,
    usage: Option<Usage>,
    finish: Finish<'static>,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Writer {
    pub(super) fn new(caller: &CallerFacts) -> Self {
        Self {
            model: caller.model.clone(),
            id: String::new(),
            thoughts: Vec::new(),
            calls: BTreeMap::new(),
            held_bytes: 0,
            has_calls: false,
            usage: None,
            finish: Finish::Stop,
        }
    }
}

impl StreamWriter for Writer {
    fn write(&mut self, event: Event<'_>, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        match event {
            Event::Start { id, model } => {
                self.id = id.into_owned();
                if self.model.is_empty() {
                    self.model = model.into_owned();
                }
            }
            Event::PartStart { part, start } => match start {
                PartStart::Text | PartStart::Refusal => {}
                PartStart::Reasoning => self.thoughts.push(part),
                PartStart::ToolCall { id, name, .. } => {
                    let call = Call {
                        id: id.into_owned(),
                        name: name.into_owned(),
                        arguments: String::new(),
                    };
                    self.calls.insert(part, call);
                }
            },
            Event::Piece { part, text } => return self.piece(part, &text, out),
            Event::Proof { proof, .. } => {
                self.parts(vec![WrittenPart::thought("", Some(&proof))], out);
            }
            Event::PartEnd { part } => {
                self.thoughts.retain(|thought| *thought != part);
                self.call(part, out);
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Finish(finish) => self.finish = finish.into_owned(),
            // Comments are the agent's.
            Event::Ping => {}
            Event::End => self.end(out),
        }
        Ok(())
    }
}

impl Writer {
    fn piece(&mut self, part: usize, text: &str, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        if let Some(call) = self.calls.get_mut(&part) {
            call.arguments.push_str(text);
            self.held_bytes = self.held_bytes.saturating_add(text.len());
            return if self.held_bytes > HELD_MAX_BYTES {
                Err(HeldTooMuch)
            } else {
                Ok(())
            };
        }
        if !text.is_empty() {
            let written = if self.thoughts.contains(&part) {
                WrittenPart::thought(text, None)
            } else {
                WrittenPart::text(text)
            };
            self.parts(vec![written], out);
        }
        Ok(())
    }

    /// The call of `part`, if it is one: it is whole.
    fn call(&mut self, part: usize, out: &mut Vec<u8>) {
        if let Some(call) = self.calls.remove(&part) {
            self.held_bytes = self.held_bytes.saturating_sub(call.arguments.len());
            let arguments = Arguments(Cow::Borrowed(&call.arguments));
            let mut parts = vec![called(&call.id, &call.name, &arguments)];
            if !std::mem::replace(&mut self.has_calls, true) {
                sign_foreign_calls(&mut parts);
            }
            self.parts(parts, out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        while let Some(part) = self.calls.keys().next().copied() {
            self.call(part, out);
        }
        let candidate = WrittenCandidate::new(Vec::new(), Some(finish::write(&self.finish)));
        self.chunk(candidate, Some(self.usage.unwrap_or_default()), out);
    }

    fn parts(&self, parts: Vec<WrittenPart<'_>>, out: &mut Vec<u8>) {
        self.chunk(WrittenCandidate::new(parts, None), None, out);
    }

    fn chunk(&self, candidate: WrittenCandidate<'_>, usage: Option<Usage>, out: &mut Vec<u8>) {
        let chunk = WrittenChunk {
            candidates: [candidate],
            usage_metadata: usage.map(Counts::from),
            model_version: &self.model,
            response_id: &self.id,
        };
        out.extend_from_slice(b"data: ");
        // Writing into memory fails for no value of these types.
        let _ = serde_json::to_writer(&mut *out, &chunk);
        out.extend_from_slice(b"\n\n");
    }
}
