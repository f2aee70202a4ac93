//! Streams, written for a caller of Cohere's.

use std::collections::HashMap;

use serde::Serialize;

use super::answer_writer::{Call, Content, Counts, reason};
use crate::ir::{Arguments, Event, Finish, PartStart, Usage};
use crate::translation::{HeldTooMuch, StreamWriter, writing};

#[derive(Debug, Default)]
pub(super) struct Writer {
    parts: HashMap<usize, Open>,
    contents: usize,
    calls: usize,
    finish: Option<&'static str>,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    kind: Kind,
    index: usize,
    has_arguments: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
}

#[derive(Default, Serialize)]
struct Data<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Delta<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Delta<'a> {
    Message {
        message: Message<'a>,
    },
    End {
        finish_reason: &'static str,
        usage: Counts,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    Start {
        role: &'static str,
        content: [(); 0],
        tool_plan: &'static str,
        tool_calls: [(); 0],
        citations: [(); 0],
    },
    Content {
        content: Piece<'a>,
    },
    Call {
        tool_calls: Called<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Start(Content<'a>),
    Text { text: &'a str },
    Thinking { thinking: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Called<'a> {
    Start(Call<'a>),
    More { function: More<'a> },
}

#[derive(Serialize)]
struct More<'a> {
    arguments: &'a str,
}

fn event(
    kind: &'static str,
    index: Option<usize>,
    message: Option<Message<'_>>,
    out: &mut Vec<u8>,
) {
    let data = Data {
        r#type: kind,
        id: None,
        index,
        delta: message.map(|message| Delta::Message { message }),
    };
    writing::event(out, kind, &data);
}

fn more(index: usize, arguments: &str, out: &mut Vec<u8>) {
    let function = More { arguments };
    let tool_calls = Called::More { function };
    let message = Message::Call { tool_calls };
    event("tool-call-delta", Some(index), Some(message), out);
}

impl Writer {
    fn begin(&mut self, part: usize, start: &PartStart<'_>, out: &mut Vec<u8>) {
        let (kind, content) = match start {
            PartStart::Text | PartStart::Refusal => (Kind::Text, Content::Text { text: "" }),
            PartStart::Reasoning => (Kind::Thinking, Content::Thinking { thinking: "" }),
            PartStart::ToolCall { id, name, .. } => {
                let index = self.calls;
                self.calls = index.saturating_add(1);
                let tool_calls = Called::Start(Call::new(id, name, ""));
                let message = Message::Call { tool_calls };
                event("tool-call-start", Some(index), Some(message), out);
                self.open(part, Kind::Call, index);
                return;
            }
        };
        let index = self.contents;
        self.contents = index.saturating_add(1);
        let content = Piece::Start(content);
        let message = Message::Content { content };
        event("content-start", Some(index), Some(message), out);
        self.open(part, kind, index);
    }

    fn open(&mut self, part: usize, kind: Kind, index: usize) {
        let open = Open {
            kind,
            index,
            has_arguments: false,
        };
        self.parts.insert(part, open);
    }

    fn piece(&mut self, part: usize, text: &str, out: &mut Vec<u8>) {
        let Some(open) = self.parts.get_mut(&part) else {
            return;
        };
        let content = match open.kind {
            Kind::Text => Piece::Text { text },
            Kind::Thinking => Piece::Thinking { thinking: text },
            Kind::Call => {
                open.has_arguments = true;
                more(open.index, text, out);
                return;
            }
        };
        let message = Message::Content { content };
        event("content-delta", Some(open.index), Some(message), out);
    }

    fn end_part(&mut self, part: usize, out: &mut Vec<u8>) {
        let Some(open) = self.parts.remove(&part) else {
            return;
        };
        if open.kind != Kind::Call {
            event("content-end", Some(open.index), None, out);
            return;
        }
        if !open.has_arguments {
            more(open.index, Arguments::NONE, out);
        }
        event("tool-call-end", Some(open.index), None, out);
    }
}

impl StreamWriter for Writer {
    fn write(&mut self, said: Event<'_>, out: &mut Vec<u8>) -> Result<(), HeldTooMuch> {
        match said {
            Event::Start { id, .. } => {
                let message = Message::Start {
                    role: "assistant",
                    content: [],
                    tool_plan: "",
                    tool_calls: [],
                    citations: [],
                };
                let kind = "message-start";
                let data = Data {
                    r#type: kind,
                    id: Some(&id),
                    index: None,
                    delta: Some(Delta::Message { message }),
                };
                writing::event(out, kind, &data);
            }
            Event::PartStart { part, start } => self.begin(part, &start, out),
            Event::Piece { part, text } => self.piece(part, &text, out),
            // The dialect has no place for it: it came with a call.
            Event::Proof { .. } => {}
            Event::PartEnd { part } => self.end_part(part, out),
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Finish(finish) => self.finish = Some(reason(&finish)),
            Event::Ping => out.extend_from_slice(writing::COMMENT),
            Event::End => {
                let kind = "message-end";
                let data = Data {
                    r#type: kind,
                    delta: Some(Delta::End {
                        finish_reason: self.finish.unwrap_or(reason(&Finish::Stop)),
                        usage: self.usage.unwrap_or_default().into(),
                    }),
                    ..Data::default()
                };
                writing::event(out, kind, &data);
            }
        }
        Ok(())
    }
}
