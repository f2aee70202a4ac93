//! Writes streams for Anthropic's callers: one block is open at a time.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Serialize;

use super::answer_writer::Message;
use super::blocks::Block;
use super::finish;
use super::usage::WrittenCounts;
use crate::dialect::Protocol;
use crate::ir::{Event, Finish, PartStart, Proof, Usage, raw};
use crate::translation::{CallerFacts, HELD_MAX_BYTES, HeldTooMuch, StreamWriter, ids};

/// A stream while it is written.
#[derive(Debug)]
pub(super) struct Writer {
    model: String,
    /// The answer's id, until the event that opens it is written: it waits for the first counts, which
    /// come at once or much later.
    start: Option<(String, String)>,
    index: usize,
    /// The part whose block is open.
    open: Option<Open>,
    /// Parts that wait until it is closed, in the order in which they began.
    held: VecDeque<Held>,
    held_bytes: usize,
    has_calls: bool,
    usage: Option<Usage>,
    finish: Finish<'static>,
}

#[derive(Debug)]
struct Open {
    part: usize,
    kind: Kind,
    has_pieces: bool,
    has_signature: bool,
}

#[derive(Debug)]
struct Held {
    part: usize,
    kind: Kind,
    text: String,
    proof: Option<Proof<'static>>,
    is_whole: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Text,
    Thinking,
    Call { id: String, name: String },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Frame<'a> {
    MessageStart {
        message: Message<'a>,
    },
    ContentBlockStart {
        index: usize,
        content_block: Block<'a>,
    },
    ContentBlockDelta {
        index: usize,
        delta: Piece<'a>,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: End<'a>,
        usage: WrittenCounts,
    },
    MessageStop,
    Ping,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Piece<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    Json { partial_json: &'a str },
}

#[derive(Serialize)]
struct End<'a> {
    stop_reason: &'a str,
    stop_sequence: Option<&'a str>,
}

impl Frame<'_> {
    const fn event(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Ping => "ping",
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(self.event().as_bytes());
        out.extend_from_slice(b"\ndata: ");
        // Writing into memory fails for no value of these types.
        let _ = serde_json::to_writer(&mut *out, self);
        out.extend_from_slice(b"\n\n");
    }
}

impl Writer {
    pub(super) fn new(caller: &CallerFacts) -> Self {
        Self {
            model: caller.model.clone(),
            start: None,
            index: 0,
            open: None,
            held: VecDeque::new(),
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
                self.start = Some((id.into_owned(), model.into_owned()));
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Ping => {
                self.begin(out);
                Frame::Ping.write(out);
            }
            Event::PartStart { part, start } => {
                self.begin(out);
                self.part(part, start, out);
            }
            Event::Piece { part, text } => return self.piece(part, &text, out),
            Event::Proof { part, proof } => self.proof(part, proof, out),
            Event::PartEnd { part } => self.part_end(part, out),
            Event::Finish(finish) => self.finish = finish.into_owned(),
            Event::End => self.end(out),
        }
        Ok(())
    }
}

