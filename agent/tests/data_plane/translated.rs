//! Callers of every dialect on lanes of every other protocol: whole and streaming, failing before the
//! first content and after it, and what cannot be said there.

use crate::caller::{Ask, Got, chat};
use crate::dialects::{ALL, ANTHROPIC, COHERE, Dialect, GEMINI, OPENAI, RESPONSES, ended};
use crate::gateway::Agent;
use crate::upstream::{Upstream, answer, chunk, json, stream_head};
use serde_json::{Value, json as value};

/// A pool of these lanes, named by their place: `a`, `b`; the first one has nearly all the weight.
fn document(lanes: &[(&Dialect, &Upstream)], pool: &str) -> String {
    let mut yaml = "gateway: edge\nproviders:\n".to_owned();
    let mut models = String::new();
    let mut members = Vec::new();
    for ((dialect, upstream), name) in lanes.iter().zip(["a", "b", "c"]) {
        let (protocol, address) = (dialect.protocol, upstream.address);
        yaml += &format!(
            "  p{name}: {{protocol: {protocol}, base_url: \"http://{address}\", api_key: null}}\n"
        );
        models += &format!("  {name}: {{provider: p{name}, upstream_model: up-{name}}}\n");
        let weight = if name == "a" { 1000 } else { 1 };
        members.push(format!("{{target: {name}, weight: {weight}}}"));
    }
    let members = members.join(", ");
    format!("{yaml}models:\n{models}pools:\n  chat: {{members: [{members}]{pool}}}\n")
}

/// A question in a dialect's own words.
fn question(dialect: &Dialect) -> Value {
    match dialect.protocol {
        "responses" => value!({"model": "chat", "input": "hi"}),
        "gemini" => value!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
        "anthropic" => value!({
            "model": "chat", "max_tokens": 100,
            "messages": [{"role": "user", "content": "hi"}],
        }),
        _ => value!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]}),
    }
}

fn ask(dialect: &Dialect, stream: bool) -> Ask {
    let mut body = question(dialect);
    if stream && dialect.protocol != "gemini" {
        body["stream"] = true.into();
    }
    dialect.ask(stream).body(body.to_string())
}

/// The text of an answer, whole or streamed, in any dialect.
fn text(dialect: &Dialect, got: &Got, stream: bool) -> String {
    let documents: Vec<Value> = if stream {
        { got.body.lines() }
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect()
    } else {
        vec![got.json()]
    };
    let piece = |document: &Value| -> Option<String> {
        let at = |pointer: &str| document.pointer(pointer)?.as_str().map(str::to_owned);
        match (dialect.protocol, stream) {
            ("openai", false) => at("/choices/0/message/content"),
            ("openai", true) => at("/choices/0/delta/content"),
            ("responses", false) => at("/output/0/content/0/text"),
            ("responses", true) => (document["type"] == "response.output_text.delta")
                .then(|| at("/delta"))
                .flatten(),
            ("anthropic", false) => at("/content/0/text"),
            ("anthropic", true) => at("/delta/text"),
            ("cohere", false) => at("/message/content/0/text"),
            ("cohere", true) => at("/delta/message/content/text"),
            ("gemini", _) => at("/candidates/0/content/parts/0/text"),
            other => panic!("no dialect: {other:?}"),
        }
    };
    documents.iter().filter_map(piece).collect()
}

/// True when a stream ends as its dialect ends.
fn closes(dialect: &Dialect, body: &str) -> bool {
    let end = match dialect.protocol {
        "openai" => "data: [DONE]",
        "responses" => "\"type\":\"response.completed\"",
        "anthropic" => "\"type\":\"message_stop\"",
        "gemini" => "\"finishReason\":\"STOP\"",
        _ => "\"type\":\"message-end\"",
    };
    body.contains(end)
}

