//! Every route of every dialect: which request reaches the lane, byte by byte, and that its answer
//! comes back as it is.

use crate::caller::{Ask, chat};
use crate::dialects::{self, GEMINI};
use crate::gateway::{Agent, Document};
use crate::upstream::{Upstream, json};
use http::Method;
use serde_json::Value;

/// One operation of a protocol. `NAME` stands for the model's name, in paths and in bodies.
struct Operation {
    protocol: &'static str,
    path: &'static str,
    /// Where it arrives.
    upstream: &'static str,
    body: &'static str,
    answer: &'static str,
}

/// White space, escapes and other scripts, none of which may change on the way.
const OPERATIONS: &[Operation] = &[
    Operation {
        protocol: "openai",
        path: "/v1/chat/completions",
        upstream: "/v1/chat/completions",
        body: "{ \"messages\" :[{\"role\":\"user\",\"content\":\"\u{4e2d}\\u00e9 \\\"NAM\\\"\"}],\n\t\"model\" : \"NAME\" ,\"x\":1.50e+3}",
        answer: dialects::OPENAI.whole,
    },
    Operation {
        protocol: "openai",
        path: "/v1/completions",
        upstream: "/v1/completions",
        body: r#"{"model":"NAME","prompt":"hi",  "echo":false}"#,
        answer: r#"{"id":"c", "object":"text_completion","choices":[{"text":"hello","index":0,"finish_reason":"stop"}]}"#,
    },
    Operation {
        protocol: "openai",
        path: "/v1/embeddings",
        upstream: "/v1/embeddings",
        body: r#"{"input":["a","b"],"encoding_format":"base64","model":"NAME"}"#,
        answer: r#"{"object":"list","data":[{"embedding":"AACAPg==","index":0}],"model":"NAME"}"#,
    },
    Operation {
        protocol: "responses",
        path: "/v1/responses",
        upstream: "/v1/responses",
        body: r#"{"input":"hi","model":"NAME","store":false}"#,
        answer: dialects::RESPONSES.whole,
    },
    Operation {
        protocol: "anthropic",
        path: "/v1/messages",
        upstream: "/v1/messages",
        body: r#"{"max_tokens":64,"messages":[{"role":"user","content":"hi"}],"model":"NAME"}"#,
        answer: dialects::ANTHROPIC.whole,
    },
    Operation {
        protocol: "anthropic",
        path: "/v1/messages/count_tokens",
        upstream: "/v1/messages/count_tokens",
        body: r#"{"messages":[{"role":"user","content":"hi"}],"model":"NAME"}"#,
        answer: r#"{"input_tokens":  7}"#,
    },
    Operation {
        protocol: "gemini",
        path: "/v1beta/models/NAME:generateContent",
        upstream: "/v1beta/models/NAME:generateContent",
        body: r#"{"contents":[{"parts":[{"text":"model"}]}] }"#,
        answer: dialects::GEMINI.whole,
    },
    Operation {
        protocol: "gemini",
        path: "/v1/models/NAME:generateContent",
        upstream: "/v1beta/models/NAME:generateContent",
        body: r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#,
        answer: dialects::GEMINI.whole,
    },
    Operation {
        protocol: "gemini",
        path: "/v1beta/models/NAME:countTokens",
        upstream: "/v1beta/models/NAME:countTokens",
        body: r#"{"generateContentRequest":{"model":"models/NAME", "contents":[]}}"#,
        answer: r#"{"totalTokens": 31}"#,
    },
    Operation {
        protocol: "gemini",
        path: "/v1beta/models/NAME:embedContent",
        upstream: "/v1beta/models/NAME:embedContent",
        body: r#"{"content":{"parts":[{"text":"hi"}]},"model": "models/NAME"}"#,
        answer: r#"{"embedding":{"values":[0.013,-0.25]}}"#,
    },
    Operation {
        protocol: "gemini",
        path: "/v1/models/NAME:batchEmbedContents",
        upstream: "/v1beta/models/NAME:batchEmbedContents",
        body: r#"{"requests":[{"model":"models/NAME","content":{}}, {"content":{},"model":"models/NAME"}]}"#,
        answer: r#"{"embeddings":[{"values":[0.5]},{"values":[1]}]}"#,
    },
    Operation {
        protocol: "cohere",
        path: "/v2/chat",
        upstream: "/v2/chat",
        body: r#"{"messages":[{"role":"user","content":"hi"}],"model":"NAME","stream":false}"#,
        answer: dialects::COHERE.whole,
    },
];

async fn agent(protocol: &str, a: &Upstream) -> Agent {
    let protocol = format!("protocol: {protocol}");
    let yaml = Document::new().lane("a", a).yaml();
    Agent::start(&yaml.replace("protocol: openai", &protocol)).await
}

