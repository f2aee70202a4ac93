//! Chat streams, written for a caller.

use std::collections::HashMap;

use serde::Serialize;

use super::answer_writer::{Call, Counts, ID_PREFIX, model, reason};
use super::wording::prefixed;
use crate::ir::{Arguments, Event, Finish, PartStart, Usage};
use crate::translation::custom::InputPieces;
use crate::translation::{CallerFacts, HeldTooMuch, StreamWriter, writing};

#[derive(Debug)]
pub(super) struct Writer {
    facts: CallerFacts,
    /// What every chunk begins with.
    head: Vec<u8>,
    parts: HashMap<usize, Open>,
    calls: usize,
    has_refusal: bool,
    has_finished: bool,
    usage: Option<Usage>,
}

#[derive(Debug)]
enum Open {
    Text,
    Reasoning,
    Refusal,
    Call { index: usize, has_arguments: bool },
    Custom { index: usize, pieces: InputPieces },
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u8,
    delta: Delta<'a>,
    logprobs: Option<()>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[CallDelta<'a>; 1]>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CallDelta<'a> {
    Start(Call<'a>),
    Arguments { index: usize, function: More<'a> },
    Input { index: usize, custom: MoreInput<'a> },
}

#[derive(Serialize)]
struct More<'a> {
    arguments: &'a str,
}

#[derive(Serialize)]
struct MoreInput<'a> {
    input: &'a str,
}

impl Writer {
    pub(super) fn new(caller: &CallerFacts) -> Self {
        Self {
            facts: caller.clone(),
            head: Vec::new(),
            parts: HashMap::new(),
            calls: 0,
            has_refusal: false,
            has_finished: false,
            usage: None,
        }
    }

    fn start(&mut self, id: &str, answered: &str, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Head<'a> {
            id: String,
            object: &'static str,
            created: u64,
            model: &'a str,
        }
        self.head = b"data: ".to_vec();
        let head = Head {
            id: prefixed(ID_PREFIX, id),
            object: "chat.completion.chunk",
            created: self.facts.created,
            model: model(answered, &self.facts),
        };
        writing::json(&mut self.head, &head);
        // The object goes on.
        self.head.pop();
        let delta = Delta {
            role: Some("assistant"),
            content: Some(""),
            ..Delta::default()
        };
        self.choice(delta, None, out);
    }

    fn choice(&self, delta: Delta<'_>, finish_reason: Option<&'static str>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b",\"choices\":[");
        let choice = Choice {
            index: 0,
            delta,
            logprobs: None,
            finish_reason,
        };
        writing::json(out, &choice);
        out.push(b']');
        if self.facts.stream_usage {
            out.extend_from_slice(b",\"usage\":null");
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn call(&self, call: CallDelta<'_>, out: &mut Vec<u8>) {
        let delta = Delta {
            tool_calls: Some([call]),
            ..Delta::default()
        };
        self.choice(delta, None, out);
    }

    fn begin(&mut self, part: usize, start: &PartStart<'_>, out: &mut Vec<u8>) {
        let open = match start {
            PartStart::Text => Open::Text,
            PartStart::Reasoning => Open::Reasoning,
            PartStart::Refusal => {
                self.has_refusal = true;
                Open::Refusal
            }
            PartStart::ToolCall { id, name, .. } => {
                let index = self.calls;
                self.calls = index.saturating_add(1);
                let is_custom = self.facts.custom_tools.iter().any(|own| own == name);
                let mut call = Call::new(id, name, "", is_custom);
                call.index = Some(index);
                self.call(CallDelta::Start(call), out);
                if is_custom {
                    let pieces = InputPieces::default();
                    Open::Custom { index, pieces }
                } else {
                    Open::Call {
                        index,
                        has_arguments: false,
                    }
                }
            }
        };
        self.parts.insert(part, open);
    }

    fn piece(&mut self, part: usize, text: &str, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        let delta = match self.parts.get_mut(&part) {
            None => return Ok(()),
            Some(Open::Text) => Delta {
                content: Some(text),
                ..Delta::default()
            },
            Some(Open::Reasoning) => Delta {
                reasoning_content: Some(text),
                ..Delta::default()
            },
            Some(Open::Refusal) => Delta {
                refusal: Some(text),
                ..Delta::default()
            },
            Some(Open::Call {
                index,
                has_arguments,
            }) => {
                *has_arguments = true;
                let (index, function) = (*index, More { arguments: text });
                self.call(CallDelta::Arguments { index, function }, out);
                return Ok(());
            }
            Some(Open::Custom { index, pieces }) => {
                let (index, text) = (*index, pieces.push(text)?);
                self.input(index, &text, out);
                return Ok(());
            }
        };
        self.choice(delta, None, out);
        Ok(())
    }

    fn input(&self, index: usize, input: &str, out: &mut Vec<u8>) {
        if !input.is_empty() {
            let custom = MoreInput { input };
            self.call(CallDelta::Input { index, custom }, out);
        }
    }

    fn end_part(&mut self, part: usize, out: &mut Vec<u8>) {
        match self.parts.remove(&part) {
            Some(Open::Call {
                index,
                has_arguments: false,
            }) => {
                let arguments = Arguments::NONE;
                let function = More { arguments };
                self.call(CallDelta::Arguments { index, function }, out);
            }
            Some(Open::Custom { index, mut pieces }) => {
                let rest = pieces.end();
                self.input(index, &rest, out);
            }
            _ => {}
        }
    }

    fn finish(&mut self, finish: &Finish<'_>, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_finished, true) {
            let reason = reason(finish, self.has_refusal);
            self.choice(Delta::default(), Some(reason), out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.finish(&Finish::Stop, out);
        if self.facts.stream_usage {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(b",\"choices\":[],\"usage\":");
            writing::json(out, &Counts::from(self.usage.unwrap_or_default()));
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl StreamWriter for Writer {
    fn write(&mut self, event: Event<'_>, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        match event {
            Event::Start { id, model } => self.start(&id, &model, out),
            Event::PartStart { part, start } => self.begin(part, &start, out),
            Event::Piece { part, text } => return self.piece(part, &text, out),
            // The dialect has no place for it: it came with a call.
            Event::Proof { .. } => {}
            Event::PartEnd { part } => self.end_part(part, out),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Finish(finish) => self.finish(&finish, out),
            Event::Ping => out.extend_from_slice(writing::COMMENT),
            Event::End => self.end(out),
        }
        Ok(())
    }
}