impl Writer {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let Some((id, model)) = self.start.take() else {
            return;
        };
        let model = if self.model.is_empty() {
            &model
        } else {
            &self.model
        };
        let message = Message::new(&id, model, self.usage.unwrap_or_default().into());
        Frame::MessageStart { message }.write(out);
    }

    fn part(&mut self, part: usize, start: PartStart<'_>, out: &mut Vec<u8>) {
        let kind = match start {
            PartStart::Text | PartStart::Refusal => Kind::Text,
            PartStart::Reasoning => Kind::Thinking,
            PartStart::ToolCall { id, name, .. } => {
                self.has_calls = true;
                Kind::Call {
                    id: id.into_owned(),
                    name: name.into_owned(),
                }
            }
        };
        let is_call = matches!(kind, Kind::Call { .. });
        self.held.push_back(Held {
            part,
            kind,
            text: String::new(),
            proof: None,
            is_whole: false,
        });
        if is_call {
            self.make_room(out);
        }
        self.advance(out);
    }

    /// Text may be cut anywhere, so its block makes room for others. A call's may not.
    fn make_room(&mut self, out: &mut Vec<u8>) {
        let is_call = |open: &Open| matches!(open.kind, Kind::Call { .. });
        let Some(open) = self.open.take_if(|open| !is_call(open)) else {
            return;
        };
        self.held.push_back(Held {
            part: open.part,
            kind: open.kind.clone(),
            text: String::new(),
            proof: None,
            is_whole: false,
        });
        self.close(&open, out);
    }

    /// Opens blocks of parts that wait, as long as none is open.
    fn advance(&mut self, out: &mut Vec<u8>) {
        while self.open.is_none() {
            // A text opens its block with its first piece: many never get one.
            let says = |held: &Held| {
                matches!(held.kind, Kind::Call { .. })
                    || !held.text.is_empty()
                    || held.proof.is_some()
            };
            self.held.retain(|held| says(held) || !held.is_whole);
            let Some(at) = self.held.iter().position(says) else {
                return;
            };
            let Some(held) = self.held.remove(at) else {
                return;
            };
            self.held_bytes = self.held_bytes.saturating_sub(held.text.len());
            self.open(held, out);
        }
    }

    fn open(&mut self, held: Held, out: &mut Vec<u8>) {
        let content_block = match &held.kind {
            Kind::Text => Block::text(""),
            Kind::Thinking => match redacted(held.proof.as_ref()) {
                Some(data) => Block::RedactedThinking { data },
                None => Block::Thinking {
                    thinking: Cow::Borrowed(""),
                    signature: Cow::Borrowed(""),
                },
            },
            Kind::Call { id, name } => Block::ToolUse {
                id: Cow::Borrowed(id),
                name: Cow::Borrowed(name),
                input: raw(&serde_json::json!({})),
                cache_control: None,
            },
        };
        let index = self.index;
        Frame::ContentBlockStart {
            index,
            content_block,
        }
        .write(out);
        let mut open = Open {
            part: held.part,
            kind: held.kind,
            has_pieces: false,
            has_signature: false,
        };
        if !held.text.is_empty() {
            open.piece(index, &held.text, out);
        }
        if let Some(proof) = &held.proof {
            open.proof(index, proof, out);
        }
        if held.is_whole {
            self.close(&open, out);
        } else {
            self.open = Some(open);
        }
    }

    fn close(&mut self, open: &Open, out: &mut Vec<u8>) {
        let index = self.index;
        match open.kind {
            // Whoever waits for arguments gets some.
            Kind::Call { .. } if !open.has_pieces => {
                let delta = Piece::Json { partial_json: "{}" };
                Frame::ContentBlockDelta { index, delta }.write(out);
            }
            Kind::Thinking if !open.has_signature => {
                let signature = &ids::signature(None);
                let delta = Piece::Signature { signature };
                Frame::ContentBlockDelta { index, delta }.write(out);
            }
            _ => {}
        }
        Frame::ContentBlockStop { index }.write(out);
        self.index += 1;
    }

    fn piece(&mut self, part: usize, text: &str, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.part == part) {
            open.piece(self.index, text, out);
            return Ok(());
        }
        let Some(held) = self.held.iter_mut().find(|held| held.part == part) else {
            return Ok(());
        };
        held.text.push_str(text);
        self.held_bytes = self.held_bytes.saturating_add(text.len());
        self.make_room(out);
        self.advance(out);
        if self.held_bytes > HELD_MAX_BYTES {
            return Err(HeldTooMuch);
        }
        Ok(())
    }

    fn proof(&mut self, part: usize, proof: Proof<'_>, out: &mut Vec<u8>) {
        if let Some(open) = self.open.as_mut().filter(|open| open.part == part) {
            open.proof(self.index, &proof, out);
        } else if let Some(held) = self.held.iter_mut().find(|held| held.part == part) {
            held.proof = Some(Proof {
                protocol: proof.protocol,
                text: Cow::Owned(proof.text.into_owned()),
                is_redacted: proof.is_redacted,
            });
            self.make_room(out);
            self.advance(out);
        }
    }

    fn part_end(&mut self, part: usize, out: &mut Vec<u8>) {
        if let Some(open) = self.open.take_if(|open| open.part == part) {
            self.close(&open, out);
        } else if let Some(held) = self.held.iter_mut().find(|held| held.part == part) {
            held.is_whole = true;
        }
        self.advance(out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        for held in &mut self.held {
            held.is_whole = true;
        }
        if let Some(open) = self.open.take() {
            self.close(&open, out);
        }
        self.advance(out);
        let (stop_reason, stop_sequence) = finish::write(&self.finish, self.has_calls);
        Frame::MessageDelta {
            delta: End {
                stop_reason,
                stop_sequence,
            },
            usage: self.usage.unwrap_or_default().into(),
        }
        .write(out);
        Frame::MessageStop.write(out);
    }
}

/// What hides the thoughts, where it is Anthropic's own.
fn redacted<'a>(proof: Option<&'a Proof<'_>>) -> Option<Cow<'a, str>> {
    let own = |proof: &&Proof<'_>| proof.is_redacted && proof.protocol == Protocol::Anthropic;
    proof
        .filter(own)
        .map(|proof| Cow::Borrowed(proof.text.as_ref()))
}

impl Open {
    fn piece(&mut self, index: usize, text: &str, out: &mut Vec<u8>) {
        self.has_pieces = true;
        let delta = match self.kind {
            Kind::Text => Piece::Text { text },
            Kind::Thinking => Piece::Thinking { thinking: text },
            Kind::Call { .. } => Piece::Json { partial_json: text },
        };
        Frame::ContentBlockDelta { index, delta }.write(out);
    }

    fn proof(&mut self, index: usize, proof: &Proof<'_>, out: &mut Vec<u8>) {
        self.has_signature = true;
        if redacted(Some(proof)).is_some() {
            return;
        }
        let signature = match proof.protocol {
            Protocol::Anthropic => Cow::Borrowed(proof.text.as_ref()),
            _ => ids::signature(Some(proof)),
        };
        let signature = &signature;
        let delta = Piece::Signature { signature };
        Frame::ContentBlockDelta { index, delta }.write(out);
    }
}
