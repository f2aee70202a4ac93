//! What the tests ask and how they read the answers.

use std::borrow::Cow;

use lanekeeper_model::gateway::{Accepts, Protocol};
use lanekeeper_protocol::translation::{
    self, CallerFacts, Exchange, LaneFacts, Losses, Refusal, StreamError, Translator,
};
use lanekeeper_protocol::vendor;
use serde_json::Value;

pub(crate) const ANTHROPIC: Protocol = Protocol::Anthropic;
pub(crate) const GEMINI: Protocol = Protocol::Gemini;

/// What a lane takes where the request says nothing.
pub(crate) const LANE: LaneFacts<'static> = LaneFacts {
    model: "lane-model",
    accepts: Accepts {
        token_field: None,
        samplers: lanekeeper_model::gateway::Samplers::All,
        stop: true,
        reasoning: lanekeeper_model::gateway::ReasoningForm::Budget,
    },
    max_output_tokens: 4096,
};

/// A request as the lane gets it.
pub(crate) struct Asked {
    pub(crate) body: Value,
    pub(crate) text: String,
    pub(crate) losses: String,
    pub(crate) exchange: Exchange,
}

pub(crate) fn translator(protocol: Protocol) -> &'static dyn Translator {
    vendor(protocol).translator().expect("a translator")
}

pub(crate) fn caller() -> CallerFacts {
    CallerFacts {
        model: "pool".to_owned(),
        created: 1,
        unique: "u1".to_owned(),
        ..CallerFacts::default()
    }
}

pub(crate) fn try_text(from: Protocol, to: Protocol, body: &str) -> Result<Asked, Refusal> {
    let translated = translation::request(
        translator(from),
        translator(to),
        body.as_bytes(),
        false,
        caller(),
        &LANE,
    )?;
    let text = String::from_utf8(translated.body).expect("text");
    Ok(Asked {
        body: serde_json::from_str(&text).expect("JSON"),
        text,
        losses: translated.losses.header(),
        exchange: translated.exchange,
    })
}

pub(crate) fn try_ask(from: Protocol, to: Protocol, body: &Value) -> Result<Asked, Refusal> {
    try_text(from, to, &body.to_string())
}

pub(crate) fn ask(from: Protocol, to: Protocol, body: &Value) -> Asked {
    match try_ask(from, to, body) {
        Ok(asked) => asked,
        Err(refusal) => panic!("{refusal}"),
    }
}

pub(crate) fn refused(from: Protocol, to: Protocol, body: &Value) -> String {
    match try_ask(from, to, body) {
        Ok(asked) => panic!("not refused: {}", asked.text),
        Err(refusal) => refusal.to_string(),
    }
}

/// The same protocol on both sides, through the representation.
pub(crate) fn round_trip(protocol: Protocol, body: &Value) -> Value {
    let text = body.to_string();
    let translator = translator(protocol);
    let request = { translator.read_request(text.as_bytes(), false) }.expect("a request");
    assert!(request.unknown.is_empty(), "{:?}", request.unknown);
    let mut losses = Losses::default();
    let written = translator.write_request(&request, &LANE, &mut losses);
    assert!(losses.is_empty(), "{}", losses.header());
    serde_json::from_slice(&written.expect("a request").body).expect("JSON")
}

impl Asked {
    /// The lane's whole answer as the caller gets it.
    pub(crate) fn answer(&self, body: &Value) -> Value {
        let answer = self.exchange.answer(body.to_string().as_bytes());
        serde_json::from_slice(&answer.expect("an answer")).expect("JSON")
    }

    /// The lane's stream as the caller gets it, until it fails.
    pub(crate) fn try_stream<'a>(
        &self,
        frames: impl IntoIterator<Item = &'a Value>,
    ) -> (Vec<u8>, Option<StreamError>) {
        let mut stream = self.exchange.stream();
        let mut out = Vec::new();
        for frame in frames {
            let frame = frame.to_string();
            if let Err(error) = stream.frame(None, frame.as_bytes(), &mut out) {
                return (out, Some(error));
            }
        }
        let error = stream.end(&mut out).err();
        (out, error)
    }

    pub(crate) fn stream(&self, frames: &[Value]) -> Vec<Value> {
        let (out, error) = self.try_stream(frames);
        assert_eq!(error, None);
        events(&out).into_iter().map(|(_, data)| data).collect()
    }
}

/// Server-sent events: name and data of each.
pub(crate) fn events(bytes: &[u8]) -> Vec<(Option<String>, Value)> {
    let text = std::str::from_utf8(bytes).expect("text");
    assert!(text.is_empty() || text.ends_with("\n\n"), "{text}");
    { text.split("\n\n") }
        .filter(|event| !event.is_empty())
        .map(|event| {
            let line = |name: &str| { event.lines() }.find_map(|line| line.strip_prefix(name));
            let data = line("data: ").expect("data");
            let name = line("event: ").map(str::to_owned);
            (name, serde_json::from_str(data).expect("JSON"))
        })
        .collect()
}

/// The value at a JSON pointer; null where there is none.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> Cow<'a, Value> {
    value
        .pointer(pointer)
        .map_or(Cow::Owned(Value::Null), Cow::Borrowed)
}

/// Values under `pointer` of each, null left out.
pub(crate) fn all(values: &[Value], pointer: &str) -> Vec<Value> {
    { values.iter() }
        .filter_map(|value| value.pointer(pointer))
        .cloned()
        .collect()
}
