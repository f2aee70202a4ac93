//! The way of a stream through a translation, frame by frame.

use std::borrow::Cow;

use super::proofs::Riding;
use super::{BadFrame, Exchange, HELD_MAX_BYTES, HeldTooMuch, ids};
use super::{StreamReader, StreamWriter};
use crate::ir::{Event, Finish, PartStart};

/// Why a stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The lane sent something else.
    #[error(transparent)]
    BadFrame(#[from] BadFrame),
    /// The caller's dialect cannot take it as it comes.
    #[error(transparent)]
    HeldTooMuch(#[from] HeldTooMuch),
}

/// A stream of a lane that becomes one of its caller.
#[derive(Debug)]
pub struct StreamTranslation {
    reader: Box<dyn StreamReader>,
    back: Back,
}

/// The events' way from reader to writer.
#[derive(Debug)]
struct Back {
    exchange: Exchange,
    writer: Box<dyn StreamWriter>,
    form: Form,
    /// Proofs on their way onto calls, for callers that have no other place for them.
    riding: Option<Riding>,
    /// What the writer made, until it is taken.
    out: Vec<u8>,
    failed: Option<HeldTooMuch>,
    is_over: bool,
}

/// What has come of an answer whose form was asked for with a made-up tool.
#[derive(Debug, Default)]
struct Form {
    /// Text that came beside it, with the number of its part: it is the answer only if the tool is
    /// not called.
    beside: Vec<(usize, String)>,
    beside_bytes: usize,
    /// The call's part.
    part: Option<usize>,
    /// Another tool is called as well.
    has_calls: bool,
}

impl StreamTranslation {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self {
            reader: exchange.lane.stream_reader(),
            back: Back {
                riding: { !exchange.caller.keeps_proofs() }.then(Riding::default),
                writer: exchange.caller.stream_writer(&exchange.facts),
                exchange,
                form: Form::default(),
                out: Vec::new(),
                failed: None,
                is_over: false,
            },
        }
    }

    /// Translates the data of one frame, which reports no error, and appends what it gives to `out`:
    /// whole server-sent events of the caller's dialect, or nothing.
    ///
    /// # Errors
    ///
    /// The stream cannot go on: it ends with an error event in the caller's dialect.
    pub fn frame(
        &mut self,
        event: Option<&[u8]>,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StreamError> {
        let back = &mut self.back;
        self.reader
            .read(event, data, &mut |event| back.take(event))?;
        self.back.hand_out(out)
    }

    /// The event with which the caller's stream ends in failure, in place of `event`, which the
    /// dialect has for it. `None` when that is right already.
    #[must_use]
    pub fn failure(&self, event: &[u8]) -> Option<Vec<u8>> {
        self.back.writer.failure(event)
    }

    /// The lane's stream has ended regularly: appends what is left.
    ///
    /// # Errors
    ///
    /// As [`Self::frame`].
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<(), StreamError> {
        let back = &mut self.back;
        self.reader.end(&mut |event| back.take(event));
        self.back.hand_out(out)
    }
}

impl Back {
    fn hand_out(&mut self, out: &mut Vec<u8>) -> Result<(), StreamError> {
        out.append(&mut self.out);
        match self.failed {
            None => Ok(()),
            Some(failed) => Err(failed.into()),
        }
    }

    fn take(&mut self, event: Event<'_>) {
        if self.is_over {
            return;
        }
        self.is_over = event == Event::End;
        if self.exchange.answer_tool.is_none() {
            self.write(event);
        } else {
            self.take_form(event);
        }
    }

    /// An event of an answer whose form was asked for with a made-up tool.
    fn take_form(&mut self, event: Event<'_>) {
        match event {
            Event::PartStart {
                part,
                start: PartStart::ToolCall { name, .. },
            } if Some(name.as_ref()) == self.exchange.answer_tool.as_deref() => {
                self.form.part = Some(part);
                let start = PartStart::Text;
                self.write(Event::PartStart { part, start });
            }
            Event::PartStart {
                part,
                start: PartStart::Text,
            } => self.form.beside.push((part, String::new())),
            Event::Piece { part, text } if self.form.is_beside(part) => {
                if !self.form.add(part, &text) {
                    self.failed = Some(HeldTooMuch);
                }
            }
            Event::PartEnd { part } if self.form.is_beside(part) => {}
            Event::Finish(finish) => {
                self.release();
                let is_answer = self.form.part.is_some() && !self.form.has_calls;
                let finish = match finish {
                    Finish::ToolCalls if is_answer => Finish::Stop,
                    finish => finish,
                };
                self.write(Event::Finish(finish));
            }
            Event::End => {
                self.release();
                self.write(Event::End);
            }
            event => {
                self.form.has_calls |= matches!(
                    event,
                    Event::PartStart {
                        start: PartStart::ToolCall { .. },
                        ..
                    }
                );
                self.write(event);
            }
        }
    }

    /// The tool was not called: what came in its place is the answer.
    fn release(&mut self) {
        let beside = std::mem::take(&mut self.form.beside);
        if self.form.part.is_some() {
            return;
        }
        for (part, text) in beside {
            let start = PartStart::Text;
            self.write(Event::PartStart { part, start });
            let text = Cow::Owned(text);
            self.write(Event::Piece { part, text });
            self.write(Event::PartEnd { part });
        }
    }

    fn write(&mut self, event: Event<'_>) {
        if self.failed.is_some() {
            return;
        }
        let Some(event) = (match &mut self.riding {
            Some(riding) => riding.pass(event),
            None => Some(event),
        }) else {
            return;
        };
        let facts = &self.exchange.facts;
        let rule = self.exchange.caller.id_rule();
        let event = match ids::event_to_caller(event, rule, &facts.unique) {
            Event::PartStart {
                part,
                start: PartStart::ToolCall { id, name, proof },
            } => {
                let name = self.exchange.names.to_caller(name);
                let start = PartStart::ToolCall { id, name, proof };
                Event::PartStart { part, start }
            }
            Event::Start { id, model } if id.is_empty() => Event::Start {
                id: Cow::Borrowed(&facts.unique),
                model,
            },
            event => event,
        };
        if let Err(failed) = self.writer.write(event, &mut self.out) {
            self.failed = Some(failed);
        }
    }
}

impl Form {
    /// True for text that came beside the call, whether it still is kept or not.
    fn is_beside(&self, part: usize) -> bool {
        Some(part) != self.part && self.beside.iter().any(|(number, _)| *number == part)
    }

    /// Adds to the text of `part`; false when that would be too much.
    fn add(&mut self, part: usize, text: &str) -> bool {
        if self.part.is_some() {
            return true;
        }
        self.beside_bytes = self.beside_bytes.saturating_add(text.len());
        let held = self.beside.iter_mut().find(|(number, _)| *number == part);
        if let Some((_, held)) = held {
            held.push_str(text);
        }
        self.beside_bytes <= HELD_MAX_BYTES
    }
}
