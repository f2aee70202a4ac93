//! Requests with every mix of features through every pair: what arrives says what was asked, or the
//! loss is named, or the lane is skipped.

use lanekeeper_protocol::Protocol;
use lanekeeper_protocol::ir::{Format, Part, PartBody, ReasoningBudget, Request, Tool, ToolChoice};
use lanekeeper_protocol::translation::Translated;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::harness::{Pair, translator};

const DIALECTS: [Protocol; 5] = [
    Protocol::Openai,
    Protocol::Responses,
    Protocol::Anthropic,
    Protocol::Gemini,
    Protocol::Cohere,
];

/// One way to make a request richer.
type Feature = (&'static str, fn() -> Value);

const FEATURES: &[Feature] = &[
    ("temperature", || json!(1.7)),
    ("temperature", || json!(0)),
    ("top_p", || json!(0.5)),
    ("top_k", || json!(40)),
    ("frequency_penalty", || json!(0.5)),
    ("presence_penalty", || json!(-0.5)),
    ("seed", || json!(7)),
    ("stop", || json!(["END", "\n"])),
    ("max_tokens", || json!(5)),
    ("max_tokens", || json!(2000)),
    ("n", || json!(2)),
    ("response_format", || json!({"type": "json_object"})),
    ("response_format", || {
        json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {
            "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false}}})
    }),
    ("reasoning_effort", || json!("high")),
    ("reasoning_effort", || json!("none")),
    ("user", || json!("u".repeat(70))),
    ("metadata", || json!({"team": "a"})),
    ("service_tier", || json!("flex")),
    ("prompt_cache_key", || json!("k")),
    ("parallel_tool_calls", || json!(false)),
    ("tool_choice", || json!("required")),
    ("tool_choice", || json!("none")),
    (
        "tool_choice",
        || json!({"type": "function", "function": {"name": "f"}}),
    ),
    ("logit_bias", || json!({"5": 1})),
    ("stream", || json!(true)),
];

/// One message, or several that belong together.
const MESSAGES: &[fn() -> Value] = &[
    || json!([{"role": "user", "content": "text-one"}]),
    || json!([{"role": "user", "content": [{"type": "text", "text": "text-two"}, {"type": "text", "text": "text-three"}]}]),
    || json!([{"role": "developer", "content": "text-four"}, {"role": "user", "content": "text-five"}]),
    || json!([{"role": "assistant", "content": "text-six"}, {"role": "user", "content": "text-seven"}]),
    || json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}}]}]),
    || json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://img.example/a.png"}}]}]),
    || json!([{"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}]}]),
    || json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]}]),
    || json!([{"role": "user", "content": [{"type": "text", "text": "text-eight", "cache_control": {"type": "ephemeral"}}]}]),
    || {
        json!([
        {"role": "assistant", "content": "text-nine", "tool_calls": [
            {"id": "call.1", "type": "function", "function": {"name": "f", "arguments": "{\"z\":1.10,\"a\":\"text-ten\"}"}},
            {"id": "call.2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call.2", "content": "text-eleven"},
        {"role": "tool", "tool_call_id": "call.1", "content": [{"type": "text", "text": "text-twelve"}]},
        {"role": "user", "content": "text-thirteen"}])
    },
];

const TOOLS: &[fn() -> Value] = &[
    || {
        json!({"type": "function", "function": {"name": "f", "description": "text-fourteen", "strict": true, "parameters": {
        "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}}})
    },
    || json!({"type": "function", "function": {"name": "get_wetter_größe"}}),
    || json!({"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}}}),
    || json!({"type": "web_search"}),
];

fn request() -> impl Strategy<Value = Value> {
    let features = prop::collection::vec(0..FEATURES.len(), 0..6);
    let messages = prop::collection::vec(0..MESSAGES.len(), 1..4);
    let tools = prop::collection::vec(0..TOOLS.len(), 0..3);
    (features, messages, tools, any::<bool>()).prop_map(
        |(features, messages, tools, has_system)| {
            let mut request = Map::new();
            request.insert("model".to_owned(), json!("asked"));
            for feature in features {
                let (name, value) = FEATURES[feature];
                request.insert(name.to_owned(), value());
            }
            let mut said = Vec::new();
            if has_system {
                said.push(json!({"role": "system", "content": "text-zero"}));
            }
            for message in messages {
                said.extend(MESSAGES[message]().as_array().expect("a list").clone());
            }
            request.insert("messages".to_owned(), json!(said));
            if !tools.is_empty() {
                let tools: Vec<_> = tools.into_iter().map(|tool| TOOLS[tool]()).collect();
                request.insert("tools".to_owned(), json!(tools));
            }
            Value::Object(request)
        },
    )
}

/// What a request says, for comparison.
#[derive(Debug, Default)]
struct Said {
    /// Everything in words, in order.
    words: String,
    media: usize,
    calls: Vec<String>,
    results: usize,
    marks: usize,
}

impl Said {
    fn of(request: &Request<'_>) -> Self {
        let mut said = Self::default();
        for part in request.messages.iter().flat_map(|message| &message.parts) {
            said.add(part);
        }
        said.calls.sort();
        said
    }

    fn add(&mut self, part: &Part<'_>) {
        self.marks += usize::from(part.cache.is_some());
        match &part.body {
            PartBody::Text(text) => {
                self.words.push_str(text);
                self.words.push(' ');
            }
            PartBody::Image(_) | PartBody::Document(_) | PartBody::Audio(_) => self.media += 1,
            PartBody::ToolCall(call) => {
                let arguments = call.arguments.as_text().replace(' ', "");
                self.calls.push(format!("{}{arguments}", call.name));
            }
            PartBody::ToolResult(result) => {
                self.results += 1;
                for part in &result.content {
                    self.add(part);
                }
            }
            _ => {}
        }
    }
}

/// The features of a request that are there, each with the name under which its loss is named.
fn features(request: &Request<'_>) -> Vec<&'static str> {
    let sampling = &request.sampling;
    let extras = &request.extras;
    let is_strict = |tool: &Tool<'_>| matches!(tool, Tool::Function(it) if it.is_strict);
    [
        // 1 is what is meant where nothing is said.
        (
            "temperature",
            sampling
                .temperature
                .is_some_and(|own| (own - 1.0).abs() > 1e-9),
        ),
        ("top_p", sampling.top_p.is_some()),
        ("top_k", sampling.top_k.is_some()),
        ("frequency_penalty", sampling.frequency_penalty.is_some()),
        ("presence_penalty", sampling.presence_penalty.is_some()),
        ("seed", sampling.seed.is_some()),
        ("stop", !sampling.stop.is_empty()),
        ("max_tokens", request.max_output_tokens.is_some()),
        ("n", request.choices.is_some_and(|choices| choices > 1)),
        (
            "response_format",
            matches!(request.format, Some(Format::Json | Format::Schema(_))),
        ),
        (
            "reasoning",
            !matches!(request.reasoning.budget, None | Some(ReasoningBudget::Off)),
        ),
        ("user", extras.user.is_some()),
        ("metadata", extras.metadata.is_some()),
        ("service_tier", extras.service_tier.is_some()),
        ("prompt_cache_key", extras.prompt_cache_key.is_some()),
        (
            "parallel_tool_calls",
            request.parallel_tool_calls == Some(false),
        ),
        ("tools.strict", request.tools.iter().any(is_strict)),
        ("stream", request.streams),
    ]
    .into_iter()
    .filter_map(|(name, is_there)| is_there.then_some(name))
    .collect()
}

/// Checks one way; gives what the lane got.
fn check(caller: Protocol, lane: Protocol, body: &Value) -> Option<Value> {
    let way = format!("{caller:?} to {lane:?}: {body}");
    let translated = match (Pair { caller, lane }).translate(body) {
        Ok(translated) => translated,
        Err(refusal) => {
            assert!(
                !refusal.field.is_empty() && !refusal.reason.is_empty(),
                "{way}"
            );
            return None;
        }
    };
    let Translated {
        body: sent, losses, ..
    } = translated;
    let asked = body.to_string();
    let streams = body["stream"] == json!(true);
    let asked = translator(caller)
        .read_request(asked.as_bytes(), streams)
        .expect("it was read");
    let got = translator(lane).read_request(&sent, asked.streams);
    let got = got.unwrap_or_else(|refusal| panic!("{refusal}: {way}"));
    assert!(
        got.untranslatable.is_empty() && got.unknown.is_empty(),
        "{got:?} {way}"
    );
    let named = losses.header();
    let named: Vec<_> = named.split(", ").collect();
    let (before, after) = (Said::of(&asked), Said::of(&got));
    for word in before.words.split_whitespace() {
        assert!(after.words.contains(word), "{word} is lost: {way}");
    }
    assert_eq!(
        (before.media, before.results),
        (after.media, after.results),
        "{way}"
    );
    if !named.contains(&"arguments") {
        assert_eq!(before.calls, after.calls, "{way}");
    }
    if before.marks > after.marks {
        assert!(named.contains(&"cache_control"), "{named:?} {way}");
    }
    let kept = features(&got);
    let has_tools = asked
        .tools
        .iter()
        .any(|tool| !matches!(tool, Tool::BuiltIn { .. }));
    for feature in features(&asked) {
        let is_elsewhere = match feature {
            // Gemini's stream is another path.
            "stream" => lane == Protocol::Gemini,
            // The form is that of a tool that must be called.
            "response_format" => lane == Protocol::Anthropic && got.tool_choice.is_some(),
            "parallel_tool_calls" => !has_tools || asked.tool_choice == Some(ToolChoice::None),
            _ => false,
        };
        assert!(
            kept.contains(&feature) || named.contains(&feature) || is_elsewhere,
            "{feature} is lost, named are {named:?}: {way}"
        );
    }
    serde_json::from_slice(&sent).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn nothing_is_lost_without_a_name_on_any_way(request in request()) {
        for through in DIALECTS {
            // What a writer makes is a request of its dialect: it goes on from there.
            let Some(sent) = check(Protocol::Openai, through, &request) else {
                continue;
            };
            for lane in DIALECTS {
                check(through, lane, &sent);
            }
        }
    }
}
