//! Sends requests, answers and streams through a translation.

use std::borrow::Cow;

use lanekeeper_protocol::ir::{Answer, Event, Part, PartBody, PartStart, Reasoning, ToolCall};
use lanekeeper_protocol::translation::{
    self, CallerFacts, LaneFacts, Refusal, StreamReader, Translated, Translator,
};
use lanekeeper_protocol::{Protocol, ir, vendor};
use serde_json::{Value, json};

pub(crate) fn translator(protocol: Protocol) -> &'static dyn Translator {
    vendor(protocol).translator().expect("it is translated")
}

pub(crate) fn facts() -> CallerFacts {
    CallerFacts {
        model: "asked".to_owned(),
        created: 1_700_000_000,
        unique: "u1".to_owned(),
        ..CallerFacts::default()
    }
}

pub(crate) fn lane_facts() -> LaneFacts<'static> {
    LaneFacts {
        model: "lane-model",
        accepts: lanekeeper_model::gateway::Accepts::default(),
        max_output_tokens: 4096,
    }
}

/// A pair of dialects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) caller: Protocol,
    pub(crate) lane: Protocol,
}

impl Pair {
    pub(crate) fn translate(self, request: &Value) -> Result<Translated, Refusal> {
        self.translate_for(request, &lane_facts())
    }

    pub(crate) fn translate_for(
        self,
        request: &Value,
        lane: &LaneFacts<'_>,
    ) -> Result<Translated, Refusal> {
        let (caller, to) = (translator(self.caller), translator(self.lane));
        let body = request.to_string();
        translation::request(caller, to, body.as_bytes(), false, facts(), lane)
    }

    /// What the lane gets.
    pub(crate) fn sent(self, request: &Value) -> Value {
        let translated = self.translate(request).expect("it can be said");
        serde_json::from_slice(&translated.body).expect("JSON")
    }

    /// What is named as lost.
    pub(crate) fn lost(self, request: &Value) -> String {
        let translated = self.translate(request).expect("it can be said");
        translated.losses.header()
    }

    /// The field for which the lane is skipped.
    pub(crate) fn refused(self, request: &Value) -> String {
        self.translate(request)
            .expect_err("it cannot be said")
            .field
    }

    /// What the caller of `request` gets of a whole answer.
    pub(crate) fn answered(self, request: &Value, answer: &Value) -> Value {
        let translated = self.translate(request).expect("it can be said");
        let body = answer.to_string();
        let answer = translated.exchange.answer(body.as_bytes());
        serde_json::from_slice(&answer.expect("an answer")).expect("JSON")
    }

    /// The events that the caller of `request` gets of a stream, as they are written.
    pub(crate) fn streamed_text(self, request: &Value, frames: &[Value]) -> String {
        let translated = self.translate(request).expect("it can be said");
        let mut stream = translated.exchange.stream();
        let mut out = Vec::new();
        for frame in frames {
            let data = frame.to_string();
            stream
                .frame(None, data.as_bytes(), &mut out)
                .expect("a frame");
        }
        stream.end(&mut out).expect("an end");
        String::from_utf8(out).expect("text")
    }

    /// The data of these events; `[DONE]` is a string.
    pub(crate) fn streamed(self, request: &Value, frames: &[Value]) -> Vec<Value> {
        let text = self.streamed_text(request, frames);
        frames_of(&text).map(|(_, data)| data).collect()
    }
}

/// The events within a text, each with its name.
pub(crate) fn frames_of(text: &str) -> impl Iterator<Item = (Option<String>, Value)> {
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    frames.filter_map(|frame| {
        let line = |name: &str| {
            let mut lines = frame.lines();
            lines
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        let data = line("data: ")?;
        let value = serde_json::from_str(&data).unwrap_or(Value::String(data));
        Some((line("event: "), value))
    })
}

/// The simplest request of a dialect.
pub(crate) fn plain(protocol: Protocol) -> Value {
    let messages = json!([{"role": "user", "content": "hi"}]);
    match protocol {
        Protocol::Responses => json!({"model": "asked", "input": "hi"}),
        Protocol::Anthropic => json!({"model": "asked", "max_tokens": 100, "messages": messages}),
        Protocol::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
        Protocol::Openai | Protocol::Cohere => json!({"model": "asked", "messages": messages}),
    }
}

/// A streamed answer put together.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    answer: Answer<'static>,
    has_ended: bool,
}