#[tokio::test]
async fn every_caller_reaches_every_lane_whole_and_streaming() {
    let mut failures = Vec::new();
    for lane in ALL {
        for caller in ALL {
            for stream in [false, true] {
                let upstream = Upstream::start(lane.answer(stream)).await;
                let agent = Agent::start(&document(&[(lane, &upstream)], "")).await;
                let got = ask(caller, stream).send(agent.address).await;
                let said = text(caller, &got, stream);
                let expected = ["hello", "hello."].contains(&said.as_str());
                let ended = !stream || closes(caller, &got.body);
                if got.status != 200 || !got.whole || !expected || !ended {
                    let (from, to) = (caller.protocol, lane.protocol);
                    failures.push(format!("{from} on {to}, streams {stream}: {got:?}"));
                }
                agent.settles().await;
                assert_eq!(agent.lane("a")["ok"], 1, "{}", lane.protocol);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn a_lane_that_fails_before_content_is_replaced_by_one_of_another_vendor() {
    for (caller, first, second) in [
        (&OPENAI, &OPENAI, &ANTHROPIC),
        (&ANTHROPIC, &ANTHROPIC, &OPENAI),
        (&RESPONSES, &ANTHROPIC, &GEMINI),
        (&GEMINI, &OPENAI, &COHERE),
        (&COHERE, &GEMINI, &RESPONSES),
    ] {
        for stream in [false, true] {
            let fault = if stream {
                ended(&[first.lifecycle, first.error])
            } else {
                json(503, first.whole_error)
            };
            let failing = Upstream::start(fault).await;
            let good = Upstream::start(second.answer(stream)).await;
            let lanes = [(first, &failing), (second, &good)];
            let agent = Agent::start(&document(&lanes, "")).await;
            let got = ask(caller, stream).send(agent.address).await;
            assert_eq!(got.status, 200, "{} first {got:?}", first.protocol);
            assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
            assert_eq!(got.header("x-lanekeeper-attempts"), Some("2"));
            let said = text(caller, &got, stream);
            assert!(said.starts_with("hello"), "{got:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_content_ends_in_the_callers_words() {
    for lane in ALL {
        for caller in ALL {
            if caller.protocol == lane.protocol {
                continue;
            }
            for fault in [lane.error, ""] {
                let mut script = vec![stream_head(), chunk(lane.lifecycle), chunk(lane.content)];
                script.push(chunk(fault));
                script.push(crate::upstream::stream_end());
                let upstream = Upstream::start(script).await;
                let agent = Agent::start(&document(&[(lane, &upstream)], "")).await;
                let got = ask(caller, true).send(agent.address).await;
                let (from, to) = (caller.protocol, lane.protocol);
                assert_eq!(got.status, 200, "{from} on {to}: {got:?}");
                assert_eq!(text(caller, &got, true), "hello", "{from} on {to}");
                assert!(
                    got.body.contains(caller.error_event),
                    "{from} on {to}: {got:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_lanes_refusal_reaches_the_caller_in_its_dialect() {
    let body = r#"{"error":{"message":"top_p is odd","type":"invalid_request_error","code":null}}"#;
    let upstream = Upstream::start(json(400, body)).await;
    let agent = Agent::start(&document(&[(&OPENAI, &upstream)], "")).await;
    for caller in [&ANTHROPIC, &GEMINI, &COHERE, &RESPONSES] {
        let got = ask(caller, false).send(agent.address).await;
        assert_eq!(got.status, 400, "{got:?}");
        assert!(got.body.contains("top_p is odd"), "{got:?}");
        let document = got.json();
        match caller.protocol {
            "anthropic" => assert_eq!(document["error"]["type"], "invalid_request_error"),
            "gemini" => assert_eq!(document["error"]["status"], "INVALID_ARGUMENT"),
            _ => {}
        }
    }
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// A default of the translation's, or a name that it chose, is nobody's fault but the agent's.
#[tokio::test]
async fn a_refusal_of_what_no_caller_wrote_moves_on_without_a_mark() {
    let body = r#"{"error":{"message":"Unsupported parameter","type":"invalid_request_error","param":"max_completion_tokens"}}"#;
    let picky = Upstream::start(json(400, body)).await;
    let good = Upstream::start(GEMINI.answer(false)).await;
    let lanes = [(&OPENAI, &picky), (&GEMINI, &good)];
    let agent = Agent::start(&document(&lanes, "")).await;
    let got = ask(&ANTHROPIC, false).send(agent.address).await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(got.header("x-lanekeeper-attempts"), Some("2"));
    agent.settles().await;
    assert_eq!(agent.lane("a")["failed"], 0);
    let alone = Agent::start(&document(&lanes[..1], "")).await;
    let got = ask(&ANTHROPIC, false).send(alone.address).await;
    assert_eq!(got.status, 400, "{got:?}");
    assert!(got.body.contains("Unsupported parameter"), "{got:?}");
}

#[tokio::test]
async fn what_a_lane_cannot_be_asked_goes_to_another_or_is_refused_by_name() {
    let foreign = Upstream::start(ANTHROPIC.answer(false)).await;
    let native = Upstream::start(OPENAI.answer(false)).await;
    let body = value!({
        "model": "chat", "logprobs": true, "top_logprobs": 2,
        "messages": [{"role": "user", "content": "hi"}],
    });
    let lanes = [(&ANTHROPIC, &foreign), (&OPENAI, &native)];
    let agent = Agent::start(&document(&lanes, "")).await;
    for _ in 0..4 {
        let got = OPENAI.ask(false).body(body.to_string());
        let got = got.send(agent.address).await;
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(got.header("x-lanekeeper-lane"), Some("b"));
        assert_eq!(got.header("x-lanekeeper-attempts"), Some("1"));
    }
    assert_eq!(foreign.hits(), 0);
    let alone = Agent::start(&document(&lanes[..1], "")).await;
    let got = OPENAI.ask(false).body(body.to_string());
    let got = got.send(alone.address).await;
    assert_eq!(got.status, 400, "{got:?}");
    assert_eq!(got.json()["error"]["param"], "logprobs");
    assert!(got.body.contains("No lane of this model"), "{got:?}");
    assert_eq!(alone.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn what_only_loses_comfort_is_named() {
    let upstream = Upstream::start(ANTHROPIC.answer(false)).await;
    let agent = Agent::start(&document(&[(&ANTHROPIC, &upstream)], "")).await;
    let body = value!({
        "model": "chat", "seed": 7, "temperature": 1.7, "hologram": 1,
        "messages": [{"role": "user", "content": "hi"}],
    });
    let got = OPENAI.ask(false).body(body.to_string());
    let got = got.send(agent.address).await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(
        got.header("x-lanekeeper-dropped"),
        Some("hologram, seed, temperature")
    );
    let sent: Value = serde_json::from_str(&upstream.seen()[0].body).unwrap();
    assert_eq!(sent["model"], "up-a");
    assert_eq!(sent["temperature"], 1.0);
    assert_eq!(sent["max_tokens"], 4096);
    assert!(sent.get("seed").is_none());
}

#[tokio::test]
async fn a_pool_that_does_not_translate_asks_its_callers_own_lanes_alone() {
    let foreign = Upstream::start(ANTHROPIC.answer(false)).await;
    let native = Upstream::start(OPENAI.answer(false)).await;
    let lanes = [(&ANTHROPIC, &foreign), (&OPENAI, &native)];
    for pool in [", translate: off", ", upstream_credentials: passthrough"] {
        let agent = Agent::start(&document(&lanes, pool)).await;
        for _ in 0..3 {
            let got = ask(&OPENAI, false).send(agent.address).await;
            assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
        }
    }
    assert_eq!(foreign.hits(), 0);
    let agent = Agent::start(&document(&lanes, ", translate: off")).await;
    let got = ask(&GEMINI, false).send(agent.address).await;
    assert_eq!(got.status, 400, "{got:?}");
}

#[tokio::test]
async fn answers_that_cannot_be_read_are_the_lanes_failure() {
    let good = Upstream::start(OPENAI.answer(false)).await;
    for broken in [
        json(200, r#"{"content": 5}"#),
        json(200, "<html>"),
        answer(
            200,
            &[("content-type", "application/json")],
            "{\"content\":[",
        ),
    ] {
        let upstream = Upstream::start(broken).await;
        let lanes = [(&ANTHROPIC, &upstream), (&OPENAI, &good)];
        let agent = Agent::start(&document(&lanes, "")).await;
        let got = ask(&RESPONSES, false).send(agent.address).await;
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
        assert_eq!(text(&RESPONSES, &got, false), "hello");
    }
}

/// Each with the answer that its lanes give to two texts.
const EMBEDDERS: [(&str, &str, &str, &str); 3] = [
    (
        "openai",
        "/v1/embeddings",
        r#"{"model":"chat","input":["a","b"]}"#,
        r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,1.0]},{"object":"embedding","index":1,"embedding":[0.25,2.0]}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}"#,
    ),
    (
        "gemini",
        "/v1beta/models/chat:batchEmbedContents",
        r#"{"requests":[{"model":"models/chat","content":{"parts":[{"text":"a"}]}},{"model":"models/chat","content":{"parts":[{"text":"b"}]}}]}"#,
        r#"{"embeddings":[{"values":[0.5,1.0]},{"values":[0.25,2.0]}]}"#,
    ),
    (
        "cohere",
        "/v2/embed",
        r#"{"model":"chat","texts":["a","b"],"input_type":"search_document","embedding_types":["float"]}"#,
        r#"{"id":"e","embeddings":{"float":[[0.5,1.0],[0.25,2.0]]},"texts":["a","b"],"meta":{"billed_units":{"input_tokens":2}}}"#,
    ),
];

#[tokio::test]
async fn embeddings_reach_every_vendor_that_has_them() {
    for (lane, _, _, vectors) in EMBEDDERS {
        for (caller, path, question, _) in EMBEDDERS {
            let upstream = Upstream::start(json(200, vectors)).await;
            let speaks = ALL.into_iter().find(|it| it.protocol == lane).unwrap();
            let agent = Agent::start(&document(&[(speaks, &upstream)], "")).await;
            let got = chat("chat", false).at(path).body(question);
            let got = got.send(agent.address).await;
            assert_eq!(got.status, 200, "{caller} on {lane}: {got:?}");
            let place = match caller {
                "openai" => "/data/1/embedding/0",
                "gemini" => "/embeddings/1/values/0",
                _ => "/embeddings/float/1/0",
            };
            let document = got.json();
            let number = document.pointer(place).and_then(Value::as_f64);
            assert_eq!(number, Some(0.25), "{caller} on {lane}: {got:?}");
        }
    }
}