#[tokio::test]
async fn every_operation_passes_byte_for_byte_but_for_the_name_on_every_route() {
    for operation in OPERATIONS {
        let a = Upstream::start(json(200, operation.answer)).await;
        let agent = agent(operation.protocol, &a).await;
        // What stands before the path, the name the request gives, and the pool whose cell it is.
        for (prefix, name, pool) in [
            ("", "chat", "chat"),
            ("", "a", ""),
            ("", "p-a/a", ""),
            ("/chat", "whatever", "chat"),
            ("/a", "whatever", ""),
            ("/p-a/a", "whatever", ""),
        ] {
            let before = agent.cell(pool, "a")["window"]["ok"].as_u64().unwrap();
            let path = format!("{prefix}{}", operation.path.replace("NAME", name));
            let body = operation.body.replace("NAME", name);
            let got = chat("", false)
                .at(&path)
                .body(body)
                .send(agent.address)
                .await;
            assert_eq!(got.status, 200, "{path} {name}: {got:?}");
            assert_eq!(got.body, operation.answer, "{path} {name}");
            let seen = a.seen().pop().unwrap();
            assert_eq!(seen.path, operation.upstream.replace("NAME", "up-a"));
            assert_eq!(seen.body, operation.body.replace("NAME", "up-a"), "{path}");
            let after = agent.cell(pool, "a")["window"]["ok"].as_u64().unwrap();
            assert_eq!(after, before + 1, "{path} {name}: the cell of {pool:?}");
        }
    }
}

#[tokio::test]
async fn streams_pass_byte_for_byte() {
    for dialect in dialects::ALL {
        let a = dialect.good_stream().await;
        let agent = dialect.agent(&Document::new().lane("a", &a)).await;
        let got = dialect.ask(true).send(agent.address).await;
        assert_eq!(got.header("content-type"), Some("text/event-stream"));
        let sent = format!("{}{}{}", dialect.lifecycle, dialect.content, dialect.end);
        assert_eq!((got.body, got.whole), (sent, true), "{}", dialect.protocol);
    }
}

/// A Gemini stream asked for without `alt=sse`.
fn array() -> Ask {
    chat("", false)
        .at("/v1beta/models/chat:streamGenerateContent?key=mine")
        .body(r#"{"contents":[]}"#)
}

#[tokio::test]
async fn gemini_stream_without_events_is_an_array_of_the_same_documents() {
    let a = GEMINI.good_stream().await;
    let agent = GEMINI.agent(&Document::new().lane("a", &a)).await;
    let got = array().send(agent.address).await;
    assert_eq!(
        got.header("content-type"),
        Some("application/json; charset=UTF-8")
    );
    let documents: Vec<Value> = serde_json::from_str(&got.body).unwrap();
    let events = format!("{}{}{}", GEMINI.lifecycle, GEMINI.content, GEMINI.end);
    let expected: Vec<Value> = { events.lines() }
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect();
    assert_eq!(documents, expected);
    assert_eq!(
        a.seen()[0].path,
        "/v1beta/models/up-a:streamGenerateContent?alt=sse"
    );
}

#[tokio::test]
async fn gemini_array_that_breaks_off_stays_open_behind_its_error() {
    let a = Upstream::start(dialects::cut(&[GEMINI.content])).await;
    let agent = GEMINI.agent(&Document::new().lane("a", &a)).await;
    let got = array().send(agent.address).await;
    assert!(!got.whole, "{got:?}");
    let documents: Vec<Value> = serde_json::from_str(&format!("{}]", got.body)).unwrap();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[1]["error"]["code"], 502, "{documents:?}");
}

/// Below a model's prefix there is this one model, whatever a package asks for.
#[tokio::test]
async fn list_below_a_prefix_holds_the_one_model() {
    let a = Upstream::start(json(200, "{}")).await;
    let rest = format!(
        "clients: [{{name: team, key_sha256: \"{}\", pools: [chat]}}, {{name: all, key_sha256: \"{}\"}}]",
        crate::refusals::digest("sesame"),
        crate::refusals::digest("any"),
    );
    let agent = Agent::start(&Document::new().lane("a", &a).rest(&rest).yaml()).await;
    let get = async |path: &str, header, key: &str| {
        let ask = Ask {
            method: Method::GET,
            ..chat("", false).at(path).body("")
        };
        let ask = match header {
            "x-api-key" => ask.with("anthropic-version", "2023-06-01"),
            _ => ask,
        };
        ask.with(header, key).send(agent.address).await
    };
    for name in ["chat", "a", "p-a/a"] {
        for (path, header, key, list, id) in [
            ("/v1/models", "authorization", "Bearer any", "data", "id"),
            ("/v1/models", "x-api-key", "any", "data", "id"),
            ("/v1/models", "x-goog-api-key", "any", "models", "name"),
            ("/v1beta/models", "x-goog-api-key", "any", "models", "name"),
        ] {
            let listed = get(&format!("/{name}{path}"), header, key).await.json();
            let entries = listed[list].as_array().unwrap();
            assert_eq!(entries.len(), 1, "{name} {path}");
            let found = entries[0][id].as_str().unwrap();
            assert_eq!(found.trim_start_matches("models/"), name, "{path}");
            let one = get(&format!("/{name}{path}/any"), header, key).await;
            assert_eq!(one.json(), entries[0], "{name} {path}");
        }
    }
    for (path, key, status) in [
        ("/a/v1/models", "Bearer sesame", 403),
        ("/chat/v1/models", "Bearer sesame", 200),
        ("/nowhere/v1/models", "Bearer sesame", 404),
        ("/p-a/v1/models", "Bearer any", 404),
        ("/v1/models/p-a/a", "Bearer any", 200),
        ("/chat/v1/models", "Bearer guess", 401),
    ] {
        let got = get(path, "authorization", key).await;
        assert_eq!(got.status, status, "{path}: {got:?}");
    }
    let post = chat("", false)
        .at("/chat/v1/models")
        .with("x-goog-api-key", "any");
    let got = post.send(agent.address).await;
    assert_eq!(
        (got.status.as_u16(), got.header("allow")),
        (405, Some("GET"))
    );
    assert_eq!(a.hits(), 0);
}