impl Folded {
    /// What a reader makes of a stream. Its events must keep to the grammar.
    pub(crate) fn read(
        reader: &mut dyn StreamReader,
        frames: impl Iterator<Item = Value>,
    ) -> Answer<'static> {
        let mut folded = Self::default();
        let mut state = Grammar::default();
        for frame in frames {
            let data = match frame {
                Value::String(text) => text,
                frame => frame.to_string(),
            };
            let mut sink = |event: Event<'_>| {
                state.check(&event);
                folded.add(event);
            };
            reader
                .read(None, data.as_bytes(), &mut sink)
                .expect("a frame of the protocol");
        }
        reader.end(&mut |event| {
            state.check(&event);
            folded.add(event);
        });
        assert!(folded.has_ended && state.open.is_empty(), "{folded:?}");
        folded.answer
    }

    fn add(&mut self, event: Event<'_>) {
        let parts = &mut self.answer.parts;
        match event {
            Event::Start { id, model } => {
                self.answer.id = Cow::Owned(id.into_owned());
                self.answer.model = Cow::Owned(model.into_owned());
            }
            Event::PartStart { start, .. } => parts.push(Part::unplaced(match start {
                PartStart::Text => PartBody::Text(Cow::Borrowed("")),
                PartStart::Refusal => PartBody::Refusal(Cow::Borrowed("")),
                PartStart::Reasoning => PartBody::Reasoning(Reasoning::default()),
                PartStart::ToolCall { id, name, proof } => PartBody::ToolCall(ToolCall {
                    id: Cow::Owned(id.into_owned()),
                    name: Cow::Owned(name.into_owned()),
                    arguments: ir::Arguments(Cow::Borrowed("")),
                    proof: proof.map(ir::Proof::into_owned),
                    is_custom: false,
                }),
            })),
            Event::Piece { part, text } => match &mut parts[part].body {
                PartBody::Text(own) | PartBody::Refusal(own) => own.to_mut().push_str(&text),
                PartBody::Reasoning(own) => own.text.to_mut().push_str(&text),
                PartBody::ToolCall(call) => call.arguments.0.to_mut().push_str(&text),
                other => panic!("{other:?}"),
            },
            Event::Proof { part, proof } => match &mut parts[part].body {
                PartBody::Reasoning(own) => own.proof = Some(proof.into_owned()),
                other => panic!("{other:?}"),
            },
            Event::Usage(usage) => self.answer.usage = Some(usage),
            Event::Finish(finish) => self.answer.finish = finish.into_owned(),
            Event::PartEnd { .. } | Event::Ping => {}
            Event::End => self.has_ended = true,
        }
    }
}

/// The grammar of events.
#[derive(Debug, Default)]
struct Grammar {
    has_started: bool,
    begun: usize,
    open: Vec<usize>,
    has_finished: bool,
    has_ended: bool,
}

impl Grammar {
    fn check(&mut self, event: &Event<'_>) {
        assert!(!self.has_ended, "{event:?} after the end");
        let is_start = matches!(event, Event::Start { .. });
        let is_ping = matches!(event, Event::Ping);
        assert!(
            self.has_started != is_start || is_ping,
            "{event:?}: {self:?}"
        );
        match event {
            Event::Start { .. } => self.has_started = true,
            Event::PartStart { part, .. } => {
                assert_eq!(*part, self.begun);
                assert!(!self.has_finished, "{event:?} after the finish");
                self.begun += 1;
                self.open.push(*part);
            }
            Event::Piece { part, .. } | Event::Proof { part, .. } => {
                assert!(self.open.contains(part), "{event:?}: {self:?}");
            }
            Event::PartEnd { part } => {
                assert!(self.open.contains(part), "{event:?}: {self:?}");
                self.open.retain(|open| open != part);
            }
            Event::Finish(_) => {
                assert!(!self.has_finished, "two ends");
                self.has_finished = true;
            }
            Event::End => {
                assert!(self.has_finished, "no reason");
                self.has_ended = true;
            }
            Event::Usage(_) | Event::Ping => {}
        }
    }
}

/// The answer as it can be compared: neighbouring texts are one, empty arguments are `{}`.
pub(crate) fn normal(answer: Answer<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in answer.parts {
        let line = match part.body {
            PartBody::Text(text) => format!("text {text}"),
            PartBody::Refusal(text) => format!("refusal {text}"),
            PartBody::Reasoning(own) => {
                let proof = own
                    .proof
                    .map(|proof| (proof.protocol, proof.text.into_owned()));
                format!("thought {} {proof:?}", own.text)
            }
            PartBody::ToolCall(call) => {
                format!(
                    "call {} {} {}",
                    call.id,
                    call.name,
                    call.arguments.as_text()
                )
            }
            other => panic!("{other:?}"),
        };
        match lines.last_mut() {
            Some(last) if last.starts_with("text ") && line.starts_with("text ") => {
                last.push_str(&line["text ".len()..]);
            }
            _ => lines.push(line),
        }
    }
    lines.push(format!("{:?} {:?}", answer.finish, answer.usage));
    lines
}
