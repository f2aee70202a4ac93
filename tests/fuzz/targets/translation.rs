//! No request, answer or stream panics a translation, and what it writes is what it says it is.

#![no_main]

use lanekeeper_model::gateway::Accepts;
use lanekeeper_protocol::translation::embeddings::{Embedder, embeddings};
use lanekeeper_protocol::translation::{self, CallerFacts, LaneFacts, Translator};
use lanekeeper_protocol::{Protocol, vendor};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const PROTOCOLS: [Protocol; 5] = [
    Protocol::Openai,
    Protocol::Responses,
    Protocol::Anthropic,
    Protocol::Gemini,
    Protocol::Cohere,
];
const EMBEDDERS: [Protocol; 3] = [Protocol::Openai, Protocol::Gemini, Protocol::Cohere];

fn translator(byte: u8) -> &'static dyn Translator {
    let protocol = PROTOCOLS[usize::from(byte) % PROTOCOLS.len()];
    vendor(protocol).translator().expect("it is translated")
}

fn embedder(byte: u8) -> &'static dyn Embedder {
    let protocol = EMBEDDERS[usize::from(byte) % EMBEDDERS.len()];
    vendor(protocol).embedder().expect("it embeds")
}

fn facts() -> CallerFacts {
    CallerFacts {
        unique: "u".to_owned(),
        stream_usage: true,
        custom_tools: vec!["patch".to_owned()],
        ..CallerFacts::default()
    }
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok()
}

/// A request on its way to a lane, then an answer and a stream on their way back.
fn exchange(caller: u8, lane: u8, request: &[u8], answer: &[u8]) {
    let lane_facts = LaneFacts {
        model: "m",
        accepts: Accepts::default(),
        max_output_tokens: 4096,
    };
    let (caller, lane) = (translator(caller), translator(lane));
    let plain: &[u8] = match caller.protocol() {
        Protocol::Responses => br#"{"input":"a"}"#,
        Protocol::Gemini => br#"{"contents":[{"parts":[{"text":"a"}]}]}"#,
        _ => br#"{"max_tokens":9,"messages":[{"role":"user","content":"a"}]}"#,
    };
    for request in [request, plain] {
        let translated =
            translation::request(caller, lane, request, false, facts(), &lane_facts);
        let Ok(translated) = translated else {
            continue;
        };
        assert!(is_json(&translated.body));
        if let Some(answer) = translated.exchange.answer(answer) {
            assert!(is_json(&answer));
        }
        let mut stream = translated.exchange.stream();
        let mut out = Vec::new();
        for frame in answer.split(|byte| *byte == b'\n') {
            if stream.frame(None, frame, &mut out).is_err() {
                return;
            }
        }
        if stream.end(&mut out).is_err() {
            return;
        }
        for line in out.split(|byte| *byte == b'\n') {
            if let Some(data) = line.strip_prefix(b"data: ") {
                assert!(data == b"[DONE]" || is_json(data));
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [caller, lane, rest @ ..] = data else {
        return;
    };
    let cut = rest.iter().position(|byte| *byte == 0);
    let (request, answer) = rest.split_at(cut.unwrap_or(rest.len()));
    let answer = answer.strip_prefix(b"\0").unwrap_or(answer);
    exchange(*caller, *lane, request, answer);
    exchange(*caller, *lane, answer, request);
    let (caller, lane) = (embedder(*caller), embedder(*lane));
    let (model, unique) = ("m".to_owned(), "u".to_owned());
    if let Ok(translated) = embeddings(caller, lane, request, model, unique, "m") {
        assert!(is_json(&translated.body));
        if let Some(answer) = translated.exchange.answer(answer) {
            assert!(is_json(&answer));
        }
    }
});
