//! Reads streams of Gemini's lanes.

use std::borrow::Cow;

use super::answer_reader::{CandidatePart, Chunk, proof};
use super::finish;
use super::usage::Counts;
use crate::ir::{Event, Finish, PartStart};
use crate::translation::{BadFrame, StreamReader};

/// A stream while it is read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    has_started: bool,
    has_finished: bool,
    has_calls: bool,
    is_over: bool,
    /// The text or thought that goes on: its number, and whether it is a thought.
    open: Option<(usize, bool)>,
    next_part: usize,
}

impl StreamReader for Reader {
    fn read(
        &mut self,
        _event: Option<&[u8]>,
        data: &[u8],
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), BadFrame> {
        let mut chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|_| BadFrame)?;
        if self.is_over {
            return Ok(());
        }
        let id = chunk.response_id.take().unwrap_or_default();
        let model = chunk.model_version.take().unwrap_or_default();
        self.start(id.0, model.0, sink);
        if let Some(counts) = chunk.usage_metadata {
            sink(Event::Usage(Counts::usage(counts)));
        }
        let is_blocked = chunk.block_reason().is_some();
        let Some(candidate) = chunk.candidate() else {
            if is_blocked {
                self.finish(Finish::Filter, sink);
            }
            return Ok(());
        };
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.into_iter().flatten() {
            self.part(part, sink);
        }
        if let Some(reason) = candidate.finish_reason {
            let finish = finish::read(reason.0, self.has_calls);
            self.finish(finish, sink);
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if self.is_over {
            return;
        }
        self.start(Cow::Borrowed(""), Cow::Borrowed(""), sink);
        self.close(sink);
        self.is_over = true;
        sink(Event::End);
    }
}

impl Reader {
    fn start(&mut self, id: Cow<'_, str>, model: Cow<'_, str>, sink: &mut dyn FnMut(Event<'_>)) {
        if !self.has_started {
            self.has_started = true;
            sink(Event::Start { id, model });
        }
    }

    fn part(&mut self, part: CandidatePart<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some(call) = part.function_call {
            if self.has_finished {
                return;
            }
            self.close(sink);
            self.has_calls = true;
            let number = self.number();
            let text = Cow::Borrowed(call.arguments());
            let start = PartStart::ToolCall {
                id: call.id.unwrap_or_default().0,
                name: call.name.0,
                proof: proof(part.thought_signature),
            };
            sink(Event::PartStart {
                part: number,
                start,
            });
            sink(Event::Piece { part: number, text });
            sink(Event::PartEnd { part: number });
            return;
        }
        let is_thought = part.thought == Some(true);
        let text = part.text.unwrap_or_default().0;
        let proof = proof(part.thought_signature).filter(|_| is_thought);
        if (text.is_empty() && proof.is_none()) || self.has_finished {
            return;
        }
        let number = self.open(is_thought, sink);
        if !text.is_empty() {
            sink(Event::Piece { part: number, text });
        }
        if let Some(proof) = proof {
            sink(Event::Proof {
                part: number,
                proof,
            });
        }
    }

    /// The number of the text or thought that goes on, or of a new one.
    fn open(&mut self, is_thought: bool, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        if let Some((number, _)) = self.open.filter(|(_, thought)| *thought == is_thought) {
            return number;
        }
        self.close(sink);
        let number = self.number();
        self.open = Some((number, is_thought));
        let start = if is_thought {
            PartStart::Reasoning
        } else {
            PartStart::Text
        };
        sink(Event::PartStart {
            part: number,
            start,
        });
        number
    }

    fn number(&mut self) -> usize {
        let number = self.next_part;
        self.next_part += 1;
        number
    }

    fn close(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some((part, _)) = self.open.take() {
            sink(Event::PartEnd { part });
        }
    }

    fn finish(&mut self, finish: Finish<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        if !self.has_finished {
            self.close(sink);
            self.has_finished = true;
            sink(Event::Finish(finish));
        }
    }
}