/// Google's clients may put their key into the query. It opens the gateway and goes no further.
#[tokio::test]
async fn key_in_geminis_query_is_the_callers_key_and_stays_here() {
    let a = Upstream::start(json(200, GEMINI.whole)).await;
    let rest = format!(
        "clients: [{{name: team, key_sha256: \"{}\", pools: [chat]}}]",
        crate::refusals::digest("sesame")
    );
    let agent = GEMINI
        .agent(&Document::new().lane("a", &a).rest(&rest))
        .await;
    let ask = |path: &str| chat("", false).at(path).body(r#"{"contents":[]}"#);
    for (path, status) in [
        ("/v1beta/models/chat:generateContent?key=sesame", 200),
        ("/v1/models/chat:generateContent?a=b&%6bey=ses%61me", 200),
        ("/chat/v1beta/models/any:generateContent?key=sesame", 200),
        ("/v1beta/models/a:generateContent?key=sesame", 403),
        ("/v1beta/models/chat:generateContent?key=guess", 401),
        ("/v1beta/models/chat:generateContent", 401),
        // Nobody else's clients do so.
        ("/v1/chat/completions?key=sesame", 401),
        ("/v1/messages?key=sesame", 401),
    ] {
        let got = ask(path).send(agent.address).await;
        assert_eq!(got.status, status, "{path}: {got:?}");
        assert!(
            !got.body.contains("sesame") && !got.body.contains("guess"),
            "{got:?}"
        );
        assert!(
            got.headers
                .values()
                .all(|value| !value.as_bytes().ends_with(b"sesame"))
        );
    }
    let list = Ask {
        method: Method::GET,
        ..ask("/v1/models?key=sesame").body("")
    };
    let got = list.send(agent.address).await;
    assert_eq!(got.json()["models"][0]["name"], "models/chat", "{got:?}");
    assert_eq!(a.hits(), 3);
    for seen in a.seen() {
        let path = "/v1beta/models/up-a:generateContent";
        assert_eq!(seen.path.strip_suffix("?a=b").unwrap_or(&seen.path), path);
        assert_eq!(seen.header("x-goog-api-key"), None);
    }
    let stats = serde_json::to_string(&agent.plane.stats()).unwrap();
    assert!(!(agent.metrics() + &stats).contains("sesame"));
}

#[tokio::test]
async fn models_are_listed_in_the_shape_of_the_callers_package() {
    let a = Upstream::start(json(200, "{}")).await;
    let rest = format!(
        "clients: [{{name: team, key_sha256: \"{}\", pools: [chat]}}]",
        crate::refusals::digest("sesame")
    );
    let agent = Agent::start(&Document::new().lane("a", &a).rest(&rest).yaml()).await;
    let get = |path: &str| Ask {
        method: Method::GET,
        ..chat("", false).at(path).body("")
    };
    for (path, header, key, list, name) in [
        ("/v1/models", "authorization", "Bearer sesame", "data", "id"),
        ("/v1/models", "x-goog-api-key", "sesame", "models", "name"),
        (
            "/v1beta/models",
            "x-goog-api-key",
            "sesame",
            "models",
            "name",
        ),
        ("/v1/models", "x-api-key", "sesame", "data", "id"),
    ] {
        let mut ask = get(path).with(header, key);
        let mut one = get(&format!("{path}/chat")).with(header, key);
        if header == "x-api-key" {
            ask = ask.with("anthropic-version", "2023-06-01");
            one = one.with("anthropic-version", "2023-06-01");
        }
        let listed = ask.send(agent.address).await.json();
        let names: Vec<_> = { listed[list].as_array().unwrap().iter() }
            .map(|entry| entry[name].as_str().unwrap())
            .collect();
        let expected = if list == "models" {
            "models/chat"
        } else {
            "chat"
        };
        // The lane is not this caller's to use.
        assert_eq!(names, [expected], "{path} {header}");
        assert_eq!(listed.get("has_more").is_some(), header == "x-api-key");
        assert_eq!(listed.get("object").is_some(), header == "authorization");
        assert_eq!(one.send(agent.address).await.json(), listed[list][0]);
    }
    assert_eq!(a.hits(), 0);
}
