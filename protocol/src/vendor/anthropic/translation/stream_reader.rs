//! Reads streams of Anthropic's lanes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer_reader::{Block, own_proof, text};
use super::finish;
use super::usage::Counts;
use crate::ir::{Event, PartStart};
use crate::json::filled::filled;
use crate::json::text::Text;
use crate::translation::{BadFrame, StreamReader};

/// A stream while it is read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    has_started: bool,
    has_finished: bool,
    is_over: bool,
    counts: Counts,
    open: Vec<Open>,
    /// Indexes of blocks that have begun and that callers have no place for.
    passed_over: Vec<u64>,
    next_part: usize,
}

/// A block that has begun. Blocks of kinds that callers have no place for are not kept, and so their
/// pieces are passed over.
#[derive(Debug)]
struct Open {
    index: u64,
    part: usize,
    /// The signature so far.
    signature: String,
    is_redacted: bool,
    /// Arguments that came with the beginning, and count only if none come in pieces.
    input: Option<String>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    message: Option<Start<'a>>,
    index: Option<u64>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Start<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    model: Option<Text<'a>>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
    #[serde(borrow)]
    stop_sequence: Option<Text<'a>>,
}

impl StreamReader for Reader {
    /// Relays leave the event's name out, so its data alone counts.
    fn read(
        &mut self,
        _event: Option<&[u8]>,
        data: &[u8],
        sink: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), BadFrame> {
        let frame: Frame<'_> = serde_json::from_slice(data).map_err(|_| BadFrame)?;
        if self.is_over {
            return Ok(());
        }
        match frame.kind.0.as_ref() {
            "message_start" => self.start(frame.message, sink),
            "content_block_start" => {
                self.start(None, sink);
                let (Some(index), Some(block)) = (frame.index, frame.content_block) else {
                    return Err(BadFrame);
                };
                if !self.has_finished {
                    self.block(index, &block, sink);
                }
            }
            "content_block_delta" => {
                let (Some(index), Some(delta)) = (frame.index, frame.delta) else {
                    return Err(BadFrame);
                };
                self.delta(index, &delta, sink);
            }
            "content_block_stop" => {
                let at = { self.open.iter() }.position(|open| Some(open.index) == frame.index);
                if let Some(at) = at {
                    self.open.remove(at).close(sink);
                }
            }
            "message_delta" => {
                self.start(None, sink);
                if let Some(counts) = frame.usage {
                    self.counts.update(counts);
                    sink(Event::Usage(self.counts.usage()));
                }
                if let Some(delta) = frame.delta {
                    self.finish(delta, sink);
                }
            }
            "message_stop" => self.end(sink),
            "ping" => sink(Event::Ping),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if self.is_over {
            return;
        }
        self.start(None, sink);
        self.close_all(sink);
        self.is_over = true;
        sink(Event::End);
    }
}

impl Reader {
    fn start(&mut self, message: Option<Start<'_>>, sink: &mut dyn FnMut(Event<'_>)) {
        if self.has_started {
            return;
        }
        self.has_started = true;
        let (mut id, mut model, mut counts) = (Text::default(), Text::default(), None);
        if let Some(message) = message {
            id = message.id.unwrap_or_default();
            model = message.model.unwrap_or_default();
            counts = message.usage;
        }
        sink(Event::Start {
            id: id.0,
            model: model.0,
        });
        if let Some(counts) = counts {
            self.counts = counts;
            sink(Event::Usage(counts.usage()));
        }
    }

    fn block(&mut self, index: u64, block: &Block<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        let (start, piece) = match block.kind.0.as_ref() {
            "text" => (PartStart::Text, text(block.text)),
            "thinking" => (PartStart::Reasoning, text(block.thinking)),
            "redacted_thinking" => (PartStart::Reasoning, Cow::Borrowed("")),
            "tool_use" => (
                PartStart::ToolCall {
                    id: text(block.id),
                    name: text(block.name),
                    proof: None,
                },
                Cow::Borrowed(""),
            ),
            _ => {
                self.passed_over.push(index);
                return;
            }
        };
        let is_call = matches!(start, PartStart::ToolCall { .. });
        let is_redacted = block.kind.0 == "redacted_thinking";
        let part = self.next_part;
        self.next_part += 1;
        sink(Event::PartStart { part, start });
        if !piece.is_empty() {
            sink(Event::Piece { part, text: piece });
        }
        let signature = if is_redacted {
            text(block.data)
        } else {
            text(block.signature)
        };
        self.open.push(Open {
            index,
            part,
            signature: signature.into_owned(),
            is_redacted,
            input: { block.input }
                .filter(|input| is_call && filled(Some(input)))
                .map(|input| input.get().to_owned()),
        });
    }

    fn delta(&mut self, index: u64, delta: &Delta<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        if self.is_unannounced(index, delta) {
            self.start(None, sink);
            self.block(index, &Block::of_text(), sink);
        }
        let Some(open) = self.open.iter_mut().find(|open| open.index == index) else {
            return;
        };
        let kind = delta.kind.as_ref().map(|kind| kind.0.as_ref());
        let piece = match kind {
            Some("text_delta") => text(delta.text),
            Some("thinking_delta") => text(delta.thinking),
            Some("input_json_delta") => text(delta.partial_json),
            Some("signature_delta") => {
                open.signature.push_str(&text(delta.signature));
                return;
            }
            _ => return,
        };
        if !piece.is_empty() {
            open.input = None;
            let part = open.part;
            sink(Event::Piece { part, text: piece });
        }
    }

    /// True for text of a block that no event began, as some servers send it.
    fn is_unannounced(&self, index: u64, delta: &Delta<'_>) -> bool {
        let is_text = { delta.kind.as_ref() }.is_some_and(|kind| kind.0 == "text_delta");
        is_text
            && !self.has_finished
            && !self.passed_over.contains(&index)
            && self.open.iter().all(|open| open.index != index)
    }

    fn finish(&mut self, delta: Delta<'_>, sink: &mut dyn FnMut(Event<'_>)) {
        let Some(reason) = delta.stop_reason else {
            return;
        };
        if self.has_finished {
            return;
        }
        self.has_finished = true;
        self.close_all(sink);
        let sequence = delta.stop_sequence.map(|sequence| sequence.0);
        sink(Event::Finish(finish::read(reason.0, sequence)));
    }

    fn close_all(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        for open in self.open.drain(..) {
            open.close(sink);
        }
    }
}

impl Open {
    fn close(self, sink: &mut dyn FnMut(Event<'_>)) {
        let part = self.part;
        if let Some(input) = self.input {
            let text = Cow::Owned(input);
            sink(Event::Piece { part, text });
        }
        if let Some(proof) = own_proof(Cow::Owned(self.signature), self.is_redacted) {
            sink(Event::Proof { part, proof });
        }
        sink(Event::PartEnd { part });
    }
}
